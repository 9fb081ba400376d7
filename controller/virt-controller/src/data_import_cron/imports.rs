//! The DataVolumes and the DataSource of a DataImportCron: which are its own, and which go.

use super::{phase, source};
use crate::data_volume::is_begun_clone;
use api::cdi::annotations::{BIND_AT_ONCE, IMPORT_CRON};
use api::cdi::{DataImportCron, DataSource, DataSourceSource, GarbageCollect, RetentionPolicy};
use api::data_volume::{self, ConditionType, DataVolume, Phase, PvcSource};
use api::kubevirt::AnnotationPolicy;
use api::meta::ObjectMeta;
use api::wire::Wire;
use cluster_model::metadata::of_disk;
use cluster_model::objects::{IndexKey, Key, Kind, World, owner};
use cluster_model::plan::Plan;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::cmp::Reverse;

/// Default of `importsToKeep` in the spec.
const KEPT: usize = 3;
/// Labels that tell VMs of a disk how they are best run.
const OF_VMS: &str = "instancetype.kubevirt.io/";

/// DataVolumes and DataSource of a DataImportCron.
pub(super) struct Imports<'a> {
    cron: &'a DataImportCron,
    /// DataVolumes of the DataImportCron.
    volumes: Vec<&'a DataVolume>,
    /// The DataSource of the name that it manages, whosever that is.
    source: Option<&'a DataSource>,
    world: &'a World,
}

impl<'a> Imports<'a> {
    pub(super) fn find(world: &'a World, cron: &'a DataImportCron) -> Imports<'a> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (namespace, name) = (text(&cron.metadata.namespace), text(&cron.metadata.name));
        let managed = &cron.spec.managed_data_source;
        let marked = world.indexed_by(&IndexKey::DataImportCron(namespace.clone(), name));
        let keys = marked.filter(|key| key.kind == Kind::DataVolume);
        let volumes = keys.filter_map(|key| world.data_volumes.get(&key.namespace, &key.name));
        Imports {
            cron,
            volumes: volumes.filter(|volume| is_import(cron, volume)).collect(),
            source: world.data_sources.get(&namespace, managed),
            world,
        }
    }

    /// The DataVolume of this name, if it is an import of this DataImportCron.
    pub(super) fn get(&self, name: &str) -> Option<&'a DataVolume> {
        self.volumes.iter().copied().find(|volume| volume.metadata.name.as_deref() == Some(name))
    }

    /// Message if the managed DataSource or the DataVolume of the newest digest exists, but does not belong
    /// to this DataImportCron.
    pub(super) fn name_conflict(&self, newest: &str) -> Option<String> {
        let namespace = self.cron.metadata.namespace.as_deref().unwrap_or_default();
        let own = self.cron.metadata.name.as_deref().unwrap_or_default();
        let managed = &self.cron.spec.managed_data_source;
        if self.source.is_some_and(|source| !is_of(self.cron, &source.metadata)) {
            return Some(format!(
                "DataSource {managed} exists already, and was not created for this DataImportCron: delete it, or \
                 give it the label {IMPORT_CRON}={own}"
            ));
        }
        let stranger = self.world.data_volumes.get(namespace, newest).is_some() && self.get(newest).is_none();
        stranger.then(|| {
            format!(
                "DataVolume {newest} exists already, and was not created for this DataImportCron: delete it, or \
                 choose another managedDataSource"
            )
        })
    }

    /// An import that is running.
    pub(super) fn unfinished(&self) -> Option<&'a DataVolume> {
        let is_over = |volume: &DataVolume| {
            let is_going = volume.metadata.deletion_timestamp.is_some();
            is_going || matches!(phase(volume), Phase::Succeeded | Phase::Failed)
        };
        self.volumes.iter().copied().find(|volume| !is_over(volume))
    }

    /// Imports to delete: those that failed, and the oldest beyond the number that is kept. Never the newest,
    /// the last one, the one that the DataSource points to, or a running one.
    pub(super) fn imports_to_delete(
        &self,
        cron: &DataImportCron,
        newest: Option<&str>,
    ) -> Vec<&'a DataVolume> {
        if cron.spec.garbage_collect == Some(GarbageCollect::Never) {
            return Vec::new();
        }
        let led = self.source.and_then(|source| source.spec.source.pvc.as_ref()).map(|pvc| pvc.name.as_str());
        // The last one may have become whole a moment ago, and is led to next.
        let current = cron.status.as_ref().and_then(|status| status.current_imports.first());
        let current = current.map(|current| current.data_volume_name.as_str());
        let is_kept = |volume: &DataVolume| {
            let name = volume.metadata.name.as_deref();
            name.is_some() && (name == newest || name == led || name == current)
        };
        let there =
            self.volumes.iter().copied().filter(|volume| volume.metadata.deletion_timestamp.is_none());
        let (failed, mut whole): (Vec<_>, Vec<_>) = there
            .filter(|volume| matches!(phase(volume), Phase::Succeeded | Phase::Failed))
            .partition(|volume| phase(volume) == Phase::Failed);
        let made = |volume: &DataVolume| {
            let meta = &volume.metadata;
            (meta.creation_timestamp.clone(), meta.name.clone())
        };
        whole.sort_by_key(|volume| (!is_kept(volume), Reverse(made(volume))));
        let number = cron.spec.imports_to_keep.map_or(KEPT, |number| usize::try_from(number).unwrap_or(KEPT));
        let beyond = whole.into_iter().skip(number);
        failed.into_iter().chain(beyond).filter(|volume| !is_kept(volume)).collect()
    }

    /// True if a clone reads the disk of an import or has begun to, or the storage clones it. Without the import
    /// the clone would fail for good.
    pub(super) fn is_read(&self, volume: &DataVolume, now: Timestamp) -> bool {
        let meta = &volume.metadata;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let claim = self.world.pvcs.get(&text(&meta.namespace), &text(&meta.name));
        claim.is_some_and(|claim| {
            self.world.cloner_of(claim).is_some()
                || self.world.storage_clone_of(claim).is_some()
                || is_begun_clone(self.world, claim, now)
        })
    }

    /// Points the DataSource to a PVC, and creates the DataSource if it is missing. Returns true if the plan changes something.
    pub(super) fn lead_to(&self, cron: &DataImportCron, pvc: &PvcSource, plan: &mut Plan) -> bool {
        let led = DataSourceSource { pvc: Some(pvc.clone()), ..DataSourceSource::default() };
        let Some(source) = self.source else {
            let meta = &cron.metadata;
            let of_vms = meta.labels.iter().filter(|(label, _)| label.starts_with(OF_VMS));
            let mut labels: serde_json::Map<String, Value> =
                of_vms.map(|(label, value)| (label.clone(), json!(value))).collect();
            labels.insert(IMPORT_CRON.to_owned(), json!(meta.name));
            let name = &cron.spec.managed_data_source;
            let mut object = json!({
                "apiVersion": Kind::DataSource.api_version(),
                "kind": Kind::DataSource.name(),
                "metadata": {"name": name, "namespace": meta.namespace, "labels": labels},
                "spec": {"source": led.write()},
            });
            set_owner(cron, &mut object);
            let key = Key::new(Kind::DataSource, meta.namespace.clone().unwrap_or_default(), name);
            plan.create(key, object);
            return true;
        };
        if source.spec.source == led || source.metadata.deletion_timestamp.is_some() {
            return false;
        }
        let mut should = source.clone();
        should.spec.source = led;
        plan.update(Kind::DataSource, &source.metadata, &source.write(), &should.write(), false);
        true
    }
}

