//! StorageClass: provisioner, parameters and binding mode of a class of volumes.

use super::storage_profile;
use crate::objects::about::kept;
use crate::objects::store::{StoredObject, meta};
use crate::objects::{About, IndexKey, Kind, Selector, Use, World};
use api::meta::ObjectMeta;
use api::quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeMap;

/// The annotation of the class that PVCs without a class get.
const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
/// The annotation of the class that disks of VMs without a class get.
const DEFAULT_OF_VMS: &str = "storageclass.kubevirt.io/is-default-virt-class";

/// The annotation with the size of the smallest volume.
const SMALLEST: &str = "cdi.kubevirt.io/minimumSupportedPvcSize";

pub(crate) const ABOUT: About = About {
    kept: kept!(storage_classes),
    controller: Use { follows: &[Selector::ALL], ..Use::NONE },
    // Read for the defaults of PVCs.
    api: Use { follows: &[Selector::ALL], ..Use::NONE },
    // A disk may wait for a class or its parameters, and so may a VMI with persistent state. There are few
    // classes, and they rarely change.
    touches: |world, key| {
        let waiting = world.indexed_by(&IndexKey::Waiting).cloned();
        let disks = world.keys(Kind::DataVolume);
        disks.into_iter().chain(waiting).chain([storage_profile::key_of_class(&key.name)]).collect()
    },
    ..About::new("storage.k8s.io/v1", "StorageClass", "storageclasses")
};

/// The part of a StorageClass that is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StorageClass {
    pub meta: ObjectMeta,
    pub provisioner: String,
    /// Parameters for the provisioner. Their names depend on it.
    pub parameters: BTreeMap<String, String>,
    /// The volume is created on the node of the first pod that uses it (`WaitForFirstConsumer`).
    pub waits_for_consumer: bool,
    /// Volumes can be expanded.
    pub may_grow: bool,
}

impl StorageClass {
    /// True for the default class of PVCs.
    pub fn is_default(&self) -> bool {
        self.meta.annotations.get(DEFAULT).is_some_and(|value| value == "true")
    }

    /// True for the default class of VM disks.
    pub fn is_default_of_vms(&self) -> bool {
        self.meta.annotations.get(DEFAULT_OF_VMS).is_some_and(|value| value == "true")
    }

    /// Bytes of the smallest volume, from the annotation of the class.
    pub fn smallest(&self) -> Option<u64> {
        Quantity::parse(self.meta.annotations.get(SMALLEST)?).ok()?.bytes()
    }
}

impl StoredObject for StorageClass {
    fn parse(object: Value) -> Option<Self> {
        Some(StorageClass {
            meta: meta(&object)?,
            provisioner: object["provisioner"].as_str().unwrap_or_default().to_owned(),
            parameters: (object["parameters"].as_object().into_iter().flatten())
                .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect(),
            waits_for_consumer: object["volumeBindingMode"] == "WaitForFirstConsumer",
            may_grow: object["allowVolumeExpansion"] == true,
        })
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
}

impl World {
    /// The class of a PVC: the named one, or the default one. With `of_vms`, the default class of VM disks
    /// comes first.
    pub fn storage_class(&self, named: Option<&str>, of_vms: bool) -> Option<&StorageClass> {
        if let Some(name) = named {
            return self.storage_classes.get("", name);
        }
        let default = |is_so: fn(&StorageClass) -> bool| {
            // The newest of several, then the first by name, as in the API server.
            let age = |class: &&StorageClass| {
                (class.meta.creation_timestamp.clone(), std::cmp::Reverse(class.meta.name.clone()))
            };
            self.storage_classes.all().filter(|class| is_so(class)).max_by_key(age)
        };
        let of_vms = of_vms.then(|| default(StorageClass::is_default_of_vms)).flatten();
        of_vms.or_else(|| default(StorageClass::is_default))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use serde_json::json;

    #[test]
    fn the_default_for_disks_comes_first_and_the_newest_of_several() {
        let mut world = World::default();
        let mut class = |name: &str, made: &str, annotation: &str| {
            let meta = json!({"name": name, "creationTimestamp": made, "annotations": {annotation: "true"}});
            let object = json!({"metadata": meta, "provisioner": "p"});
            world.put(Kind::StorageClass, object, Timestamp::UNIX_EPOCH);
        };
        class("old", "2025-01-01T00:00:00Z", DEFAULT);
        class("new", "2026-01-01T00:00:00Z", DEFAULT);
        class("other-new", "2026-01-01T00:00:00Z", DEFAULT);
        class("disks", "2024-01-01T00:00:00Z", DEFAULT_OF_VMS);
        let name =
            |named, of_vms| world.storage_class(named, of_vms).and_then(|class| class.meta.name.clone());
        assert_eq!(name(None, true).as_deref(), Some("disks"));
        assert_eq!(name(None, false).as_deref(), Some("new"));
        assert_eq!(name(Some("old"), true).as_deref(), Some("old"));
        assert_eq!(name(Some("none"), true), None);
    }
}
