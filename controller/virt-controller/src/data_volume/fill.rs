//! Filling of a PVC: follows the worker pod, and makes the next one.
//!
//! ```text
//!  no pod ── may it be made? ──► made ──► waits ──► works ──► done: the disk is complete
//!    ▲          │ no: the reason                     │  └──► failed: no other pod can do better (imports)
//!    │          ▼                                     ▼
//!    └── after a pause that grows ◄─────────────── broke off
//! ```
//!
//! [`fill`] matches the state of the pod; [`try_create_pod`] is the walk from a PVC without a pod to its pod, and the checks stand in it in
//! their order.

use super::claim::{AT_ONCE, RequestedClaim};
use super::claim_annotations::running;
use super::clone::{self, CloneMethod, Cloned, SourcePodState};
use super::outcome::Outcome;
use super::registries::RegistrySettings;
use super::request::Request;
use super::{
    NEXT, WAITS, claim_annotations, claim_name, grow, permit, pod, refuse_spec, status, upload, users, worker,
};
use api::data_volume::{ConditionType, Phase};
use api::job::{Refusal, Report, Stage};
use cluster_model::config::Config;
use cluster_model::objects::{Attempt, Failure, Key, Kind, PersistentVolumeClaim, Pod, Work, World};
use cluster_model::plan::Plan;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use worker::Worker;

/// Reason of the kubelet for a container that was killed for want of memory.
const OOM: &str = "OOMKilled";
/// Number of pods that broke off before one that was killed at its memory limit, after which no other one is
/// created.
const HOPELESS: i64 = 9;
/// The message of a disk that may be incomplete, since its source gave it no length.
const LENGTH_UNKNOWN: &str = "the server sent neither the length of the disk nor an end mark, and there is no \
                              checksum: if the connection was lost early, the disk is too short, which cannot be \
                              detected; set spec.source.http.checksum, or use a server that sends Content-Length";

/// The input of the steps that fill a PVC of a request.
pub(super) struct Target<'t, 'a> {
    pub(super) request: &'t Request<'a>,
    pub(super) claim: &'a PersistentVolumeClaim,
    pub(super) requested: &'t RequestedClaim<'a>,
    pub(super) clone: Option<&'t Cloned<'a>>,
}

/// The step for the state of the worker pod.
pub(super) fn fill(target: &Target<'_, '_>) -> Outcome {
    let Target { request, claim, clone, .. } = *target;
    match clone.and_then(|cloned| cloned.way.as_ref()) {
        Some(CloneMethod::Csi) => return clone::follow_population(request, claim, Phase::CsiCloneInProgress),
        Some(CloneMethod::Snapshot) => {
            return clone::follow_population(request, claim, Phase::CloneFromSnapshotSourceInProgress);
        }
        Some(CloneMethod::Copy(_)) | None => {}
    }
    let pod = request.world.worker_for(claim, request.work);
    if let Some(late) = pod.filter(|pod| is_late(request, claim, pod)) {
        return complete(request, claim, Some(late), &worker::done_report(late).unwrap_or_default());
    }
    let seen = not_running_since(request);
    match worker::observe(request.world, pod, request.work, request.node_image(), seen, request.now) {
        Worker::None => try_create_pod(target),
        Worker::Waits(reason, message) => {
            permit::permit(target, pod).and(waits_for_pod(target, pod, &reason, message))
        }
        // A pod without a permit runs and waits, which its conditions say instead of what it reports.
        Worker::Runs(report) => permit::permit(target, pod)
            .and(running_outcome(target, pod, report))
            .and(permit::refused(target, pod)),
        Worker::Done(report) => complete(request, claim, pod, &report),
        Worker::Failed(report) => match grow::grows(target, pod, &report) {
            Ok(outcome) => outcome,
            Err(why) => failed(request, claim, &report, why),
        },
        Worker::Broke(reason, message, _) if is_hopeless(request, pod, &reason) => {
            let count = pod.map(worker::attempt).unwrap_or(0).saturating_add(1);
            let message = format!(
                "the importer pod was killed because it reached its memory limit, and {count} pods ended before \
                 their work was done: the limit is {}, and the image needs more ({message})",
                super::base_pod::MEMORY
            );
            note_import(request, claim, "Failed").fail(request, &reason, &message)
        }
        Worker::Broke(reason, message, next) => retry_after_pod_end(request, pod, &reason, &message, next),
        Worker::Late(message) => Outcome::default()
            .wait("DeadlinePassed", &message)
            .phase(request.terms().broken.clone())
            .deletes(pod),
    }
}

