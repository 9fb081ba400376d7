//! The others in the cluster: each looks at what there is and takes its next step. What virt-handler does is decided by
//! its own code; its launchers are played.

use super::migration::Migrations;
use super::{Sim, is_going, is_over};
use ::virt_handler::now::Now;
use ::virt_handler::vmi::patch::patch;
use ::virt_handler::vmi::{DecisionInput, Launcher, decide};
use api::job::{Report, Stage};
use api::launcher::{Life, Request, State};
use api::vmi::VirtualMachineInstance;
use cluster_model::claim_moves::MOVED_FROM;
use cluster_model::conditions::stamp;
use cluster_model::objects::{Key, Kind, LauncherPods, Work, key as key_of};
use cluster_model::polls::{NoAnswer, PollRecord};
use cluster_model::worker::{WORK, WORKER};
use jiff::{SignedDuration, Timestamp};
use kit::patched;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The node of all pods that the scheduler places.
pub(crate) const NODE: &str = "node1";
/// The node that VMIs migrate to and fro.
const OTHER_NODE: &str = "node2";
const NODES: [&str; 2] = [NODE, OTHER_NODE];
/// How often its virt-handler says that it is there.
const BEAT: SignedDuration = SignedDuration::from_secs(30);

#[derive(Default)]
pub(crate) struct OtherPrograms {
    /// The kubelet and the virt-handler of the node neither say nor do anything.
    pub(crate) silent: bool,
    /// No guest heeds that it is to end.
    pub(crate) stubborn: bool,
    /// No image can be fetched.
    pub(crate) no_images: bool,
    /// virt-handler looks at what was the last time.
    pub(crate) late: bool,
    /// How the work of workers ends: not at all, with a disk, or without one.
    pub(crate) work: Option<Stage>,
    /// How many of the next starts fail, by the beginning of a VMI's name.
    pub(crate) fails: BTreeMap<String, u8>,
    /// Launchers, by the uid of their pod.
    pub(super) lives: BTreeMap<String, Life>,
    pub(super) migrations: Migrations,
    /// UIDs of PVCs whose guest has run on another one since.
    stale: BTreeSet<String>,
    /// What virt-handler saw the last time.
    pictures: BTreeMap<Key, Value>,
    beaten: Option<Timestamp>,
    beats: u32,
}

impl OtherPrograms {
    /// Each takes a step. Whether anything moved.
    pub(crate) fn act(&mut self, sim: &mut Sim) -> bool {
        let before = (sim.version, self.lives.clone(), self.migrations.clone());
        bind(sim);
        for pod in sim.keys(Kind::Pod) {
            schedule(sim, &pod);
            if !self.silent && sim.get(&pod)["spec"]["nodeName"].is_string() {
                self.kubelet(sim, &pod);
            }
        }
        let vmis = sim.keys(Kind::VirtualMachineInstance);
        for vmi in &vmis {
            if !self.silent {
                self.handler(sim, vmi);
            }
            self.migrate(sim, vmi);
        }
        let saw = |key: &Key| Some((key.clone(), sim.objects.get(key)?.clone()));
        self.pictures = vmis.iter().filter_map(saw).collect();
        self.check_guests(sim);
        self.check_disks(sim);
        collect(sim);
        before != (sim.version, self.lives.clone(), self.migrations.clone())
    }

    /// However many pods a VMI has: its guest runs in one of them at most, and that is its active pod.
    fn check_guests(&self, sim: &Sim) {
        let mut guests: BTreeMap<&str, &Key> = BTreeMap::new();
        let runs = |pod: &Value| self.lives.get(&uid(pod)) == Some(&Life::Running) && !is_over(pod);
        for (key, pod) in sim.objects.iter().filter(|(key, pod)| key.kind == Kind::Pod && runs(pod)) {
            let of = pod["metadata"]["labels"]["kubevirt.io/created-by"].as_str().unwrap_or_default();
            if let Some(other) = guests.insert(of, key) {
                panic!("the guest of {of} runs in {other} and in {key}");
            }
            let vmi = sim.world.vmis.all().find(|vmi| vmi.metadata.uid.as_deref() == Some(of));
            if let Some(vmi) = vmi {
                let migration = crate::vmi::migrating::unfinished(vmi);
                // It has arrived, and that is not written yet.
                if migration.is_some_and(|state| state.target_pod.as_ref() == Some(&key.name)) {
                    continue;
                }
                let active = sim.world.active_pod(vmi).and_then(|pod| pod.meta.uid.clone());
                assert_eq!(
                    active,
                    Some(uid(pod)),
                    "the guest of {of} runs in {key}, which is not its active pod"
                );
            }
        }
    }

