//! VolumeImportSource (CDI): the source to import into PVCs that name it in `dataSourceRef`.

use super::persistent_volume_claim::filled_from;
use crate::objects::about::kept;
use crate::objects::store::{StoredObject, read};
use crate::objects::{About, Selector, Use};
use api::cdi::VolumeImportSource;
use api::meta::ObjectMeta;
use serde_json::Value;

pub(crate) const ABOUT: About = About {
    kept: kept!(import_sources),
    controller: Use { follows: &[Selector::ALL], ..Use::NONE },
    touches: filled_from,
    ..About::new("cdi.kubevirt.io/v1beta1", "VolumeImportSource", "volumeimportsources")
};

impl StoredObject for VolumeImportSource {
    fn parse(object: Value) -> Option<Self> {
        read(object)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
