//! Origin of the volume of a PVC that names a source. "Bound" alone is no proof: the control plane of Kubernetes binds a PVC to any free
//! volume of its class, whatever its `dataSource` or `dataSourceRef` names.
//!
//! | the PVC | its volume is of its source where |
//! |---|---|
//! | names no source | always |
//! | names no source, and was made to be filled by another program | never: the API server dropped the source ([`NO_SOURCE`]) |
//! | names one of our populators | the PVC is marked as filled, or has the volume of a filled PVC in its place (`data_volume::populator`) |
//! | names a VolumeCloneSource, and upstream's CDI says that it cloned it | no PVC is in its place, and the control plane did not choose the volume among free volumes |
//! | names another source | the control plane did not choose it among free volumes, or a populator says on it what it holds |

use api::cdi::annotations::{CLONE_PHASE, EXTERNAL_POPULATION, POPULATED_FOR};
use cluster_model::claim_moves::{COPIED_INTO, MOVING_TO};
use cluster_model::objects::{Kind, PersistentVolumeClaim, World};
use cluster_model::uploads::POD_PHASE;

/// Origin of the volume of a PVC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VolumeOrigin {
    /// The volume was made or filled for the PVC.
    OfSource,
    /// The PVC is not bound, or its volume is not known yet.
    Unknown,
    /// The volume is another one: the end of a sentence about the PVC.
    Other(String),
}

/// End of a sentence about a PVC whose source the API server dropped.
pub(crate) const NO_SOURCE: &str = "names no source any more, so its volume is empty: Kubernetes drops a dataSource that is neither a PersistentVolumeClaim nor a \
     VolumeSnapshot, and a dataSourceRef with a namespace. Delete it, and name the source by a dataSourceRef without a namespace; where \
     the content is known to be right, annotate the PVC with cdi.kubevirt.io/storage.pod.phase: Succeeded";

/// The origin of the volume of a PVC.
pub(crate) fn volume_origin(world: &World, claim: &PersistentVolumeClaim) -> VolumeOrigin {
    let spec = &claim.spec;
    if has_lost_its_source(claim) {
        return VolumeOrigin::Other(NO_SOURCE.to_owned());
    }
    if !claim.is_bound() {
        return VolumeOrigin::Unknown;
    }
    let volume_name = spec.volume_name.as_deref().filter(|_| needs_proof(claim));
    let Some(volume_name) = volume_name else { return VolumeOrigin::OfSource };
    if claim.populator().is_some() && !is_said_to_be_cloned(world, claim) {
        return match is_filled_in_its_place(world, claim) {
            true => VolumeOrigin::OfSource,
            false => other(volume_name, "which is not filled from its dataSourceRef"),
        };
    }
    match has_free_volume(world, claim) {
        None => VolumeOrigin::Unknown,
        Some(true) => other(volume_name, "which existed already, and was not made from its source"),
        Some(false) => VolumeOrigin::OfSource,
    }
}

/// Reason why the content of a PVC is not that of its source, as the end of a sentence about it. A volume that is not known yet is no
/// such reason.
pub(crate) fn incomplete(world: &World, claim: &PersistentVolumeClaim) -> Option<String> {
    claim.not_whole().or_else(|| match volume_origin(world, claim) {
        VolumeOrigin::Other(why) => Some(why),
        VolumeOrigin::OfSource | VolumeOrigin::Unknown => None,
    })
}

/// Reason why it is not known whether the volume of a PVC is of its source, as the end of a sentence about it.
pub(crate) fn unknown(world: &World, claim: &PersistentVolumeClaim) -> Option<String> {
    if !needs_proof(claim) || volume_origin(world, claim) != VolumeOrigin::Unknown {
        return None;
    }
    Some(match claim.spec.volume_name.as_deref().filter(|_| claim.is_bound()) {
        Some(volume) => format!("is bound to the volume {volume}, which is not known as its own yet"),
        None => "is not known as bound yet, so its volume is not known to be of its source".to_owned(),
    })
}

/// Reason why the content of a PVC is not proven to be that of its source, as the end of a sentence about it: for readers of the disk.
pub(crate) fn unproven(world: &World, claim: &PersistentVolumeClaim) -> Option<String> {
    incomplete(world, claim).or_else(|| unsettled(claim)).or_else(|| unknown(world, claim))
}

/// Reason why a live migration may have left a part of a disk, or an earlier one, in a PVC, as the end of a sentence about it.
fn unsettled(claim: &PersistentVolumeClaim) -> Option<String> {
    if claim.copied_into_by().is_some() {
        return Some(format!(
            "is not whole: a live migration copies a disk into it, or has ended before. Where its content is known to be right, remove the \
             annotation {COPIED_INTO}"
        ));
    }
    let new = claim.moving_to().filter(|_| claim.moved_to().is_none())?;
    Some(format!(
        "is copied into PVC {new} by a live migration, or by one whose result is not known. Where the guest has not run on that one, remove \
         the annotation {MOVING_TO}"
    ))
}

