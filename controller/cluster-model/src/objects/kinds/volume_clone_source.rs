//! VolumeCloneSource (CDI): the PVC to clone into PVCs that name it in `dataSourceRef`.

use super::persistent_volume_claim::filled_from;
use crate::objects::about::kept;
use crate::objects::store::{StoredObject, read};
use crate::objects::{About, Selector, Use};
use api::cdi::VolumeCloneSource;
use api::meta::ObjectMeta;
use serde_json::Value;

pub(crate) const ABOUT: About = About {
    kept: kept!(clone_sources),
    controller: Use { follows: &[Selector::ALL], ..Use::NONE },
    touches: filled_from,
    ..About::new("cdi.kubevirt.io/v1beta1", "VolumeCloneSource", "volumeclonesources")
};

impl StoredObject for VolumeCloneSource {
    fn parse(object: Value) -> Option<Self> {
        read(object)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
