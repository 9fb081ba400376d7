//! Validation of instance types and preferences.

use super::{AdmissionResponse, Operation, Request, unknown};
use api::fault::Fault;
use api::instancetype::{
    InstancetypeSpec, PreferenceSpec, of_instancetype, of_preference, warnings_of_instancetype,
    warnings_of_preference,
};
use api::wire::{Path, Wire};
use serde_json::Value;

/// Validates an instance type, namespaced or cluster-scoped.
pub(super) fn instancetype(request: &Request) -> AdmissionResponse {
    judge::<InstancetypeSpec>(request, of_instancetype, warnings_of_instancetype)
}

/// Validates a preference, namespaced or cluster-scoped.
pub(super) fn preference(request: &Request) -> AdmissionResponse {
    judge::<PreferenceSpec>(request, of_preference, warnings_of_preference)
}

fn judge<T: Wire>(
    request: &Request,
    check: fn(&T) -> Vec<Fault>,
    warn: fn(&T) -> Vec<String>,
) -> AdmissionResponse {
    let update = request.operation == Operation::Update;
    if request.is_leaving() || update && request.old["spec"] == request.object["spec"] {
        return AdmissionResponse::yes();
    }
    let mut faults = Vec::new();
    let spec = match &request.object["spec"] {
        Value::Null => Value::Object(Default::default()),
        said => said.clone(),
    };
    let spec = T::read(spec, &Path::of("spec"), &mut faults);
    let Some(spec) = spec.filter(|_| faults.is_empty()) else { return AdmissionResponse::no(faults) };
    let mut warnings = unknown::warnings_at(&spec, "spec");
    warnings.extend(warn(&spec));
    AdmissionResponse { faults: check(&spec), warnings, ..AdmissionResponse::yes() }
}