    /// A guest has the newest of the PVCs that its disk was copied into, and that is there.
    fn check_disks(&mut self, sim: &Sim) {
        let runs = |pod: &Value| self.lives.get(&uid(pod)) == Some(&Life::Running) && !is_over(pod);
        for (key, pod) in sim.objects.iter().filter(|(key, pod)| key.kind == Kind::Pod && runs(pod)) {
            let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
            for name in volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str()) {
                let claim = |name: &str| {
                    sim.objects.get(&Key::new(Kind::PersistentVolumeClaim, &key.namespace, name))
                };
                let Some(own) = claim(name) else { continue };
                assert!(
                    !self.stale.contains(&uid(own)),
                    "the guest of {key} runs on {name}, and has run on a newer PVC"
                );
                let old = own["metadata"]["annotations"][MOVED_FROM].as_str().and_then(claim);
                self.stale.extend(old.map(uid));
            }
        }
    }

    /// The virt-handlers say that they are there, and that their nodes take VMIs.
    pub(crate) fn beat(&mut self, sim: &mut Sim) {
        let is_due = self.beaten.is_none_or(|last| sim.now.duration_since(last) >= BEAT);
        if self.silent || !is_due {
            return;
        }
        (self.beaten, self.beats) = (Some(sim.now), self.beats + 1);
        NODES.iter().for_each(|node| self.beat_of(sim, node));
    }

    fn beat_of(&self, sim: &mut Sim, node: &str) {
        let key = Key::new(Kind::Node, "", node);
        let meta = json!({
            "name": node,
            "labels": {"kubevirt.io/schedulable": "true"},
            "annotations": {"kubevirt.io/heartbeat": self.beats.to_string()},
        });
        match sim.objects.contains_key(&key) {
            true => sim.change(&key, json!({"metadata": meta})),
            false => {
                let about =
                    json!({"kubeletVersion": "v1.36.0", "containerRuntimeVersion": "containerd://2.3.0"});
                sim.put(Kind::Node, json!({"metadata": meta, "status": {"nodeInfo": about}}));
            }
        }
    }

    /// The guest of a VMI ends by itself.
    pub(crate) fn guest_ends(&mut self, sim: &Sim, vmi: &Key, life: Life) {
        let Some(pod) = guest_pod(sim, vmi) else { return };
        let uid = uid(sim.get(&pod));
        if self.lives.get(&uid) == Some(&Life::Running) {
            self.lives.insert(uid, life);
        }
    }

    fn kubelet(&mut self, sim: &mut Sim, key: &Key) {
        let pod = sim.get(key);
        if is_worker(pod) {
            return self.worker(sim, key);
        }
        let (uid, going) = (uid(pod), is_going(pod));
        if is_over(pod) {
            return;
        }
        match self.lives.get(&uid).copied() {
            // It never began.
            None if going => sim.vanish(key),
            None if self.no_images => {
                let waiting = json!({"reason": "ErrImagePull", "message": "manifest unknown"});
                let status = json!([{"name": "compute", "state": {"waiting": waiting}}]);
                sim.change(key, json!({"status": {"containerStatuses": status}}));
            }
            None => {
                let node = pod["spec"]["nodeName"].as_str().unwrap_or(NODE).to_owned();
                sim.pod_runs(key, &node);
                self.lives.insert(uid, Life::Empty);
            }
            Some(Life::Failed) => sim.launcher_ends(key, "Failed", 1, self.ending(&uid)),
            Some(Life::Succeeded) => sim.launcher_ends(key, "Succeeded", 0, self.ending(&uid)),
            // Its guest has left it.
            Some(_) if going && self.has_moved(&uid) => {
                self.lives.insert(uid, Life::Succeeded);
            }
            Some(Life::Empty) if going => sim.pod_ends(key, "Succeeded", 0),
            // The launcher is asked to end, and asks its guest.
            Some(_) if going => {
                self.abort(&uid);
                self.lives.insert(uid, Life::Succeeded);
            }
            Some(_) => {}
        }
    }

    /// The kubelet and what runs in a worker's pod.
    fn worker(&self, sim: &mut Sim, key: &Key) {
        let pod = sim.get(key);
        if is_going(pod) {
            return sim.vanish(key);
        }
        let is_running = pod["status"]["containerStatuses"][0]["state"]["running"].is_object();
        match self.work {
            _ if is_over(pod) => {}
            _ if self.no_images && !is_running => {
                let waiting = json!({"reason": "ErrImagePull", "message": "manifest unknown"});
                let status = json!([{"name": container(pod), "state": {"waiting": waiting}}]);
                sim.change(key, json!({"status": {"containerStatuses": status}}));
            }
            _ if !is_running => {
                let state = json!({"running": {}, "waiting": null});
                let status = json!([{"name": container(pod), "ready": true, "state": state}]);
                sim.change(key, json!({"status": {"phase": "Running", "containerStatuses": status}}));
            }
            // It serves until nobody needs it.
            Some(_) if container(pod) == Work::Serve.container() => {}
            Some(stage) => worker_ends(sim, key, Some(stage)),
            None => {}
        }
    }

    fn handler(&mut self, sim: &mut Sim, key: &Key) {
        let picture = if self.late { self.pictures.get(key) } else { sim.objects.get(key) };
        let Some(picture) = picture.filter(|object| object["status"]["nodeName"].is_string()).cloned() else {
            return;
        };
        let node = picture["status"]["nodeName"].as_str().unwrap_or_default().to_owned();
        let pods = LauncherPods::of_object(&picture).unwrap();
        let known = pods.keys().filter_map(|key| sim.world.pods.get(&key.namespace, &key.name));
        let pod = pods.running_on(known, |pod| &pod.meta, &node);
        let pod = pod.and_then(|pod| sim.objects.get(&key_of(Kind::Pod, &pod.meta)));
        let vmi: VirtualMachineInstance = api::wire::read(picture).unwrap();
        let uid_of = |text: &Option<String>| text.clone().unwrap_or_default();
        let life = pod.and_then(|pod| self.lives.get(&uid(pod))).copied();
        if pod.is_some_and(|pod| self.is_mute(&uid(pod))) {
            return;
        }
        let state = |pod: &Value, life: Life| self.migrating(&uid(pod), state(life));
        let launcher = match (pod, life) {
            (Some(pod), Some(life)) if is_over(pod) => {
                Launcher::Gone { last: Some(state(pod, life)), why: None }
            }
            (Some(pod), Some(life)) => Launcher::Speaks(state(pod, life)),
            _ => Launcher::NotYet,
        };
        let pod = pod.map(uid).unwrap_or_default();
        let seen = DecisionInput::new(&vmi, &launcher);
        let now = Now { text: stamp(sim.now) };
        let plan = decide(&seen, &now);
        if plan.begin {
            let life = if self.fails(&key.name) { Life::Failed } else { Life::Running };
            self.lives.insert(pod.clone(), life);
        }
        if !self.stubborn && matches!(plan.request, Some(Request::Shutdown { .. })) {
            self.abort(&pod);
            self.lives.insert(pod, Life::Succeeded);
        }
        let Some(status) = plan.status else { return };
        let Some(change) = patch(vmi.status.as_ref(), &status) else { return };
        // A field that it may not write would be refused by the API server.
        assert_eq!(change.as_object().map(|fields| fields.len()), Some(1), "{change}");
        for field in change["status"].as_object().unwrap().keys() {
            let is_own = cluster_model::objects::HANDLER_STATUS_FIELDS.contains(&field.as_str());
            assert!(is_own || field == "migrationState", "{field}");
        }
        for field in
            change["status"]["migrationState"].as_object().into_iter().flat_map(|fields| fields.keys())
        {
            assert!(cluster_model::objects::SOURCE_MIGRATION_FIELDS.contains(&field.as_str()), "{field}");
        }
        let Some(now) = sim.objects.get(key).filter(|now| uid(now) == uid_of(&vmi.metadata.uid)) else {
            return;
        };
        let version = vmi.metadata.resource_version.as_deref();
        if let Some(object) = patched(now.clone(), &change, version) {
            sim.put(Kind::VirtualMachineInstance, object);
        }
    }

    /// The next start of a VMI fails.
    fn fails(&mut self, name: &str) -> bool {
        let Some(left) = self.fails.iter_mut().find(|(start, _)| name.starts_with(start.as_str())) else {
            return false;
        };
        let fails = *left.1 > 0;
        *left.1 = left.1.saturating_sub(1);
        fails
    }
}

