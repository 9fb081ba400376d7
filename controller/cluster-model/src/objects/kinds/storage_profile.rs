//! StorageProfile (CDI): capabilities of the volumes of a StorageClass. It has the name of the class.

use crate::objects::about::kept;
use crate::objects::store::{StoredObject, read};
use crate::objects::{About, Key, Kind, Selector, Use, World};
use api::cdi::StorageProfile;
use api::meta::ObjectMeta;
use serde_json::Value;

pub(crate) const ABOUT: About = About {
    kept: kept!(storage_profiles),
    controller: Use {
        follows: &[Selector::ALL],
        verbs: &[(None, &["create", "delete", "get"]), (Some("status"), &["patch"])],
        ..Use::NONE
    },
    // Read for the defaults of PVCs.
    api: Use { follows: &[Selector::ALL], ..Use::NONE },
    // A disk takes defaults from it.
    touches: |world, key| world.keys(Kind::DataVolume).into_iter().chain([key.clone()]).collect(),
    ..About::new("cdi.kubevirt.io/v1beta1", "StorageProfile", "storageprofiles")
};

/// The key of the profile of a class.
pub(super) fn key_of_class(class: &str) -> Key {
    Key::new(Kind::StorageProfile, "", class)
}

/// The keys of all profiles that there are or should be.
pub(super) fn all(world: &World) -> impl Iterator<Item = Key> {
    let classes = world.storage_classes.names().into_iter();
    classes.chain(world.storage_profiles.names()).map(|(_, name)| key_of_class(&name))
}

impl StoredObject for StorageProfile {
    fn parse(object: Value) -> Option<Self> {
        read(object)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
