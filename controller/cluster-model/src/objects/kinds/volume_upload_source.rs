//! VolumeUploadSource (CDI): settings of uploads into PVCs that name it in `dataSourceRef`.

use super::persistent_volume_claim::filled_from;
use crate::objects::about::kept;
use crate::objects::store::{StoredObject, read};
use crate::objects::{About, Selector, Use};
use api::cdi::VolumeUploadSource;
use api::meta::ObjectMeta;
use serde_json::Value;

pub(crate) const ABOUT: About = About {
    kept: kept!(upload_sources),
    controller: Use { follows: &[Selector::ALL], ..Use::NONE },
    touches: filled_from,
    ..About::new("cdi.kubevirt.io/v1beta1", "VolumeUploadSource", "volumeuploadsources")
};

impl StoredObject for VolumeUploadSource {
    fn parse(object: Value) -> Option<Self> {
        read(object)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
