//! Exports: an annotation asks for the disk of a PVC as a containerDisk in a registry.
//!
//! ```text
//!  annotations …/storage.export.target, …      on the PVC, or on the DataVolume that made it
//!        │ api::job::export::Request            each fault with the name of its annotation
//!  filled, and not in use? ──no──► Pending, with the reason
//!        │ yes
//!        ▼
//!  pod exporter-NAME: PVC read-only, cdi-worker export ──report──► Running, progress ──► Succeeded with the digest, or Failed
//!        │ broke off: a growing pause, then the next pod, which sends no blob that the registry has
//!        ▼
//!  answer.rs  annotations …/storage.export.phase, .progress, .reason, .message, .digest, … of the PVC; events of the requesting object
//! ```
//!
//! **Flow.** [`decide`] makes an [`Export`] of the PVC, its pod and the request. [`export()`] returns the new
//! answer and the steps that follow it. The plan is the difference of the answers, and then the steps. The
//! request has a checksum, which is part of the answer and of the pod: another request is another export, and
//! the same one is done once. The export ends when the annotation is removed; the answer is removed with it.
//! **Guarantees.** An export fills nothing: its pod mounts the PVC read-only. It begins on a PVC whose disk
//! is complete and that no VMI may write to (`data_volume::users`). A VMI that comes meanwhile waits for it
//! and says so (`vmi::needs`). One pod at a time: its name follows from the PVC's. A failure that another pod
//! would repeat ends the export.
//! **Rights.** A user who may annotate a PVC can have its bytes: see [`api::job::export`].
//! **Assumptions.** A worker's report comes from the tenant's namespace. So only a digest of valid form, a
//! message of bounded length, and a number are taken from it.
//! **Caveats.** A pod of another program that mounts the PVC is not detected. The worker notices its writes
//! only if they change the layout of the image or its digest. The pod of an export that failed stays, so that
//! its log can be read; it is deleted with the next request, and with the PVC.

mod answer;
#[cfg(test)]
mod events_tests;
mod pod;
#[cfg(test)]
mod tests;

use crate::data_volume::claim_annotations;
use crate::data_volume::registries::RegistrySettings;
use crate::data_volume::users::user;
use crate::data_volume::worker::{self, PAUSE, Worker};
use crate::volume_origin::unproven;
use answer::{Answer, Phase};
use api::cdi::annotations::{
    CONTENT_TYPE, EXPORT_ANSWERS, EXPORT_CERTIFICATES, EXPORT_REQUEST, EXPORT_SECRET,
};
use api::data_volume::{DataVolume, Phase as Filling, Registry};
use api::job::Report;
use api::job::export::{self, Request};
use api::meta::ObjectMeta;
use cluster_model::conditions::stamp;
use cluster_model::objects::names::fnv;
use cluster_model::objects::{Attempt, Key, Kind, PersistentVolumeClaim, Pod, Work, World, owner};
use cluster_model::plan::Plan;
use jiff::{SignedDuration, Timestamp};

/// The plan for the export of the PVC of a name.
pub(crate) fn decide(world: &World, namespace: &str, name: &str, now: Timestamp) -> Plan {
    let Some(claim) = world.pvcs.get(namespace, name) else { return Plan::default() };
    let volume = world.data_volumes.get(namespace, name).filter(|volume| is_of(claim, volume));
    let pod = world.worker_for(claim, Work::Export);
    // A deleted PVC waits for its pods, and nothing is created without a KubeVirt object.
    if claim.meta.deletion_timestamp.is_some() || world.permissions().is_none() {
        return Plan::deleting(pod);
    }
    let Some(asked_by) = asked_by(claim, volume) else {
        let mut should = claim.meta.annotations.clone();
        should.retain(|name, _| !EXPORT_ANSWERS.contains(&name.as_str()));
        return Plan::deleting(pod).and(claim_annotations::write(claim, &should));
    };
    let request = format!("{:016x}", fnv(&export::fingerprint_text(&asked_by.1.annotations)));
    let answer = Answer::from_annotations(&claim.meta.annotations).filter(|answer| answer.request == request);
    let answer = answer.unwrap_or_else(|| Answer::for_request(request));
    let input = Export { world, claim, volume, pod, asked_by, now, answer };
    let Outcome { mut answer, after } = export(&input);
    let is_new = (answer.phase, &answer.reason) != (input.answer.phase, &input.answer.reason);
    if is_new || answer.since.is_empty() {
        answer.since = stamp(now);
    }
    claim_annotations::write(claim, &answer.to_annotations(&claim.meta.annotations)).and(after)
}