/// A pod moves a disk.
pub(crate) fn is_worker(pod: &Value) -> bool {
    pod["metadata"]["labels"][WORKER.0] == WORKER.1
}

/// The container of a worker's pod.
pub(crate) fn container(pod: &Value) -> &'static str {
    let label = &pod["metadata"]["labels"][WORK.0];
    if label == cluster_model::polls::WORK {
        return cluster_model::polls::CONTAINER;
    }
    Work::ALL.into_iter().find(|work| label == work.label()).unwrap_or(Work::Import).container()
}

/// The server of a DataImportCron's image has been asked.
pub(crate) fn image_is(sim: &mut Sim, cron: &Key, answer: Result<&str, NoAnswer>) {
    let uid = uid(sim.get(cron));
    let at = (cron.namespace.clone(), cron.name.clone());
    let before = sim.world.polls.get(&at).map_or(0, |(_, polled)| polled.failures);
    let failures = if answer.is_ok() { 0 } else { before + 1 };
    let answer = answer.map(str::to_owned);
    sim.world.polls.insert(at, (uid, PollRecord { at: sim.now, answer, failures, pause: None }));
}

/// A worker ends: with this report, or killed before it could say anything.
pub(crate) fn worker_ends(sim: &mut Sim, key: &Key, stage: Option<Stage>) {
    // Of an export it is an image.
    let digest = format!("sha256:{}", "0a".repeat(32));
    let report =
        stage.map(|stage| Report { stage, digest, message: "So it ended".to_owned(), ..Report::default() });
    let code = match stage {
        Some(Stage::Done) => 0,
        Some(_) => 1,
        None => 137,
    };
    ends(sim, key, code, report.as_ref());
}

