//! Origin of the volume of a PVC that names a source. "Bound" alone is no proof: the control plane of Kubernetes binds a PVC to any free
//! volume of its class, whatever its `dataSource` or `dataSourceRef` names.
//!
//! | the PVC | its volume is of its source where |
//! |---|---|
//! | names no source | always |
//! | names one of our populators | the PVC is marked as filled, or has the volume of a filled PVC in its place (`data_volume::populator`) |
//! | names another source | the control plane did not choose it among free volumes, or a populator says on it what it holds |

use cluster_model::objects::{PersistentVolumeClaim, World};
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

/// The origin of the volume of a PVC.
pub(crate) fn volume_origin(world: &World, claim: &PersistentVolumeClaim) -> VolumeOrigin {
    let spec = &claim.spec;
    if !claim.is_bound() {
        return VolumeOrigin::Unknown;
    }
    let volume_name = spec.volume_name.as_deref().filter(|_| needs_proof(claim));
    let Some(volume_name) = volume_name else { return VolumeOrigin::OfSource };
    if claim.populator().is_some() {
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
    incomplete(world, claim).or_else(|| unknown(world, claim))
}

/// True if the PVC names a source, and is not marked as filled.
fn needs_proof(claim: &PersistentVolumeClaim) -> bool {
    (claim.spec.data_source.is_some() || claim.spec.data_source_ref.is_some()) && !claim.is_filled()
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
    let namespace = claim.meta.namespace.as_deref().unwrap_or_default();
    let prime = claim.prime().and_then(|name| world.pvcs.get(namespace, &name));
    prime.is_some_and(|prime| prime.is_in_place_of(claim) && prime.is_filled() && has_volume_of(claim, prime))
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