/// The object whose annotations ask for an export: the PVC before its DataVolume.
fn asked_by<'a>(
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

/// True if the DataVolume is the controller of the PVC.
fn is_of(claim: &PersistentVolumeClaim, volume: &DataVolume) -> bool {
    owner::controller(&claim.meta).is_some_and(|owner| Some(&owner.uid) == volume.metadata.uid.as_ref())
}

/// The input: one export.
struct Export<'a> {
    world: &'a World,
    claim: &'a PersistentVolumeClaim,
    volume: Option<&'a DataVolume>,
    pod: Option<&'a Pod>,
    /// The object whose annotations ask for it. It gets the events.
    asked_by: (Kind, &'a ObjectMeta),
    now: Timestamp,
    /// The answer as it was written last.
    answer: Answer,
}

/// Result of a step: the new answer, and the steps after it is written.
struct Outcome {
    answer: Answer,
    after: Plan,
}

impl Export<'_> {
    fn name(&self) -> &str {
        self.claim.meta.name.as_deref().unwrap_or_default()
    }

    fn unchanged(&self) -> Outcome {
        Outcome { answer: self.answer.clone(), after: Plan::default() }
    }

    fn wait(&self, reason: &str, message: &str) -> Outcome {
        self.unchanged().with_phase(Phase::Pending, reason, message)
    }

    fn fail(&self, reason: &str, message: &str) -> Outcome {
        let outcome = self.unchanged().with_phase(Phase::Failed, reason, message);
        let message = format!("the disk of PVC {} was not exported: {}", self.name(), outcome.answer.message);
        outcome.then(self.event(true, "ExportFailed", message))
    }

    fn event(&self, is_warning: bool, reason: &'static str, message: impl Into<String>) -> Plan {
        Plan::event(self.asked_by, is_warning, reason, message)
    }

    /// Plan that only decides again after a pause.
    fn retry_plan(&self) -> Plan {
        Plan { again: self.now.checked_add(SignedDuration::from_secs(PAUSE.0)).ok(), ..Plan::default() }
    }
}

impl Outcome {
    fn with_phase(mut self, phase: Phase, reason: &str, message: &str) -> Outcome {
        self.answer.set_phase(phase, reason, message);
        self
    }

    fn then(self, after: Plan) -> Outcome {
        Outcome { after: self.after.and(after), ..self }
    }

    fn retry_at(mut self, time: Timestamp) -> Outcome {
        self.after.look_again(time);
        self
    }
}

/// The step for the state of the pod.
fn export(input: &Export<'_>) -> Outcome {
    let is_of_request = |pod: &&Pod| pod.meta.annotations.get(EXPORT_REQUEST) == Some(&input.answer.request);
    if input.pod.is_some_and(|pod| !is_of_request(&pod)) {
        let message = "the pod of an earlier request is being deleted";
        return input.wait("Terminating", message).then(Plan::deleting(input.pod));
    }
    match input.answer.phase {
        // The plan that wrote the phase may have ended before it deleted the pod.
        Phase::Succeeded => return input.unchanged().then(Plan::deleting(input.pod)),
        Phase::Failed => return input.unchanged(),
        Phase::Pending | Phase::Running => {}
    }
    let request = match Request::from_annotations(&input.asked_by.1.annotations) {
        Ok(request) => request,
        Err(faults) => {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            let failed = input.fail("InvalidRequest", &faults.join("; "));
            return Outcome { after: Plan::deleting(input.pod).and(failed.after), ..failed };
        }
    };
    let seen = input.answer.since.parse().ok();
    let worker = worker::observe(input.world, input.pod, Work::Export, None, seen, input.now);
    // A VMI waits for the end of the pod: one that runs was created at the same moment.
    if matches!(worker, Worker::Waits(..) | Worker::Runs(_))
        && let Some(vmi) = user(input.world, input.claim)
    {
        return in_use(input, &vmi).then(Plan::deleting(input.pod));
    }
    match worker {
        Worker::None => try_create_pod(input, &request),
        Worker::Waits(reason, message) => pod_waits(input, &request, &reason, &message),
        Worker::Runs(report) => running_outcome(input, report),
        Worker::Done(report) => complete(input, &request, &report),
        Worker::Failed(report) => {
            let reason = if report.reason.is_empty() { "Error" } else { report.reason.as_str() };
            input.fail(reason, &report.message)
        }
        Worker::Broke(reason, message, next) => retry_after_pod_end(input, &reason, &message, next),
        // The pod of an export has no certificate, and so no deadline.
        Worker::Late(message) => retry_after_pod_end(input, "DeadlinePassed", &message, input.now),
    }
}

