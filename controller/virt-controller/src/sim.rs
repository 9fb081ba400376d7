//! A small API server in memory, for tests: versions, uids, generations, finalizers, garbage collection, watches; and what
//! the scheduler, the kubelet and virt-handler would write.
//!
//! ```text
//!  stories    Sim alone: decided on a picture that is always right, round by round; the test plays the others
//!  histories  controller  a virt-controller: the loop's own ControlLoop, with a picture of its own and plans on their way
//!             others      scheduler, kubelet, collector, virt-handler: each takes its next step, by what there is
//!             event       what people want and what happens, and what goes wrong meanwhile
//!             migration   a live migration, as its launchers and both virt-handlers do it
//!             history     one after the other, in ticks
//!             shape       how two ends are compared
//! ```
//!
//! Plans are carried out by `apply::carry_out`, as in the program; what is played is the server behind it (`door`). Each
//! write is judged ([`Sim::check_write`]): what must never be so, is so in no test. Webhooks are not asked: objects are written as
//! those would have made them.

// A `json!` reads better where it is handed over than behind a `&`.
#![allow(clippy::needless_pass_by_value)]

pub(crate) mod controller;
pub(crate) mod door;
pub(crate) mod event;
pub(crate) mod history;
pub(crate) mod migration;
mod objects;
pub(crate) mod others;
pub(crate) mod shape;

pub(crate) use objects::{
    blank, data_volume, data_volume_spec, kubevirt, replica_set, storage, vm, vm_with_disk, vmi,
};

use api::launcher::Ending;
use api::vmi::Phase;
use cluster_client::watch::WatchMessage;
use cluster_model::objects::rights::Right;
use cluster_model::objects::{ClusterFacts, Key, Kind, LAUNCHER, MIGRATION_JOB, World};
use cluster_model::plan::{Plan, merge};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Pending messages of a watcher, by kind and in order.
pub(crate) type News = BTreeMap<Kind, VecDeque<WatchMessage>>;

pub(crate) struct Sim {
    /// The picture that is always right.
    pub(crate) world: World,
    pub(crate) objects: BTreeMap<Key, Value>,
    /// Reasons and messages of all events.
    pub(crate) told: Vec<(String, String)>,
    /// Reasons of those that are warnings.
    pub(crate) warnings: Vec<String>,
    /// Requests of controllers that changed something.
    pub(crate) writes: usize,
    pub(crate) now: Timestamp,
    /// Rights that all steps needed.
    pub(crate) used: BTreeSet<Right>,
    pub(crate) watchers: BTreeMap<usize, News>,
    pub(crate) wire: door::Wire,
    /// The last version of an object.
    pub(crate) version: u64,
    /// The digest that the tag of a DataImportCron leads to, by its number; 0 while its registry is away.
    pub(crate) tag: u8,
    /// VMIs that there ever were.
    pub(crate) lives: usize,
    /// The garbage collector takes a step of its own for each object.
    pub(crate) slow_collector: bool,
}

impl Sim {
    /// A cluster whose settings are what they are at first. (They are in the picture alone: stories count objects.)
    pub(crate) fn new() -> Sim {
        let mut sim = Sim::empty();
        sim.world.put(Kind::KubeVirt, kubevirt(json!({})), sim.now);
        sim
    }

    /// Empty cluster without a KubeVirt object.
    pub(crate) fn empty() -> Sim {
        let facts = ClusterFacts {
            namespace: "kubevirt".into(),
            launcher_image: "registry.example/virt-launcher:1".into(),
            worker_image: "registry.example/cdi-worker:1".into(),
            version: "1.0.0".into(),
            image_volumes: true,
        };
        Sim {
            world: World::new(facts),
            objects: BTreeMap::new(),
            told: Vec::new(),
            warnings: Vec::new(),
            writes: 0,
            now: Timestamp::from_second(1_800_000_000).unwrap(),
            used: BTreeSet::new(),
            watchers: BTreeMap::new(),
            wire: door::Wire::default(),
            version: 100,
            tag: 0,
            lives: 0,
            slow_collector: false,
        }
    }

    // ── The server ──────────────────────────────────────────────────────────────────────────────────────────────

