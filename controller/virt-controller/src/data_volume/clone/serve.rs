//! The source pod of a copy. It serves the disk to the importer pod alone.
//!
//! ```text
//!  no pod writes to the source? ─► pod ─► Secret, Service, Secret of the importer, note on the target ─► ready
//!        ▲                         │ gone, ended, its certificate is about to end                          │
//!        └─────────────────────────┘                                            the importer pod is made ◄─┘
//! ```
//!
//! **Guarantees.** The pod is the first object that is created and the last that is deleted, and only the pod
//! is watched. Other objects of a plan that broke off are completed, or deleted, as long as the pod is there.
//! The record on the target has the pod's uid. Until it has, and the importer pod exists, the source pod is
//! deleted if another pod writes to the source.
//! **Places.** One PVC has at most [`PLACES`] source pods, and a namespace gets another one if more places
//! are free than it has. A single namespace gets half of them, and one place is left for a namespace that has
//! none, regardless of the order.
//! **Deadlines.** A source pod ends before its certificate, and the next one serves the same version. So a
//! clone into a file system continues. A clone onto a device cannot continue, because a device has no
//! journal, nor can one of a device that several nodes may write to, because the next source pod serves
//! another version. So these are served for the whole life of a certificate ([`DEVICE`]). A clone that is not
//! complete in that time has failed, and does not begin again for ever.
//! **Owners** are of the same namespace. So the garbage collector deletes the pod with its source, and Secret
//! and Service with the pod. A pod that its clone does not need any more is deleted under the key of the
//! target, which is in its annotation. A pod whose target is gone, or does not reference its namespace, is
//! deleted under the key of the PVC that owns it ([`strays`]), so that pods of one tenant do not fill the plans
//! of another one.

use super::super::fill::not_running_since;
use super::super::outcome::Outcome;
use super::super::request::Request;
use super::super::upload::{certified, deadline, serving_until};
use super::super::users::user;
use super::super::worker::{self, Worker};
use super::super::{claim_annotations, claim_name};
use super::permit::check_permission;
use super::{Cloned, IN_USE, Stop, pod};
use crate::certificates::uploads::Span;
use api::data_volume::{Phase, Status};
use cluster_model::clones::{CLONE_REQUEST, CLONE_SOURCE_POD, CLONE_SOURCE_UID, SOURCE, TARGET_LABEL};
use cluster_model::issue::{Holder, PodCertificateIssue};
use cluster_model::objects::{
    Attempt, IndexKey, Key, Kind, PersistentVolumeClaim, Pod, Work, World, key, names, owner,
};
use cluster_model::plan::Plan;
use cluster_model::uploads::SERVICE_LABEL;
use cluster_model::worker::PORT;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// Source pods of one PVC.
pub(super) const PLACES: usize = 8;
/// The least time that a device is served in one go.
const DEVICE: SignedDuration = SignedDuration::from_hours(23);
/// The reason of a clone that is not done in that time.
const TOO_LONG: &str = "CloneTooLong";

/// The state of the source pod.
pub(in super::super) enum SourcePodState<'a> {
    /// The source pod serves the disk.
    Ready,
    /// The pod does not answer yet: reason and message.
    Waits(String, String),
    /// The pod ended early: the pod, reason, message, and the time of the next one.
    Broke(&'a Pod, String, String, Timestamp),
    /// The pod is not made, or its work has failed.
    Stopped(Stop),
}

/// True if the pod serves this source to the clone into this PVC.
pub(super) fn is_source_pod(
    pod: &Pod,
    source: &PersistentVolumeClaim,
    target: &PersistentVolumeClaim,
) -> bool {
    let owner = owner::controller(&pod.meta).map(|owner| owner.uid.as_str());
    let of_target = pod.meta.labels.get(TARGET_LABEL).map(String::as_str);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let at = (text(&target.meta.namespace), text(&target.meta.name));
    source.meta.uid.is_some()
        && owner == source.meta.uid.as_deref()
        && pod.meta.namespace == source.meta.namespace
        && of_target == target.meta.uid.as_deref()
        && pod.clone_target() == Some((at.0.as_str(), at.1.as_str()))
}