/// True if the PVC names a source, and is not marked as filled.
fn needs_proof(claim: &PersistentVolumeClaim) -> bool {
    names_a_source(claim) && !claim.is_filled()
}

fn names_a_source(claim: &PersistentVolumeClaim) -> bool {
    claim.spec.data_source.is_some() || claim.spec.data_source_ref.is_some()
}

/// True if the PVC was made to be filled by what its spec names, names nothing, and is not marked as filled, neither by us nor by a
/// backup, which restores a PVC without its source.
fn has_lost_its_source(claim: &PersistentVolumeClaim) -> bool {
    let note = |name: &str| claim.meta.annotations.get(name);
    let is_populated = note(EXTERNAL_POPULATION).is_some_and(|value| value == "true");
    let is_restored = claim.meta.name.is_some() && note(POPULATED_FOR) == claim.meta.name.as_ref();
    is_populated && !names_a_source(claim) && !claim.is_filled() && !is_restored
}

/// True if the control plane chose the volume of the PVC among free ones; `None` if the volume is not known yet, or only as it was
/// before it was bound to the PVC.
pub(crate) fn has_free_volume(world: &World, claim: &PersistentVolumeClaim) -> Option<bool> {
    let volume = world.volumes.get("", claim.spec.volume_name.as_deref()?)?;
    let owner = volume.claim.as_ref().map(|owner| &owner.uid);
    (claim.meta.uid.is_some() && owner == claim.meta.uid.as_ref())
        .then(|| claim.was_given_a_free_volume() && volume.was_chosen_free())
}

/// True if the volume of the PVC is the one that was filled in its place.
fn is_filled_in_its_place(world: &World, claim: &PersistentVolumeClaim) -> bool {
    prime(world, claim).is_some_and(|prime| prime.is_filled() && has_volume_of(claim, prime))
}

/// The PVC that is filled in the place of this one.
fn prime<'a>(world: &'a World, claim: &PersistentVolumeClaim) -> Option<&'a PersistentVolumeClaim> {
    let namespace = claim.meta.namespace.as_deref().unwrap_or_default();
    let prime = world.pvcs.get(namespace, &claim.prime()?)?;
    prime.is_in_place_of(claim).then_some(prime)
}

/// True if upstream's CDI has cloned the PVC, before its volume was bound.
pub(crate) fn is_cloned_by_upstream(world: &World, claim: &PersistentVolumeClaim) -> bool {
    claim.is_bound() && is_said_to_be_cloned(world, claim) && has_free_volume(world, claim) == Some(false)
}

/// True if the PVC says that upstream's CDI has cloned it, which writes [`CLONE_PHASE`] and not [`POD_PHASE`]. Where there is a PVC in
/// its place, it is cloned here. Any user with write access to the PVC can set both annotations.
fn is_said_to_be_cloned(world: &World, claim: &PersistentVolumeClaim) -> bool {
    let is_clone = claim.populator().is_some_and(|named| named.kind == Kind::VolumeCloneSource.name());
    let phase = claim.meta.annotations.get(CLONE_PHASE);
    is_clone && phase.is_some_and(|phase| phase == "Succeeded") && prime(world, claim).is_none()
}

/// True if the PVC is bound to the volume of the PVC that is filled in its place. The spec of that one names the volume after the
/// hand-over as well.
pub(crate) fn has_volume_of(claim: &PersistentVolumeClaim, prime: &PersistentVolumeClaim) -> bool {
    claim.spec.volume_name.is_some() && claim.spec.volume_name == prime.spec.volume_name
}