    /// Makes an object, or makes it another. What changes nothing is not written.
    pub(crate) fn put(&mut self, kind: Kind, mut object: Value) -> Key {
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        let key = Key { kind, namespace: text("namespace"), name: text("name") };
        let old = self.objects.get(&key);
        let next = self.version + 1;
        match old {
            Some(old) => {
                for name in ["uid", "creationTimestamp", "generation", "resourceVersion"] {
                    object["metadata"][name] = old["metadata"][name].clone();
                }
                if *old == object {
                    return key;
                }
                if is_another(kind, old, &object) {
                    let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
                    object["metadata"]["generation"] = json!(generation + 1);
                }
            }
            None => {
                object["metadata"]["uid"] = json!(format!("uid-{next}"));
                object["metadata"]["creationTimestamp"] = json!(self.now.to_string());
                object["metadata"]["generation"] = json!(1);
                self.lives += usize::from(kind == Kind::VirtualMachineInstance);
            }
        }
        object["metadata"]["resourceVersion"] = json!(next.to_string());
        self.check_write(&key, &object);
        self.version = next;
        self.world.put(kind, object.clone(), self.now);
        self.tell(WatchMessage::Changed(kind, object.clone()));
        self.objects.insert(key.clone(), object);
        self.collect(&key);
        key
    }

    /// Checks that a write is permitted.
    fn check_write(&self, key: &Key, new: &Value) {
        let old = self.objects.get(key);
        if let (Kind::VirtualMachineInstance, Some(old)) = (key.kind, old) {
            let phase = |object: &Value| Phase::from(object["status"]["phase"].as_str().unwrap_or_default());
            let (was, is) = (phase(old), phase(new));
            assert!(was == is || was.may_become(&is), "{key}: {was} becomes {is}");
            // Stories forge it.
            let is_history = self.slow_collector;
            let (from, to) = (&old["status"]["nodeName"], &new["status"]["nodeName"]);
            let state = &new["status"]["migrationState"];
            let has_arrived =
                state["completed"] == true && state["failed"] != true && state["targetNode"] == *to;
            assert!(
                !is_history || from.is_null() || from == to || has_arrived,
                "{key} goes from {from} to {to} by {state}"
            );
        }
        if let (Kind::VirtualMachineInstanceMigration, Some(old)) = (key.kind, old) {
            let (was, is) = (&old["status"]["phase"], &new["status"]["phase"]);
            assert!(was == is || was != "Succeeded" && was != "Failed", "{key}: {was} becomes {is}");
            let reason = &new["status"]["migrationState"]["failureReason"];
            assert!(is != "Failed" || reason.is_string(), "{key} fails without a reason: {new}");
        }
        if let (Kind::Pod, None) = (key.kind, old) {
            let owner = |pod: &Value| pod["metadata"]["ownerReferences"][0].clone();
            // A pod that was created after its VMI was gone is not handed to a node, and is deleted.
            let is_somebodys = |pod: &Value| {
                let key = Key::new(
                    Kind::VirtualMachineInstance,
                    &*key.namespace,
                    owner(pod)["name"].as_str().unwrap_or_default(),
                );
                self.objects.get(&key).is_some_and(|vmi| vmi["metadata"]["uid"] == owner(pod)["uid"])
            };
            // The target of a migration is beside its source.
            let attempt = |pod: &Value| pod["metadata"]["labels"][MIGRATION_JOB].clone();
            let lives = |other: &Value| {
                !is_over(other)
                    && is_somebodys(other)
                    && owner(other)["name"] == owner(new)["name"]
                    && attempt(other) == attempt(new)
            };
            let other = self.objects.iter().find(|(other, pod)| {
                other.kind == Kind::Pod && other.namespace == key.namespace && lives(pod)
            });
            assert!(other.is_none(), "{key}: a second pod beside {other:?}");
            if new["metadata"]["labels"][LAUNCHER.0] == LAUNCHER.1 {
                self.judge_disks(key, new);
            }
        }
    }

