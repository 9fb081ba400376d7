//! DataVolume (CDI): a PersistentVolumeClaim and what it is filled with.

use super::persistent_volume_claim::users;
use crate::objects::about::kept;
use crate::objects::{About, Selector, Use};

pub(crate) const ABOUT: About = About {
    kept: kept!(data_volumes),
    controller: Use {
        follows: &[Selector::ALL],
        verbs: &[(None, &["create", "get"]), (Some("status"), &["patch"]), (Some("finalizers"), &["update"])],
        ..Use::NONE
    },
    // Whether there are any, before an installation goes.
    api: Use { verbs: &[(None, &["list"])], ..Use::NONE },
    touches: |world, key| users(world, key).into_iter().chain([key.clone()]).collect(),
    ..About::named("cdi.kubevirt.io/v1beta1", "DataVolume", "datavolumes")
};