/// Since when the status has it that the pod does not run.
pub(super) fn not_running_since(request: &Request<'_>) -> Option<Timestamp> {
    let said = running(&request.status).filter(|said| said.status == "False")?;
    said.last_transition_time.as_ref()?.parse().ok()
}

// ── A pod is there ──────────────────────────────────────────────────────────────────────────────────────────────────

/// True for an importer pod that has not ended although the disk is complete. It was created too late, or it has completed the disk itself.
fn is_late(request: &Request<'_>, claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    request.work == Work::Import && claim.is_filled() && !pod.has_ended()
}

/// Outcome while the pod does not run yet.
fn waits_for_pod(target: &Target<'_, '_>, pod: Option<&Pod>, reason: &str, message: String) -> Outcome {
    let Target { request, claim, .. } = *target;
    let stuck = pod.filter(|_| request.work == Work::Upload);
    let stuck = stuck.and_then(|pod| upload::replacement_time(request.world, pod));
    let message = match stuck {
        Some(_) => format!("{message}: it was deleted, and another pod begins with a new one"),
        None => message,
    };
    let outcome =
        Outcome::default().wait_without_pod(request, reason, &message).and(scheduled(request, claim));
    match stuck {
        Some(until) if until <= request.now => outcome.deletes(pod),
        Some(until) => outcome.retry_at(until),
        None => outcome,
    }
}

/// Outcome while the pod works.
fn running_outcome(target: &Target<'_, '_>, pod: Option<&Pod>, report: Option<&Report>) -> Outcome {
    let Target { request, claim, clone, .. } = *target;
    let outcome = match request.work {
        Work::Upload => upload::receives(request, claim, pod, report),
        _ => imports(request, claim, pod, report),
    };
    // The source pod of a clone is followed until the disk is complete.
    let outcome = match clone {
        Some(clone) => {
            let (served, source) = clone::serve(request, clone, claim);
            outcome.and(source).and(clone::source_broke(request, served))
        }
        None => outcome,
    };
    outcome.silent_since(pod.and_then(|pod| request.world.silent_since(pod)))
}

/// Outcome while the pod is being created, or does not work yet.
pub(super) fn scheduled(request: &Request<'_>, claim: &PersistentVolumeClaim) -> Outcome {
    let terms = request.terms();
    let message = format!("{} into {} scheduled", terms.noun, claim_name(claim));
    let (phase, event) = terms.scheduled.clone();
    Outcome::default().enter_phase(phase, false, event, message)
}

/// Outcome while the pod of an import or of a clone runs.
fn imports(
    request: &Request<'_>,
    claim: &PersistentVolumeClaim,
    pod: Option<&Pod>,
    report: Option<&Report>,
) -> Outcome {
    let waits = report.is_some_and(|report| report.stage == Stage::Waiting);
    if waits
        && let Some(pod) = pod
        && let Ok(told) = RegistrySettings::for_data_volume(&request.volume, request.world)
        && !told.is_known_to(pod)
    {
        let message =
            "the settings of registries or of the proxy have changed: another pod replaces this one";
        return Outcome::default()
            .wait_without_pod(request, "Restarting", message)
            .and(scheduled(request, claim))
            .deletes(Some(pod));
    }
    let noun = request.terms().noun;
    let outcome = Outcome::default()
        .condition(ConditionType::Running, "True", "Pod is running", "")
        .condition(ConditionType::Ready, "False", "TransferRunning", &format!("{noun} is running"))
        .and(note_import(request, claim, "Running"));
    let outcome = match report {
        Some(report) => {
            let (word, message) = status::transfer(report);
            let moves = if word == "Waiting" { "False" } else { "True" };
            outcome
                .condition(ConditionType::Transferring, moves, word, &message)
                .progress(status::progress(report))
        }
        None => outcome.condition(ConditionType::Transferring, "Unknown", "Starting", "the worker begins"),
    };
    let message = format!("{noun} into {} in progress", claim_name(claim));
    let (phase, event) = request.terms().running.clone();
    outcome.enter_phase(phase, false, event, message)
}

