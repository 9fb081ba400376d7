//! PersistentVolume (PV): a volume, and the PVC that it is bound to. Only the fields that the hand-over from
//! one PVC to another needs are kept.

use super::persistent_volume_claim::{disks, users};
use crate::objects::about::kept;
use crate::objects::store::{StoredObject, meta};
use crate::objects::{About, IndexKey, Key, Kind, Selector, Use};
use api::meta::ObjectMeta;
use api::quantity::Quantity;
use serde_json::Value;

pub(crate) const ABOUT: About = About {
    kept: kept!(volumes),
    controller: Use { follows: &[Selector::ALL], verbs: &[(None, &["patch"])], ..Use::NONE },
    touches: |world, key| {
        let claim = world.volumes.get("", &key.name).and_then(|volume| volume.claim.clone());
        let disk = claim.map(|claim| Key::new(Kind::DataVolume, claim.namespace, claim.name));
        let disks = disk.iter().flat_map(|disk| disks(world, &disk.namespace, &disk.name));
        // A VMI, a DataSource or a clone waits until the volume of its PVC is known.
        let users = disk.iter().flat_map(|disk| users(world, disk)).filter(|user| user != key);
        disks.chain(users).chain([key.clone()]).collect()
    },
    ..About::new("v1", "PersistentVolume", "persistentvolumes")
};

/// Annotation by which the control plane of Kubernetes marks what it chose itself: on a volume, that a PVC got it while it was free;
/// on a PVC, that the control plane chose its volume.
pub(super) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// End of the annotation by which populators record on a volume what they filled it from.
const POPULATED_FROM: &str = "/populated-from";

/// The part of a PersistentVolume that is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PersistentVolume {
    pub meta: ObjectMeta,
    /// The PVC that the volume is bound to or reserved for.
    pub claim: Option<ClaimReference>,
    /// Policy for the time after the deletion of that PVC: `Delete`, `Retain`.
    pub reclaim_policy: String,
    /// Phase in the status: `Available`, `Bound` or `Released`.
    pub phase: String,
    /// StorageClass; empty for none.
    pub class: String,
    pub capacity: Option<Quantity>,
    /// The volume is a block device.
    pub is_block: bool,
    pub access_modes: Vec<String>,
}

/// The PVC of a PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimReference {
    pub namespace: String,
    pub name: String,
    /// UID; empty if the volume is reserved for the next PVC of that name.
    pub uid: String,
}

impl PersistentVolume {
    /// True if the control plane chose the volume for its PVC among free ones, and no populator has filled it since. A provisioner
    /// reserves the volumes that it makes, so these are never free.
    pub fn was_chosen_free(&self) -> bool {
        let annotations = &self.meta.annotations;
        annotations.contains_key(BOUND_BY_CONTROLLER)
            && !annotations.keys().any(|name| name.ends_with(POPULATED_FROM))
    }
}

impl StoredObject for PersistentVolume {
    fn parse(object: Value) -> Option<Self> {
        let spec = &object["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let claim = &spec["claimRef"];
        Some(PersistentVolume {
            meta: meta(&object)?,
            claim: claim.is_object().then(|| ClaimReference {
                namespace: text(&claim["namespace"]),
                name: text(&claim["name"]),
                uid: text(&claim["uid"]),
            }),
            reclaim_policy: text(&spec["persistentVolumeReclaimPolicy"]),
            phase: text(&object["status"]["phase"]),
            class: text(&spec["storageClassName"]),
            capacity: spec["capacity"]["storage"].as_str().and_then(|size| Quantity::parse(size).ok()),
            is_block: spec["volumeMode"] == "Block",
            access_modes: (spec["accessModes"].as_array().into_iter().flatten()).map(text).collect(),
        })
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn index_keys(&self) -> Vec<IndexKey> {
        let claim = self.claim.iter();
        claim
            .map(|claim| IndexKey::PersistentVolumeClaim(claim.namespace.clone(), claim.name.clone()))
            .collect()
    }
}
