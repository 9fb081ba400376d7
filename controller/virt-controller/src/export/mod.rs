//! Exports: the disk of a PVC becomes a containerDisk in a registry, because an annotation asks for it.
//!
//! ```text
//!  annotations …/storage.export.target, …      on the PVC, or on the DataVolume that made it
//!        │ api::job::export::Request            every fault by the name of its annotation
//!        ▼
//!  filled? nobody uses it? ──no──► Pending, with the reason
//!        │ yes
//!        ▼
//!  pod exporter-NAME: PVC read-only, cdi-worker export ──report──► Running, progress ──► Succeeded with the digest, or Failed
//!        │ broke off: a pause that grows, then the next pod, which sends no blob that the registry has
//!        ▼
//!  answer.rs  annotations …/storage.export.phase, .progress, .reason, .message, .digest, … of the PVC; events of who asks
//! ```
//!
//! **Flow.** Each round looks at the PVC and at the pod, makes a copy of the answer as it should be, and writes the
//! difference. All that asks has a sum, which stands in the answer and on the pod: another request is another export, and the
//! same one is done once. Who takes the annotation away ends the export; the answer goes with it.
//! **Guarantees.** An export fills nothing: its pod mounts the PVC read-only. It begins on a PVC whose disk is whole and that no VMI may
//! write to (`datavolume::users`); a VMI that comes meanwhile waits for it and says so (`vmi::needs`). One pod at a time: its
//! name follows from the PVC's. A failure that no other pod could mend ends the export.
//! **Rights.** Who may annotate a PVC can have its bytes: see [`api::job::export`].
//! **Assumptions.** What a worker says is said by somebody in the tenant's namespace: of it a digest is noted that has the form of one,
//! a sentence of bounded length, and a number.
//! **Caveats.** A pod of a stranger that mounts the PVC is not seen; what it writes meanwhile is noticed by the worker only where it
//! changes the layout of the image or its digest. The pod of an export that failed stays, so that its log can be read; it goes with
//! the next request, and with the PVC.

mod answer;
mod pod;
#[cfg(test)]
mod tests;

use crate::datavolume::notes;
use crate::datavolume::registries::Told;
use crate::datavolume::users::user;
use crate::datavolume::worker::{self, PAUSE, Worker};
use answer::{Answer, Phase};
use api::cdi::annotations::{
    CONTENT_TYPE, EXPORT_ANSWERS, EXPORT_CERTIFICATES, EXPORT_REQUEST, EXPORT_SECRET,
};
use api::datavolume::{DataVolume, Phase as Filling, Registry};
use api::job::Report;
use api::job::export::{self, Request};
use api::meta::ObjectMeta;
use cluster_model::conditions::stamp;
use cluster_model::objects::names::fnv;
use cluster_model::objects::{Attempt, Key, Kind, PersistentVolumeClaim, Pod, Work, World, key, owner};
use cluster_model::plan::Plan;
use jiff::{SignedDuration, Timestamp};

/// What is to be done for the export of the PVC of a name.
pub(crate) fn decide(world: &World, namespace: &str, name: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(claim) = world.pvcs.get(namespace, name) else { return plan };
    let volume = world.data_volumes.get(namespace, name).filter(|volume| is_of(claim, volume));
    let pod = world.worker_for(claim, Work::Export);
    // A PVC that goes waits for its pods; and without a KubeVirt object nothing is made.
    if claim.meta.deletion_timestamp.is_some() || cluster_model::config::permitted(world).is_none() {
        delete(&mut plan, pod);
        return plan;
    }
    match asks(claim, volume) {
        Some(who) => Round::of(world, claim, volume, pod, who, now).looks(),
        None => {
            delete(&mut plan, pod);
            let mut should = claim.meta.annotations.clone();
            should.retain(|name, _| !EXPORT_ANSWERS.contains(&name.as_str()));
            notes::write(claim, &should, &mut plan);
            plan
        }
    }
}

