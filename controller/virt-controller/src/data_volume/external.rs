//! A DataVolume whose PVC itself names what fills it (`dataSource`, `dataSourceRef`): the PVC is made, and waited for.
//!
//! ```text
//!  PVC made ─► not bound: Pending, or PendingPopulation until a pod uses it ─► bound: complete ─► Succeeded
//! ```
//!
//! A volume is bound when its content is complete: CSI drivers and populators ([`super::populator`] too) guarantee that.
//! **Absent:** progress, unless the annotations of the PVC have it.

use super::claim::{AT_ONCE, RequestedClaim};
use super::claim_name;
use super::outcome::Outcome;
use super::request::Request;
use api::cdi::annotations::{POPULATOR_PROGRESS, RUNNING_MESSAGE};
use api::claim::DataReference;
use api::data_volume::Phase;
use cluster_model::objects::PersistentVolumeClaim;

/// Follows the PVC until it is bound.
pub(super) fn populated(
    request: &Request<'_>,
    requested: &RequestedClaim<'_>,
    claim: &PersistentVolumeClaim,
) -> Outcome {
    let name = claim_name(claim);
    let populator = shown(&claim.spec.data_source_ref).or_else(|| shown(&claim.spec.data_source));
    let populator = populator.unwrap_or_else(|| "what its spec names".to_owned());
    if claim.is_bound() {
        let message = format!("PVC {name} was populated by {populator}");
        return Outcome::default().complete(&message).enters(
            Phase::Succeeded,
            false,
            "ImportSucceeded",
            message,
        );
    }
    let annotation = |name: &str| claim.meta.annotations.get(name).filter(|text| !text.is_empty());
    let mut message = format!("PVC {name} is populated by {populator}");
    if let Some(said) = annotation(RUNNING_MESSAGE) {
        message = format!("{message}: {said}");
    }
    let waits = requested.class.is_some_and(|class| class.waits_for_consumer)
        && !request.meta().annotations.contains_key(AT_ONCE);
    if waits {
        message = format!("{message}; its volume is created on the node of the first pod that uses it");
    }
    let phase = if waits { Phase::PendingPopulation } else { Phase::Pending };
    let outcome = Outcome::default().waits("Pending", &message).enters(phase, false, "Pending", message);
    annotation(POPULATOR_PROGRESS).cloned().into_iter().fold(outcome, Outcome::progress)
}

/// Kind and name of a reference.
fn shown(reference: &Option<DataReference>) -> Option<String> {
    reference.as_ref().map(|named| format!("{} {}", named.kind, named.name))
}