/// The DataVolume of a digest.
pub(super) fn volume(
    cron: &DataImportCron,
    name: &str,
    digest: &str,
    policy: AnnotationPolicy,
) -> (Key, Value) {
    let template = &cron.spec.template;
    let (mut labels, mut annotations) = of_disk(&template.metadata, policy);
    labels.insert(IMPORT_CRON.to_owned(), cron.metadata.name.clone().unwrap_or_default());
    // No VM uses it directly: VMs use its clones.
    annotations.insert(BIND_AT_ONCE.to_owned(), "true".to_owned());
    let mut spec = template.spec.clone();
    spec.source = spec.source.as_ref().map(|said| source::pin(said, digest));
    let namespace = cron.metadata.namespace.clone().unwrap_or_default();
    let mut object = json!({
        "apiVersion": data_volume::API_VERSION,
        "kind": Kind::DataVolume.name(),
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations},
        "spec": spec.write(),
    });
    set_owner(cron, &mut object);
    (Key::new(Kind::DataVolume, namespace, name), object)
}

/// The message of the DataVolume of an import that failed.
pub(super) fn why_failed(volume: &DataVolume) -> String {
    let mut said = volume.status.iter().flat_map(|status| &status.conditions);
    let ready = said.find(|said| said.r#type == ConditionType::Ready);
    ready.and_then(|said| said.message.clone()).unwrap_or_else(|| "its conditions give no reason".to_owned())
}

/// Sets the owner of an object that is to be deleted with the DataImportCron.
fn set_owner(cron: &DataImportCron, object: &mut Value) {
    if cron.spec.retention_policy == Some(RetentionPolicy::None) {
        object["metadata"]["ownerReferences"] =
            json!([owner::reference(Kind::DataImportCron, &cron.metadata)]);
    }
}

/// True if an object was made for this DataImportCron: it has the label with its name, and no other controller owns it.
fn is_of(cron: &DataImportCron, meta: &ObjectMeta) -> bool {
    let own = &cron.metadata;
    let is_labelled = meta.labels.get(IMPORT_CRON) == own.name.as_ref();
    is_labelled && owner::controller(meta).is_none_or(|owner| Some(&owner.uid) == own.uid.as_ref())
}

/// The same for a DataVolume, which must also have the name of an import: that of the digest in its source, or else of any digest. A
/// user's copy of an import has another name, and is the user's.
fn is_import(cron: &DataImportCron, volume: &DataVolume) -> bool {
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    let is_named = match volume.spec.source.as_ref().and_then(source::image_digest) {
        Some(digest) => name == source::name(cron, digest),
        None => source::is_name(cron, name),
    };
    is_of(cron, &volume.metadata) && is_named
}
