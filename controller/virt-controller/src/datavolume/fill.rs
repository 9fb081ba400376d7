//! How a PVC is filled: looks at the pod that does it, and makes the next one.
//!
//! ```text
//!  no pod ── may it be made? ──► made ──► waits ──► works ──► done: the disk is whole
//!    ▲          │ no: says why                        │  └──► failed: no other pod mends it (imports)
//!    │          ▼                                     ▼
//!    └── after a pause that grows ◄─────────────── broke off
//! ```

use super::claim::{AT_ONCE, Wanted};
use super::clone::{self, Served, Way};
use super::registries::Told;
use super::{NEXT, Round, WAITS, claim_name, notes, pod, status, upload, worker};
use api::datavolume::{Condition, ConditionType, Phase};
use api::job::{Refusal, Report, Stage};
use cluster_model::config::Config;
use cluster_model::objects::{Attempt, Key, Kind, PersistentVolumeClaim, Pod, Work, World, key};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use worker::Worker;

/// What the kubelet says of a container that was killed for want of memory.
const OOM: &str = "OOMKilled";
/// Pods that broke off before one that was killed for want of memory, after which no other one is made.
const HOPELESS: i64 = 9;
/// The disk is whole as far as anyone can tell, and its source gave it no length.
const LENGTH_UNKNOWN: &str = "the server said neither how long the disk is nor where it ends, and there is no checksum: if the \
     connection was lost early, the disk is too short and nothing tells; set spec.source.http.checksum, or use a server that sends \
     Content-Length";

impl<'a> Round<'a> {
    pub(super) fn fill(&mut self, wanted: &Wanted<'_>, claim: &'a PersistentVolumeClaim) {
        match self.clone.as_ref().and_then(|cloned| cloned.way.as_ref()) {
            Some(Way::Csi) => return self.populated(claim, Phase::CsiCloneInProgress),
            Some(Way::Snapshot) => return self.populated(claim, Phase::CloneFromSnapshotSourceInProgress),
            Some(Way::Copy(_)) | None => {}
        }
        let pod = self.world.worker_for(claim, self.work);
        let seen = notes::running(&self.next).filter(|said| said.status == "False");
        let seen = seen.and_then(|said| said.last_transition_time.as_ref()?.parse().ok());
        match worker::look(self.world, pod, self.work, self.node_image(), seen, self.now) {
            Worker::None => self.begin(wanted, claim),
            Worker::Waits(reason, message) => {
                let stuck = pod.filter(|_| self.work == Work::Upload);
                let stuck = stuck.and_then(|pod| upload::stuck(self.world, pod));
                let message = match stuck {
                    Some(_) => {
                        format!("{message}: somebody has deleted it, and another pod begins with a new one")
                    }
                    None => message,
                };
                self.stands(&reason, &message);
                self.scheduled(claim);
                match stuck {
                    Some(until) if until <= self.now => self.deletes(pod),
                    Some(until) => self.after.look_again(until),
                    None => {}
                }
            }
            Worker::Runs(report) => {
                match self.work {
                    Work::Upload => self.receives(claim, pod, report),
                    _ => self.imports(claim, pod, report),
                }
                if self.clone.is_some() {
                    // It is asked until the disk is whole.
                    let served = self.serve(claim);
                    self.source_broke(served);
                }
                self.silent(pod);
            }
            Worker::Done(report) => self.done(claim, pod, &report),
            Worker::Failed(report) => match self.grows(wanted, claim, pod, &report) {
                Ok(()) => {}
                Err(why) => self.failed(claim, &report, why),
            },
            Worker::Broke(reason, message, _) if self.is_hopeless(pod, &reason) => {
                let count = pod.map(worker::attempt).unwrap_or(0).saturating_add(1);
                let message = format!(
                    "the importer pod was killed for want of memory, and {count} pods ended before their work did: the memory limit \
                     is {}, and the image wants more ({message})",
                    super::shell::MEMORY
                );
                self.note_import(claim, "Failed");
                self.fail(&reason, &message);
            }
            Worker::Broke(reason, message, next) => self.broke(pod, &reason, &message, next),
            Worker::Late(message) => {
                self.waits("DeadlinePassed", &message);
                self.go(self.words().broke.clone(), None);
                self.deletes(pod);
            }
        }
    }

