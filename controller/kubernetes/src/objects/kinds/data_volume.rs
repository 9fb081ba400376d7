//! DataVolume (CDI): a PersistentVolumeClaim and what it is filled with.

use super::persistent_volume_claim::users;
use crate::objects::about::kept;
use crate::objects::{About, Selector, Use, owner};

pub(crate) const ABOUT: About = About {
    kept: kept!(data_volumes),
    controller: Use {
        follows: &[Selector::ALL],
        verbs: &[
            (None, &["create", "get", "delete"]),
            (Some("status"), &["patch"]),
            (Some("finalizers"), &["update"]),
        ],
        ..Use::NONE
    },
    // Whether there are any, before an installation goes.
    api: Use { verbs: &[(None, &["list"])], ..Use::NONE },
    touches: |world, key| {
        let volume = world.data_volumes.get(&key.namespace, &key.name);
        let cron = volume.and_then(|volume| owner::import_cron(&volume.metadata));
        users(world, key).into_iter().chain(cron).chain([key.clone()]).collect()
    },
    ..About::named("cdi.kubevirt.io/v1beta1", "DataVolume", "datavolumes")
};
