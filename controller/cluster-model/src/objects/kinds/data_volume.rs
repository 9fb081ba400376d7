//! DataVolume (CDI): a PersistentVolumeClaim and the source that it is filled from. A clone is indexed by its
//! source.

use super::persistent_volume_claim::users;
use crate::objects::about::kept;
use crate::objects::store::{StoredObject, read};
use crate::objects::{About, IndexKey, Key, Kind, Selector, Use, World, key, owner};
use api::data_volume::{DataVolume, Phase, Spec};
use api::meta::ObjectMeta;
use serde_json::Value;

/// The finalizer of a DataVolume that adopts an existing PVC.
pub const ADOPTS: &str = "cdi.kubevirt.io/adoption";

pub(crate) const ABOUT: About = About {
    kept: kept!(data_volumes),
    controller: Use {
        follows: &[Selector::ALL],
        verbs: &[
            // The finalizer is set while the DataVolume adopts an existing PVC.
            (None, &["create", "get", "delete", "patch"]),
            (Some("status"), &["patch"]),
            (Some("finalizers"), &["update"]),
        ],
        ..Use::NONE
    },
    // Checks that none is left before an installation is deleted.
    api: Use { verbs: &[(None, &["list"])], ..Use::NONE },
    touches: |world, key| {
        let volume = world.data_volumes.get(&key.namespace, &key.name);
        let cron = volume.and_then(|volume| owner::import_cron(&volume.metadata));
        let cdis = super::cdi::going(world);
        // VMIs wait while its clone is announced on their PVC.
        let mark = IndexKey::CloneAnnounced(key.namespace.clone(), key.name.clone());
        let waiting = world.indexed_by(&mark).flat_map(|source| users(world, source));
        let own = users(world, key).into_iter().chain(waiting);
        own.chain(cron).chain(cdis).chain([key.clone()]).collect()
    },
    ..About::new("cdi.kubevirt.io/v1beta1", "DataVolume", "datavolumes")
};

/// The unfinished DataVolumes that import from a registry.
pub(super) fn from_registries(world: &World) -> Vec<Key> {
    let is_done = |phase: Option<&Phase>| matches!(phase, Some(Phase::Succeeded | Phase::Failed));
    let volumes = world.data_volumes.all().filter(|volume| {
        let source = volume.spec.source.as_ref();
        source.is_some_and(|source| source.registry.is_some())
            && !is_done(volume.status.as_ref().and_then(|status| status.phase.as_ref()))
    });
    volumes.map(|volume| key(Kind::DataVolume, &volume.metadata)).collect()
}

/// The sources of clones in a DataVolume spec, as index keys. `own` is the namespace of the DataVolume.
pub(super) fn sources(spec: &Spec, own: &str) -> impl Iterator<Item = IndexKey> {
    let within = |other: &str| if other.is_empty() { own.to_owned() } else { other.to_owned() };
    let pvc = spec.source.as_ref().and_then(|source| source.pvc.as_ref());
    let pvc = pvc.map(|pvc| IndexKey::PersistentVolumeClaim(within(&pvc.namespace), pvc.name.clone()));
    let named = spec.source_ref.as_ref().map(|named| {
        IndexKey::DataSource(within(named.namespace.as_deref().unwrap_or_default()), named.name.clone())
    });
    pvc.into_iter().chain(named)
}

impl StoredObject for DataVolume {
    fn parse(object: Value) -> Option<Self> {
        read(object)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn index_keys(&self) -> Vec<IndexKey> {
        let own = self.metadata.namespace.as_deref().unwrap_or_default();
        let sources = sources(&self.spec, own);
        let cron = owner::import_cron(&self.metadata);
        let cron = cron.map(|cron| IndexKey::DataImportCron(cron.namespace, cron.name));
        owner::mark(&self.metadata).into_iter().chain(cron).chain(sources).collect()
    }
}
