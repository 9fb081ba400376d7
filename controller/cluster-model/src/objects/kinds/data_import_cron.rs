//! DataImportCron (CDI): imports an image again after each change of it, and keeps a DataSource at the newest
//! import.

use crate::objects::about::kept;
use crate::objects::store::{StoredObject, read};
use crate::objects::{About, IndexKey, Selector, Use};
use api::cdi::DataImportCron;
use api::meta::ObjectMeta;
use serde_json::Value;

pub(crate) const ABOUT: About = About {
    kept: kept!(data_import_crons),
    controller: Use {
        follows: &[Selector::ALL],
        // The status is not a subresource.
        verbs: &[(None, &["patch"]), (Some("finalizers"), &["update"])],
        ..Use::NONE
    },
    removed: |world, key| drop(world.polls.remove(&(key.namespace.clone(), key.name.clone()))),
    touches: |_, key| vec![key.clone()],
    ..About::new("cdi.kubevirt.io/v1beta1", "DataImportCron", "dataimportcrons")
};

impl StoredObject for DataImportCron {
    fn parse(object: Value) -> Option<Self> {
        read(object)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn index_keys(&self) -> Vec<IndexKey> {
        let own = self.metadata.namespace.clone().unwrap_or_default();
        vec![IndexKey::DataSource(own, self.spec.managed_data_source.clone())]
    }
}
