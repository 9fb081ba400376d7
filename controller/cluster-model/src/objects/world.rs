//! Cache of the cluster: one snapshot, updated by watches and by the responses to our own writes.
//!
//! ```text
//!  watch ──── put, remove ───► World ◄──── put ──── carry out (the server's response: we read our own writes)
//!                                │
//!                                └── virt_controller::decide reads it, and changes nothing
//! ```
//!
//! An object older than the cached one is not put. Pods, PVCs and nodes are kept in part: only the fields
//! that decisions read, since a cluster has many that are not ours. Objects reference each other by marks
//! ([`IndexKey`]).

use super::index::Index;
use super::store::is_older;
use super::{
    Component, IndexKey, Key, Kind, LauncherPods, METADATA_ALONE, Namespace, Node, PersistentVolume,
    PersistentVolumeClaim, Pod, ResourceQuota, Revision, Secret, StorageClass, Store, owner,
};
use crate::disk_settings::DiskSettings;
use crate::kubevirt_config::Config;
use crate::polls::PollRecord;
use api::cdi::{
    CONFIG, DataImportCron, DataSource, StorageProfile, VolumeCloneSource, VolumeImportSource,
    VolumeUploadSource,
};
use api::data_volume::DataVolume;
use api::instancetype::{
    VirtualMachineClusterInstancetype, VirtualMachineClusterPreference, VirtualMachineInstancetype,
    VirtualMachinePreference,
};
use api::job::Report;
use api::launcher::Ending;
use api::machine::Settings;
use api::meta::ObjectMeta;
use api::migration::VirtualMachineInstanceMigration;
use api::migration_policy::MigrationPolicy;
use api::preset::VirtualMachineInstancePreset;
use api::vm::VirtualMachine;
use api::vmi::VirtualMachineInstance;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Cache of the cluster.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub vms: Store<VirtualMachine>,
    pub vmis: Store<VirtualMachineInstance>,
    pub migrations: Store<VirtualMachineInstanceMigration>,
    pub migration_policies: Store<MigrationPolicy>,
    /// Whole objects; there are few.
    pub replica_sets: Store<Plain>,
    /// Whole objects; there are few.
    pub pools: Store<Plain>,
    pub presets: Store<VirtualMachineInstancePreset>,
    pub instancetypes: Store<VirtualMachineInstancetype>,
    pub cluster_instancetypes: Store<VirtualMachineClusterInstancetype>,
    pub preferences: Store<VirtualMachinePreference>,
    pub cluster_preferences: Store<VirtualMachineClusterPreference>,
    /// Copies of instance types and preferences, as VMs first used them.
    pub revisions: Store<Revision>,
    /// Whole objects; there is one.
    pub kubevirts: Store<Plain>,
    pub data_volumes: Store<DataVolume>,
    /// Whole objects; one is effective.
    pub cdis: Store<Plain>,
    /// Whole objects; there is one.
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
    /// Deployments in the namespace of the installation.
    pub deployments: Store<Component>,
    pub daemon_sets: Store<Component>,
    /// Secrets of the installation, with certificates.
    pub secrets: Store<Secret>,
    /// ConfigMaps of the installation, with CA bundles.
    pub config_maps: Store<Plain>,
    /// Webhook configurations of the installation.
    pub mutating_webhooks: Store<Plain>,
    pub validating_webhooks: Store<Plain>,
    /// APIServices of the installation, which route requests for subresources to virt-api.
    pub api_services: Store<Plain>,
    /// The kubelet's last warning, by namespace and name of a launcher pod. Some facts (a secret that is
    /// missing, a volume that cannot be mounted) are reported in events only.
    pub warnings: BTreeMap<(String, String), Warning>,
    /// The last report of each running worker pod, by namespace and name: its uid and the report.
    pub reports: BTreeMap<(String, String), (String, Report)>,
    /// Result of the last poll for each DataImportCron, by namespace and name: its uid and the result.
    pub polls: BTreeMap<(String, String), (String, PollRecord)>,
    /// Worker pods that stopped reporting, by the pod: its uid, and the start of the silence.
    pub silent: BTreeMap<(String, String), (String, Timestamp)>,
    /// Time since which the byte count of a worker pod has not changed, by the pod: its uid, the bytes, and
    /// the time.
    pub still: BTreeMap<(String, String), (String, u64, Timestamp)>,
    /// Time at which ended pods were first seen to be over, by our clock; by the pod: its uid, and the time.
    pub over: BTreeMap<(String, String), (String, Timestamp)>,
    /// Endings of VMIs, as their launchers left them to the kubelet, by namespace and name, and by the uid of the
    /// pod. An entry stays until the VMI is deleted, even if the pod is gone.
    pub endings: BTreeMap<(String, String), BTreeMap<String, Ending>>,
    /// The last heartbeat of each node's virt-handler, and the time at which it was first seen.
    pub heard: BTreeMap<String, (String, Timestamp)>,
    /// Time since the start of the program, by a clock that does not jump.
    pub uptime: Duration,
    /// Uptime at which VMs of pools were first seen to fail to start, by namespace and name: the uid, and the
    /// uptime.
    pub failing: BTreeMap<(String, String), (String, Duration)>,
    /// The last failure for an object, until the operation succeeds.
    pub failures: BTreeMap<Key, Failure>,
    /// Objects whose present state is known as metadata only ([`METADATA_ALONE`]). The kept part is of an
    /// earlier version, or, for an object that is being deleted or was never read whole, just the metadata.
    /// Only their deletion can be decided.
    pub in_part: BTreeSet<Key>,
    /// Objects for which a plan is being carried out: its result is not known yet.
    pub busy: BTreeSet<Key>,
    /// Facts about the cluster other than its objects.
    pub facts: ClusterFacts,
    settings: InstallationSettings,
    disk_settings: DiskSettings,
    pub(super) marks: Index,
}

