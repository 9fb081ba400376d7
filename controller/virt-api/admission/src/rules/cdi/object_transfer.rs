//! ObjectTransfers: refused as not supported. Those left by another CDI may be labelled and deleted.

use super::judged;
use crate::rules::{AdmissionResponse, Request};
use api::cdi::ObjectTransfer;
use api::fault::{Fault, Reason};

/// Validates a new or changed ObjectTransfer.
pub(crate) fn judge(request: &Request) -> AdmissionResponse {
    let refusal = ("spec", "ObjectTransfer spec is immutable");
    judged::<ObjectTransfer>(
        request,
        |old, new| old.spec == new.spec,
        refusal,
        |_| {
            let message = "ObjectTransfer is not supported: no object is moved to another name or namespace";
            let hint = "clone it by a DataVolume with spec.source.pvc, and delete the source";
            Err(vec![Fault::new("spec", Reason::NotSupported, message).hint(hint)])
        },
    )
}