/// State of the source pod of a copy, and the outcome of the steps for it.
pub(in super::super) fn serve<'a>(
    request: &Request<'a>,
    cloned: &Cloned<'a>,
    target: &'a PersistentVolumeClaim,
) -> (SourcePodState<'a>, Outcome) {
    let unchanged = |served| (served, Outcome::default());
    let Some(source) = cloned.claim else {
        let message = "there is no source to clone".to_owned();
        return unchanged(SourcePodState::Waits("Pending".to_owned(), message));
    };
    // By this record the source pod is known as that of the clone.
    if target.clone_source() != Some((cloned.namespace.as_str(), cloned.name.as_str())) {
        let message = format!(
            "the annotation {CLONE_REQUEST} of PVC {} does not name PVC {}, which is to be cloned",
            claim_name(target),
            cloned.display_name()
        );
        return unchanged(SourcePodState::Waits("Pending".to_owned(), message));
    }
    let name = names::cloner(target.meta.uid.as_deref().unwrap_or_default());
    let Some(found) = request.world.pods.get(&cloned.namespace, &name) else {
        return begin_to_serve(request, source, target, &name);
    };
    if !is_source_pod(found, source, target) {
        let message = format!(
            "pod {}/{name} exists already, and does not serve this clone: wait until it is gone",
            cloned.namespace
        );
        return unchanged(SourcePodState::Waits("ErrStartingPod".to_owned(), message));
    }
    // A VMI and the source pod were made at once. Not a byte was read from this pod yet, so the VMI goes first.
    // An importer pod of an earlier source pod has no certificate for this one before it is published.
    let has_begun = is_published(target, found) && request.world.worker_for(target, Work::Import).is_some();
    if !has_begun && let Some(stop) = in_use(request, source) {
        return (SourcePodState::Stopped(stop), Outcome::default().deletes(Some(found)));
    }
    let seen = not_running_since(request);
    let shown = format!("the source pod {}/{name}", cloned.namespace);
    let waits =
        |reason: &str, message: &str| SourcePodState::Waits(reason.to_owned(), format!("{shown}: {message}"));
    match worker::observe(request.world, Some(found), Work::Serve, None, seen, request.now) {
        Worker::None => unchanged(waits("Pending", "there is none")),
        Worker::Waits(reason, message) => {
            let outcome = match found.is_going() {
                true => Outcome::default(),
                false => publish_address(request, target, found).1,
            };
            (waits(&reason, &message), outcome)
        }
        Worker::Runs(_) => {
            let (is_known, outcome) = publish_address(request, target, found);
            let container = found.container(Work::Serve.container());
            let is_ready = is_known && container.is_some_and(|container| container.ready);
            let served = if is_ready {
                SourcePodState::Ready
            } else {
                waits("Pending", "it runs, and is not ready yet")
            };
            (served, outcome)
        }
        Worker::Failed(report) => {
            let message = format!("PVC {} cannot be read: {}", cloned.display_name(), report.message);
            unchanged(SourcePodState::Stopped(Stop::Never("CloneFailed", message)))
        }
        Worker::Broke(reason, message, next) => {
            unchanged(SourcePodState::Broke(found, reason, format!("{shown}: {message}"), next))
        }
        // The certificates of the source pod and of the importer pod end.
        Worker::Done(_) | Worker::Late(_)
            if is_served_once(source, target) && had_its_time(request, target, found) =>
        {
            unchanged(SourcePodState::Stopped(Stop::Never(TOO_LONG, too_long(cloned, target))))
        }
        Worker::Done(_) | Worker::Late(_) => {
            let importer = request.world.worker_for(target, Work::Import).filter(|pod| !pod.has_ended());
            let outcome = Outcome::default().deletes(Some(found)).deletes(importer);
            (waits("DeadlinePassed", "its certificate is being renewed"), outcome)
        }
    }
}