/// Creates the pod, unless there is a reason against it.
fn try_create_pod(input: &Export<'_>, request: &Request) -> Outcome {
    let name = input.name();
    if input.claim.meta.annotations.get(CONTENT_TYPE).is_some_and(|content| content == "archive") {
        return input.fail("Unsupported", &format!("PVC {name} holds files of an archive, not a disk"));
    }
    if let Some(why) = not_filled(input) {
        return input.wait("NotFilled", &why);
    }
    if let Some(vmi) = user(input.world, input.claim) {
        return in_use(input, &vmi);
    }
    if let Some(until) = made_until(input) {
        return input.unchanged().retry_at(until);
    }
    let pod_name = Work::Export.pod(name);
    let namespace = input.claim.meta.namespace.clone().unwrap_or_default();
    if input.world.pods.get(&namespace, &pod_name).is_some() {
        return input.wait("ErrStartingPod", &worker::name_taken_message(&pod_name));
    }
    let disk = Key::new(Kind::DataVolume, &*namespace, name);
    let failed = input.world.failures.get(&disk).filter(|failed| failed.about == Attempt::Make(Kind::Pod));
    // An earlier refusal is reported until a try succeeds.
    let outcome = match failed {
        Some(failed) => {
            let message = format!("the export pod cannot be created: {}", failed.message);
            let outcome = input.wait("ErrStartingPod", &message);
            if failed.retry > input.now {
                return outcome.retry_at(failed.retry);
            }
            outcome
        }
        None => input.wait("Starting", &format!("pod {pod_name} is being created")),
    };
    let registry = Registry { url: Some(request.target.clone()), ..Registry::default() };
    let told = match RegistrySettings::of_host(registry.host().as_deref(), input.world) {
        Ok(told) => told,
        Err(message) => return input.wait("RegistriesNotValid", &message).then(input.retry_plan()),
    };
    let mut after = Plan::default();
    if failed.is_none() && input.answer.reason != "Starting" && input.answer.restarts == 0 {
        let message = format!("Export of PVC {name} to {} scheduled", request.target);
        after = input.event(false, "ExportScheduled", message);
    }
    let object = pod::pod(request, input.claim, input.world, &input.answer, &told);
    after.create(Key::new(Kind::Pod, namespace, pod_name), object);
    outcome.then(after)
}

/// Waits until no VMI may write to the disk.
fn in_use(input: &Export<'_>, vmi: &str) -> Outcome {
    let name = input.name();
    let message = format!("VMI {vmi} uses PVC {name}: its disk is exported when no VMI may write to it");
    let event = match input.answer.reason == "InUse" {
        true => Plan::default(),
        false => input.event(true, "ExportWaits", message.clone()),
    };
    // The end of a launcher pod does not touch this key.
    input.wait("InUse", &message).then(event).then(input.retry_plan())
}

/// The reason why the disk of the PVC is not complete.
fn not_filled(input: &Export<'_>) -> Option<String> {
    let name = input.name();
    if !input.claim.is_bound() {
        return Some(format!("PVC {name} has no volume yet"));
    }
    let phase = input.volume.map(|volume| volume.status.as_ref().and_then(|status| status.phase.clone()));
    match phase {
        Some(phase) if phase != Some(Filling::Succeeded) => {
            let phase = phase.unwrap_or_default();
            let phase = if phase.as_str().is_empty() { "no phase yet" } else { phase.as_str() };
            Some(format!("DataVolume {name} is not filled: {phase}"))
        }
        // Its worker pod may exist still, and has written everything.
        Some(_) => unproven(input.world, input.claim).map(|why| format!("PVC {name} {why}")),
        None => {
            let unproven = unproven(input.world, input.claim).map(|why| format!("PVC {name} {why}"));
            let writer = input.world.worker_of(input.claim).filter(|pod| !pod.has_ended());
            unproven.or_else(|| writer.map(|_| format!("a pod still writes to PVC {name}")))
        }
    }
}