/// Settings in the KubeVirt object of the installation, parsed when it changes.
#[derive(Clone, Debug, Default)]
struct InstallationSettings {
    config: Config,
    permitted: Option<Settings>,
}

/// A whole object, as untyped JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plain {
    pub meta: ObjectMeta,
    pub object: Value,
}

/// A warning of a kubelet about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// UID of the pod.
    pub pod: String,
    /// CamelCase reason of the event.
    pub reason: String,
    /// Text of the event, for users.
    pub message: String,
}

/// An attempted operation, with the kind of the object that it was tried on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Creating or changing it.
    Make(Kind),
    Delete(Kind),
    /// Choosing an object of a pool or a replica set for deletion, taking the choice back, or letting the object go.
    ScaleIn,
}

/// A failed operation for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub about: Attempt,
    /// Text of the error that the operation failed with.
    pub message: String,
    /// Number of failures in a row.
    pub times: u32,
    /// Time before which it is not retried.
    pub retry: Timestamp,
}

/// Facts about the cluster other than its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    /// Namespace of the installation.
    pub namespace: String,
    /// Image of the launcher.
    pub launcher_image: String,
    /// Image of the workers that move disks.
    pub worker_image: String,
    /// Version of the installation.
    pub version: String,
    /// The API server supports image volumes in pods.
    pub image_volumes: bool,
}

impl World {
    /// An empty World with these facts.
    pub fn new(facts: ClusterFacts) -> World {
        World { facts, ..World::default() }
    }

