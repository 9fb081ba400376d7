//! DataVolumes: a PVC each, and the worker pod that fills it.
//!
//! ```text
//!  DataVolume ─► PVC ──(bound, or made for this pod)──► pod importer-NAME ─► status ─► Succeeded, Failed
//!                 │                                        │ ▲
//!                 └─ WaitForFirstConsumer: until a VMI     │ └─ the next pod, after a pause: it goes on where the
//!                    uses it, or somebody wants it at once │    last one stopped, by the journal beside the disk
//!                                                          └─ report: each second from the pod, then its termination message
//! ```
//!
//! **Flow.** Each round looks at the PVC and at the pod, makes a copy of the status as it should be, and writes the
//! difference.
//! **Guarantees.** No PVC and no pod that somebody else made is taken for ours. One pod at a time: its name follows from the
//! PVC's, and the next is made when the last is gone. Pods are counted by what each says of itself ([`worker::attempt`]), so
//! a plan that breaks off counts none twice. A DataVolume that has succeeded or failed stays so, whatever becomes of the pod.
//! **Assumptions.** What a worker says is said by somebody in the tenant's namespace: it becomes words and numbers of this
//! DataVolume, and nothing else.
//! **Caveats.** The pod of an import that failed stays, so that its log can be read; it goes with the PVC.

mod claim;
mod pod;
mod size;
mod status;
#[cfg(test)]
mod tests;
mod worker;

use api::datavolume::{ConditionType, DataVolume, Phase, Status};
use api::fault::Fault;
use api::job::{Refusal, Report};
use api::vmi::VirtualMachineInstance;
use api::wire::Wire;
use claim::{AT_ONCE, Wanted};
use jiff::{SignedDuration, Timestamp};
use kubernetes::config::Config;
use kubernetes::objects::{Key, Kind, Mark, PersistentVolumeClaim, Pod, World, key, names, owner};
use kubernetes::plan::Plan;
use size::Overhead;
use worker::Worker;

/// Where the PVC says what its pod does.
const NOTED: &str = "cdi.kubevirt.io/storage.pod.phase";
/// Where the PVC says how often the pod was made anew.
const RESTARTS: &str = "cdi.kubevirt.io/storage.pod.restarts";
/// What is said of a pod that broke off, before the time of the next one.
const NEXT: &str = "the next pod begins at";

/// What is to be done for a DataVolume.
pub(crate) fn decide(world: &World, namespace: &str, name: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let claim = world.pvcs.get(namespace, name);
    let volume = world.data_volumes.get(namespace, name);
    let is_there = |meta: &api::meta::ObjectMeta| meta.deletion_timestamp.is_none();
    if !volume.is_some_and(|volume| is_there(&volume.metadata))
        || claim.is_some_and(|claim| !is_there(&claim.meta))
    {
        // A PVC goes when no pod names it any more, and the pod goes with the PVC: somebody has to begin.
        if let Some(pod) = claim.and_then(|claim| world.worker_of(claim)).filter(|pod| !pod.is_going()) {
            plan.delete(key(Kind::Pod, &pod.meta), &pod.meta);
        }
    }
    let Some(volume) = volume else { return plan };
    let status = volume.status.clone().unwrap_or_default();
    let mut round = Round {
        world,
        volume,
        phase: status.phase.clone().unwrap_or_default(),
        next: status,
        now,
        before: Plan::default(),
        after: Plan::default(),
    };
    // Without a KubeVirt object nothing is made; and its PVC goes with a DataVolume that is deleted.
    if volume.metadata.deletion_timestamp.is_none() && kubernetes::config::permitted(world).is_some() {
        round.look();
    }
    let Round { next, before, after, .. } = round;
    plan.steps.extend(before.steps);
    let mut should = volume.clone();
    should.status = Some(next);
    if should.status != Some(Status::default()) {
        plan.update(Kind::DataVolume, &volume.metadata, &volume.write(), &should.write(), true);
    }
    plan.steps.extend(after.steps);
    plan.again = after.again;
    plan
}

/// One look at one DataVolume.
struct Round<'a> {
    world: &'a World,
    volume: &'a DataVolume,
    phase: Phase,
    /// Its status as it should be.
    next: Status,
    now: Timestamp,
    /// What is done before the status is written, and after.
    before: Plan,
    after: Plan,
}