/// Creates the source pod, if no pod writes to the source.
fn begin_to_serve<'a>(
    request: &Request<'a>,
    source: &'a PersistentVolumeClaim,
    target: &'a PersistentVolumeClaim,
    name: &str,
) -> (SourcePodState<'a>, Outcome) {
    let namespace = source.meta.namespace.clone().unwrap_or_default();
    // The right is checked for each source pod, regardless of earlier ones.
    let stop = check_permission(request, &namespace, claim_name(source))
        .err()
        .or_else(|| in_use(request, source))
        .or_else(|| {
            wait_if_crowded(request.world, source, target.meta.namespace.as_deref().unwrap_or_default())
        });
    if let Some(stop) = stop {
        return (SourcePodState::Stopped(stop), Outcome::default());
    }
    // At the last check, a pod of another owner wrote to the source.
    let failed = request.world.failures.get(&request.key());
    let used = failed.filter(|failed| failed.about == Attempt::Make(Kind::PersistentVolumeClaim));
    let used = used.map(|failed| SourcePodState::Stopped(Stop::Waits(IN_USE, failed.message.clone())));
    if let Some(failed) = failed.filter(|failed| failed.retry > request.now) {
        let refused = || SourcePodState::Waits("ErrStartingPod".to_owned(), failed.message.clone());
        return (used.unwrap_or_else(refused), Outcome::default().retry_at(failed.retry));
    }
    let span = match certified(request, target) {
        Ok(span) => span,
        Err(outcome) => {
            let message = "the authorities do not exist yet".to_owned();
            return (SourcePodState::Waits("CertificatesPending".to_owned(), message), *outcome);
        }
    };
    let input = pod::SourcePodInput {
        world: request.world,
        source,
        target: &target.meta,
        attempt: request.status.restart_count.unwrap_or(0),
        deadline: if is_served_once(source, target) {
            serving_until(&span)
        } else {
            deadline(&span, request.now)
        },
    };
    let mut plan = Plan::default();
    plan.unused(&source.meta);
    plan.create(Key::new(Kind::Pod, &*namespace, name), pod::pod(name, &input));
    let made = || {
        SourcePodState::Waits(
            "Pending".to_owned(),
            format!("the source pod {namespace}/{name} is being created"),
        )
    };
    (used.unwrap_or_else(made), Outcome::default().after_status(plan))
}

/// True for a clone that does not continue with the next source pod.
fn is_served_once(source: &PersistentVolumeClaim, target: &PersistentVolumeClaim) -> bool {
    target.is_block() || source.is_shared_device()
}

/// True if the importer pod ran beside this source pod for as long as any can.
fn had_its_time(request: &Request<'_>, target: &PersistentVolumeClaim, source: &Pod) -> bool {
    let made = |pod: &Pod| pod.meta.creation_timestamp.as_ref()?.parse::<Timestamp>().ok();
    let reader = request.world.worker_for(target, Work::Import).and_then(made);
    let time = reader.map(|reader| request.now.duration_since(reader));
    made(source).is_some() && time.is_some_and(|time| time >= DEVICE)
}

/// The message of a clone that [`had_its_time`].
fn too_long(cloned: &Cloned<'_>, target: &PersistentVolumeClaim) -> String {
    let why = match cloned.claim.is_some_and(PersistentVolumeClaim::is_shared_device) {
        true => {
            "a clone of a device that several nodes may write to (ReadWriteMany) cannot be continued; have"
        }
        false => {
            "only a clone into a file system can be continued; clone into a PVC with volumeMode Filesystem, or have"
        }
    };
    format!(
        "PVC {} was read for {} hours, as long as a certificate is valid, and the disk of PVC {} is not complete: {why} the \
         CSI driver clone it (cloneStrategy: csi-clone in the StorageProfile)",
        cloned.display_name(),
        DEVICE.as_hours(),
        claim_name(target)
    )
}

