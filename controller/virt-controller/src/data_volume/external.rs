//! A DataVolume whose PVC itself names what fills it (`dataSource`, `dataSourceRef`): the PVC is made, and waited for.
//!
//! ```text
//!  PVC made ─► not bound: Pending, or PendingPopulation until a pod uses it ─► bound: complete ─► Succeeded
//! ```
//!
//! CSI drivers and populators ([`super::populator`] too) bind a volume when its content is complete. A volume of another origin
//! ([`VolumeOrigin`]) may be bound as well, and completes nothing. The API server drops some references without a word, so the PVC is
//! compared with what the DataVolume asks for ([`other_source`]); where the loss is certain, no PVC is made ([`faults`]).
//! **Absent:** progress, unless the annotations of the PVC have it.

use super::claim::{AT_ONCE, RequestedClaim};
use super::outcome::Outcome;
use super::request::Request;
use super::{AT_FIRST_POD, claim_name};
use crate::volume_origin::{NO_SOURCE, VolumeOrigin, volume_origin};
use api::cdi::annotations::{POPULATOR_PROGRESS, RUNNING_MESSAGE};
use api::claim::DataReference;
use api::data_volume::Phase;
use api::fault::{Fault, Reason};
use cluster_model::objects::PersistentVolumeClaim;

/// Faults of references that the API server would drop from the PVC. The webhook refuses them, and is not asked while it is away.
pub(super) fn faults(request: &Request<'_>) -> Vec<Fault> {
    let spec = &request.volume.spec;
    let far = spec.foreign_data_source_ref(None).map(|(field, other)| {
        let what =
            format!("it names the namespace {other:?}, and a PVC is filled from its own namespace alone");
        Fault::new(format!("spec.{field}"), Reason::NotSupported, what)
    });
    spec.dropped_data_source("spec").into_iter().chain(far).collect()
}

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
    if let Some(why) = other_source(request, claim) {
        return misbound(&format!("PVC {name} {why}"));
    }
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
        message.push_str(AT_FIRST_POD);
    }
    let phase = if waits { Phase::PendingPopulation } else { Phase::Pending };
    let outcome = Outcome::default().wait("Pending", &message).enter_phase(phase, false, "Pending", message);
    annotation(POPULATOR_PROGRESS).cloned().into_iter().fold(outcome, Outcome::progress)
}