impl<'a> Round<'a> {
    fn look(&mut self) {
        let meta = &self.volume.metadata;
        let (namespace, name) =
            (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
        let claim = self.world.pvcs.get(namespace, name);
        if matches!(self.phase, Phase::Succeeded | Phase::Failed) {
            return self.ended(claim);
        }
        let faults = api::job::check(self.volume);
        if !faults.is_empty() {
            return self.refused(&faults);
        }
        let wanted = match Wanted::of(self.volume, self.world, Overhead::default()) {
            Ok(wanted) => wanted,
            Err(why) => return self.not_valid(&why),
        };
        match claim {
            None => self.make_claim(&wanted),
            Some(claim) if !self.is_ours(claim) => self.taken(name),
            Some(claim) => {
                self.say_bound(claim);
                match claim.status.phase.as_deref() {
                    _ if claim.meta.deletion_timestamp.is_some() => {
                        self.waits("Terminating", &format!("PVC {name} is being deleted"));
                        self.go(Phase::Pending, None);
                    }
                    Some("Lost") => {
                        let why = format!("the volume of PVC {name} is lost: delete the DataVolume");
                        self.waits("ClaimLost", &why);
                        self.go(Phase::Pending, Some((true, "ErrClaimLost", why)));
                    }
                    _ => self.fill(&wanted.of_claim(claim, self.world), claim),
                }
            }
        }
    }

    // ── Words ───────────────────────────────────────────────────────────────────────────────────────────────────

    fn say(&mut self, kind: ConditionType, is: &str, reason: &str, message: &str) {
        status::say(&mut self.next, kind, is, reason, message, self.now);
    }

    fn tell(&mut self, warning: bool, reason: &'static str, message: impl Into<String>) {
        self.after.tell(Kind::DataVolume, &self.volume.metadata, warning, reason, message);
    }

    /// Goes to a phase; what people are told of it, they are told once.
    fn go(&mut self, phase: Phase, told: Option<(bool, &'static str, String)>) {
        if self.phase != phase
            && let Some((warning, reason, message)) = told
        {
            self.tell(warning, reason, message);
        }
        self.next.phase = Some(phase);
        if self.next.progress.is_none() {
            self.next.progress = Some(status::UNKNOWN.to_owned());
        }
    }

    fn waits(&mut self, reason: &str, message: &str) {
        self.say(ConditionType::Running, "False", reason, message);
        self.say(ConditionType::Ready, "False", reason, message);
    }

    fn say_bound(&mut self, claim: &PersistentVolumeClaim) {
        let name = claim.meta.name.clone().unwrap_or_default();
        self.next.claim_name = Some(name.clone());
        match claim.status.phase.as_deref() {
            Some("Bound") => self.say(ConditionType::Bound, "True", "Bound", &format!("PVC {name} Bound")),
            Some("Lost") => self.say(ConditionType::Bound, "False", "ClaimLost", "Claim Lost"),
            _ => self.say(ConditionType::Bound, "False", "Pending", &format!("PVC {name} Pending")),
        }
    }

    // ── Refusals ────────────────────────────────────────────────────────────────────────────────────────────────

    /// Its spec asks for what is not served: no time mends that.
    fn refused(&mut self, faults: &[Fault]) {
        let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
        self.fail("Unsupported", &said.join("; "));
    }

    fn fail(&mut self, reason: &str, message: &str) {
        self.waits(reason, message);
        self.say(ConditionType::Transferring, "False", reason, message);
        self.go(Phase::Failed, Some((true, "ImportFailed", message.to_owned())));
    }

    /// No PVC can be made of it, as the cluster is: a StorageClass may come.
    fn not_valid(&mut self, why: &str) {
        self.say(ConditionType::Bound, "False", "NotFound", "No PVC found");
        self.waits("ErrClaimNotValid", why);
        self.go(Phase::Pending, Some((true, "ErrClaimNotValid", why.to_owned())));
    }

    fn taken(&mut self, name: &str) {
        let why = format!(
            "PVC {name} is there already, and not made for this DataVolume: delete the PVC or choose another name"
        );
        self.waits("ErrResourceExists", &why);
        self.go(Phase::Pending, Some((true, "ErrResourceExists", why)));
    }

    fn is_ours(&self, claim: &PersistentVolumeClaim) -> bool {
        owner::controller(&claim.meta)
            .is_some_and(|owner| Some(owner.uid.as_str()) == self.volume.metadata.uid.as_deref())
    }

    // ── The PVC ─────────────────────────────────────────────────────────────────────────────────────────────────

    fn make_claim(&mut self, wanted: &Wanted<'_>) {
        self.say(ConditionType::Bound, "False", "NotFound", "No PVC found");
        let meta = &self.volume.metadata;
        let failed = self.world.failures.get(&key(Kind::DataVolume, meta));
        if let Some(failed) =
            failed.filter(|failed| failed.about == Kind::PersistentVolumeClaim && failed.retry > self.now)
        {
            let reason = if failed.message.contains("exceeded quota") {
                "ErrExceededQuota"
            } else {
                "ErrClaimNotValid"
            };
            self.waits(reason, &failed.message);
            self.go(Phase::Pending, Some((true, reason, failed.message.clone())));
            return self.after.look_again(failed.retry);
        }
        let name = meta.name.clone().unwrap_or_default();
        self.waits("Pending", &format!("PVC {name} is being made"));
        self.go(Phase::Pending, Some((false, "Pending", format!("PVC {name} Pending"))));
        let key = Key::new(Kind::PersistentVolumeClaim, meta.namespace.clone().unwrap_or_default(), name);
        self.after.create(key, claim::object(self.volume, wanted));
    }

    /// The VMI that waits for the disk, where there is one.
    fn consumer(&self, claim: &PersistentVolumeClaim) -> Option<&'a VirtualMachineInstance> {
        self.vmis(claim)
            .find(|vmi| vmi.metadata.deletion_timestamp.is_none() && kubernetes::objects::is_waiting(vmi))
    }

    /// The VMIs that use a PVC.
    fn vmis(
        &self,
        claim: &PersistentVolumeClaim,
    ) -> impl Iterator<Item = &'a VirtualMachineInstance> + use<'a> {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let mark = Mark::PersistentVolumeClaim(text(&claim.meta.namespace), text(&claim.meta.name));
        let world = self.world;
        let vmis = world.marked(&mark).filter(|key| key.kind == Kind::VirtualMachineInstance);
        vmis.filter_map(move |key| world.vmis.get(&key.namespace, &key.name))
    }

    /// A VMI that is beyond waiting, and may write to the disk.
    fn user(&self, claim: &PersistentVolumeClaim) -> Option<String> {
        let vmi = self
            .vmis(claim)
            .find(|vmi| !kubernetes::objects::is_waiting(vmi) && !crate::vmi::phase(vmi).is_final())?;
        vmi.metadata.name.clone()
    }

    /// Until when no other pod is made: the last one was made just now, and is gone.
    fn made_until(&self) -> Option<Timestamp> {
        if !matches!(self.phase, Phase::ImportScheduled | Phase::ImportInProgress) {
            return None;
        }
        let said = self.next.conditions.iter().find(|said| said.r#type == ConditionType::Running)?;
        let last: Timestamp = said.last_heartbeat_time.as_ref()?.parse().ok()?;
        let until = last.checked_add(SignedDuration::from_secs(worker::PAUSE.0)).ok()?;
        // What a broken pod says of the next one has its own pause.
        let is_said = said.message.as_deref().is_some_and(|message| message.contains(NEXT));
        (until > self.now && last <= self.now && !is_said).then_some(until)
    }

    // ── The worker ──────────────────────────────────────────────────────────────────────────────────────────────

    fn fill(&mut self, wanted: &Wanted<'_>, claim: &'a PersistentVolumeClaim) {
        let pod = self.world.worker_of(claim);
        let running = self.next.conditions.iter().find(|said| said.r#type == ConditionType::Running);
        let seen = running.filter(|said| said.status == "False");
        let seen = seen.and_then(|said| said.last_transition_time.as_ref()?.parse().ok());
        match worker::look(self.world, pod, seen, self.now) {
            Worker::None => self.begin(wanted, claim),
            Worker::Waits(reason, message) => {
                self.waits(&reason, &message);
                let told = format!("Import into {} scheduled", claim_name(claim));
                self.go(Phase::ImportScheduled, Some((false, "ImportScheduled", told)));
            }
            Worker::Runs(report) => self.runs(claim, report),
            Worker::Done(report) => self.done(claim, pod, &report),
            Worker::Failed(report) => {
                let reason = if report.reason.is_empty() { "Error" } else { report.reason.as_str() };
                note(claim, "Failed", self.next.restart_count, &mut self.after);
                self.fail(reason, &report.message);
            }
            Worker::Broke(reason, message, next) => self.broke(pod, &reason, &message, next),
        }
    }

    fn begin(&mut self, wanted: &Wanted<'_>, claim: &'a PersistentVolumeClaim) {
        if claim.meta.annotations.get(NOTED).is_some_and(|noted| noted == "Succeeded") {
            // It was written, and the status was not: nobody writes over a disk that is whole.
            return self.done(claim, None, &Report::default());
        }
        if let Some(until) = self.made_until() {
            return self.after.look_again(until);
        }
        if let Some(vmi) = self.user(claim) {
            let message = format!("VMI {vmi} uses PVC {}: nothing is written to it", claim_name(claim));
            self.waits("CloneSourceInUse", &message);
            return self.go(Phase::Pending, Some((true, "ErrClaimNotValid", message)));
        }
        let config = Config::read(self.world);
        // One that no pod is made of needs no volume.
        let consumer = self.consumer(claim).and_then(|vmi| crate::vmi::checked(self.world, vmi, &config));
        let consumer = consumer.as_ref().map(|(vmi, machine)| (vmi, machine));
        let is_wanted = self.volume.metadata.annotations.contains_key(AT_ONCE) || consumer.is_some();
        let name = claim_name(claim);
        if !claim.is_bound() {
            let waits = wanted.class.is_some_and(|class| class.waits_for_consumer);
            if waits && !is_wanted {
                let message = format!(
                    "PVC {name} is made when a VM uses it; {AT_ONCE} on the DataVolume makes it at once"
                );
                self.waits("WaitForFirstConsumer", &message);
                return self.go(Phase::WaitForFirstConsumer, Some((false, "WaitForFirstConsumer", message)));
            }
            if !waits {
                let message = why_unbound(wanted, name);
                self.waits("Pending", &message);
                return self.go(Phase::Pending, Some((false, "Pending", message)));
            }
        }
        let failed = self.world.failures.get(&key(Kind::DataVolume, &self.volume.metadata));
        if let Some(failed) = failed.filter(|failed| failed.about == Kind::Pod && failed.retry > self.now) {
            let message = format!("the importer pod cannot be made: {}", failed.message);
            self.waits("ErrStartingPod", &message);
            self.go(Phase::ImportScheduled, Some((true, "ErrStartingPod", message)));
            return self.after.look_again(failed.retry);
        }
        let attempt = self.next.restart_count.unwrap_or(0);
        let around = pod::Around { config: &config, facts: &self.world.facts, claim, consumer, attempt };
        match pod::pod(self.volume, wanted, &around) {
            Ok(object) => {
                let namespace = claim.meta.namespace.clone().unwrap_or_default();
                let pod_name = names::importer(name);
                let told = format!("Import into {name} scheduled");
                self.waits("Pending", &format!("pod {pod_name} is being made"));
                self.go(Phase::ImportScheduled, Some((false, "ImportScheduled", told)));
                self.after.create(Key::new(Kind::Pod, namespace, pod_name), object);
            }
            Err(Refusal::Faults(faults)) => self.refused(&faults),
            Err(Refusal::Reference(never)) => match never {},
        }
    }

    fn runs(&mut self, claim: &PersistentVolumeClaim, report: Option<&Report>) {
        self.say(ConditionType::Running, "True", "Pod is running", "");
        self.say(ConditionType::Ready, "False", "TransferRunning", "Import is running");
        note(claim, "Running", self.next.restart_count, &mut self.after);
        match report {
            Some(report) => {
                let (word, message) = status::transfer(report);
                let moves = if word == "Waiting" { "False" } else { "True" };
                self.say(ConditionType::Transferring, moves, word, &message);
                self.next.progress = Some(status::progress(report));
            }
            None => self.say(ConditionType::Transferring, "Unknown", "Starting", "the worker begins"),
        }
        let told = format!("Import into {} in progress", claim_name(claim));
        self.go(Phase::ImportInProgress, Some((false, "ImportInProgress", told)));
    }

    fn done(&mut self, claim: &PersistentVolumeClaim, pod: Option<&Pod>, report: &Report) {
        self.say(ConditionType::Running, "False", "Completed", "Import Complete");
        self.say(ConditionType::Ready, "True", "", "");
        let (_, message) = status::transfer(report);
        self.say(ConditionType::Transferring, "False", "Completed", &message);
        self.next.progress = Some("100.0%".to_owned());
        // First: whoever looks at the PVC alone must not take the disk for one that is to be written.
        note(claim, "Succeeded", self.next.restart_count, &mut self.before);
        let told = format!("Successfully imported into PVC {}", claim_name(claim));
        self.go(Phase::Succeeded, Some((false, "ImportSucceeded", told)));
        if let Some(pod) = pod {
            self.after.delete(key(Kind::Pod, &pod.meta), &pod.meta);
        }
    }

    /// The pod ended without an end of its work. It goes, and the next one goes on where it stopped.
    fn broke(&mut self, pod: Option<&Pod>, reason: &str, message: &str, next: Timestamp) {
        let Some(pod) = pod else { return };
        // The pod's word counts no further than what was counted here.
        let counted = self.next.restart_count.unwrap_or(0).max(0);
        let count = worker::attempt(pod).min(counted).saturating_add(1).max(counted);
        let is_new = self.next.restart_count.unwrap_or(0) < count;
        self.next.restart_count = Some(count);
        if is_new {
            self.tell(true, "ImportFailed", format!("the importer pod broke off ({reason}): {message}"));
        }
        let message = format!("{message}; {NEXT} {}", kubernetes::conditions::stamp(next));
        self.waits(reason, &message);
        self.say(ConditionType::Transferring, "False", "Waiting", &message);
        self.go(Phase::ImportInProgress, None);
        if next > self.now {
            return self.after.look_again(next);
        }
        if !pod.is_going() {
            self.after.delete(key(Kind::Pod, &pod.meta), &pod.meta);
        }
    }

    /// It has succeeded or failed, and stays so.
    fn ended(&mut self, claim: Option<&PersistentVolumeClaim>) {
        let Some(claim) = claim.filter(|claim| self.is_ours(claim)) else {
            if self.phase == Phase::Succeeded {
                self.say(ConditionType::Bound, "False", "NotFound", "No PVC found");
                self.say(ConditionType::Ready, "False", "NotFound", "the PVC is gone, and the disk with it");
            }
            return;
        };
        self.say_bound(claim);
        if self.phase == Phase::Succeeded {
            note(claim, "Succeeded", self.next.restart_count, &mut self.after);
            // The plan that wrote so may have broken off behind that; and one that was made late must not write.
            if let Some(pod) = self.world.worker_of(claim).filter(|pod| !pod.is_going()) {
                self.after.delete(key(Kind::Pod, &pod.meta), &pod.meta);
            }
        }
    }
}

/// Notes on the PVC what its pod does: upstream's clients look there.
fn note(claim: &PersistentVolumeClaim, phase: &str, restarts: Option<i64>, plan: &mut Plan) {
    let whole = |annotations| serde_json::json!({"metadata": {"annotations": annotations}});
    let mut should = claim.meta.annotations.clone();
    should.insert(NOTED.to_owned(), phase.to_owned());
    should.insert(RESTARTS.to_owned(), restarts.unwrap_or(0).to_string());
    let (is, should) = (whole(&claim.meta.annotations), whole(&should));
    plan.update(Kind::PersistentVolumeClaim, &claim.meta, &is, &should, false);
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

fn claim_name(claim: &PersistentVolumeClaim) -> &str {
    claim.meta.name.as_deref().unwrap_or_default()
}