/// A VMI writes to the source.
pub(super) fn in_use(request: &Request<'_>, source: &PersistentVolumeClaim) -> Option<Stop> {
    let user = user(request.world, source)?;
    let namespace = source.meta.namespace.as_deref().unwrap_or_default();
    let shown = format!("{namespace}/{}", claim_name(source));
    Some(Stop::Waits(IN_USE, format!("VMI {user} uses PVC {shown}: it is cloned when the VMI has ended")))
}

/// True if the target has the uid of this source pod. It is written after the certificates.
fn is_published(target: &PersistentVolumeClaim, pod: &Pod) -> bool {
    let noted = target.meta.annotations.get(CLONE_SOURCE_UID);
    noted.is_some() && noted == pod.meta.uid.as_ref()
}

/// Makes known how the pod is reached, and by which client. True where that was done before.
fn publish_address(request: &Request<'_>, target: &PersistentVolumeClaim, pod: &Pod) -> (bool, Outcome) {
    if is_published(target, pod) {
        return (true, Outcome::default());
    }
    let failed = request.world.failures.get(&request.key()).filter(|failed| failed.retry > request.now);
    if let Some(failed) = failed {
        return (false, Outcome::default().retry_at(failed.retry));
    }
    let span = match certified(request, target) {
        Ok(span) => span,
        Err(outcome) => return (false, *outcome),
    };
    let name = pod.meta.name.clone().unwrap_or_default();
    let uid = target.meta.uid.clone().unwrap_or_default();
    let known = made_known(pod, target, &span, &request.world.facts.namespace);
    let mut should = target.meta.annotations.clone();
    should.insert(CLONE_SOURCE_POD.to_owned(), name);
    should.insert(CLONE_SOURCE_UID.to_owned(), pod.meta.uid.clone().unwrap_or(uid));
    (false, Outcome::default().after_status(known).after_status(claim_annotations::write(target, &should)))
}

/// The reason to wait where the clones that read from the source leave no place for one into the namespace `own`.
fn wait_if_crowded(world: &World, source: &PersistentVolumeClaim, own: &str) -> Option<Stop> {
    let owned =
        world.indexed_by(&IndexKey::Owner(source.meta.uid.clone()?)).filter(|key| key.kind == Kind::Pod);
    let pods = owned.filter_map(|key| world.pods.get(&key.namespace, &key.name));
    let targets = pods
        .filter(|pod| pod.meta.namespace == source.meta.namespace && !pod.has_ended())
        .filter_map(|pod| Some(pod.clone_target()?.0));
    let targets: Vec<&str> = targets.collect();
    let taken = targets.iter().filter(|target| **target == own).count();
    if taken < PLACES.saturating_sub(targets.len()) {
        return None;
    }
    let namespace = source.meta.namespace.as_deref().unwrap_or_default();
    let message = format!(
        "other clones read PVC {namespace}/{} now, and the namespace {own} has its share of the {PLACES} source \
         pods: this clone begins when one of them has ended",
        claim_name(source)
    );
    Some(Stop::Waits("CloneSourceBusy", message))
}