/// Outcome of a disk that is complete.
pub(super) fn complete(
    request: &Request<'_>,
    claim: &PersistentVolumeClaim,
    pod: Option<&Pod>,
    report: &Report,
) -> Outcome {
    let terms = request.terms();
    let (_, message) = status::transfer(report);
    let reason = if report.length_unknown { "LengthUnknown" } else { "Completed" };
    let message = if report.length_unknown { format!("{message}; {LENGTH_UNKNOWN}") } else { message };
    let mut outcome = Outcome::default()
        .condition(ConditionType::Running, "False", "Completed", &format!("{} Complete", terms.noun))
        .condition(ConditionType::Ready, "True", "", "")
        .condition(ConditionType::Transferring, "False", reason, &message)
        .progress("100.0%".to_owned());
    if report.length_unknown && request.phase != Phase::Succeeded {
        outcome = outcome.event(true, "LengthUnknown", LENGTH_UNKNOWN);
    }
    let message = format!("Successfully {} into PVC {}", terms.done, claim_name(claim));
    outcome
        .before_status(import_annotations(request, claim, "Succeeded", &report.labels))
        .enter_phase(Phase::Succeeded, false, terms.succeeded, message)
        .and(clear(request, claim, pod))
}

/// Outcome of a worker that failed where no other one can do better. `why`: the PVC is too small, and does not grow.
fn failed(
    request: &Request<'_>,
    claim: &PersistentVolumeClaim,
    report: &Report,
    why: Option<String>,
) -> Outcome {
    let reason = if report.reason.is_empty() { "Error" } else { report.reason.as_str() };
    let why = why.map(|why| format!("; {why}")).unwrap_or_default();
    note_import(request, claim, "Failed").after_status(clone::forget_client(claim)).fail(
        request,
        reason,
        &format!("{}{why}", report.message),
    )
}

/// The pod ended before its work did. It is deleted, and the next one continues where it stopped, or waits
/// for a new upload.
pub(super) fn retry_after_pod_end(
    request: &Request<'_>,
    pod: Option<&Pod>,
    reason: &str,
    message: &str,
    next: Timestamp,
) -> Outcome {
    let Some(broken) = pod else { return Outcome::default() };
    let terms = request.terms();
    let counted = request.status.restart_count.unwrap_or(0);
    let count = worker::count(broken, counted.max(0));
    let mut outcome = Outcome::default().restart_count(count);
    if counted < count {
        outcome =
            outcome.event(true, terms.failed, format!("the {} broke off ({reason}): {message}", terms.pod));
    }
    let message = format!("{message}; {NEXT} {}", cluster_model::conditions::stamp(next));
    let outcome = outcome
        .wait(reason, &message)
        .condition(ConditionType::Transferring, "False", "Waiting", &message)
        .phase(terms.broken.clone());
    match next > request.now {
        true => outcome.retry_at(next),
        false => outcome.deletes(pod),
    }
}

/// True if further importer pods would fail like this one and the earlier ones.
fn is_hopeless(request: &Request<'_>, pod: Option<&Pod>, reason: &str) -> bool {
    let attempt = pod.map(worker::attempt).unwrap_or(0);
    request.work == Work::Import && reason == OOM && attempt >= HOPELESS
}

/// Deletes the pod of completed work, and the objects by which clients reach it.
pub(super) fn clear(request: &Request<'_>, claim: &PersistentVolumeClaim, pod: Option<&Pod>) -> Outcome {
    let of_upload = match request.work {
        Work::Upload => upload::take_away(claim),
        Work::Import | Work::Export | Work::Serve => Plan::default(),
    };
    Outcome::default().after_status(of_upload).after_status(clone::forget_client(claim)).deletes(pod)
}

/// Writes the phase of the pod of an import on the PVC of its DataVolume.
pub(super) fn note_import(request: &Request<'_>, claim: &PersistentVolumeClaim, phase: &str) -> Outcome {
    Outcome::default().after_status(import_annotations(request, claim, phase, &BTreeMap::new()))
}