/// Reason why the PVC does not name the source that the DataVolume asks for, as the end of a sentence about the PVC. The API server
/// copies `dataSource` into an empty `dataSourceRef`, and the other way round: each that is there has to be the one asked for.
fn other_source(request: &Request<'_>, claim: &PersistentVolumeClaim) -> Option<String> {
    if claim.is_filled() {
        return None;
    }
    let kept = || [&claim.spec.data_source, &claim.spec.data_source_ref].into_iter().flatten();
    let Some(first) = kept().next() else { return Some(NO_SOURCE.to_owned()) };
    let is_kept = |asked: &&DataReference| kept().all(|kept| kept.names_the_same(asked));
    let asked = request.volume.spec.data_references().into_iter().flatten().find(|asked| !is_kept(asked))?;
    Some(format!(
        "names {} as its source, and the DataVolume asks for {}: delete the DataVolume, and create it again",
        describe(first),
        describe(asked)
    ))
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

/// A reference with all of its parts.
fn describe(named: &DataReference) -> String {
    let part = |word: &str, text: &Option<String>| {
        let text = text.as_deref().filter(|text| !text.is_empty());
        text.map(|text| format!(" of the {word} {text}")).unwrap_or_default()
    };
    let (group, namespace) = (part("API group", &named.api_group), part("namespace", &named.namespace));
    format!("{} {}{group}{namespace}", named.kind, named.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Sim;
    use cluster_model::objects::{Key, Kind};
    use serde_json::{Value, json};

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

    /// References that the API server drops: the fields of the PVC, and the one that is told.
    fn dropped() -> [(Value, &'static str); 4] {
        let named = |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": "debian"});
        let far = json!({"kind": "PersistentVolumeClaim", "name": "debian", "namespace": "far"});
        [
            (json!({"dataSource": named("cdi.kubevirt.io", "VolumeImportSource")}), "spec.pvc.dataSource: "),
            (json!({"dataSource": named("v1", "PersistentVolumeClaim")}), "spec.pvc.dataSource: "),
            (json!({"dataSource": named("example.com", "VolumeSnapshot")}), "spec.pvc.dataSource: "),
            (json!({"dataSourceRef": far}), "spec.pvc.dataSourceRef.namespace: "),
        ]
    }

    /// Spec of a PVC with these references.
    fn pvc(references: &Value) -> Value {
        let resources = json!({"requests": {"storage": "1Gi"}});
        let mut pvc = json!({"accessModes": ["ReadWriteOnce"], "resources": resources});
        cluster_model::plan::merge(&mut pvc, references);
        pvc
    }

    /// A DataVolume whose PVC has these references.
    fn volume(sim: &mut Sim, references: &Value) -> Key {
        let meta = json!({"namespace": "n", "name": "disk"});
        sim.put(Kind::DataVolume, json!({"metadata": meta, "spec": {"pvc": pvc(references)}}))
    }

    /// The PVC of the DataVolume as somebody else made it, bound.
    fn made(sim: &mut Sim, volume: &Key, spec: &Value) -> Key {
        let owner = json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": "disk",
            "uid": sim.uid(volume), "controller": true});
        let meta = json!({"namespace": "n", "name": "disk", "ownerReferences": [owner]});
        let claim = json!({"metadata": meta, "spec": spec, "status": {"phase": "Bound"}});
        sim.put(Kind::PersistentVolumeClaim, claim)
    }

    fn is_misbound(sim: &Sim, volume: &Key, expected: &str) {
        let (_, reason, message) = sim.condition(volume, "Running").unwrap();
        assert_eq!((sim.phase(volume), reason.as_str()), ("Pending", "ErrClaimNotValid"), "{message}");
        assert!(message.contains(expected), "{message}");
        assert_eq!(sim.condition(volume, "Ready").unwrap().0, "False");
    }

    #[test]
    fn no_pvc_is_made_of_a_reference_that_the_api_server_drops() {
        for (references, field) in dropped() {
            let mut sim = Sim::new();
            let volume = volume(&mut sim, &references);
            sim.settle();
            assert!(sim.keys(Kind::PersistentVolumeClaim).is_empty(), "{references}");
            let (_, reason, message) = sim.condition(&volume, "Running").unwrap();
            assert_eq!((sim.phase(&volume), reason.as_str()), ("Failed", "Unsupported"), "{references}");
            assert!(message.starts_with(field), "{message}");
        }
    }

    /// The PVC alone has no source to prove any more: it looks like one of a user's own.
    #[test]
    fn a_pvc_without_the_source_that_was_asked_for_completes_nothing() {
        for (references, _) in dropped() {
            let mut sim = Sim::new();
            let volume = volume(&mut sim, &references);
            let mut stored = json!({"spec": pvc(&references)});
            kit::store_data_source(&mut stored);
            let claim = made(&mut sim, &volume, &stored["spec"]);
            sim.settle();
            is_misbound(&sim, &volume, "PVC disk names no source any more");
            // Whoever knows better may say so.
            let filled =
                json!({"metadata": {"annotations": {"cdi.kubevirt.io/storage.pod.phase": "Succeeded"}}});
            sim.change(&claim, filled);
            sim.settle();
            assert_eq!(sim.phase(&volume), "Succeeded", "{references}");
        }
    }

    #[test]
    fn a_pvc_with_another_source_than_was_asked_for_completes_nothing() {
        let named = |name: &str| json!({"apiGroup": "example.com", "kind": "Image", "name": name});
        let mut sim = Sim::new();
        let volume = volume(&mut sim, &json!({"dataSourceRef": named("a")}));
        let other = json!({"dataSource": named("b"), "dataSourceRef": named("b")});
        made(&mut sim, &volume, &pvc(&other));
        sim.settle();
        is_misbound(&sim, &volume, "PVC disk names Image b of the API group example.com as its source");
    }

    /// The API server fills in each of the fields from the other.
    #[test]
    fn a_source_that_is_kept_is_waited_for_in_whichever_field_it_stands() {
        let claim = json!({"apiGroup": "", "kind": "PersistentVolumeClaim", "name": "a"});
        let snapshot = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "a"});
        let image = json!({"apiGroup": "example.com", "kind": "Image", "name": "a"});
        for references in [
            json!({"dataSource": claim}),
            json!({"dataSourceRef": claim}),
            json!({"dataSource": snapshot}),
            json!({"dataSourceRef": image}),
            json!({"dataSource": image, "dataSourceRef": image}),
        ] {
            let mut sim = Sim::new();
            let volume = volume(&mut sim, &references);
            sim.settle();
            let claim = Key::new(Kind::PersistentVolumeClaim, "n", "disk");
            let spec = &sim.get(&claim)["spec"];
            assert!(spec["dataSource"].is_object(), "{references}");
            assert_eq!(spec["dataSource"], spec["dataSourceRef"], "{references}");
            assert_eq!(sim.phase(&volume), "Pending", "{references}");
            sim.bind(&claim);
            sim.settle();
            assert_eq!(sim.phase(&volume), "Succeeded", "{references}");
        }
    }
}
