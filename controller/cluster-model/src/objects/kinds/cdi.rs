//! CDI: the installation of the disk import part, and its settings. One object is effective; it is stored
//! whole.

use super::{kubevirt, secret::certificates, storage_profile};
use crate::objects::about::kept;
use crate::objects::{About, Key, Kind, Selector, Use, World, key};

/// Name of the object that virt-controller creates. One created by a user may have another name.
pub const NAME: &str = "cdi";

pub(crate) const ABOUT: About = About {
    kept: kept!(cdis),
    controller: Use {
        follows: &[Selector::ALL],
        // The status is not a subresource.
        verbs: &[(None, &["create", "get", "patch"])],
        ..Use::NONE
    },
    put: |world, _, _| world.read_disk_settings(),
    removed: |world, _| world.read_disk_settings(),
    // Its settings become those of the CDIConfig, its placement that of worker pods, and without it no disk
    // is filled. It rarely changes.
    touches: |world, _| {
        let first = all(world).into_iter().chain(kubevirt::all(world)).chain([certificates(world)]);
        first.chain(storage_profile::all(world)).chain(disks(world)).collect()
    },
    ..About::new("cdi.kubevirt.io/v1beta1", "CDI", "cdis")
};

/// The keys of all CDI objects, or of the one to create.
pub(super) fn all(world: &World) -> Vec<Key> {
    let all: Vec<Key> = world.cdis.all().map(|object| key(Kind::CDI, &object.meta)).collect();
    if all.is_empty() { vec![Key::new(Kind::CDI, "", NAME)] } else { all }
}

/// The keys of the CDI objects that are being deleted. The last worker pod and the last DataVolume delay
/// their removal.
pub(super) fn going(world: &World) -> Vec<Key> {
    let is_going = |object: &&crate::objects::Plain| object.meta.deletion_timestamp.is_some();
    world.cdis.all().filter(is_going).map(|object| key(Kind::CDI, &object.meta)).collect()
}

/// The keys of all objects that disks are decided under.
pub(super) fn disks(world: &World) -> impl Iterator<Item = Key> {
    let claims = world.keys(Kind::PersistentVolumeClaim).into_iter();
    let claims = claims.map(|claim| Key { kind: Kind::DataVolume, ..claim });
    let kinds = [Kind::DataVolume, Kind::DataSource, Kind::DataImportCron];
    claims.chain(kinds.into_iter().flat_map(move |kind| world.keys(kind)))
}