/// Whose annotations ask for an export: the PVC's own before those of its DataVolume.
fn asks<'a>(
    claim: &'a PersistentVolumeClaim,
    volume: Option<&'a DataVolume>,
) -> Option<(Kind, &'a ObjectMeta)> {
    let of_claim = Some((Kind::PersistentVolumeClaim, &claim.meta));
    let of_volume = volume.map(|volume| (Kind::DataVolume, &volume.metadata));
    [of_claim, of_volume]
        .into_iter()
        .flatten()
        .find(|(_, meta)| meta.deletion_timestamp.is_none() && export::is_requested(&meta.annotations))
}

/// The DataVolume has made the PVC.
fn is_of(claim: &PersistentVolumeClaim, volume: &DataVolume) -> bool {
    owner::controller(&claim.meta).is_some_and(|owner| Some(&owner.uid) == volume.metadata.uid.as_ref())
}

fn delete(plan: &mut Plan, pod: Option<&Pod>) {
    if let Some(pod) = pod.filter(|pod| !pod.is_going()) {
        plan.delete(key(Kind::Pod, &pod.meta), &pod.meta);
    }
}

/// One look at one export.
struct Round<'a> {
    world: &'a World,
    claim: &'a PersistentVolumeClaim,
    volume: Option<&'a DataVolume>,
    pod: Option<&'a Pod>,
    /// Who asks.
    who: (Kind, &'a ObjectMeta),
    now: Timestamp,
    is: Answer,
    /// The answer as it should be.
    next: Answer,
    /// What is done behind it.
    after: Plan,
}

impl<'a> Round<'a> {
    fn of(
        world: &'a World,
        claim: &'a PersistentVolumeClaim,
        volume: Option<&'a DataVolume>,
        pod: Option<&'a Pod>,
        who: (Kind, &'a ObjectMeta),
        now: Timestamp,
    ) -> Round<'a> {
        let request = format!("{:016x}", fnv(&export::request_text(&who.1.annotations)));
        let said = Answer::of(&claim.meta.annotations).filter(|answer| answer.request == request);
        let is = said.unwrap_or_else(|| Answer::to(request));
        Round { world, claim, volume, pod, who, now, next: is.clone(), is, after: Plan::default() }
    }

    fn looks(mut self) -> Plan {
        self.look();
        if (self.next.phase, &self.next.reason) != (self.is.phase, &self.is.reason)
            || self.next.since.is_empty()
        {
            self.next.since = stamp(self.now);
        }
        let mut plan = Plan::default();
        notes::write(self.claim, &self.next.written(&self.claim.meta.annotations), &mut plan);
        plan.steps.extend(self.after.steps);
        plan.again = self.after.again;
        plan
    }

    fn look(&mut self) {
        let is_of_request = |pod: &&Pod| pod.meta.annotations.get(EXPORT_REQUEST) == Some(&self.next.request);
        if self.pod.is_some_and(|pod| !is_of_request(&pod)) {
            delete(&mut self.after, self.pod);
            return self.waits("Terminating", "the pod of an earlier request is being deleted");
        }
        match self.is.phase {
            // The plan that wrote so may have broken off behind that.
            Phase::Succeeded => return delete(&mut self.after, self.pod),
            Phase::Failed => return,
            Phase::Pending | Phase::Running => {}
        }
        let request = match Request::from_annotations(&self.who.1.annotations) {
            Ok(request) => request,
            Err(faults) => {
                let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
                delete(&mut self.after, self.pod);
                return self.fails("InvalidRequest", &said.join("; "));
            }
        };
        let seen = self.is.since.parse().ok();
        match worker::look(self.world, self.pod, Work::Export, None, seen, self.now) {
            Worker::None => self.begin(&request),
            Worker::Waits(reason, message) => self.pod_waits(&request, &reason, &message),
            Worker::Runs(report) => self.runs(report),
            Worker::Done(report) => self.done(&request, &report),
            Worker::Failed(report) => {
                let reason = if report.reason.is_empty() { "Error" } else { report.reason.as_str() };
                self.fails(reason, &report.message);
            }
            Worker::Broke(reason, message, next) => self.broke(&reason, &message, next),
            // No export has a certificate that ends.
            Worker::Late(message) => self.broke("DeadlinePassed", &message, self.now),
        }
    }