    /// Checks that no PVC of a launcher pod belongs to a DataVolume that is gone: the garbage collector deletes it.
    fn judge_disks(&self, key: &Key, pod: &Value) {
        let is_there =
            |owner: &Value| self.objects.values().any(|object| object["metadata"]["uid"] == owner["uid"]);
        let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
        for name in volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str()) {
            let claim = self.objects.get(&Key::new(Kind::PersistentVolumeClaim, &*key.namespace, name));
            let owners = claim.and_then(|claim| claim["metadata"]["ownerReferences"].as_array());
            let is_left = owners.is_some_and(|owners| !owners.is_empty() && !owners.iter().any(is_there));
            assert!(!is_left, "{key} mounts {claim:?}, whose owner is gone");
        }
    }

    #[track_caller]
    pub(crate) fn get(&self, key: &Key) -> &Value {
        match self.objects.get(key) {
            Some(object) => object,
            None => panic!("{key} is not there"),
        }
    }

    pub(crate) fn uid(&self, key: &Key) -> String {
        self.get(key)["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    pub(crate) fn phase(&self, key: &Key) -> &str {
        self.get(key)["status"]["phase"].as_str().unwrap_or_default()
    }

    /// The keys of a kind.
    pub(crate) fn keys(&self, kind: Kind) -> Vec<Key> {
        self.objects.keys().filter(|key| key.kind == kind).cloned().collect()
    }

    #[track_caller]
    pub(crate) fn change(&mut self, key: &Key, change: Value) {
        let mut object = self.get(key).clone();
        merge(&mut object, &change);
        self.put(key.kind, object);
    }

    pub(crate) fn delete(&mut self, key: &Key) {
        let Some(mut object) = self.objects.get(key).cloned() else { return };
        if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = json!(self.now.to_string());
            // A pod that runs is gone when its kubelet says so.
            if key.kind == Kind::Pod && !object["spec"]["nodeName"].is_null() && !is_over(&object) {
                object["metadata"]["finalizers"] = json!(["kubelet"]);
            }
            self.put(key.kind, object);
        }
    }

    /// Removes a deleted object without finalizers, and the objects that it owns.
    fn collect(&mut self, key: &Key) {
        let Some(object) = self.objects.get(key) else { return };
        let held = object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        if !is_going(object) || held {
            return;
        }
        self.vanish(key);
    }

    pub(crate) fn vanish(&mut self, key: &Key) {
        let Some(object) = self.objects.remove(key) else { return };
        // Only in a pod that was handed over there is a guest.
        let has_guest = |pod: &Value| {
            let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
            !is_over(pod) && !object["status"]["activePods"][uid].is_null()
        };
        let left = self.objects.iter().find(|(other, pod)| other.kind == Kind::Pod && has_guest(pod));
        assert!(key.kind != Kind::VirtualMachineInstance || left.is_none(), "{key} is gone before {left:?}");
        self.version += 1;
        self.world.remove(key);
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        self.tell(WatchMessage::Gone(key.clone(), uid.to_owned()));
        if self.slow_collector {
            return;
        }
        let orphans = self.objects.iter().filter(|(_, other)| {
            other["metadata"]["ownerReferences"]
                .as_array()
                .is_some_and(|list| list.iter().any(|owner| owner["uid"] == uid))
        });
        for key in orphans.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.delete(&key);
        }
    }

    fn tell(&mut self, seen: WatchMessage) {
        let kind = match &seen {
            WatchMessage::Listed(kind, _) | WatchMessage::Changed(kind, _) => *kind,
            WatchMessage::Only(key, _) | WatchMessage::Gone(key, _) => key.kind,
        };
        for news in self.watchers.values_mut() {
            news.entry(kind).or_default().push_back(seen.clone());
        }
    }

    // ── The controller of stories ───────────────────────────────────────────────────────────────────────────────

    pub(crate) fn apply(&mut self, plan: Plan) {
        let shown = plan.clone();
        if let Some((_, error)) = door::carry_out(self, plan).failed {
            // A story may spoil the picture of what is not there; nothing else may go wrong.
            assert!(error.to_string().ends_with("the cache was outdated"), "{error}: {shown:?}");
        }
    }

    /// Decides on every object once. Returns the number of writes.
    pub(crate) fn round(&mut self) -> usize {
        let before = self.writes;
        for key in self.objects.keys().cloned().collect::<Vec<_>>() {
            let plan = super::decide(&self.world, &key, self.now);
            self.apply(plan);
        }
        self.writes - before
    }

    /// Decides until there is nothing to do.
    pub(crate) fn settle(&mut self) {
        for _ in 0..30 {
            if self.round() == 0 {
                return;
            }
        }
        panic!(
            "it never settles: {:#?}",
            self.objects.keys().map(|key| super::decide(&self.world, key, self.now)).collect::<Vec<_>>()
        );
    }

    pub(crate) fn advance(&mut self, seconds: i64) {
        self.now = self.now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
    }

    // ── The others, step by step ────────────────────────────────────────────────────────────────────────────────

    pub(crate) fn pod_of(&self, vmi: &Key) -> Option<Key> {
        let uid = self.get(vmi)["metadata"]["uid"].as_str().unwrap();
        let key = Key::new(
            Kind::Pod,
            &vmi.namespace,
            cluster_model::objects::names::pod(
                &vmi.name,
                uid,
                cluster_model::objects::LauncherAttempt::Start,
            ),
        );
        self.objects.contains_key(&key).then_some(key)
    }

    /// The kubelet: the launcher runs.
    pub(crate) fn pod_runs(&mut self, pod: &Key, node: &str) {
        self.change(
            pod,
            json!({"spec": {"nodeName": node}, "status": {
                "phase": "Running", "qosClass": "Burstable",
                "containerStatuses": [{"name": "compute", "ready": true, "state": {"running": {}}}],
            }}),
        );
        for kind in ["PodScheduled", "Ready"] {
            self.pod_says(pod, json!({"type": kind, "status": "True"}));
        }
    }

    /// The provisioner: a PVC has its volume.
    pub(crate) fn bind(&mut self, claim: &Key) {
        self.change(claim, json!({"status": {"phase": "Bound"}}));
    }

    /// A condition of a pod.
    pub(crate) fn pod_says(&mut self, pod: &Key, condition: Value) {
        let mut object = self.get(pod).clone();
        pod_condition(&mut object, condition);
        self.put(Kind::Pod, object);
    }

    /// The kubelet: the launcher has ended.
    pub(crate) fn pod_ends(&mut self, pod: &Key, phase: &str, code: i64) {
        self.launcher_ends(pod, phase, code, None);
    }

    /// The same, with the ending that the launcher left.
    pub(crate) fn launcher_ends(&mut self, pod: &Key, phase: &str, code: i64, ending: Option<Ending>) {
        let message = ending.map(|ending| ending.termination());
        let ended = json!({
            "exitCode": code, "reason": "Error", "finishedAt": self.now.to_string(), "message": message,
        });
        self.change(
            pod,
            json!({"status": {
                "phase": phase,
                "containerStatuses": [{"name": "compute", "ready": false, "state": {"terminated": ended}}],
            }}),
        );
        if is_going(self.get(pod)) {
            self.vanish(pod);
        }
    }

    /// virt-handler: the phase is another.
    #[track_caller]
    pub(crate) fn agent_says(&mut self, vmi: &Key, phase: &str) {
        let mut times =
            self.get(vmi)["status"]["phaseTransitionTimestamps"].as_array().cloned().unwrap_or_default();
        times.push(json!({"phase": phase, "phaseTransitionTimestamp": self.now.to_string()}));
        self.change(vmi, json!({"status": {"phase": phase, "phaseTransitionTimestamps": times}}));
    }

    /// From a VMI without a pod to one that runs.
    pub(crate) fn boot(&mut self, vmi: &Key) {
        self.settle();
        let pod = self.pod_of(vmi).expect("a pod");
        self.pod_runs(&pod, "node1");
        self.settle();
        self.agent_says(vmi, "Running");
        self.settle();
    }

    /// A condition of an object: status, reason, message.
    pub(crate) fn condition(&self, key: &Key, kind: &str) -> Option<(String, String, String)> {
        let list = self.get(key)["status"]["conditions"].as_array()?.clone();
        let found = list.into_iter().find(|condition| condition["type"] == kind)?;
        let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        Some((text("status"), text("reason"), text("message")))
    }

    pub(crate) fn reasons(&self) -> Vec<String> {
        self.told.iter().map(|(reason, _)| reason.clone()).collect()
    }
}

/// True if the generation changes: with the spec, and for a kind without a status subresource with the status
/// too.
fn is_another(kind: Kind, old: &Value, new: &Value) -> bool {
    old["spec"] != new["spec"] || has_one_path(kind) && old["status"] != new["status"]
}

/// The status of a kind has no path of its own, by the definition of the kind.
fn has_one_path(kind: Kind) -> bool {
    let mut ours = api::crd::KINDS.iter().filter(|one| one.kind == kind.name());
    ours.any(|one| one.subresources == api::crd::Subresources::None)
}

/// An object is being deleted.
pub(crate) fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// None of the containers of a pod runs again.
pub(crate) fn is_over(pod: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap_or_default())
}

pub(crate) fn pod_condition(pod: &mut Value, new: Value) {
    let mut list = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    match list.iter_mut().find(|old| old["type"] == new["type"]) {
        Some(old) => *old = new,
        None => list.push(new),
    }
    pod["status"]["conditions"] = json!(list);
}
