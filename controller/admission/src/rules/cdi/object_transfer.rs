//! ObjectTransfers: accepted, and deprecated.

use super::{judged, wrong};
use crate::rules::{AdmissionResponse, Operation, Request};
use api::cdi::{ObjectTransfer, ObjectTransferSpec};
use api::fault::Fault;

/// Whether an ObjectTransfer may be made or changed.
pub(crate) fn judge(request: &Request) -> AdmissionResponse {
    let refusal = ("spec", "ObjectTransfer spec is immutable");
    let mut answer = judged::<ObjectTransfer>(
        request,
        |old, new| old.spec == new.spec,
        refusal,
        |transfer| spec(&transfer.spec),
    );
    if request.operation == Operation::Create && answer.is_yes() {
        let warning = "ObjectTransfer feature is deprecated, and will be deleted soon";
        answer.warnings.insert(0, warning.to_owned());
    }
    answer
}

fn spec(spec: &ObjectTransferSpec) -> Result<(), Vec<Fault>> {
    if spec.target.namespace.is_none() && spec.target.name.is_none() {
        return Err(wrong("spec.target", "Target namespace and/or target name must be supplied"));
    }
    match spec.source.kind.as_str() {
        "DataVolume" | "PersistentVolumeClaim" => Ok(()),
        other => Err(wrong("spec.source.kind", format!("Unsupported kind {other:?}"))),
    }
}
