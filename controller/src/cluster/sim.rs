//! A small API server in memory, for tests: versions, uids, generations, finalizers, garbage collection; and what the
//! scheduler, the kubelet and the node agent would write.

// A `json!` reads better where it is handed over than behind a `&`.
#![allow(clippy::needless_pass_by_value)]

use crate::kind::{Key, Kind};
use crate::plan::{Note, Plan, Step, merge};
use crate::rights::Right;
use crate::world::{Facts, World};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct Sim {
    pub(crate) world: World,
    pub(crate) objects: BTreeMap<Key, Value>,
    pub(crate) notes: Vec<Note>,
    pub(crate) writes: usize,
    pub(crate) now: Timestamp,
    /// What it took to do all this.
    pub(crate) used: BTreeSet<Right>,
    counter: u64,
}

impl Sim {
    pub(crate) fn new() -> Sim {
        let facts = Facts {
            namespace: "kubevirt".into(),
            launcher_image: "registry.example/virt-launcher:1".into(),
            version: "1.0.0".into(),
            image_volumes: true,
        };
        Sim {
            world: World { facts, ..World::default() },
            objects: BTreeMap::new(),
            notes: Vec::new(),
            writes: 0,
            now: Timestamp::from_second(1_800_000_000).unwrap(),
            used: BTreeSet::new(),
            counter: 100,
        }
    }

    pub(crate) fn put(&mut self, kind: Kind, mut object: Value) -> Key {
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
        let key = Key { kind, namespace: text("namespace"), name: text("name") };
        let old = self.objects.get(&key);
        let meta = |name: &str| old.map(|old| old["metadata"][name].clone());
        self.counter += 1;
        object["metadata"]["resourceVersion"] = json!(self.counter.to_string());
        object["metadata"]["uid"] = meta("uid").unwrap_or_else(|| json!(format!("uid-{}", self.counter)));
        object["metadata"]["creationTimestamp"] =
            meta("creationTimestamp").unwrap_or_else(|| json!(self.now.to_string()));
        let generation = meta("generation").and_then(|value| value.as_i64()).unwrap_or(0);
        let changed = old.is_none_or(|old| old["spec"] != object["spec"]);
        object["metadata"]["generation"] = json!(generation + i64::from(changed));
        self.world.put(kind, object.clone());
        if kind == Kind::Node {
            self.world.hear(&key.name, self.now);
        }
        self.objects.insert(key.clone(), object);
        self.collect(&key);
        key
    }

    pub(crate) fn get(&self, key: &Key) -> &Value {
        self.objects.get(key).unwrap_or_else(|| panic!("{key} is not there"))
    }

    pub(crate) fn change(&mut self, key: &Key, change: Value) {
        let mut object = self.get(key).clone();
        merge(&mut object, &change);
        self.put(key.kind, object);
    }

