//! DataSource (CDI): a stable name for a PVC that DataVolumes are cloned from.

use super::persistent_volume_claim::inferring;
use crate::objects::about::kept;
use crate::objects::store::{StoredObject, read};
use crate::objects::{About, IndexKey, Key, Selector, Use, World};
use api::cdi::DataSource;
use api::meta::ObjectMeta;
use serde_json::Value;

pub(crate) const ABOUT: About = About {
    kept: kept!(data_sources),
    // The status is not a subresource. A DataImportCron creates DataSources.
    controller: Use { follows: &[Selector::ALL], verbs: &[(None, &["create", "get", "patch"])], ..Use::NONE },
    // Resolves the source of a clone that is being authorized.
    api: Use { verbs: &[(None, &["get"])], ..Use::NONE },
    touches: |world, key| {
        let namers: Vec<Key> = namers(world, key).collect();
        let inferring = inferring(world, &namers);
        namers.into_iter().chain(inferring).chain([key.clone()]).collect()
    },
    ..About::new("cdi.kubevirt.io/v1beta1", "DataSource", "datasources")
};

/// The DataSources and DataImportCrons that reference a DataSource.
fn namers(world: &World, key: &Key) -> impl Iterator<Item = Key> {
    world.indexed_by(&IndexKey::DataSource(key.namespace.clone(), key.name.clone())).cloned()
}

impl StoredObject for DataSource {
    fn parse(object: Value) -> Option<Self> {
        read(object)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn index_keys(&self) -> Vec<IndexKey> {
        let own = self.metadata.namespace.clone().unwrap_or_default();
        let source = &self.spec.source;
        let pvc = source.pvc.as_ref().map(|pvc| {
            let namespace = if pvc.namespace.is_empty() { own.clone() } else { pvc.namespace.clone() };
            IndexKey::PersistentVolumeClaim(namespace, pvc.name.clone())
        });
        let named = source.data_source.as_ref().map(|named| IndexKey::DataSource(own, named.name.clone()));
        pvc.into_iter().chain(named).collect()
    }
}
