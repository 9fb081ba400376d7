//! What we know of the cluster: one snapshot, kept up by watches and by the answers to our own writes.
//!
//! ```text
//!  watch ──── put, remove ───► World ◄──── put ──── carry out (what the server answered: we read what we wrote)
//!                                │
//!                                └── virt_controller::decide looks, and changes nothing
//! ```
//!
//! An object that is older than the one that is there is not put. Pods, claims and nodes are kept as what is looked at
//! of them alone: a cluster has many of those that are none of our business. Objects find each other by their marks ([`Mark`]).

use super::marks::Marks;
use super::store::is_older;
use super::{
    Component, Key, Kind, LauncherPods, METADATA_ALONE, Mark, Namespace, Node, PersistentVolume,
    PersistentVolumeClaim, Pod, ResourceQuota, Revision, Secret, StorageClass, Store,
};
use crate::polls::Polled;
use api::cdi::{
    DataImportCron, DataSource, StorageProfile, VolumeCloneSource, VolumeImportSource, VolumeUploadSource,
};
use api::datavolume::DataVolume;
use api::instancetype::{
    VirtualMachineClusterInstancetype, VirtualMachineClusterPreference, VirtualMachineInstancetype,
    VirtualMachinePreference,
};
use api::job::Report;
use api::launcher::Ending;
use api::meta::ObjectMeta;
use api::preset::VirtualMachineInstancePreset;
use api::vm::VirtualMachine;
use api::vmi::VirtualMachineInstance;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What we know of the cluster.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub vms: Store<VirtualMachine>,
    pub vmis: Store<VirtualMachineInstance>,
    /// As they stand; there are few.
    pub replica_sets: Store<Plain>,
    /// As they stand; there are few.
    pub pools: Store<Plain>,
    pub presets: Store<VirtualMachineInstancePreset>,
    pub instancetypes: Store<VirtualMachineInstancetype>,
    pub cluster_instancetypes: Store<VirtualMachineClusterInstancetype>,
    pub preferences: Store<VirtualMachinePreference>,
    pub cluster_preferences: Store<VirtualMachineClusterPreference>,
    /// Those of instance types and preferences, as VMs first used them.
    pub revisions: Store<Revision>,
    /// As they stand; there is one.
    pub kubevirts: Store<Plain>,
    pub data_volumes: Store<DataVolume>,
    /// As they stand; one counts.
    pub cdis: Store<Plain>,
    /// As they stand; there is one.
    pub cdi_configs: Store<Plain>,
    pub data_sources: Store<DataSource>,
    pub data_import_crons: Store<DataImportCron>,
    pub pods: Store<Pod>,
    pub pvcs: Store<PersistentVolumeClaim>,
    pub volumes: Store<PersistentVolume>,
    pub import_sources: Store<VolumeImportSource>,
    pub upload_sources: Store<VolumeUploadSource>,
    pub clone_sources: Store<VolumeCloneSource>,
    pub storage_classes: Store<StorageClass>,
    pub storage_profiles: Store<StorageProfile>,
    pub nodes: Store<Node>,
    pub namespaces: Store<Namespace>,
    pub resource_quotas: Store<ResourceQuota>,
    /// In the namespace of the installation.
    pub deployments: Store<Component>,
    pub daemon_sets: Store<Component>,
    /// Ours, with certificates.
    pub secrets: Store<Secret>,
    /// Ours, with authorities.
    pub config_maps: Store<Plain>,
    /// Our webhook configurations.
    pub mutating_webhooks: Store<Plain>,
    pub validating_webhooks: Store<Plain>,
    /// Ours, which lead requests for subresources to virt-api.
    pub api_services: Store<Plain>,
    /// What a kubelet last warned of, by the namespace and the name of a launcher pod: some things (a secret that is
    /// missing, a volume that cannot be mounted) are said in events alone.
    pub warnings: BTreeMap<(String, String), Warning>,
    /// What the worker pods that run say of their work, by their namespaces and names: the uid, and the last report.
    pub reports: BTreeMap<(String, String), (String, Report)>,
    /// What came of the last poll of the image of each DataImportCron, by its namespace and name: the uid, and the answer.
    pub polls: BTreeMap<(String, String), (String, Polled)>,
    /// Worker pods that have fallen silent, by the pod: its uid, and since when.
    pub silent: BTreeMap<(String, String), (String, Timestamp)>,
    /// Since when the bytes that a worker pod counts are as they are, by the pod: its uid, the bytes, and the time.
    pub still: BTreeMap<(String, String), (String, u64, Timestamp)>,
    /// When pods that are over were first seen to be, by our clock; by the pod: its uid, and the time.
    pub over: BTreeMap<(String, String), (String, Timestamp)>,
    /// How VMIs ended, as their launchers left it to the kubelet, by the VMI's namespace and name: its uid, and the ending. It stays
    /// until the VMI goes, also where the pod is gone.
    pub endings: BTreeMap<(String, String), (String, Ending)>,
    /// The last heartbeat of each node's virt-handler, and since when we know it.
    pub heard: BTreeMap<String, (String, Timestamp)>,
    /// What could not be done for an object, until it can.
    pub failures: BTreeMap<Key, Failure>,
    /// Objects of whose present state the metadata alone are known ([`METADATA_ALONE`]): what is kept of them is of before, or, of one
    /// that is leaving or was never read whole, the metadata. Only that they leave can be decided on.
    pub in_part: BTreeSet<Key>,
    /// Objects for which a plan is being carried out: what it creates or changes is not known yet.
    pub busy: BTreeSet<Key>,
    /// What is known of the cluster beside its objects.
    pub facts: ClusterFacts,
    pub(super) marks: Marks,
}

