//! VMIs: defaults at creation. Afterwards their spec is immutable, and only our programs write their status.
//!
//! **Guarantees.** Users other than our programs change neither spec nor status nor the labels that our
//! programs use. The virt-handler of a node changes only VMIs that its node runs, or that migrate to it. The node is
//! taken from its token, not from the request.

use super::{AdmissionResponse, Request, RequestContext, omitted_metadata, patch, unknown};
use api::defaults;
use api::fault::{Fault, Reason};
use api::machine::Machine;
use api::preset;
use api::vmi::VirtualMachineInstance;
use api::wire::{self, Wire};
use cluster_model::metadata::RESERVED;
use cluster_model::objects::Program;
use serde_json::Value;
use std::collections::BTreeMap;

/// Fills presets and defaults into a new VMI.
pub(super) fn complete(request: &Request, context: &RequestContext) -> AdmissionResponse {
    // The schema and the validating webhook report a VMI that cannot be read.
    let Ok(mut vmi) = wire::read::<VirtualMachineInstance>(request.object.clone()) else {
        return AdmissionResponse::yes();
    };
    let read = vmi.write();
    if context.accounts.program(&request.who.name).is_none() {
        vmi.status = None;
    }
    let warnings = match preset::apply(context.presets.iter(), &mut vmi) {
        Ok(warnings) => warnings,
        Err(why) => return AdmissionResponse::no(vec![Fault::new("metadata.labels", Reason::Invalid, why)]),
    };
    defaults::apply(&mut vmi, &context.given());
    let patch = patch::of(&request.object, &read, &vmi.write());
    AdmissionResponse { patch, warnings, ..AdmissionResponse::yes() }
}

/// Restores a status that a user has changed.
pub(super) fn restore(request: &Request, context: &RequestContext) -> AdmissionResponse {
    let (new, old) = (&request.object["status"], &request.old["status"]);
    if context.accounts.program(&request.who.name).is_some() || new == old {
        return AdmissionResponse::yes();
    }
    let mut should = request.object.clone();
    if let Value::Object(fields) = &mut should {
        match old {
            Value::Null => drop(fields.remove("status")),
            old => drop(fields.insert("status".to_owned(), old.clone())),
        }
    }
    let warning = "status: it stays as it was; only KubeVirt's own programs write it".to_owned();
    AdmissionResponse {
        patch: patch::between(&request.object, &should),
        warnings: vec![warning],
        ..AdmissionResponse::yes()
    }
}

/// Validates a new VMI.
pub(super) fn create(request: &Request, context: &RequestContext) -> AdmissionResponse {
    let mut faults = Vec::new();
    let vmi = wire::read_in_part::<VirtualMachineInstance>(request.object.clone(), &mut faults);
    let Some(mut vmi) = vmi.filter(|_| faults.is_empty()) else { return AdmissionResponse::no(faults) };
    let mut warnings = unknown::warnings(&vmi);
    warnings.extend(omitted_metadata::warnings(&vmi.metadata, context.config.annotations, "metadata"));
    warnings.extend(omitted_metadata::of_spec(&vmi.spec, "spec", &context.config.machine_type_map));
    if context.accounts.program(&request.who.name).is_none()
        && let Some(labels) = ReservedLabels::of(&vmi.metadata.labels)
    {
        faults.push(labels.fault("metadata.labels"));
        warnings.push(labels.warning("metadata.labels"));
    }
    if vmi.metadata.name.as_deref().unwrap_or_default().is_empty() {
        // The API server has not generated the name yet.
        vmi.metadata.name = vmi.metadata.generate_name.as_ref().map(|start| format!("{start}xxxxx"));
    }
    defaults::apply(&mut vmi, &context.given());
    if let Err(found) = Machine::check(&vmi, &context.permitted_at("spec")) {
        faults.extend(found);
    }
    AdmissionResponse { faults, warnings, ..AdmissionResponse::yes() }
}

/// Validates a change of a VMI.
pub(super) fn update(request: &Request, context: &RequestContext) -> AdmissionResponse {
    match context.accounts.program(&request.who.name) {
        Some(Program::Handler) => AdmissionResponse::no(not_its_own(request)),
        Some(_) => AdmissionResponse::yes(),
        None => fixed(request),
    }
}

/// The virt-handler of a node may not change VMIs of another.
fn not_its_own(request: &Request) -> Vec<Fault> {
    let fault = |message: &str| vec![Fault::new("status.nodeName", Reason::Invalid, message)];
    let Some(node) = request.who.node.as_deref() else {
        return fault(
            "Node restriction, the token of virt-handler does not say its node: it must be that of its pod, \
             of a server of Kubernetes 1.30 or newer",
        );
    };
    // The node that runs the guest, or the target of its migration.
    let both = |pointer: &str| {
        [&request.old, &request.object]
            .iter()
            .all(|object| object.pointer(pointer).is_some_and(|of| of == node))
    };
    if both("/status/nodeName") || both("/status/migrationState/targetNode") {
        Vec::new()
    } else {
        fault("Node restriction, virt-handler is only allowed to modify VMIs it owns")
    }
}

/// Faults of changes to fields that only our programs write.
fn fixed(request: &Request) -> AdmissionResponse {
    let (mut faults, mut warnings) = (Vec::new(), Vec::new());
    if !same(&request.old["spec"], &request.object["spec"]) {
        faults.push(Fault::new("spec", Reason::NotSupported, "update of VMI object is restricted"));
    }
    let label = |object: &Value, key: &str| object["metadata"]["labels"][key].clone();
    let changed: Vec<&str> =
        RESERVED.into_iter().filter(|key| label(&request.old, key) != label(&request.object, key)).collect();
    if !changed.is_empty() {
        let message =
            "modification of the following reserved kubevirt.io/ labels on a VMI object is prohibited";
        faults.push(Fault::new("metadata.labels", Reason::NotSupported, message));
        warnings.push(ReservedLabels(changed).warning("metadata.labels"));
    }
    AdmissionResponse { faults, warnings, ..AdmissionResponse::yes() }
}

/// True if two specs are equal after parsing.
fn same(one: &Value, other: &Value) -> bool {
    let read = |value: &Value| wire::read::<api::vmi::Spec>(value.clone()).ok();
    one == other || read(one).zip(read(other)).is_some_and(|(one, other)| one == other)
}

/// Labels reserved for our programs, in an object of a user. Upstream's message says "the following" without
/// naming them, so a warning does.
pub(super) struct ReservedLabels(Vec<&'static str>);

impl ReservedLabels {
    /// The reserved ones among `labels`.
    pub(super) fn of(labels: &BTreeMap<String, String>) -> Option<ReservedLabels> {
        let found: Vec<&str> = RESERVED.into_iter().filter(|key| labels.contains_key(*key)).collect();
        (!found.is_empty()).then_some(ReservedLabels(found))
    }

    /// The fault of a new VMI with them. `at` is the path of the labels.
    pub(super) fn fault(&self, at: &str) -> Fault {
        let message = "creation of the following reserved kubevirt.io/ labels on a VMI object is prohibited";
        Fault::new(at, Reason::NotSupported, message)
    }

    /// The warning that names them.
    pub(super) fn warning(&self, at: &str) -> String {
        format!("{at}: reserved for KubeVirt: {}", self.0.join(", "))
    }
}
