//! PersistentVolumeClaim (PVC). One is filled under the key of the DataVolume of its name, whether there is a DataVolume or not.

use crate::objects::about::kept;
use crate::objects::store::{Kept, meta};
use crate::objects::{About, Key, Kind, Mark, Selector, Use, World, owner};
use crate::uploads::{POD_PHASE, TARGET};
use api::claim::{ClaimSpec, ClaimStatus};
use api::meta::ObjectMeta;
use api::wire;
use serde_json::Value;

pub(crate) const ABOUT: About = About {
    kept: kept!(pvcs),
    controller: Use {
        follows: &[Selector::ALL],
        verbs: &[(None, &["create", "get", "patch"]), (Some("finalizers"), &["update"])],
        ..Use::NONE
    },
    // An upload is for one PVC, whose annotations say whether its pod takes it.
    proxy: Use { verbs: &[(None, &["get"])], ..Use::NONE },
    touches: |world, key| {
        let filled = Key::new(Kind::DataVolume, &key.namespace, &key.name);
        users(world, key).into_iter().chain([filled]).collect()
    },
    ..About::named("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
};

/// The VMs and VMIs that use the claim, or the claim of the DataVolume, of a name.
pub(super) fn users(world: &World, key: &Key) -> Vec<Key> {
    world.marked(&Mark::PersistentVolumeClaim(key.namespace.clone(), key.name.clone())).cloned().collect()
}

/// The part of a PersistentVolumeClaim that is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PersistentVolumeClaim {
    /// Its name and the like.
    pub meta: ObjectMeta,
    /// What is wanted.
    pub spec: ClaimSpec,
    /// How it is.
    pub status: ClaimStatus,
}

impl PersistentVolumeClaim {
    /// It has a volume.
    pub fn is_bound(&self) -> bool {
        self.status.phase.as_deref() == Some("Bound")
    }

    /// It takes an upload, and no DataVolume speaks for it.
    pub fn is_upload_target(&self) -> bool {
        let is_of_volume =
            owner::controller(&self.meta).is_some_and(|owner| owner.kind == Kind::DataVolume.name());
        self.meta.annotations.contains_key(TARGET) && !is_of_volume
    }

    /// Its disk was written to the end.
    pub fn is_filled(&self) -> bool {
        self.meta.annotations.get(POD_PHASE).is_some_and(|phase| phase == "Succeeded")
    }

    /// It is a device, not a file system.
    pub fn is_block(&self) -> bool {
        self.spec.is_block()
    }
}

impl Kept for PersistentVolumeClaim {
    fn take(mut object: Value) -> Option<Self> {
        let mut part =
            |name: &str| object.get_mut(name).map_or_else(|| Value::Object(Default::default()), Value::take);
        let (spec, status) = (part("spec"), part("status"));
        let faults = &mut Vec::new();
        Some(PersistentVolumeClaim {
            meta: meta(&object)?,
            spec: wire::read_in_part(spec, faults).unwrap_or_default(),
            status: wire::read_in_part(status, faults).unwrap_or_default(),
        })
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
}