/// An object as it stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plain {
    /// Its name and the like.
    pub meta: ObjectMeta,
    /// All of it.
    pub object: Value,
}

/// What a kubelet warns of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The pod's uid.
    pub pod: String,
    /// A word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// What was tried for an object, by the kind of what it was tried on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// To make it, or to change it.
    Make(Kind),
    /// To delete it.
    Delete(Kind),
}

/// What could not be done for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was tried.
    pub about: Attempt,
    /// In a sentence.
    pub message: String,
    /// How often in a row.
    pub times: u32,
    /// It is not tried again before.
    pub retry: Timestamp,
}

/// What is known of the cluster beside its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    /// The namespace we are in.
    pub namespace: String,
    /// The image of the launcher.
    pub launcher_image: String,
    /// The image of the workers that move disks.
    pub worker_image: String,
    /// Our version.
    pub version: String,
    /// The server keeps image volumes of pods.
    pub image_volumes: bool,
}

impl World {
    /// A cluster of which nothing but these facts is known.
    pub fn of(facts: ClusterFacts) -> World {
        World { facts, ..World::default() }
    }

    /// Puts an object as it is at a time, unless there is a newer one. Whether something has changed.
    pub fn put(&mut self, kind: Kind, mut object: Value, now: Timestamp) -> bool {
        let about = kind.about();
        let Some(place) = about.kept else { return (about.read)(self, &object) };
        let is_in_part = object.as_object_mut().is_some_and(|all| all.remove(METADATA_ALONE).is_some());
        let text = |name: &str| object["metadata"][name].as_str().map(str::to_owned);
        let key = Key::new(kind, text("namespace").unwrap_or_default(), text("name").unwrap_or_default());
        let known = self.meta(&key);
        if known.is_some_and(|known| is_older(&text("resourceVersion"), &known.resource_version)) {
            return false;
        }
        let is_same = known.is_some_and(|known| known.uid == text("uid"));
        let is_leaving = !object["metadata"]["deletionTimestamp"].is_null();
        if is_in_part && is_same && !is_leaving {
            return self.in_part.insert(key);
        }
        let is_read_again = !is_in_part && self.in_part.remove(&key);
        if (place.of_mut)(self).put(object).is_none() {
            return is_read_again;
        }
        if is_in_part {
            self.in_part.insert(key.clone());
        }
        let marks = (place.of)(self).marks(&key.namespace, &key.name);
        self.marks.set(&key, marks);
        (about.put)(self, &key, now);
        true
    }

    /// Removes an object. Whether there was one.
    pub fn remove(&mut self, key: &Key) -> bool {
        let about = key.kind.about();
        let Some(place) = about.kept else { return false };
        let was_there = (place.of_mut)(self).remove(&key.namespace, &key.name);
        self.in_part.remove(key);
        self.marks.set(key, Vec::new());
        (about.removed)(self, key);
        was_there
    }

