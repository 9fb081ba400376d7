//! The ways to clone a PVC: by its storage, if that is possible, or by two pods that copy it. Also the
//! reasons against cloning by the storage.
//!
//! | reason | the storage does not clone it, because |
//! |---|---|
//! | `CrossNamespace` | a PVC names another one of its own namespace only |
//! | `NoProvisionerMatch` | the two are of different provisioners |
//! | `IncompatibleVolumeModes` | one is a device and the other a file system |
//! | `WaitForFirstConsumer` | the volume is made with the first pod that uses it, and a VM waits for a disk that is whole |
//! | `NoVolumeSnapshotClass` | its StorageProfile wants snapshots, and of a PVC none is taken yet |

use super::super::claim::RequestedClaim;
use super::{Cloned, Stop};
use crate::storageprofile;
use api::cdi::CloneStrategy;
use api::claim::DataReference;
use cluster_model::objects::{Kind, PersistentVolumeClaim, StorageClass, World};

/// A way to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Way {
    /// Two pods copy it. The reason against cloning by the storage; empty if a setting asks for a copy.
    Copy(String),
    /// The CSI driver of the storage does.
    Csi,
    /// Created from a VolumeSnapshot.
    Snapshot,
}

impl Way {
    /// Value of the annotation of the PVC.
    pub(in super::super) fn name(&self) -> &'static str {
        match self {
            Way::Copy(_) => "copy",
            Way::Csi => "csi-clone",
            Way::Snapshot => "snapshot",
        }
    }

    /// Human-readable description, with the reason.
    pub(in super::super) fn told(&self) -> String {
        match self {
            Way::Copy(why) if why.is_empty() => {
                "two pods copy the disk, as its StorageProfile requests".to_owned()
            }
            Way::Copy(why) => format!("two pods copy the disk, because its storage does not clone it: {why}"),
            Way::Csi => "the CSI driver of its StorageClass clones the volume".to_owned(),
            Way::Snapshot => {
                "the CSI driver of its StorageClass creates the volume from a snapshot".to_owned()
            }
        }
    }

    /// Object that the PVC is created from.
    pub(in super::super) fn data_source(&self, name: &str) -> Option<DataReference> {
        let (group, kind) = match self {
            Way::Copy(_) => return None,
            Way::Csi => (None, super::CLAIM),
            Way::Snapshot => (Some("snapshot.storage.k8s.io"), "VolumeSnapshot"),
        };
        let (kind, name) = (kind.to_owned(), name.to_owned());
        Some(DataReference { api_group: group.map(str::to_owned), kind, name, ..DataReference::default() })
    }
}

/// The way of a PVC that was made.
pub(super) fn of_claim(claim: &PersistentVolumeClaim) -> Way {
    match claim.spec.data_source.as_ref().map(|source| source.kind.as_str()) {
        Some("VolumeSnapshot") => Way::Snapshot,
        Some(kind) if kind == Kind::PersistentVolumeClaim.name() => Way::Csi,
        _ => {
            let why = claim.meta.annotations.get(cluster_model::clones::CLONE_FALLBACK);
            Way::Copy(why.cloned().unwrap_or_default())
        }
    }
}

/// The way of a PVC that is about to be made in the namespace `own`.
pub(in super::super) fn choose(
    world: &World,
    own: &str,
    cloned: &Cloned<'_>,
    wanted: &RequestedClaim<'_>,
) -> Result<Way, Stop> {
    if let Some(Way::Snapshot) = cloned.way {
        let snapshots = wanted.class.and_then(|class| storageprofile::snapshots(world, class));
        return match snapshots {
            Some(_) => Ok(Way::Snapshot),
            None => Stop::waits(
                "NoVolumeSnapshotClass",
                format!(
                    "VolumeSnapshot {} cannot be restored: the StorageProfile of its StorageClass has no spec.snapshotClass, which \
                     names a VolumeSnapshotClass of the cluster",
                    cloned.shown()
                ),
            ),
        };
    }
    let Some((source, class)) = cloned.claim.zip(wanted.class) else { return Ok(Way::Copy(String::new())) };
    Ok(match storageprofile::clones(world, class) {
        CloneStrategy::CsiClone => against(world, own, cloned, source, wanted, class)
            .map_or(Way::Csi, |why| Way::Copy(why.to_owned())),
        CloneStrategy::Snapshot => Way::Copy("NoVolumeSnapshotClass".to_owned()),
        CloneStrategy::Copy | CloneStrategy::Other(_) => Way::Copy(String::new()),
    })
}

/// The reason why a CSI driver cannot clone it.
fn against(
    world: &World,
    own: &str,
    cloned: &Cloned<'_>,
    source: &PersistentVolumeClaim,
    wanted: &RequestedClaim<'_>,
    class: &StorageClass,
) -> Option<&'static str> {
    let of_source = source.spec.storage_class_name.as_deref();
    let of_source = of_source.and_then(|name| world.storage_classes.get("", name));
    if cloned.namespace != own {
        Some("CrossNamespace")
    } else if of_source.is_none_or(|other| other.provisioner != class.provisioner) {
        Some("NoProvisionerMatch")
    } else if source.is_block() != wanted.spec.is_block() {
        Some("IncompatibleVolumeModes")
    } else {
        class.waits_for_consumer.then_some("WaitForFirstConsumer")
    }
}

/// A clone of a VolumeSnapshot.
pub(super) fn snapshot<'a>(own: &str, namespace: String, name: String) -> Result<Cloned<'a>, Stop> {
    if namespace != own {
        let message = format!(
            "VolumeSnapshot {namespace}/{name} is in another namespace, and a PVC can be created only from a \
             VolumeSnapshot of its own: clone the PVC that it was taken of"
        );
        return Stop::never(super::super::NOT_SERVED, message);
    }
    Ok(Cloned { claim: None, namespace, name, way: Some(Way::Snapshot) })
}