/// The certificates of both ends, and the Service. The objects in the pod's namespace are deleted with the
/// pod by the garbage collector. While those of an earlier pod exist, nothing is created.
fn made_known(pod: &Pod, target: &PersistentVolumeClaim, span: &Span, installation: &str) -> Plan {
    let mut plan = Plan::default();
    let (namespace, name) = namespaced_name(pod);
    let mut of_pod = owner::reference(Kind::Pod, &pod.meta);
    // `blockOwnerDeletion` needs the right to update the owner.
    of_pod["blockOwnerDeletion"] = json!(false);
    let uid = target.meta.uid.clone().unwrap_or_default();
    let labels = pod::labels(&uid, &name);
    let issue = |key: Key, owner: Value, holder: Holder| PodCertificateIssue {
        key,
        installation: installation.to_owned(),
        owner,
        labels: labels.clone(),
        holder,
        from: span.from,
        until: span.until,
    };
    let hosts = vec![format!("{name}.{namespace}.svc"), format!("{name}.{namespace}"), name.clone()];
    let secret = Key::new(Kind::Secret, &*namespace, &*name);
    plan.issue_for_pod(issue(secret, of_pod.clone(), Holder::Server(hosts)));
    let service = json!({
        "apiVersion": Kind::Service.api_version(),
        "kind": Kind::Service.name(),
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "ownerReferences": [of_pod],
        },
        "spec": {
            "clusterIP": "None",
            // The importer pod is created when the source pod is ready; an open connection outlives a failed
            // probe.
            "publishNotReadyAddresses": true,
            "selector": {SERVICE_LABEL: name},
            "ports": [{"name": "clone", "port": PORT, "targetPort": PORT, "protocol": "TCP"}],
        },
    });
    plan.create(Key::new(Kind::Service, namespace, name), service);
    let client = names::clone_client(&uid);
    let of_target = target.meta.namespace.clone().unwrap_or_default();
    let of_claim = owner::reference(Kind::PersistentVolumeClaim, &target.meta);
    plan.issue_for_pod(issue(
        Key::new(Kind::Secret, of_target, &*client),
        of_claim,
        Holder::Client(client.clone()),
    ));
    plan
}

/// The importer of a clone needs its certificate no more.
pub(in super::super) fn forget_client(target: &PersistentVolumeClaim) -> Plan {
    let mut plan = Plan::default();
    if !target.meta.annotations.contains_key(CLONE_SOURCE_UID) {
        return plan;
    }
    let name = names::clone_client(target.meta.uid.as_deref().unwrap_or_default());
    let key = Key::new(Kind::Secret, target.meta.namespace.clone().unwrap_or_default(), name);
    plan.delete_of(key, &target.meta);
    plan
}

/// Pods of a PVC that look like source pods and serve no clone, a few at a time. The end of each touches the
/// key of the PVC.
pub(in super::super) fn strays<'a>(
    world: &'a World,
    claim: &'a PersistentVolumeClaim,
) -> impl Iterator<Item = &'a Pod> {
    world.stray_sources_of(claim).take(PLACES)
}

/// Deletes a source pod and the objects for it. The pod is deleted last: while it exists, all of this is
/// repeated.
pub(in super::super) fn take_away(pod: &Pod) -> Plan {
    let mut plan = Plan::default();
    let key = key(Kind::Pod, &pod.meta);
    if pod.is_going() || !key.name.starts_with(SOURCE) {
        return plan;
    }
    for kind in [Kind::Service, Kind::Secret] {
        plan.delete_of(Key::new(kind, &*key.namespace, &*key.name), &pod.meta);
    }
    plan.delete(key, &pod.meta);
    plan
}

fn namespaced_name(pod: &Pod) -> (String, String) {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    (text(&pod.meta.namespace), text(&pod.meta.name))
}

/// True where a source pod is needed by the clone of this request, whose status is to be `status`.
pub(in super::super) fn is_needed(
    request: &Request<'_>,
    status: &Status,
    clone: Option<&Cloned<'_>>,
    pod: &Pod,
) -> bool {
    let claim = request.own_claim().filter(|claim| claim.meta.deletion_timestamp.is_none());
    let source = clone.and_then(|cloned| cloned.claim);
    let is_over = matches!(status.phase, Some(Phase::Succeeded | Phase::Failed));
    let is_of_clone = claim.zip(source).is_some_and(|(claim, source)| is_source_pod(pod, source, claim));
    !is_over && is_of_clone
}