/// The annotations of an import, and the labels of its image. The annotations of uploads and of PVCs without a DataVolume follow from the
/// status ([`super::outcome::plan`]).
fn import_annotations(
    request: &Request<'_>,
    claim: &PersistentVolumeClaim,
    phase: &str,
    labels: &BTreeMap<String, String>,
) -> Plan {
    if request.work != Work::Import {
        return Plan::default();
    }
    if request.is_standalone() {
        return claim_annotations::of_image(claim, labels);
    }
    let restarts = request.status.restart_count;
    claim_annotations::of_import(claim, &claim_annotations::ImportState { phase, restarts, labels })
}

// ── No pod is there ─────────────────────────────────────────────────────────────────────────────────────────────────

/// Creates the pod, unless there is a reason against it.
fn try_create_pod(target: &Target<'_, '_>) -> Outcome {
    let Target { request, claim, requested, clone } = *target;
    if claim.is_filled() {
        // The disk was written, and the status was not. A complete disk is not written again.
        return complete(request, claim, None, &Report::default());
    }
    if let Some(stop) = wait_for_readers(request, claim).or_else(|| wait_for_writer(request, claim)) {
        return clone::stop_outcome(request, stop);
    }
    if let Some(outcome) = grow::awaits_growth(request, claim) {
        return outcome;
    }
    let pod_name = request.work.pod(claim_name(claim));
    if let Some(until) = made_until(request, clone, &pod_name) {
        return Outcome::default().retry_at(until);
    }
    if let Some(vmi) = users::user(request.world, claim) {
        return in_use(request, claim, &vmi);
    }
    let config = request.world.config();
    // A VMI without a pod needs no volume.
    let consumer =
        users::consumer(request.world, claim).and_then(|vmi| crate::vmi::checked(request.world, vmi, config));
    let consumer = consumer.as_ref().map(|(vmi, machine)| (vmi, machine));
    let is_wanted = request.meta().annotations.contains_key(AT_ONCE) || consumer.is_some();
    if !claim.is_bound()
        && let Some(outcome) = wait_for_volume(target, is_wanted)
    {
        return outcome;
    }
    let told = match registry_settings(request, config) {
        Ok(told) => told,
        Err(outcome) => return *outcome,
    };
    if request.world.pods.get(claim.meta.namespace.as_deref().unwrap_or_default(), &pod_name).is_some() {
        let message = worker::name_taken_message(&pod_name);
        return cannot_start(request, &message);
    }
    let failed = refused_pod(request);
    let mut outcome = Outcome::default();
    if let Some(failed) = failed {
        let what = format!("the {} cannot be created: {}", request.terms().pod, failed.message);
        outcome = cannot_start(request, &with_advice(what));
        if failed.retry > request.now {
            return outcome.retry_at(failed.retry);
        }
    }
    if let Some(clone) = clone {
        let (served, source) = clone::serve(request, clone, claim);
        outcome = outcome.and(source);
        if let Some(waits) = source_waits(request, claim, served) {
            return outcome.and(waits);
        }
    }
    let span = match request.work {
        Work::Import | Work::Export | Work::Serve => None,
        Work::Upload => match upload::certified(request, claim) {
            Ok(span) => Some(span),
            Err(waits) => return outcome.and(*waits),
        },
    };
    let input = pod::WorkerInput {
        config,
        world: request.world,
        claim,
        consumer,
        attempt: request.status.restart_count.unwrap_or(0),
        work: request.work,
        deadline: span.as_ref().map(|span| upload::deadline(span, request.now)),
        told: &told,
        clone: clone.map(|cloned| cloned.address(claim)),
    };
    let object = match pod::pod(&request.volume, requested, &input) {
        Ok(object) => object,
        Err(Refusal::Faults(faults)) => return outcome.and(refuse_spec(request, &faults)),
        Err(Refusal::Reference(never)) => match never {},
    };
    // An earlier refusal is reported until a try succeeds.
    if failed.is_none() {
        outcome = outcome.wait_without_pod(request, "Pending", &format!("pod {pod_name} is being created"));
    }
    let reach =
        span.map(|span| upload::create_secret_and_service(claim, &span, &request.world.facts.namespace));
    let mut create = Plan::default();
    create.create(Key::new(Kind::Pod, claim.meta.namespace.clone().unwrap_or_default(), pod_name), object);
    // The mark of a disk that is not whole comes before whatever may write to it, and before the status, by which a pod was made.
    outcome
        .before_status(import_annotations(request, claim, "Pending", &BTreeMap::new()))
        .and(scheduled(request, claim))
        .after_status(reach.unwrap_or_default())
        .after_status(create)
}