    fn name(&self) -> &'a str {
        self.claim.meta.name.as_deref().unwrap_or_default()
    }

    // ── Words ───────────────────────────────────────────────────────────────────────────────────────────────────

    fn tell(&mut self, warning: bool, reason: &'static str, message: impl Into<String>) {
        self.after.tell(self.who.0, self.who.1, warning, reason, message);
    }

    fn waits(&mut self, reason: &str, message: &str) {
        self.next.say(Phase::Pending, reason, message);
    }

    fn fails(&mut self, reason: &str, message: &str) {
        self.next.say(Phase::Failed, reason, message);
        let told = format!("the disk of PVC {} was not exported: {}", self.name(), self.next.message);
        self.tell(true, "ExportFailed", told);
    }

    // ── The pod ─────────────────────────────────────────────────────────────────────────────────────────────────

    fn begin(&mut self, request: &Request) {
        let name = self.name();
        if self.claim.meta.annotations.get(CONTENT_TYPE).is_some_and(|content| content == "archive") {
            return self.fails("Unsupported", &format!("PVC {name} holds files of an archive, and no disk"));
        }
        if let Some(why) = self.not_filled() {
            return self.waits("NotFilled", &why);
        }
        if let Some(vmi) = user(self.world, self.claim) {
            let message =
                format!("VMI {vmi} uses PVC {name}: its disk is exported when nobody may write to it");
            if self.is.reason != "InUse" {
                self.tell(true, "ExportWaits", message.clone());
            }
            self.waits("InUse", &message);
            // Nobody says here that a launcher pod has ended.
            return self.looks_again();
        }
        if let Some(until) = self.made_until() {
            return self.after.look_again(until);
        }
        let pod_name = Work::Export.pod(name);
        let namespace = self.claim.meta.namespace.clone().unwrap_or_default();
        if self.world.pods.get(&namespace, &pod_name).is_some() {
            return self.waits("ErrStartingPod", &worker::is_in_the_way(&pod_name));
        }
        let disk = Key::new(Kind::DataVolume, &*namespace, name);
        let failed = self.world.failures.get(&disk).filter(|failed| failed.about == Attempt::Make(Kind::Pod));
        if let Some(failed) = failed {
            self.waits("ErrStartingPod", &format!("the export pod cannot be made: {}", failed.message));
            if failed.retry > self.now {
                return self.after.look_again(failed.retry);
            }
        }
        let registry = Registry { url: Some(request.target.clone()), ..Registry::default() };
        let told = match Told::of_host(registry.host().as_deref(), self.world) {
            Ok(told) => told,
            Err(message) => {
                self.waits("RegistriesNotValid", &message);
                return self.looks_again();
            }
        };
        if failed.is_none() && self.is.reason != "Starting" && self.next.restarts == 0 {
            self.tell(
                false,
                "ExportScheduled",
                format!("Export of PVC {name} to {} scheduled", request.target),
            );
        }
        // What failed before is said as long as no try has mended it.
        if failed.is_none() {
            self.waits("Starting", &format!("pod {pod_name} is being made"));
        }
        let object = pod::pod(request, self.claim, self.world, &self.next, &told);
        self.after.create(Key::new(Kind::Pod, namespace, pod_name), object);
    }

    /// Why the disk of the PVC is not whole.
    fn not_filled(&self) -> Option<String> {
        let name = self.name();
        if !self.claim.is_bound() {
            return Some(format!("PVC {name} has no volume yet"));
        }
        let phase = self.volume.map(|volume| volume.status.as_ref().and_then(|status| status.phase.clone()));
        match phase {
            Some(phase) if phase != Some(Filling::Succeeded) => {
                let phase = phase.unwrap_or_default();
                let phase = if phase.as_str().is_empty() { "no phase yet" } else { phase.as_str() };
                Some(format!("DataVolume {name} is not filled: {phase}"))
            }
            // Its worker pod may be there still, and has written all.
            Some(_) => self.claim.not_whole().map(|why| format!("PVC {name} {why}")),
            None => {
                let not_whole = self.claim.not_whole().map(|why| format!("PVC {name} {why}"));
                let writer = self.world.worker_of(self.claim).filter(|pod| !pod.has_ended());
                not_whole.or_else(|| writer.map(|_| format!("a pod still writes to PVC {name}")))
            }
        }
    }

    /// Until when no other pod is made: the last one was there just now, and is gone.
    fn made_until(&self) -> Option<Timestamp> {
        let had_none = ["", "NotFilled", "InUse", "Terminating", "ErrStartingPod"];
        let had_pod = self.is.phase == Phase::Running || !had_none.contains(&self.is.reason.as_str());
        let since: Timestamp = self.is.since.parse().ok()?;
        let until = since.checked_add(SignedDuration::from_secs(PAUSE.0)).ok()?;
        (had_pod && until > self.now).then_some(until)
    }

    /// The pod does not run yet. What will not come by itself is told to who asked.
    fn pod_waits(&mut self, request: &Request, reason: &str, message: &str) {
        let message = absent(request, message).unwrap_or_else(|| message.to_owned());
        self.waits(reason, &message);
        let is_patient = ["Pending", "ContainerCreating", "PodInitializing", "Terminating"].contains(&reason);
        if !is_patient && self.is.reason != self.next.reason {
            let told = format!("the export of PVC {} waits: {}", self.name(), self.next.message);
            self.tell(true, "ExportWaits", told);
        }
    }

    fn runs(&mut self, report: Option<&Report>) {
        match report {
            Some(report) => {
                self.next.say(Phase::Running, &report.reason, &report.message);
                self.next.progress = answer::percent(report);
            }
            None => self.next.say(Phase::Running, "", "the worker begins"),
        }
    }

    fn done(&mut self, request: &Request, report: &Report) {
        if !export::is_digest(&report.digest) {
            return self.fails("Error", "the worker ended well and told no digest of an image");
        }
        let message = format!("{}@{}", request.target, report.digest);
        self.next.say(Phase::Succeeded, "Completed", &message);
        (self.next.progress, self.next.digest) = ("100%".to_owned(), report.digest.clone());
        let told = format!("Successfully exported PVC {} to {message}", self.name());
        self.tell(false, "ExportSucceeded", told);
        delete(&mut self.after, self.pod);
    }

    /// The pod ended without an end of its work. It goes, and the next one sends what the registry does not have.
    fn broke(&mut self, reason: &str, message: &str, next: Timestamp) {
        let Some(pod) = self.pod else { return };
        let counted = self.is.restarts;
        let count = worker::count(pod, counted);
        if counted < count {
            self.tell(
                true,
                "ExportFailed",
                format!("the export pod broke off ({reason}): {}", answer::bounded(message)),
            );
        }
        self.next.restarts = count;
        self.waits(reason, &format!("{message}; the next pod begins at {}", stamp(next)));
        if next > self.now {
            return self.after.look_again(next);
        }
        delete(&mut self.after, self.pod);
    }

    fn looks_again(&mut self) {
        if let Ok(next) = self.now.checked_add(SignedDuration::from_secs(PAUSE.0)) {
            self.after.look_again(next);
        }
    }
}

/// What the pod waits for in the words of who asked, where the kubelet misses an object that an annotation names. Its words are
/// `MountVolume.SetUp failed for volume "…" : secret "NAME" not found`.
fn absent(request: &Request, message: &str) -> Option<String> {
    let named = [
        ("Secret", "secret", &request.secret, EXPORT_SECRET),
        ("ConfigMap", "configmap", &request.certificates, EXPORT_CERTIFICATES),
    ];
    named.into_iter().find_map(|(kind, word, name, annotation)| {
        let name = name.as_ref()?;
        message.contains(&format!("{word} \"{name}\" not found")).then(|| {
            format!("{kind} {name}, which the annotation {annotation} names, is not there: create it, and the export begins")
        })
    })
}
