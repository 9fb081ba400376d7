//! VirtualMachineInstanceReplicaSets: their template is validated as the VMI that it creates, and their
//! selector must match those VMIs.

use super::{AdmissionResponse, Operation, Request, RequestContext, template, unknown};
use api::fault::{Fault, Reason};
use api::meta::LabelSelector;
use api::replica_set::VirtualMachineInstanceReplicaSet;
use api::wire;
use serde_json::Value;
use std::collections::BTreeMap;

/// Validates a new or changed VirtualMachineInstanceReplicaSet.
pub(super) fn judge(request: &Request, context: &RequestContext) -> AdmissionResponse {
    let update = request.operation == Operation::Update;
    if request.is_leaving() || update && rest(&request.old) == rest(&request.object) {
        return AdmissionResponse::yes();
    }
    let mut faults = Vec::new();
    let set = wire::read_in_part::<VirtualMachineInstanceReplicaSet>(request.object.clone(), &mut faults);
    let Some(set) = set.filter(|_| faults.is_empty()) else { return AdmissionResponse::no(faults) };
    let mut warnings = unknown::warnings(&set);
    warnings.extend(template::warnings(set.spec.template.as_ref(), context));
    let Some(made) = &set.spec.template else {
        let fault = Fault::new("spec.template", Reason::Required, "missing virtual machine template.");
        return AdmissionResponse { faults: vec![fault], warnings, ..AdmissionResponse::yes() };
    };
    let labels = made.metadata.as_ref().map(|metadata| metadata.labels.clone()).unwrap_or_default();
    faults.extend(selector(request, &set.spec.selector, &labels));
    // The VMIs are named after the set, with a number.
    let name = set.metadata.name.as_deref().unwrap_or("set");
    faults.extend(template::faults(made, &format!("{name}-0"), set.metadata.namespace.as_deref(), context));
    AdmissionResponse { faults, warnings, ..AdmissionResponse::yes() }
}

/// Faults of a selector for objects with these labels. An empty one is refused: it would select all objects.
pub(super) fn selector(
    request: &Request,
    selector: &LabelSelector,
    labels: &BTreeMap<String, String>,
) -> Vec<Fault> {
    let fault = |message: &str| Fault::new("spec.selector", Reason::Invalid, message);
    let mut faults = Vec::new();
    if selector.is_empty() || !selector.matches(labels) {
        faults.push(fault("selector does not match labels."));
    }
    let was = &request.old["spec"]["selector"];
    if request.operation == Operation::Update && *was != request.object["spec"]["selector"] {
        faults.push(fault("selector is immutable after creation."));
    }
    faults
}

/// The spec without the fields that scaling changes, which needs no validation of the rest.
pub(super) fn rest(object: &Value) -> Value {
    let mut spec = object["spec"].clone();
    if let Value::Object(fields) = &mut spec {
        fields.remove("replicas");
        fields.remove("paused");
    }
    spec
}