/// Makes the request wait while a clone into another PVC reads this one: nothing is written to it meanwhile. `None` if no clone
/// reads it.
pub(super) fn wait_for_readers(request: &Request<'_>, claim: &PersistentVolumeClaim) -> Option<clone::Stop> {
    let message = if let Some(pod) = request.world.cloner_of(claim) {
        format!(
            "pod {} reads PVC {} for a clone: the PVC is not written until it has ended",
            pod.meta.name.as_deref().unwrap_or_default(),
            claim_name(claim)
        )
    } else {
        let clone = request.world.storage_clone_of(claim)?;
        format!(
            "the storage clones PVC {} into PVC {clone}: the source is not written until it has ended",
            claim_name(claim)
        )
    };
    Some(clone::Stop::Waits(clone::IN_USE, message))
}

/// Makes the request wait while a pod of other work writes to the PVC, which has one writer at a time. `None` if no such pod does.
fn wait_for_writer(request: &Request<'_>, claim: &PersistentVolumeClaim) -> Option<clone::Stop> {
    let pod = request.world.worker_of(claim).filter(|pod| !pod.has_ended())?;
    let message = format!(
        "pod {} writes to PVC {}: no other pod writes to it until that has ended",
        pod.meta.name.as_deref().unwrap_or_default(),
        claim_name(claim)
    );
    Some(clone::Stop::Waits(clone::IN_USE, message))
}

/// Outcome while a VMI uses the disk.
fn in_use(request: &Request<'_>, claim: &PersistentVolumeClaim, vmi: &str) -> Outcome {
    let message = in_use_message(claim, vmi);
    // The end of a launcher pod does not touch this key.
    let next = request.now.checked_add(SignedDuration::from_secs(worker::PAUSE.0)).ok();
    let outcome = Outcome::default().wait(clone::IN_USE, &message);
    let outcome = next.into_iter().fold(outcome, Outcome::retry_at);
    outcome.enter_phase(Phase::Pending, true, "ErrClaimNotValid", message)
}

pub(super) fn in_use_message(claim: &PersistentVolumeClaim, vmi: &str) -> String {
    format!("VMI {vmi} uses PVC {}: it is not written", claim_name(claim))
}

/// Outcome of a pod that cannot be created now.
fn cannot_start(request: &Request<'_>, message: &str) -> Outcome {
    let phase = request.terms().scheduled.0.clone();
    Outcome::default().wait_without_pod(request, "ErrStartingPod", message).enter_phase(
        phase,
        true,
        "ErrStartingPod",
        message,
    )
}

/// Last refusal of the pod, or of an object that is created with it.
fn refused_pod<'a>(request: &Request<'a>) -> Option<&'a Failure> {
    let failed = request.world.failures.get(&request.key());
    failed.filter(|failed| matches!(failed.about, Attempt::Make(Kind::Pod | Kind::Service | Kind::Secret)))
}

/// Outcome while the source pod of a clone does not answer; `None` if it does.
fn source_waits(
    request: &Request<'_>,
    claim: &PersistentVolumeClaim,
    served: SourcePodState<'_>,
) -> Option<Outcome> {
    match served {
        SourcePodState::Ready => None,
        SourcePodState::Waits(reason, message) => Some(
            Outcome::default().wait_without_pod(request, &reason, &message).and(scheduled(request, claim)),
        ),
        SourcePodState::Broke(pod, reason, message, next) => {
            Some(retry_after_pod_end(request, Some(pod), &reason, &message, next))
        }
        SourcePodState::Stopped(stop) => Some(clone::stop_outcome(request, stop)),
    }
}