    /// Puts an object as it is at a time, unless there is a newer one. Returns true if that changed the
    /// World.
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
        let marks = (place.of)(self).index_keys(&key.namespace, &key.name);
        self.marks.set(&key, marks);
        (about.put)(self, &key, now);
        true
    }

    /// Removes an object. Returns true if it was there.
    pub fn remove(&mut self, key: &Key) -> bool {
        let about = key.kind.about();
        let Some(place) = about.kept else { return false };
        let was_there = (place.of_mut)(self).remove(&key.namespace, &key.name);
        self.in_part.remove(key);
        self.marks.set(key, Vec::new());
        (about.removed)(self, key);
        was_there
    }

    /// Settings of the cluster; the defaults without a KubeVirt object.
    pub fn config(&self) -> &Config {
        &self.settings.config
    }

    /// Permissions for VMIs. `None` without a KubeVirt object: the permissions are then unknown, and no launcher
    /// pod is created.
    pub fn permissions(&self) -> Option<&Settings> {
        self.settings.permitted.as_ref()
    }

    /// Parses the settings, after a KubeVirt object was put or removed. One in another namespace than the
    /// installation is ignored.
    pub(super) fn read_settings(&mut self) {
        let object = self.kubevirts.in_namespace(&self.facts.namespace).next().map(|object| &object.object);
        self.settings = InstallationSettings {
            config: Config::from_kubevirt(object),
            permitted: object.map(Settings::of_cluster),
        };
    }

    /// Settings for imports, uploads, clones and their worker pods; the defaults without a CDI object.
    pub fn disk_settings(&self) -> &DiskSettings {
        &self.disk_settings
    }

    /// Parses the settings, after a CDI object or a CDIConfig was put or removed.
    pub(super) fn read_disk_settings(&mut self) {
        let cdi = self.installed_cdi().map(|object| &object.object["spec"]);
        let config = self.cdi_configs.get("", CONFIG).and_then(|object| object.object.get("spec"));
        self.disk_settings = DiskSettings::read(cdi, config);
    }

    /// The effective CDI object: the oldest one that is not being deleted.
    pub fn installed_cdi(&self) -> Option<&Plain> {
        let stays = self.cdis.all().filter(|object| object.meta.deletion_timestamp.is_none());
        stays.min_by_key(|object| (object.meta.creation_timestamp.clone(), object.meta.name.clone()))
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

    /// True if nothing can be decided on the object: its spec is unknown, and it is not being deleted.
    pub fn is_unread(&self, key: &Key) -> bool {
        let stays = |key: &Key| self.meta(key).is_some_and(|meta| meta.deletion_timestamp.is_none());
        self.in_part.contains(key) && stays(key)
    }

    /// True if a DataVolume that is gone owns the PVC. The garbage collector deletes such a PVC at any moment.
    pub fn is_left_over(&self, claim: &PersistentVolumeClaim) -> bool {
        let namespace = claim.meta.namespace.as_deref().unwrap_or_default();
        let owner = owner::controller(&claim.meta).filter(|owner| owner.kind == Kind::DataVolume.name());
        owner.is_some_and(|owner| {
            self.uid(&Key::new(Kind::DataVolume, namespace, &owner.name)).as_ref() != Some(&owner.uid)
        })
    }

    /// The keys of the objects whose decision depends on an object.
    pub fn dependents(&self, key: &Key) -> Vec<Key> {
        (key.kind.about().touches)(self, key)
    }

    /// The objects that have a mark.
    pub fn indexed_by<'a>(&'a self, mark: &IndexKey) -> impl Iterator<Item = &'a Key> + use<'a> {
        self.marks.get(mark)
    }

    /// The VMIs of a namespace whose controlling owner has this uid. A VMI of another namespace may name the
    /// same owner; it is left out, so that its author has no influence on the owner's own VMIs.
    pub fn vmis_of(&self, namespace: &str, owner: &str) -> impl Iterator<Item = &VirtualMachineInstance> {
        self.indexed_by(&IndexKey::Owner(owner.to_owned()))
            .filter(move |key| key.kind == Kind::VirtualMachineInstance && key.namespace == namespace)
            .filter_map(|key| self.vmis.get(&key.namespace, &key.name))
    }

    /// The VMs of a namespace whose controlling owner has this uid, as above.
    pub fn vms_of(&self, namespace: &str, owner: &str) -> impl Iterator<Item = &VirtualMachine> {
        self.indexed_by(&IndexKey::Owner(owner.to_owned()))
            .filter(move |key| key.kind == Kind::VirtualMachine && key.namespace == namespace)
            .filter_map(|key| self.vms.get(&key.namespace, &key.name))
    }

    /// The last warning of a kubelet about a pod.
    pub fn warning(&self, pod: &Pod) -> Option<&Warning> {
        let at = (pod.meta.namespace.clone()?, pod.meta.name.clone()?);
        self.warnings.get(&at).filter(|warning| Some(warning.pod.as_str()) == pod.meta.uid.as_deref())
    }

    /// Start of a worker pod's silence; `None` while it reports.
    pub fn silent_since(&self, pod: &Pod) -> Option<Timestamp> {
        let at = (pod.meta.namespace.clone()?, pod.meta.name.clone()?);
        self.silent.get(&at).filter(|(of, _)| Some(of) == pod.meta.uid.as_ref()).map(|(_, since)| *since)
    }

    /// Stores the report of the worker pod of this namespace, name and uid. Returns true if it is new.
    pub fn store_report(
        &mut self,
        at: (String, String),
        uid: String,
        report: Report,
        now: Timestamp,
    ) -> bool {
        let is_still = self.still.get(&at).is_some_and(|(of, done, _)| *of == uid && *done == report.done);
        if !is_still {
            self.still.insert(at.clone(), (uid.clone(), report.done, now));
        }
        let speaks = self.silent.remove(&at).is_some();
        let told = (uid, report);
        self.reports.insert(at, told.clone()) != Some(told) || speaks
    }

    /// Time since which a worker pod's byte count has not changed; `None` before its first report.
    pub fn still_since(&self, pod: &Pod) -> Option<Timestamp> {
        let at = (pod.meta.namespace.clone()?, pod.meta.name.clone()?);
        self.still.get(&at).filter(|(of, ..)| Some(of) == pod.meta.uid.as_ref()).map(|(.., since)| *since)
    }

    /// Time at which a pod was first seen to be over.
    pub fn over_since(&self, pod: &Pod) -> Option<Timestamp> {
        let at = (pod.meta.namespace.clone()?, pod.meta.name.clone()?);
        self.over.get(&at).filter(|(of, _)| Some(of) == pod.meta.uid.as_ref()).map(|(_, since)| *since)
    }

    /// Sets times that this process has recorded, and that are in the future since the clock was set back, to the present. What is
    /// waited for from such a time on would last longer by as much.
    pub fn clock_set_back(&mut self, now: Timestamp) {
        let seen = self.over.values_mut().chain(self.silent.values_mut()).map(|(_, since)| since);
        let still = self.still.values_mut().map(|(.., since)| since);
        let heard = self.heard.values_mut().map(|(_, since)| since);
        let polls = self.polls.values_mut().map(|(_, polled)| &mut polled.at);
        let failures = self.failures.values_mut().map(|failure| &mut failure.retry);
        for time in seen.chain(still).chain(heard).chain(polls).chain(failures) {
            *time = now.min(*time);
        }
    }

    /// The ending of a VMI, as the launcher of its guest left it.
    pub fn ending(&self, vmi: &VirtualMachineInstance) -> Option<&Ending> {
        let at = (vmi.metadata.namespace.clone()?, vmi.metadata.name.clone()?);
        let pods = LauncherPods::for_vmi(vmi)?;
        self.endings.get(&at)?.iter().find(|(pod, _)| pods.is_guests(pod)).map(|(_, ending)| ending)
    }

    /// The launcher pod that may run the guest. A pod of the same name without our owner reference is
    /// ignored.
    pub fn active_pod(&self, vmi: &VirtualMachineInstance) -> Option<&Pod> {
        let wanted = LauncherPods::for_vmi(vmi)?;
        wanted.active(self.launcher_pods(&wanted), |pod| &pod.meta)
    }

    /// The existing pods among these launcher pods.
    pub fn launcher_pods(&self, wanted: &LauncherPods) -> Vec<&Pod> {
        let pods = wanted.keys().filter_map(|key| self.pods.get(&key.namespace, &key.name));
        pods.filter(|pod| wanted.contains(&pod.meta)).collect()
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

    fn marked(world: &World, mark: &IndexKey) -> Vec<Key> {
        world.indexed_by(mark).cloned().collect()
    }

    #[test]
    fn objects_are_found_by_the_marks_they_have_now() {
        let mut world = World::default();
        let key = Key::new(Kind::VirtualMachineInstance, "n", "web");
        let claim = |name: &str| IndexKey::PersistentVolumeClaim("n".into(), name.into());
        let pod = IndexKey::LauncherPod(
            "n".into(),
            crate::objects::names::pod("web", "1", crate::objects::LauncherAttempt::Start),
        );
        assert!(world.put(Kind::VirtualMachineInstance, vmi("5", None, "a"), NOW));
        for mark in [IndexKey::Owner("o".into()), claim("a"), pod.clone(), IndexKey::Waiting] {
            assert_eq!(marked(&world, &mark), std::slice::from_ref(&key), "{mark:?}");
        }
        assert_eq!(world.vmis_of("n", "o").count(), 1);
        assert_eq!(world.vmis_of("m", "o").count(), 0, "whoever says so in another namespace");
        assert_eq!(marked(&world, &IndexKey::PersistentVolumeClaim("m".into(), "a".into())), []);
        assert!(world.put(Kind::VirtualMachineInstance, vmi("6", Some("node1"), "b"), NOW));
        assert!(!world.put(Kind::VirtualMachineInstance, vmi("4", None, "a"), NOW), "it is older");
        for mark in [claim("a"), IndexKey::Waiting] {
            assert_eq!(marked(&world, &mark), [], "{mark:?}");
        }
        for mark in [claim("b"), IndexKey::Node("node1".into())] {
            assert_eq!(marked(&world, &mark), std::slice::from_ref(&key), "{mark:?}");
        }
        assert!(world.remove(&key) && !world.remove(&key));
        assert!(world.marks.is_empty(), "{:?}", world.marks);
    }

    /// Decisions read the settings of one object many times.
    #[test]
    fn the_settings_are_parsed_once_for_each_change_of_the_kubevirt_object() {
        use crate::kubevirt_config::PARSED;
        let count = || PARSED.with(std::cell::Cell::get);
        let mut world = World::new(ClusterFacts { namespace: "home".into(), ..ClusterFacts::default() });
        assert_eq!((world.config(), world.permissions()), (&Config::default(), None));
        let settings = |namespace: &str, version: &str, ratio: u64| {
            json!({
                "metadata": {"namespace": namespace, "name": "kubevirt", "resourceVersion": version},
                "spec": {"configuration": {"developerConfiguration": {"cpuAllocationRatio": ratio}}},
            })
        };
        let before = count();
        world.put(Kind::KubeVirt, settings("home", "5", 3), NOW);
        world.put(Kind::KubeVirt, settings("home", "5", 3), NOW);
        world.put(Kind::KubeVirt, settings("home", "4", 8), NOW);
        world.put(Kind::VirtualMachineInstance, vmi("5", None, "a"), NOW);
        for _ in 0..100 {
            assert_eq!((world.config().cpu_allocation_ratio, world.permissions().is_some()), (3, true));
        }
        assert_eq!(count() - before, 1);
        world.put(Kind::KubeVirt, settings("home", "6", 4), NOW);
        world.put(Kind::KubeVirt, settings("away", "7", 9), NOW);
        assert_eq!((world.config().cpu_allocation_ratio, count() - before), (4, 3));
        world.remove(&Key::new(Kind::KubeVirt, "home", "kubevirt"));
        assert_eq!((world.config(), world.permissions()), (&Config::default(), None));
    }

    /// A pod concerns its owner only, of whatever kind. Only VMIs have launcher pods.
    #[test]
    fn a_pod_that_another_kind_owns_touches_no_vmi() {
        let mut world = World::default();
        world.put(Kind::VirtualMachineInstance, vmi("5", None, "a"), NOW);
        let name = crate::objects::names::pod("web", "1", crate::objects::LauncherAttempt::Start);
        let pod =
            |owner: Value| json!({"metadata": {"namespace": "n", "name": name, "ownerReferences": owner}});
        let owner = |kind: &str| json!([{"apiVersion": "v1", "kind": kind, "name": "web", "uid": "1", "controller": true}]);
        let key = Key::new(Kind::Pod, "n", &name);
        for (owner, touches) in
            [(owner("VirtualMachineInstance"), true), (json!([]), true), (owner("DataVolume"), false)]
        {
            world.remove(&key);
            world.put(Kind::Pod, pod(owner.clone()), NOW);
            assert_eq!(!world.dependents(&key).is_empty(), touches, "{owner}");
        }
    }
}