    /// The worker failed, and no other mends that. `why`: the PVC is too small, and does not grow.
    fn failed(&mut self, claim: &PersistentVolumeClaim, report: &Report, why: Option<String>) {
        let reason = if report.reason.is_empty() { "Error" } else { report.reason.as_str() };
        self.note_import(claim, "Failed");
        clone::forget_client(claim, &mut self.after);
        let why = why.map(|why| format!("; {why}")).unwrap_or_default();
        self.fail(reason, &format!("{}{why}", report.message));
    }

    /// No pod works. What an earlier one said of the transfer is not so any more.
    pub(super) fn stands(&mut self, reason: &str, message: &str) {
        self.waits(reason, message);
        if self.next.conditions.iter().any(|said| said.r#type == ConditionType::Transferring) {
            self.say(ConditionType::Transferring, "False", reason, message);
        }
    }

    /// The pod is made, or is there and does not work yet.
    pub(super) fn scheduled(&mut self, claim: &PersistentVolumeClaim) {
        let words = self.words();
        let told = format!("{} into {} scheduled", words.noun, claim_name(claim));
        let (phase, event) = words.scheduled.clone();
        self.go(phase, Some((false, event, told)));
    }

    fn begin(&mut self, wanted: &Wanted<'_>, claim: &'a PersistentVolumeClaim) {
        if claim.is_filled() {
            // It was written, and the status was not: nobody writes over a disk that is whole.
            return self.done(claim, None, &Report::default());
        }
        if let Some(pod) = self.world.cloner_of(claim) {
            let message = format!(
                "pod {} reads PVC {} for a clone: nothing is written to the PVC meanwhile",
                pod.meta.name.as_deref().unwrap_or_default(),
                claim_name(claim)
            );
            return self.stops(clone::Stop::Waits(clone::IN_USE, message));
        }
        if let Some(clone) = self.world.copied_into(claim) {
            let message = format!(
                "the storage clones PVC {} into PVC {}: nothing is written to the PVC meanwhile",
                claim_name(claim),
                claim_name(clone)
            );
            return self.stops(clone::Stop::Waits(clone::IN_USE, message));
        }
        let pod_name = self.work.pod(claim_name(claim));
        if self.awaits_growth(claim) {
            return;
        }
        if let Some(until) = self.made_until(&pod_name) {
            return self.after.look_again(until);
        }
        if let Some(vmi) = self.user(claim) {
            let message = format!("VMI {vmi} uses PVC {}: nothing is written to it", claim_name(claim));
            self.waits("CloneSourceInUse", &message);
            // Nobody says here that a launcher pod has ended.
            if let Ok(next) = self.now.checked_add(SignedDuration::from_secs(worker::PAUSE.0)) {
                self.after.look_again(next);
            }
            return self.go(Phase::Pending, Some((true, "ErrClaimNotValid", message)));
        }
        let config = Config::read(self.world);
        // One that no pod is made of needs no volume.
        let consumer = self.consumer(claim).and_then(|vmi| crate::vmi::checked(self.world, vmi, &config));
        let consumer = consumer.as_ref().map(|(vmi, machine)| (vmi, machine));
        let is_wanted = self.volume.metadata.annotations.contains_key(AT_ONCE) || consumer.is_some();
        if !claim.is_bound() && !self.may_be_bound(wanted, claim, is_wanted) {
            return;
        }
        let Some(told) = self.told(&config) else { return };
        let namespace = claim.meta.namespace.clone().unwrap_or_default();
        if self.world.pods.get(&namespace, &pod_name).is_some() {
            let message = worker::is_in_the_way(&pod_name);
            self.stands("ErrStartingPod", &message);
            let phase = self.words().scheduled.0.clone();
            return self.go(phase, Some((true, "ErrStartingPod", message)));
        }
        let failed = self.world.failures.get(&self.key());
        let failed = failed
            .filter(|failed| matches!(failed.about, Attempt::Make(Kind::Pod | Kind::Service | Kind::Secret)));
        if let Some(failed) = failed {
            let what = format!("the {} cannot be made: {}", self.words().pod, failed.message);
            let message = with_advice(what);
            self.stands("ErrStartingPod", &message);
            let phase = self.words().scheduled.0.clone();
            self.go(phase, Some((true, "ErrStartingPod", message)));
            if failed.retry > self.now {
                return self.after.look_again(failed.retry);
            }
        }
        if self.clone.is_some() && !self.is_served_now(claim) {
            return;
        }
        let span = match self.work {
            Work::Import | Work::Export | Work::Serve => None,
            Work::Upload => match self.certified(claim) {
                Some(span) => Some(span),
                None => return,
            },
        };
        let around = pod::Around {
            config: &config,
            world: self.world,
            claim,
            consumer,
            attempt: self.next.restart_count.unwrap_or(0),
            work: self.work,
            deadline: span.as_ref().map(|span| upload::deadline(span, self.now)),
            told: &told,
            clone: self.clone.as_ref().map(|cloned| cloned.address(claim)),
        };
        match pod::pod(self.volume, wanted, &around) {
            Ok(object) => {
                // What failed before is said as long as no try has mended it.
                if failed.is_none() {
                    self.stands("Pending", &format!("pod {pod_name} is being made"));
                }
                self.scheduled(claim);
                if let Some(span) = &span {
                    upload::reach(claim, span, &self.world.facts.namespace, &mut self.after);
                }
                self.after.create(Key::new(Kind::Pod, namespace, pod_name), object);
            }
            Err(Refusal::Faults(faults)) => self.refused(&faults),
            Err(Refusal::Reference(never)) => match never {},
        }
    }

