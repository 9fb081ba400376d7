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
use crate::storage_profile;
use api::cdi::CloneStrategy;
use api::claim::DataReference;
use cluster_model::objects::{Kind, PersistentVolumeClaim, StorageClass, World};

/// A way to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum CloneMethod {
    /// Two pods copy it. The reason against cloning by the storage; empty if a setting asks for a copy.
    Copy(String),
    /// The CSI driver of the storage does.
    Csi,
    /// Created from a VolumeSnapshot.
    Snapshot,
}

impl CloneMethod {
    /// Value of the annotation of the PVC.
    pub(in super::super) fn name(&self) -> &'static str {
        match self {
            CloneMethod::Copy(_) => "copy",
            CloneMethod::Csi => "csi-clone",
            CloneMethod::Snapshot => "snapshot",
        }
    }

    /// Human-readable description, with the reason.
    pub(in super::super) fn description(&self) -> String {
        match self {
            CloneMethod::Copy(why) if why.is_empty() => {
                "two pods copy the disk, as its StorageProfile requests".to_owned()
            }
            CloneMethod::Copy(why) => {
                format!("two pods copy the disk, because its storage does not clone it: {why}")
            }
            CloneMethod::Csi => "the CSI driver of its StorageClass clones the volume".to_owned(),
            CloneMethod::Snapshot => {
                "the CSI driver of its StorageClass creates the volume from a snapshot".to_owned()
            }
        }
    }

    /// Object that the PVC is created from.
    pub(in super::super) fn data_source(&self, name: &str) -> Option<DataReference> {
        let (group, kind) = match self {
            CloneMethod::Copy(_) => return None,
            CloneMethod::Csi => (None, super::CLAIM),
            CloneMethod::Snapshot => (Some("snapshot.storage.k8s.io"), "VolumeSnapshot"),
        };
        let (kind, name) = (kind.to_owned(), name.to_owned());
        Some(DataReference { api_group: group.map(str::to_owned), kind, name, ..DataReference::default() })
    }
}

/// The way of a PVC that was made.
pub(super) fn of_claim(claim: &PersistentVolumeClaim) -> CloneMethod {
    match claim.spec.data_source.as_ref().map(|source| source.kind.as_str()) {
        Some("VolumeSnapshot") => CloneMethod::Snapshot,
        Some(kind) if kind == Kind::PersistentVolumeClaim.name() => CloneMethod::Csi,
        _ => {
            let why = claim.meta.annotations.get(cluster_model::clones::CLONE_FALLBACK);
            CloneMethod::Copy(why.cloned().unwrap_or_default())
        }
    }
}

/// The way of a PVC that is about to be made in the namespace `own`.
pub(in super::super) fn choose(
    world: &World,
    own: &str,
    cloned: &Cloned<'_>,
    wanted: &RequestedClaim<'_>,
) -> Result<CloneMethod, Stop> {
    if let Some(CloneMethod::Snapshot) = cloned.way {
        let snapshots = wanted.class.and_then(|class| storage_profile::snapshots(world, class));
        return match snapshots {
            Some(_) => Ok(CloneMethod::Snapshot),
            None => Stop::wait(
                "NoVolumeSnapshotClass",
                format!(
                    "VolumeSnapshot {} cannot be restored: the StorageProfile of its StorageClass has no spec.snapshotClass, which \
                     names a VolumeSnapshotClass of the cluster",
                    cloned.display_name()
                ),
            ),
        };
    }
    let Some((source, class)) = cloned.claim.zip(wanted.class) else {
        return Ok(CloneMethod::Copy(String::new()));
    };
    Ok(match storage_profile::clones(world, class) {
        CloneStrategy::CsiClone => against(world, own, cloned, source, wanted, class)
            .map_or(CloneMethod::Csi, |why| CloneMethod::Copy(why.to_owned())),
        CloneStrategy::Snapshot => CloneMethod::Copy("NoVolumeSnapshotClass".to_owned()),
        CloneStrategy::Copy | CloneStrategy::Other(_) => CloneMethod::Copy(String::new()),
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
    Ok(Cloned { claim: None, namespace, name, way: Some(CloneMethod::Snapshot) })
}