/// An upload server makes room for one with another certificate.
pub(crate) fn worker_is_late(sim: &mut Sim, key: &Key) {
    let (reason, message) = ("DeadlinePassed".to_owned(), "the deadline passed".to_owned());
    let report =
        Report { stage: Stage::Waiting, reason, message, deadline_passed: true, ..Report::default() };
    ends(sim, key, 0, Some(&report));
}

/// The container of a worker runs.
pub(crate) fn worker_runs(sim: &mut Sim, key: &Key, is_ready: bool) {
    let status = json!([{"name": container(sim.get(key)), "ready": is_ready, "state": {"running": {}}}]);
    sim.change(key, json!({"status": {"phase": "Running", "containerStatuses": status}}));
    sim.settle();
}

/// A worker that runs is asked, and answers this.
pub(crate) fn worker_says(sim: &mut Sim, key: &Key, report: Report) {
    let answered = (sim.uid(key), report);
    sim.world.reports.insert((key.namespace.clone(), key.name.clone()), answered);
    sim.settle();
}

/// A worker ends with this report.
pub(crate) fn worker_reports(sim: &mut Sim, key: &Key, code: i32, report: &Report) {
    ends(sim, key, code, Some(report));
}

fn ends(sim: &mut Sim, key: &Key, code: i32, report: Option<&Report>) {
    let ended = json!({
        "exitCode": code, "reason": "Error", "finishedAt": sim.now.to_string(),
        "message": report.map(Report::termination),
    });
    let state = json!({"terminated": ended, "running": null});
    let status = json!([{"name": container(sim.get(key)), "ready": false, "state": state}]);
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    sim.change(key, json!({"status": {"phase": phase, "containerStatuses": status}}));
}

/// What makes volumes: a PVC of a DataVolume is bound.
fn bind(sim: &mut Sim) {
    for key in sim.keys(Kind::PersistentVolumeClaim) {
        let claim = sim.get(&key);
        if claim["metadata"]["ownerReferences"].is_array() && claim["status"]["phase"].is_null() {
            sim.bind(&key);
        }
    }
}

/// The pod that runs the guest of a VMI.
pub(crate) fn guest_pod(sim: &Sim, vmi: &Key) -> Option<Key> {
    let vmi = sim.world.vmis.get(&vmi.namespace, &vmi.name)?;
    sim.world.active_pod(vmi).map(|pod| key_of(Kind::Pod, &pod.meta))
}