    /// The source pod of a clone answers. Where it does not, it is said why.
    fn is_served_now(&mut self, claim: &'a PersistentVolumeClaim) -> bool {
        match self.serve(claim) {
            Served::Ready => return true,
            Served::Waits(reason, message) => {
                self.stands(&reason, &message);
                self.scheduled(claim);
            }
            Served::Broke(pod, reason, message, next) => self.broke(Some(pod), &reason, &message, next),
            Served::Stopped(stop) => self.stops(stop),
        }
        false
    }

    /// A PVC without a volume may get one by the pod that is made for it; where it may not, it is said why.
    fn may_be_bound(&mut self, wanted: &Wanted<'_>, claim: &PersistentVolumeClaim, is_wanted: bool) -> bool {
        let name = claim_name(claim);
        let waits = wanted.class.is_some_and(|class| class.waits_for_consumer);
        if waits && !is_wanted {
            let whose = if self.is_alone() { "PVC" } else { "DataVolume" };
            let message =
                format!("PVC {name} is made when a VM uses it; {AT_ONCE} on the {whose} makes it at once");
            self.waits(WAITS, &message);
            self.go(Phase::WaitForFirstConsumer, Some((false, WAITS, message)));
        } else if !waits {
            let message = why_unbound(wanted, name);
            self.waits("Pending", &message);
            self.go(Phase::Pending, Some((false, "Pending", message)));
        }
        waits && is_wanted
    }

    /// Until when no other pod is made: the last one was made just now, and is gone.
    fn made_until(&self, pod: &str) -> Option<Timestamp> {
        let words = self.words();
        if self.phase != words.scheduled.0 && self.phase != words.works.0 {
            return None;
        }
        let said = notes::running(&self.next)?;
        // Of a clone, what is said there may be of its source pod.
        if self.clone.is_some() && !said.message.as_deref().is_some_and(|message| message.contains(pod)) {
            return None;
        }
        let last: Timestamp = said.last_heartbeat_time.as_ref()?.parse().ok()?;
        let until = last.checked_add(SignedDuration::from_secs(worker::PAUSE.0)).ok()?;
        // What a broken pod says of the next one has its own pause.
        let is_said = said.message.as_deref().is_some_and(|message| message.contains(NEXT));
        (until > self.now && last <= self.now && !is_said).then_some(until)
    }

    /// The worker answers no more: what is said of its work was so.
    fn silent(&mut self, pod: Option<&Pod>) {
        let Some(since) = pod.and_then(|pod| self.world.silent_since(pod)) else { return };
        let last = self.next.conditions.iter().find(|said| said.r#type == ConditionType::Transferring);
        let last = last.and_then(|said| said.message.clone()).unwrap_or_default();
        let since = cluster_model::conditions::stamp(since);
        let message = format!("the worker has not answered since {since}; it said last: {last}");
        self.say(ConditionType::Transferring, "Unknown", "Silent", &message);
        // That it worked was never written, and so it did not change.
        let is = |said: &&Condition| said.r#type == ConditionType::Transferring;
        let was = self.volume.status.iter().flat_map(|status| &status.conditions).find(is).cloned();
        let now = self.next.conditions.iter_mut().find(|said| is(&&**said));
        if let (Some(was), Some(now)) = (was, now)
            && (&was.status, &was.reason, &was.message) == (&now.status, &now.reason, &now.message)
        {
            *now = was;
        }
    }

    /// The image that the node pulls, where it does.
    fn node_image(&self) -> Option<&'a str> {
        self.volume.spec.source.as_ref()?.registry.as_ref()?.of_node()
    }