fn other(volume: &str, why: &str) -> VolumeOrigin {
    VolumeOrigin::Other(format!(
        "was bound to the volume {volume}, {why}: delete the PVC, and keep free volumes out of its StorageClass; where the \
         content is known to be right, annotate the PVC with {POD_PHASE}: Succeeded"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Sim;
    use cluster_model::objects::Key;
    use serde_json::{Value, json};

    /// A VMI, an export or a clone that takes such a PVC has an empty disk.
    #[test]
    fn a_pvc_that_lost_its_source_is_refused_and_an_ordinary_empty_one_is_not() {
        let populated = json!({EXTERNAL_POPULATION: "true"});
        let with = |name: &str, value: &str| json!({EXTERNAL_POPULATION: "true", name: value});
        let image = json!({"dataSourceRef": {"apiGroup": "example.com", "kind": "Image", "name": "a"}});
        for (annotations, spec, is_lost) in [
            (populated.clone(), json!({}), true),
            (with(POD_PHASE, "Running"), json!({}), true),
            (with(POPULATED_FOR, "other"), json!({}), true),
            (with(POD_PHASE, "Succeeded"), json!({}), false),
            (with(POPULATED_FOR, "disk"), json!({}), false),
            (populated, image, false),
            (json!({EXTERNAL_POPULATION: "false"}), json!({}), false),
            (json!({}), json!({}), false),
        ] {
            for phase in ["Pending", "Bound"] {
                let mut sim = Sim::new();
                let meta = json!({"namespace": "n", "name": "disk", "annotations": annotations});
                let claim = json!({"metadata": meta, "spec": spec, "status": {"phase": phase}});
                sim.put(Kind::PersistentVolumeClaim, claim);
                let origin = volume_origin(&sim.world, sim.world.pvcs.get("n", "disk").unwrap());
                let is_refused = origin == VolumeOrigin::Other(NO_SOURCE.to_owned());
                assert_eq!(is_refused, is_lost, "{annotations} {spec} {phase}: {origin:?}");
            }
        }
    }

    /// A clone or an export of it would succeed, and have half a disk.
    #[test]
    fn readers_wait_for_a_pvc_that_a_live_migration_has_not_settled() {
        for (annotations, word) in [
            (json!({"coracle.io/copied-into-by": "vm"}), "is not whole"),
            (json!({"coracle.io/moving-to": "new"}), "is copied into PVC new"),
            (json!({"coracle.io/moving-to": "new", "coracle.io/moved-to": "new"}), ""),
            (json!({"coracle.io/moved-from": "old"}), ""),
        ] {
            let mut sim = Sim::new();
            let meta = json!({"namespace": "n", "name": "disk", "annotations": annotations});
            let claim = json!({"metadata": meta, "spec": {}, "status": {"phase": "Bound"}});
            sim.put(Kind::PersistentVolumeClaim, claim);
            let why = unproven(&sim.world, sim.world.pvcs.get("n", "disk").unwrap());
            assert_eq!(why.is_some(), !word.is_empty(), "{annotations}: {why:?}");
            assert!(why.is_none_or(|why| why.starts_with(word)), "{annotations}");
            let checked = crate::data_source::check_disk(&sim.world, "n", "disk");
            assert_eq!(checked.is_err(), !word.is_empty(), "{annotations}");
        }
    }

    #[test]
    fn a_clone_of_upstream_is_of_its_source_when_its_volume_is_known_and_no_pvc_is_in_its_place() {
        let mut sim = Sim::new();
        let named = json!({"apiGroup": "cdi.kubevirt.io", "kind": "VolumeCloneSource", "name": "gold"});
        let meta = json!({"namespace": "n", "name": "disk", "annotations": {"cdi.kubevirt.io/clonePhase": "Succeeded"}});
        let spec = json!({"dataSourceRef": named, "volumeName": "pv-1"});
        let claim = json!({"metadata": meta, "spec": spec, "status": {"phase": "Bound"}});
        let claim = sim.put(Kind::PersistentVolumeClaim, claim);
        let origin = |sim: &Sim| volume_origin(&sim.world, sim.world.pvcs.get("n", "disk").unwrap());
        let mut vmi = crate::sim::vmi("web");
        vmi["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
        let vmi = sim.put(Kind::VirtualMachineInstance, vmi);
        sim.settle();
        // A pod may be made by now, and is not handed over.
        assert_eq!(origin(&sim), VolumeOrigin::Unknown);
        let uid = sim.uid(&claim);
        let of = json!({"namespace": "n", "name": "disk", "uid": uid});
        let volume =
            json!({"metadata": {"name": "pv-1"}, "spec": {"claimRef": of}, "status": {"phase": "Bound"}});
        sim.put(Kind::PersistentVolume, volume);
        sim.settle();
        assert_eq!(origin(&sim), VolumeOrigin::OfSource);
        assert!(sim.pod_of(&vmi).is_some(), "{}", sim.get(&vmi)["status"]);
        let owner = json!([{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "disk", "uid": uid, "controller": true}]);
        let prime = Key::new(Kind::PersistentVolumeClaim, "n", format!("prime-{uid}"));
        let meta = json!({"namespace": "n", "name": prime.name, "ownerReferences": owner});
        sim.put(Kind::PersistentVolumeClaim, json!({"metadata": meta, "spec": {}}));
        let origin = origin(&sim);
        assert!(
            matches!(&origin, VolumeOrigin::Other(why) if why.contains("not filled from its dataSourceRef")),
            "{origin:?}"
        );
    }

    #[test]
    fn no_vmi_starts_on_a_pvc_that_lost_its_source() {
        for (annotations, starts) in [(json!({EXTERNAL_POPULATION: "true"}), false), (json!({}), true)] {
            let mut sim = Sim::new();
            let meta = json!({"namespace": "n", "name": "disk", "annotations": annotations});
            let claim: Value = json!({"metadata": meta, "spec": {}, "status": {"phase": "Bound"}});
            sim.put(Kind::PersistentVolumeClaim, claim);
            let mut vmi = crate::sim::vmi("web");
            vmi["spec"]["volumes"] =
                json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
            let vmi = sim.put(Kind::VirtualMachineInstance, vmi);
            sim.settle();
            assert_eq!(sim.pod_of(&vmi).is_some(), starts, "{annotations}");
            if !starts {
                let message = sim.condition(&vmi, "DataVolumesReady").unwrap().2;
                assert!(message.starts_with("PVC n/disk names no source any more"), "{message}");
            }
        }
    }
}