/// Outcome if the PVC has no volume, and a pod would not get it one. `None` if a pod makes the storage
/// provide the volume.
fn wait_for_volume(target: &Target<'_, '_>, is_wanted: bool) -> Option<Outcome> {
    let Target { request, claim, requested, .. } = *target;
    let name = claim_name(claim);
    let waits = requested.class.is_some_and(|class| class.waits_for_consumer);
    match (waits, is_wanted) {
        (true, true) => None,
        (true, false) => {
            let whose = if request.is_standalone() { "PVC" } else { "DataVolume" };
            let message = format!(
                "PVC {name} is created when a VM uses it; {AT_ONCE} on the {whose} creates it at once"
            );
            let outcome = Outcome::default().wait(WAITS, &message);
            Some(outcome.enter_phase(Phase::WaitForFirstConsumer, false, WAITS, message))
        }
        (false, _) => {
            let message = why_unbound(requested, name);
            let outcome = Outcome::default().wait("Pending", &message);
            Some(outcome.enter_phase(Phase::Pending, false, "Pending", message))
        }
    }
}

/// End of the pause before the next pod, if the last one was created just now and is gone.
fn made_until(request: &Request<'_>, clone: Option<&Cloned<'_>>, pod: &str) -> Option<Timestamp> {
    let terms = request.terms();
    if request.phase != terms.scheduled.0 && request.phase != terms.running.0 {
        return None;
    }
    let said = running(&request.status)?;
    // The condition of a clone may be about its source pod.
    if clone.is_some() && !said.message.as_deref().is_some_and(|message| message.contains(pod)) {
        return None;
    }
    let last: Timestamp = said.last_check_time.as_ref()?.parse().ok()?;
    let until = last.checked_add(SignedDuration::from_secs(worker::PAUSE.0)).ok()?;
    // After a pod that broke off there is another pause.
    let is_said = said.message.as_deref().is_some_and(|message| message.contains(NEXT));
    (until > request.now && last <= request.now && !is_said).then_some(until)
}

/// The settings of registries for the pod; an outcome with the reason where the pod cannot be made as the DataVolume asks for it.
fn registry_settings(request: &Request<'_>, config: &Config) -> Result<RegistrySettings, Box<Outcome>> {
    if let (Some(_), Some(why)) = (request.node_image(), no_image_volumes(request.world, config)) {
        let message = format!(
            "pullMethod node needs image volumes of pods, and {why}; without pullMethod the importer pulls the image itself"
        );
        let outcome = Outcome::default()
            .wait_without_pod(request, "ImageVolumesMissing", &message)
            .enter_phase(Phase::Pending, true, "ImageVolumesMissing", message)
            .retry_at(request.now.checked_add(NODES).unwrap_or(request.now));
        return Err(Box::new(outcome));
    }
    RegistrySettings::for_data_volume(&request.volume, request.world).map_err(|message| {
        let outcome = Outcome::default().wait_without_pod(request, "RegistriesNotValid", &message);
        Box::new(outcome.enter_phase(Phase::Pending, true, "RegistriesNotValid", message))
    })
}

/// Pause before the nodes are checked again, if one cannot mount images.
const NODES: SignedDuration = SignedDuration::from_mins(1);

/// Reason why the cluster has no image volumes; `None` if it has.
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

/// Adds advice to the refusal by a quota or a LimitRange that demands requests or limits which the pod does not have.
fn with_advice(refusal: String) -> String {
    let wants_more = ["must specify", "no limit is specified", "no request is specified"];
    match wants_more.iter().any(|words| refusal.contains(words)) {
        true => format!(
            "{refusal}; the administrator can set requests and limits of worker pods in spec.podResourceRequirements \
             of the CDIConfig config, or in a LimitRange of the namespace"
        ),
        false => refusal,
    }
}

/// Reason why a PVC has no volume, where it does not wait for its first pod.
fn why_unbound(wanted: &RequestedClaim<'_>, name: &str) -> String {
    match (&wanted.class, wanted.spec.storage_class_name.as_deref()) {
        (None, None) => format!(
            "PVC {name} waits for a volume: it names no StorageClass, and the cluster has no default one"
        ),
        (None, Some(class)) if !class.is_empty() => {
            format!("PVC {name} waits for a volume: StorageClass {class} does not exist")
        }
        (Some(class), _) => format!(
            "PVC {name} waits for a volume of the StorageClass {} ({})",
            class.meta.name.as_deref().unwrap_or_default(),
            class.provisioner
        ),
        _ => format!("PVC {name} waits for a volume"),
    }
}