    /// What the pod of an image is told, or nothing while it cannot be made as the DataVolume and the cluster want it.
    fn told(&mut self, config: &Config) -> Option<Told> {
        if let (Some(_), Some(why)) = (self.node_image(), no_image_volumes(self.world, config)) {
            let message = format!(
                "pullMethod node needs image volumes of pods, and {why}; without pullMethod the importer pulls the image itself"
            );
            self.stands("ImageVolumesMissing", &message);
            self.go(Phase::Pending, Some((true, "ImageVolumesMissing", message)));
            self.after.look_again(self.now.checked_add(NODES).unwrap_or(self.now));
            return None;
        }
        match Told::of(self.volume, self.world) {
            Ok(told) => Some(told),
            Err(message) => {
                self.stands("RegistriesNotValid", &message);
                self.go(Phase::Pending, Some((true, "RegistriesNotValid", message)));
                None
            }
        }
    }

    fn imports(&mut self, claim: &PersistentVolumeClaim, pod: Option<&Pod>, report: Option<&Report>) {
        let waits = report.is_some_and(|report| report.stage == Stage::Waiting);
        if waits
            && let Some(pod) = pod
            && let Ok(told) = Told::of(self.volume, self.world)
            && !told.is_known_to(pod)
        {
            let message = "what is set for registries, or for the proxy, has changed: another pod takes the place of this one";
            self.stands("Restarting", message);
            self.scheduled(claim);
            return self.deletes(Some(pod));
        }
        self.say(ConditionType::Running, "True", "Pod is running", "");
        let noun = self.words().noun;
        self.say(ConditionType::Ready, "False", "TransferRunning", &format!("{noun} is running"));
        self.note_import(claim, "Running");
        match report {
            Some(report) => {
                let (word, message) = status::transfer(report);
                let moves = if word == "Waiting" { "False" } else { "True" };
                self.say(ConditionType::Transferring, moves, word, &message);
                self.next.progress = Some(status::progress(report));
            }
            None => self.say(ConditionType::Transferring, "Unknown", "Starting", "the worker begins"),
        }
        let told = format!("{noun} into {} in progress", claim_name(claim));
        let (phase, event) = self.words().works.clone();
        self.go(phase, Some((false, event, told)));
    }

    pub(super) fn done(&mut self, claim: &PersistentVolumeClaim, pod: Option<&Pod>, report: &Report) {
        let words = self.words();
        self.say(ConditionType::Running, "False", "Completed", &format!("{} Complete", words.noun));
        self.say(ConditionType::Ready, "True", "", "");
        let (_, message) = status::transfer(report);
        let reason = if report.length_unknown { "LengthUnknown" } else { "Completed" };
        let message = if report.length_unknown { format!("{message}; {LENGTH_UNKNOWN}") } else { message };
        self.say(ConditionType::Transferring, "False", reason, &message);
        if report.length_unknown && self.phase != Phase::Succeeded {
            self.tell(true, "LengthUnknown", LENGTH_UNKNOWN);
        }
        self.next.progress = Some("100.0%".to_owned());
        // First: whoever looks at the PVC alone must not take the disk for one that is to be written.
        self.note_whole(claim, &report.labels);
        let told = format!("Successfully {} into PVC {}", words.done, claim_name(claim));
        self.go(Phase::Succeeded, Some((false, words.succeeded, told)));
        self.clears(claim, pod);
    }

    /// Notes on the PVC of a DataVolume what the pod of its import does.
    pub(super) fn note_import(&mut self, claim: &PersistentVolumeClaim, phase: &str) {
        // All else is noted as a whole (`looks`).
        if self.work == Work::Import && !self.is_alone() {
            let labels = &BTreeMap::new();
            let said = notes::Import { phase, restarts: self.next.restart_count, labels };
            notes::import(claim, &said, &mut self.after);
        }
    }