/// End of the pause before the next pod, if the last one was created just now and is gone.
fn made_until(input: &Export<'_>) -> Option<Timestamp> {
    let had_none = ["", "NotFilled", "InUse", "Terminating", "ErrStartingPod"];
    let had_pod = input.answer.phase == Phase::Running || !had_none.contains(&input.answer.reason.as_str());
    let since: Timestamp = input.answer.since.parse().ok()?;
    let until = since.checked_add(SignedDuration::from_secs(PAUSE.0)).ok()?;
    (had_pod && until > input.now).then_some(until)
}

/// The pod does not run yet. A cause that does not pass by itself becomes an event.
fn pod_waits(input: &Export<'_>, request: &Request, reason: &str, message: &str) -> Outcome {
    let message = missing_object_message(request, message).unwrap_or_else(|| message.to_owned());
    let outcome = input.wait(reason, &message);
    let is_patient = ["Pending", "ContainerCreating", "PodInitializing", "Terminating"].contains(&reason);
    if is_patient || input.answer.reason == outcome.answer.reason {
        return outcome;
    }
    let message = format!("the export of PVC {} waits: {}", input.name(), outcome.answer.message);
    outcome.then(input.event(true, "ExportWaits", message))
}

/// Outcome while the export pod works.
fn running_outcome(input: &Export<'_>, report: Option<&Report>) -> Outcome {
    let Some(report) = report else {
        return input.unchanged().with_phase(Phase::Running, "", "the worker begins");
    };
    let mut outcome = input.unchanged().with_phase(Phase::Running, &report.reason, &report.message);
    outcome.answer.progress = answer::percent(report);
    outcome
}

/// The image is in the registry.
fn complete(input: &Export<'_>, request: &Request, report: &Report) -> Outcome {
    if !export::is_digest(&report.digest) {
        return input.fail("Error", "the worker succeeded, but reported no image digest");
    }
    let message = format!("{}@{}", request.target, report.digest);
    let mut outcome = input.unchanged().with_phase(Phase::Succeeded, "Completed", &message);
    (outcome.answer.progress, outcome.answer.digest) = ("100%".to_owned(), report.digest.clone());
    let message = format!("Successfully exported PVC {} to {message}", input.name());
    outcome.then(input.event(false, "ExportSucceeded", message)).then(Plan::deleting(input.pod))
}

/// The pod ended before its work did. It is deleted, and the next one sends the blobs that the registry does
/// not have.
fn retry_after_pod_end(input: &Export<'_>, reason: &str, message: &str, next: Timestamp) -> Outcome {
    let Some(pod) = input.pod else { return input.unchanged() };
    let counted = input.answer.restarts;
    let count = worker::count(pod, counted);
    let mut outcome = input.wait(reason, &format!("{message}; the next pod begins at {}", stamp(next)));
    outcome.answer.restarts = count;
    if counted < count {
        let message = format!("the export pod broke off ({reason}): {}", answer::bounded(message));
        outcome = outcome.then(input.event(true, "ExportFailed", message));
    }
    match next > input.now {
        true => outcome.retry_at(next),
        false => outcome.then(Plan::deleting(input.pod)),
    }
}

/// The message where the kubelet misses an object that an annotation names. Its own message is
/// `MountVolume.SetUp failed for volume "…" : secret "NAME" not found`.
fn missing_object_message(request: &Request, message: &str) -> Option<String> {
    let named = [
        ("Secret", "secret", &request.secret, EXPORT_SECRET),
        ("ConfigMap", "configmap", &request.certificates, EXPORT_CERTIFICATES),
    ];
    named.into_iter().find_map(|(kind, word, name, annotation)| {
        let name = name.as_ref()?;
        message.contains(&format!("{word} \"{name}\" not found")).then(|| {
            format!(
                "{kind} {name}, which the annotation {annotation} names, does not exist: create it, and the \
                 export begins"
            )
        })
    })
}
