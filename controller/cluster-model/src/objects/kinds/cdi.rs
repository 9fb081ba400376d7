//! CDI: the part of the installation that fills disks, and its settings. One object counts; it is kept as it is.

use super::{kubevirt, secret::certificates, storage_profile};
use crate::objects::about::kept;
use crate::objects::{About, Key, Kind, Selector, Use, World, key};

/// The name of the object that virt-controller makes. One that somebody else has made may have any.
pub const NAME: &str = "cdi";

pub(crate) const ABOUT: About = About {
    kept: kept!(cdis),
    controller: Use {
        follows: &[Selector::ALL],
        // The status has no path of its own.
        verbs: &[(None, &["create", "get", "patch"])],
        ..Use::NONE
    },
    // Its settings become those of the CDIConfig, its placement that of worker pods; and while it is not there, no disk is
    // filled. It hardly changes.
    touches: |world, _| {
        let first = all(world).into_iter().chain(kubevirt::all(world)).chain([certificates(world)]);
        first.chain(storage_profile::all(world)).chain(disks(world)).collect()
    },
    ..About::named("cdi.kubevirt.io/v1beta1", "CDI", "cdis")
};

/// The keys of all CDI objects; of the one to make, where there is none.
pub(super) fn all(world: &World) -> Vec<Key> {
    let all: Vec<Key> = world.cdis.all().map(|object| key(Kind::CDI, &object.meta)).collect();
    if all.is_empty() { vec![Key::new(Kind::CDI, "", NAME)] } else { all }
}

/// The keys of those that are being deleted: the last worker pod and the last DataVolume decide when they go.
pub(super) fn going(world: &World) -> Vec<Key> {
    let is_going = |object: &&crate::objects::Plain| object.meta.deletion_timestamp.is_some();
    world.cdis.all().filter(is_going).map(|object| key(Kind::CDI, &object.meta)).collect()
}

/// The keys of everything that is decided on for disks.
pub(super) fn disks(world: &World) -> impl Iterator<Item = Key> {
    let claims = world.keys(Kind::PersistentVolumeClaim).into_iter();
    let claims = claims.map(|claim| Key { kind: Kind::DataVolume, ..claim });
    let kinds = [Kind::DataVolume, Kind::DataSource, Kind::DataImportCron];
    claims.chain(kinds.into_iter().flat_map(move |kind| world.keys(kind)))
}
