//! A DataVolume whose PVC itself names what fills it (`dataSource`, `dataSourceRef`): the PVC is made, and waited for.
//!
//! ```text
//!  PVC made ─► not bound: Pending, or PendingPopulation until a pod uses it ─► bound: complete ─► Succeeded
//! ```
//!
//! CSI drivers and populators ([`super::populator`] too) bind a volume when its content is complete. A volume of another origin
//! ([`VolumeOrigin`]) may be bound as well, and completes nothing.
//! **Absent:** progress, unless the annotations of the PVC have it.

use super::claim::{AT_ONCE, RequestedClaim};
use super::claim_name;
use super::outcome::Outcome;
use super::request::Request;
use crate::volume_origin::{VolumeOrigin, volume_origin};
use api::cdi::annotations::{POPULATOR_PROGRESS, RUNNING_MESSAGE};
use api::claim::DataReference;
use api::data_volume::Phase;
use cluster_model::objects::PersistentVolumeClaim;

/// Follows the PVC until it is bound.
pub(super) fn follow_population(
    request: &Request<'_>,
    requested: &RequestedClaim<'_>,
    claim: &PersistentVolumeClaim,
) -> Outcome {
    let name = claim_name(claim);
    let populator = describe_reference(&claim.spec.data_source_ref)
        .or_else(|| describe_reference(&claim.spec.data_source));
    let populator = populator.unwrap_or_else(|| "what its spec names".to_owned());
    match volume_origin(request.world, claim) {
        VolumeOrigin::Other(why) => return misbound(&format!("PVC {name} {why}")),
        VolumeOrigin::OfSource => {
            let message = format!("PVC {name} was populated by {populator}");
            return Outcome::default().complete(&message).enter_phase(
                Phase::Succeeded,
                false,
                "ImportSucceeded",
                message,
            );
        }
        VolumeOrigin::Unknown => {}
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
    let outcome = Outcome::default().wait("Pending", &message).enter_phase(phase, false, "Pending", message);
    annotation(POPULATOR_PROGRESS).cloned().into_iter().fold(outcome, Outcome::progress)
}

/// The PVC got a volume that does not have the content of its source.
pub(super) fn misbound(why: &str) -> Outcome {
    Outcome::default().wait(MISBOUND, why).enter_phase(Phase::Pending, true, MISBOUND, why)
}

/// Reason of a PVC that was bound to a volume of another origin.
const MISBOUND: &str = "ErrClaimNotValid";

/// Kind and name of a reference.
fn describe_reference(reference: &Option<DataReference>) -> Option<String> {
    reference.as_ref().map(|named| format!("{} {}", named.kind, named.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Sim;
    use cluster_model::objects::{Key, Kind};
    use serde_json::json;

    /// `kubectl get dv` has nothing else to show of a populator that is not ours.
    #[test]
    fn what_a_populator_says_is_repeated_until_its_volume_is_bound() {
        let mut sim = Sim::new();
        let source = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"});
        let resources = json!({"requests": {"storage": "1Gi"}});
        let pvc = json!({"accessModes": ["ReadWriteOnce"], "resources": resources, "dataSourceRef": source});
        let meta = json!({"namespace": "n", "name": "disk"});
        let volume = sim.put(Kind::DataVolume, json!({"metadata": meta, "spec": {"pvc": pvc}}));
        sim.settle();
        let claim = Key::new(Kind::PersistentVolumeClaim, "n", "disk");
        let message = "PVC disk is populated by VolumeSnapshot s";
        for (said, progress, expected, progress_then) in [
            ("", "", message.to_owned(), "N/A"),
            ("half of it", "50.0%", format!("{message}: half of it"), "50.0%"),
        ] {
            let notes = json!({RUNNING_MESSAGE: said, POPULATOR_PROGRESS: progress});
            sim.change(&claim, json!({"metadata": {"annotations": notes}}));
            sim.settle();
            assert_eq!(sim.condition(&volume, "Running").unwrap().2, expected);
            let status = &sim.get(&volume)["status"];
            assert_eq!((&status["phase"], &status["progress"]), (&json!("Pending"), &json!(progress_then)));
        }
        sim.change(&claim, json!({"status": {"phase": "Bound"}}));
        sim.settle();
        let status = &sim.get(&volume)["status"];
        assert_eq!((&status["phase"], &status["progress"]), (&json!("Succeeded"), &json!("100.0%")));
        assert_eq!(sim.condition(&volume, "Ready").unwrap().0, "True");
        assert_eq!(sim.condition(&volume, "Running").unwrap().1, "Completed");
        assert!(sim.warnings.is_empty() && sim.reasons().contains(&"ImportSucceeded".to_owned()));
    }
}
