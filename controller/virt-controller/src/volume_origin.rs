//! Where the volume of a PVC with a source comes from. "Bound" alone does not say: the control plane of Kubernetes binds a PVC to any
//! free volume of its class, whatever its `dataSource` or `dataSourceRef` names.
//!
//! | the PVC | its volume is of its source where |
//! |---|---|
//! | names no source | always |
//! | names one of our populators | the PVC is marked as filled, or the PVC in its place is (`data_volume::populator`) |
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
    if claim.is_filled() || spec.data_source.is_none() && spec.data_source_ref.is_none() {
        return VolumeOrigin::OfSource;
    }
    let Some(volume_name) = spec.volume_name.as_deref().filter(|_| claim.is_bound()) else {
        // Without the name of a volume nobody chose one.
        return if claim.is_bound() { VolumeOrigin::OfSource } else { VolumeOrigin::Unknown };
    };
    if claim.populator().is_some() {
        return match is_filled_in_its_place(world, claim) {
            true => VolumeOrigin::OfSource,
            false => other(volume_name, "which is not filled from its dataSourceRef"),
        };
    }
    match world.volumes.get("", volume_name) {
        None => VolumeOrigin::Unknown,
        Some(volume) if claim.was_given_a_free_volume() && volume.was_chosen_free() => {
            other(volume_name, "which existed already, and was not made from its source")
        }
        Some(_) => VolumeOrigin::OfSource,
    }
}

/// The PVC that is filled in place of this one is filled.
fn is_filled_in_its_place(world: &World, claim: &PersistentVolumeClaim) -> bool {
    let namespace = claim.meta.namespace.as_deref().unwrap_or_default();
    let prime = claim.prime().and_then(|name| world.pvcs.get(namespace, &name));
    let own =
        prime.filter(|prime| prime.target().map(|owner| owner.uid.as_str()) == claim.meta.uid.as_deref());
    own.is_some_and(PersistentVolumeClaim::is_filled)
}

fn other(volume: &str, why: &str) -> VolumeOrigin {
    VolumeOrigin::Other(format!(
        "was bound to the volume {volume}, {why}: delete the PVC, and keep free volumes out of its StorageClass; where the \
         content is known to be right, annotate the PVC with {POD_PHASE}: Succeeded"
    ))
}