    pub(crate) fn delete(&mut self, key: &Key) {
        let Some(mut object) = self.objects.get(key).cloned() else { return };
        if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = json!(self.now.to_string());
            // A pod is gone when its kubelet says so.
            if key.kind == Kind::Pod {
                object["metadata"]["finalizers"] = json!(["kubelet"]);
            }
            self.put(key.kind, object);
        }
    }

    /// Takes away what is deleted and held by nobody, and what belonged to it.
    fn collect(&mut self, key: &Key) {
        let Some(object) = self.objects.get(key) else { return };
        let held = object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        if object["metadata"]["deletionTimestamp"].is_null() || held {
            return;
        }
        self.vanish(key);
    }

    pub(crate) fn vanish(&mut self, key: &Key) {
        let Some(object) = self.objects.remove(key) else { return };
        self.world.remove(key);
        let uid = object["metadata"]["uid"].clone();
        let orphans = self.objects.iter().filter(|(_, other)| {
            other["metadata"]["ownerReferences"]
                .as_array()
                .is_some_and(|list| list.iter().any(|owner| owner["uid"] == uid))
        });
        for key in orphans.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.delete(&key);
        }
    }

    pub(crate) fn apply(&mut self, plan: Plan) {
        for step in plan.steps {
            assert!(super::rights::permits(&step), "not declared: {step:?}");
            self.used.extend(super::rights::needs(&step));
            match step {
                Step::Create { key, object } => {
                    if !self.objects.contains_key(&key) {
                        self.writes += 1;
                        self.put(key.kind, object);
                    }
                }
                Step::Patch { key, version, change, part } => {
                    let old = self.get(&key).clone();
                    if !version.is_empty() && part.is_none() {
                        assert_eq!(
                            old["metadata"]["resourceVersion"],
                            version.as_str(),
                            "{key}: an old picture"
                        );
                    }
                    assert!(
                        part.is_some() || key.kind == Kind::Instance || change.get("status").is_none(),
                        "{key}"
                    );
                    self.writes += 1;
                    let mut object = old;
                    if key.kind == Kind::Pod {
                        for new in change["status"]["conditions"].as_array().unwrap() {
                            pod_condition(&mut object, new.clone());
                        }
                    } else {
                        merge(&mut object, &change);
                    }
                    self.put(key.kind, object);
                }
                Step::Delete { key, .. } => {
                    self.writes += 1;
                    self.delete(&key);
                }
                Step::Absent { key } => {
                    if self.objects.contains_key(&key) {
                        return;
                    }
                }
                Step::Issue(issue) => {
                    let authority = issue.signer.as_ref().map(|signer| self.get(&signer.key).clone());
                    let secret =
                        super::certificates::make::secret(&issue, authority.as_ref()).expect("a certificate");
                    let is =
                        self.objects.get(&issue.key).map(|old| old["metadata"]["resourceVersion"].clone());
                    assert_eq!(is, issue.version.as_ref().map(|version| json!(version)), "an old picture");
                    self.writes += 1;
                    self.put(Kind::Secret, secret);
                }
                Step::Tell(note) => self.notes.push(note),
            }
        }
    }

    /// One round over everything. How much was written.
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

    pub(crate) fn later(&mut self, seconds: i64) {
        self.now = self.now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
    }

    pub(crate) fn pod_of(&self, instance: &Key) -> Option<Key> {
        let uid = self.get(instance)["metadata"]["uid"].as_str().unwrap();
        let key = Key::new(Kind::Pod, &instance.namespace, crate::names::pod(&instance.name, uid));
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
            let mut object = self.get(pod).clone();
            pod_condition(&mut object, json!({"type": kind, "status": "True"}));
            self.put(Kind::Pod, object);
        }
    }

    /// The kubelet: the launcher has ended.
    pub(crate) fn pod_ends(&mut self, pod: &Key, phase: &str, code: i64) {
        let ended = json!({"exitCode": code, "reason": "Error", "finishedAt": self.now.to_string()});
        self.change(
            pod,
            json!({"status": {
                "phase": phase,
                "containerStatuses": [{"name": "compute", "ready": false, "state": {"terminated": ended}}],
            }}),
        );
        if !self.get(pod)["metadata"]["deletionTimestamp"].is_null() {
            self.vanish(pod);
        }
    }

    /// The node agent: the phase is another.
    pub(crate) fn agent_says(&mut self, instance: &Key, phase: &str) {
        let mut times =
            self.get(instance)["status"]["phaseTransitionTimestamps"].as_array().cloned().unwrap_or_default();
        times.push(json!({"phase": phase, "phaseTransitionTimestamp": self.now.to_string()}));
        self.change(instance, json!({"status": {"phase": phase, "phaseTransitionTimestamps": times}}));
    }

    /// From an instance without a pod to one that runs.
    pub(crate) fn boot(&mut self, instance: &Key) {
        self.settle();
        let pod = self.pod_of(instance).expect("a pod");
        self.pod_runs(&pod, "node1");
        self.settle();
        self.agent_says(instance, "Running");
        self.settle();
    }

    /// A condition of an object: status, reason, message.
    pub(crate) fn condition(&self, key: &Key, kind: &str) -> Option<(String, String, String)> {
        let list = self.get(key)["status"]["conditions"].as_array()?.clone();
        let found = list.into_iter().find(|condition| condition["type"] == kind)?;
        let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        Some((text("status"), text("reason"), text("message")))
    }

    pub(crate) fn reasons(&self) -> Vec<&'static str> {
        self.notes.iter().map(|note| note.reason).collect()
    }
}

fn pod_condition(pod: &mut Value, new: Value) {
    let mut list = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    list.retain(|old| old["type"] != new["type"]);
    list.push(new);
    pod["status"]["conditions"] = json!(list);
}

/// A small instance with an image as its disk.
pub(crate) fn instance(name: &str) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"namespace": "n", "name": name, "labels": {"app": name}},
        "spec": template(),
    })
}

pub(crate) fn machine(name: &str, strategy: &str) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"namespace": "n", "name": name},
        "spec": {"runStrategy": strategy, "template": {"metadata": {"labels": {"app": name}}, "spec": template()}},
    })
}

fn template() -> Value {
    json!({
        "domain": {
            "memory": {"guest": "128Mi"},
            "devices": {
                "autoattachPodInterface": false,
                "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
            },
        },
        "volumes": [{"name": "root", "containerDisk": {"image": "registry.example/os:1"}}],
    })
}
