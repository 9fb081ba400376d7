//! DataVolume (CDI): a PersistentVolumeClaim and what it is filled with.

use super::persistent_volume_claim::users;
use crate::objects::about::kept;
use crate::objects::{About, Selector, Use};

pub(crate) const ABOUT: About = About {
    kept: kept!(data_volumes),
    controller: Use { follows: &[Selector::ALL], verbs: &[(None, &["create", "get"])], ..Use::NONE },
    touches: users,
    ..About::named("cdi.kubevirt.io/v1beta1", "DataVolume", "datavolumes")
};