pub(super) fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

fn state(life: Life) -> Box<State> {
    let state = json!({
        "number": 1, "generation": 1, "life": life, "since": "", "agent": false, "targets": {"root": "vda"},
        "sizes": {"root": 1 << 30},
    });
    Box::new(serde_json::from_value(state).unwrap())
}

/// The scheduler: a pod goes where VMIs are taken.
fn schedule(sim: &mut Sim, pod: &Key) {
    let object = sim.get(pod);
    if !object["spec"]["nodeName"].is_null() || is_going(object) {
        return;
    }
    let node = free_node(sim, object);
    let takes =
        |node: &str| sim.world.nodes.get("", node).is_some_and(cluster_model::objects::Node::takes_vmis);
    if let Some(node) = node.filter(|node| takes(node)) {
        sim.change(pod, json!({"spec": {"nodeName": node}}));
        return sim.pod_says(pod, json!({"type": "PodScheduled", "status": "True"}));
    }
    let message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.";
    sim.pod_says(
        pod,
        json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}),
    );
}

/// The node that a pod goes to: the first one, unless it keeps away from other pods of its VMI.
fn free_node(sim: &Sim, pod: &Value) -> Option<&'static str> {
    let keeps_away = "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/labelSelector/matchLabels";
    let Some(labels) = pod.pointer(keeps_away) else { return Some(NODE) };
    let is_avoided = |other: &Value, node: &str| {
        let of = "kubevirt.io/created-by";
        other["spec"]["nodeName"] == node && other["metadata"]["labels"][of] == labels[of] && !is_over(other)
    };
    let mut nodes = NODES.into_iter();
    nodes
        .find(|node| !sim.objects.iter().any(|(key, other)| key.kind == Kind::Pod && is_avoided(other, node)))
}

/// The garbage collector: what is to stay is set free, and one object whose owner is gone is deleted.
fn collect(sim: &mut Sim) {
    let there: BTreeSet<String> = sim.objects.values().map(uid).collect();
    for key in sim.objects.keys().cloned().collect::<Vec<_>>() {
        let Some(object) = sim.objects.get(&key) else { continue };
        let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let is_there = |owner: &Value| owner["uid"].as_str().is_some_and(|uid| there.contains(uid));
        let finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        if !owners.is_empty() && !owners.iter().any(is_there) {
            if !is_going(object) {
                return sim.delete(&key);
            }
        } else if is_going(object) && finalizers.contains(&json!("orphan")) {
            let owner = uid(object);
            set_free(sim, &owner);
            let others: Vec<&Value> = finalizers.iter().filter(|name| **name != "orphan").collect();
            sim.change(&key, json!({"metadata": {"finalizers": others}}));
        }
    }
}

/// Whatever belonged to this owner belongs to nobody.
fn set_free(sim: &mut Sim, owner: &str) {
    let its = |object: &Value| {
        object["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|list| list.iter().any(|reference| reference["uid"] == owner))
    };
    let all: Vec<Key> =
        sim.objects.iter().filter(|(_, object)| its(object)).map(|(key, _)| key.clone()).collect();
    for key in all {
        sim.change(&key, json!({"metadata": {"ownerReferences": null}}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> Value {
        json!({
            "metadata": {"namespace": "n", "name": name, "labels": {"kubevirt.io/created-by": "gone"}},
            "status": {"phase": "Running"},
        })
    }

    fn guests(lives: [Life; 2]) {
        let mut sim = Sim::empty();
        // No second pod of a VMI that is there is ever made; of one that is gone, two are.
        let mut others = OtherPrograms::default();
        for (name, life) in ["a", "b"].into_iter().zip(lives) {
            let key = sim.put(Kind::Pod, pod(name));
            others.lives.insert(uid(sim.get(&key)), life);
        }
        others.check_guests(&sim);
    }

    #[test]
    #[should_panic(expected = "the guest of gone runs in Pod n/a and in Pod n/b")]
    fn two_guests_of_one_vmi_are_noticed() {
        guests([Life::Running, Life::Running]);
    }

    #[test]
    fn one_guest_beside_an_empty_pod_is_none_too_many() {
        guests([Life::Empty, Life::Running]);
    }
}