    /// The keys of all objects of a kind.
    pub fn keys(&self, kind: Kind) -> Vec<Key> {
        let names = kind.about().kept.map(|place| (place.of)(self).names()).unwrap_or_default();
        names.into_iter().map(|(namespace, name)| Key { kind, namespace, name }).collect()
    }

    /// The uid of an object, if it is known.
    pub fn uid(&self, key: &Key) -> Option<String> {
        self.meta(key)?.uid.clone()
    }

    /// The metadata of an object, if it is known.
    pub fn meta(&self, key: &Key) -> Option<&ObjectMeta> {
        (key.kind.about().kept?.of)(self).meta(&key.namespace, &key.name)
    }

    /// Nothing can be decided on the object: what it asks for is not known, and it stays.
    pub fn is_unread(&self, key: &Key) -> bool {
        let stays = |key: &Key| self.meta(key).is_some_and(|meta| meta.deletion_timestamp.is_none());
        self.in_part.contains(key) && stays(key)
    }

    /// The keys of the objects whose decision an object takes part in.
    pub fn touched(&self, key: &Key) -> Vec<Key> {
        (key.kind.about().touches)(self, key)
    }

    /// The objects that have a mark.
    pub fn marked<'a>(&'a self, mark: &Mark) -> impl Iterator<Item = &'a Key> + use<'a> {
        self.marks.with(mark)
    }

    /// The VMIs of a namespace whose controlling owner has this uid. One of another namespace may say so too: whoever writes it there
    /// would have a say in what becomes of the owner's own.
    pub fn vmis_of(&self, namespace: &str, owner: &str) -> impl Iterator<Item = &VirtualMachineInstance> {
        self.marked(&Mark::Owner(owner.to_owned()))
            .filter(move |key| key.kind == Kind::VirtualMachineInstance && key.namespace == namespace)
            .filter_map(|key| self.vmis.get(&key.namespace, &key.name))
    }

    /// The VMs of a namespace whose controlling owner has this uid, as above.
    pub fn vms_of(&self, namespace: &str, owner: &str) -> impl Iterator<Item = &VirtualMachine> {
        self.marked(&Mark::Owner(owner.to_owned()))
            .filter(move |key| key.kind == Kind::VirtualMachine && key.namespace == namespace)
            .filter_map(|key| self.vms.get(&key.namespace, &key.name))
    }

    /// What a kubelet warned of a pod.
    pub fn warning(&self, pod: &Pod) -> Option<&Warning> {
        let at = (pod.meta.namespace.clone()?, pod.meta.name.clone()?);
        self.warnings.get(&at).filter(|warning| Some(warning.pod.as_str()) == pod.meta.uid.as_deref())
    }

    /// Since when a worker pod has been silent.
    pub fn silent_since(&self, pod: &Pod) -> Option<Timestamp> {
        let at = (pod.meta.namespace.clone()?, pod.meta.name.clone()?);
        self.silent.get(&at).filter(|(of, _)| Some(of) == pod.meta.uid.as_ref()).map(|(_, since)| *since)
    }

    /// A worker pod of this namespace, name and uid says what it does. Whether that is new.
    pub fn says(&mut self, at: (String, String), uid: String, report: Report, now: Timestamp) -> bool {
        let is_still = self.still.get(&at).is_some_and(|(of, done, _)| *of == uid && *done == report.done);
        if !is_still {
            self.still.insert(at.clone(), (uid.clone(), report.done, now));
        }
        let speaks = self.silent.remove(&at).is_some();
        let told = (uid, report);
        self.reports.insert(at, told.clone()) != Some(told) || speaks
    }

    /// Since when a worker pod has counted no more bytes; nothing, where it has not said any.
    pub fn still_since(&self, pod: &Pod) -> Option<Timestamp> {
        let at = (pod.meta.namespace.clone()?, pod.meta.name.clone()?);
        self.still.get(&at).filter(|(of, ..)| Some(of) == pod.meta.uid.as_ref()).map(|(.., since)| *since)
    }

    /// When a pod was first seen to be over.
    pub fn over_since(&self, pod: &Pod) -> Option<Timestamp> {
        let at = (pod.meta.namespace.clone()?, pod.meta.name.clone()?);
        self.over.get(&at).filter(|(of, _)| Some(of) == pod.meta.uid.as_ref()).map(|(_, since)| *since)
    }

    /// How a VMI ended, as its launcher left it.
    pub fn ending(&self, vmi: &VirtualMachineInstance) -> Option<&Ending> {
        let at = (vmi.metadata.namespace.clone()?, vmi.metadata.name.clone()?);
        let found = self.endings.get(&at).filter(|(of, _)| Some(of) == vmi.metadata.uid.as_ref());
        found.map(|(_, ending)| ending)
    }

    /// The launcher pod that may run the guest of a VMI; a stranger's that is called so is none.
    pub fn active_pod(&self, vmi: &VirtualMachineInstance) -> Option<&Pod> {
        let wanted = LauncherPods::of(vmi)?;
        wanted.active(self.launcher_pods(&wanted), |pod| &pod.meta)
    }

    /// The launcher pods that there are of these.
    pub fn launcher_pods(&self, wanted: &LauncherPods) -> Vec<&Pod> {
        let pods = wanted.keys().filter_map(|key| self.pods.get(&key.namespace, &key.name));
        pods.filter(|pod| wanted.has(&pod.meta)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn vmi(version: &str, node: Option<&str>, claim: &str) -> Value {
        json!({
            "metadata": {
                "namespace": "n", "name": "web", "uid": "1", "resourceVersion": version,
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "A", "name": "a", "uid": "o", "controller": true}],
            },
            "spec": {
                "domain": {"devices": {}},
                "volumes": [{"name": "root", "persistentVolumeClaim": {"claimName": claim}}],
            },
            "status": {"phase": node.map_or("Pending", |_| "Running"), "nodeName": node},
        })
    }

    fn marked(world: &World, mark: &Mark) -> Vec<Key> {
        world.marked(mark).cloned().collect()
    }

    #[test]
    fn objects_are_found_by_the_marks_they_have_now() {
        let mut world = World::default();
        let key = Key::new(Kind::VirtualMachineInstance, "n", "web");
        let claim = |name: &str| Mark::PersistentVolumeClaim("n".into(), name.into());
        let pod = Mark::LauncherPod(
            "n".into(),
            crate::objects::names::pod("web", "1", crate::objects::names::FIRST),
        );
        assert!(world.put(Kind::VirtualMachineInstance, vmi("5", None, "a"), NOW));
        for mark in [Mark::Owner("o".into()), claim("a"), pod.clone(), Mark::Waiting] {
            assert_eq!(marked(&world, &mark), std::slice::from_ref(&key), "{mark:?}");
        }
        assert_eq!(world.vmis_of("n", "o").count(), 1);
        assert_eq!(world.vmis_of("m", "o").count(), 0, "whoever says so in another namespace");
        assert_eq!(marked(&world, &Mark::PersistentVolumeClaim("m".into(), "a".into())), []);
        assert!(world.put(Kind::VirtualMachineInstance, vmi("6", Some("node1"), "b"), NOW));
        assert!(!world.put(Kind::VirtualMachineInstance, vmi("4", None, "a"), NOW), "it is older");
        for mark in [claim("a"), Mark::Waiting] {
            assert_eq!(marked(&world, &mark), [], "{mark:?}");
        }
        for mark in [claim("b"), Mark::Node("node1".into())] {
            assert_eq!(marked(&world, &mark), std::slice::from_ref(&key), "{mark:?}");
        }
        assert!(world.remove(&key) && !world.remove(&key));
        assert!(world.marks.is_empty(), "{:?}", world.marks);
    }

    /// A pod is the business of its owner, whatever the owner is; only VMIs have launcher pods.
    #[test]
    fn a_pod_that_another_kind_owns_touches_no_vmi() {
        let mut world = World::default();
        world.put(Kind::VirtualMachineInstance, vmi("5", None, "a"), NOW);
        let name = crate::objects::names::pod("web", "1", crate::objects::names::FIRST);
        let pod =
            |owner: Value| json!({"metadata": {"namespace": "n", "name": name, "ownerReferences": owner}});
        let owner = |kind: &str| json!([{"apiVersion": "v1", "kind": kind, "name": "web", "uid": "1", "controller": true}]);
        let key = Key::new(Kind::Pod, "n", &name);
        for (owner, touches) in
            [(owner("VirtualMachineInstance"), true), (json!([]), true), (owner("DataVolume"), false)]
        {
            world.remove(&key);
            world.put(Kind::Pod, pod(owner.clone()), NOW);
            assert_eq!(!world.touched(&key).is_empty(), touches, "{owner}");
        }
    }
}