    /// The same of one that is whole: before the status says so.
    fn note_whole(&mut self, claim: &PersistentVolumeClaim, labels: &BTreeMap<String, String>) {
        if self.work == Work::Import && !self.is_alone() {
            let said = notes::Import { phase: "Succeeded", restarts: self.next.restart_count, labels };
            notes::import(claim, &said, &mut self.before);
        }
    }

    /// The pod ended without an end of its work. It goes, and the next one goes on where it stopped, or takes an upload anew.
    pub(super) fn broke(&mut self, pod: Option<&Pod>, reason: &str, message: &str, next: Timestamp) {
        let Some(broken) = pod else { return };
        let words = self.words();
        let count = worker::count(broken, self.next.restart_count.unwrap_or(0).max(0));
        let is_new = self.next.restart_count.unwrap_or(0) < count;
        self.next.restart_count = Some(count);
        if is_new {
            self.tell(true, words.failed, format!("the {} broke off ({reason}): {message}", words.pod));
        }
        let message = format!("{message}; {NEXT} {}", cluster_model::conditions::stamp(next));
        self.waits(reason, &message);
        self.say(ConditionType::Transferring, "False", "Waiting", &message);
        self.go(words.broke.clone(), None);
        if next > self.now {
            return self.after.look_again(next);
        }
        self.deletes(pod);
    }

    /// No other pod of an import does better than this one, and those before it.
    fn is_hopeless(&self, pod: Option<&Pod>, reason: &str) -> bool {
        let attempt = pod.map(worker::attempt).unwrap_or(0);
        self.work == Work::Import && reason == OOM && attempt >= HOPELESS
    }

    /// The work is done: the pod goes, and what leads to it.
    pub(super) fn clears(&mut self, claim: &PersistentVolumeClaim, pod: Option<&Pod>) {
        if self.work == Work::Upload {
            upload::take_away(claim, &mut self.after);
        }
        clone::forget_client(claim, &mut self.after);
        self.deletes(pod);
    }

    pub(super) fn deletes(&mut self, pod: Option<&Pod>) {
        if let Some(pod) = pod.filter(|pod| !pod.is_going()) {
            self.after.delete(key(Kind::Pod, &pod.meta), &pod.meta);
        }
    }
}

/// The time between two looks at nodes that cannot mount images.
const NODES: SignedDuration = SignedDuration::from_mins(1);

/// Why the cluster has no image volumes.
fn no_image_volumes(world: &World, config: &Config) -> Option<&'static str> {
    if !config.image_volumes {
        Some("the feature gate ImageVolume is disabled in the KubeVirt object")
    } else if !world.facts.image_volumes {
        Some(
            "the API server does not know them (Kubernetes 1.33 or later does, with the feature ImageVolume)",
        )
    } else if !world.nodes_mount_images() {
        Some("a node cannot mount images (kubelet 1.33 with containerd 2.1 or CRI-O 1.33, or later, can)")
    } else {
        None
    }
}

/// What to do about a quota, or a range of limits, that wants more said of a pod than is said.
fn with_advice(refusal: String) -> String {
    let wants_more = ["must specify", "no limit is specified", "no request is specified"];
    match wants_more.iter().any(|words| refusal.contains(words)) {
        true => format!(
            "{refusal}; the administrator says what worker pods request, and their limits, in spec.podResourceRequirements of the \
             CDIConfig config, or a LimitRange of the namespace does"
        ),
        false => refusal,
    }
}

/// What a PVC waits for that is not made for the pod that fills it.
fn why_unbound(wanted: &Wanted<'_>, name: &str) -> String {
    match (&wanted.class, wanted.spec.storage_class_name.as_deref()) {
        (None, None) => format!(
            "PVC {name} waits for a volume: it names no StorageClass, and the cluster has no default one"
        ),
        (None, Some(class)) if !class.is_empty() => {
            format!("PVC {name} waits for a volume: there is no StorageClass {class}")
        }
        (Some(class), _) => format!(
            "PVC {name} waits for a volume of the StorageClass {} ({})",
            class.meta.name.as_deref().unwrap_or_default(),
            class.provisioner
        ),
        _ => format!("PVC {name} waits for a volume"),
    }
}
