//! Clones: a DataVolume that is filled from another PVC, of its own namespace or of another one.
//!
//! ```text
//!  spec.source.pvc ───────────────────────┐                                  ┌─ copy       source pod ──TLS──► importer pod
//!  spec.sourceRef ─► DataSource ─► PVC ───┴─► permitted? ─► is it complete? ─┤             (serve, pod)        (fill, as an import)
//!                    (once: the PVC is recorded on the target)               ├─ csi-clone  PVC with dataSource: no pod
//!  spec.source.snapshot ─────────────────────────────────────────────────────┴─ snapshot   PVC with dataSource: no pod
//!
//!  source   the source of a clone, and its readiness         permit  the right to clone from another namespace
//!  way      the three ways of cloning, and reasons           serve   the source pod: created, published, replaced
//!  choose   the way of a PVC that is about to be created
//!  pod      the source pod as an object                      reader  a source pod without a reader is deleted
//!  announcement   a clone by the storage that is about to be created      begun   a clone that needs its source again
//! ```
//!
//! **Steps.** [`resolve`] finds the source and checks if it can be cloned now, [`choose_way`] chooses the
//! way, and [`mod@serve`] manages the source pod. Each returns an outcome, which becomes part of the outcome of
//! `data_volume::reconcile`.
//! **Flow.** Before there is a PVC, the clone waits until its source can be cloned. The PVC then gets the
//! size of the source, and an annotation with the source. The source pod is created when the target may be
//! written, and the importer pod when the source pod answers. All conditions and events are those of the
//! target's DataVolume.
//! **Guarantees.** Of another namespace only a DataSource is read, and nothing is reported, before the right
//! of the DataVolume's author to clone there is verified. The right is verified again before each source pod.
//! While a source pod reads a PVC, or the storage clones it, nothing is written to the PVC: no VMI starts on
//! it ([`crate::vmi`]) and no pod fills it. The storage is asked to clone a PVC only when no pod writes to
//! it, and after that was announced on the PVC. A source pod is deleted with its target and with its source.
//! **Bounds.** One source PVC has at most [`serve::PLACES`] source pods, which namespaces share. A source pod
//! that is not ready, or that no importer pod reads from, is deleted ([`reader`]), and VMs of its namespace
//! may start. A clone that waits is checked after [`LOOK`], and the less often the longer it has waited, up
//! to [`RARELY`].
//! **Assumptions.** A user who may write in the namespace of the source controls its disk, and may serve
//! false data to its clones: the importer treats the data as untrusted. A user who may write in the namespace
//! of the target can pose as the importer to the source pod.
//! **Caveats.** A clone token is valid as long as virt-api's public key is known. A clone that waits for a
//! month has to be created again, and says so (`CloneTokenExpired`). A user who may clone a PVC can keep its
//! VMs waiting by one clone after another.

mod announcement;
mod begun;
mod choose;
mod method;
mod permit;
mod pod;
mod reader;
mod serve;
mod source;
#[cfg(test)]
mod tests;

pub(super) use announcement::withdraw as withdraw_announcements;
pub(crate) use begun::is_begun_clone;
pub(super) use choose::choose_way;
pub(super) use method::CloneMethod;
pub(crate) use permit::{FarClone, far_clone};
pub(super) use serve::{SourcePodState, forget_client, is_needed, serve, strays, take_away};
pub(super) use source::{Cloned, Size, resolve};

use super::AT_FIRST_POD;
use super::claim_annotations::running;
use super::external::misbound;
use super::fill::{complete, retry_after_pod_end};
use super::outcome::Outcome;
use super::request::Request;
use crate::volume_origin::{VolumeOrigin, volume_origin};
use api::data_volume::Phase;
use cluster_model::objects::{Kind, PersistentVolumeClaim, Work};
use jiff::{SignedDuration, Timestamp};

/// Reason and message of a clone that does not go on.
#[derive(Clone, Debug)]
pub(super) enum Stop {
    /// The clone may become possible later: reason and message.
    Waits(&'static str, String),
    /// The clone can never become possible: reason and message.
    Never(&'static str, String),
}

impl Stop {
    fn wait<T>(reason: &'static str, message: impl Into<String>) -> Result<T, Stop> {
        Err(Stop::Waits(reason, message.into()))
    }

    fn never<T>(reason: &'static str, message: impl Into<String>) -> Result<T, Stop> {
        Err(Stop::Never(reason, message.into()))
    }
}

/// Outcome of a clone that waits or has failed.
pub(super) fn stop_outcome(request: &Request<'_>, stop: Stop) -> Outcome {
    match stop {
        Stop::Waits(reason, message) => {
            let is_new = running(&request.status).is_none_or(|said| said.reason.as_deref() != Some(reason));
            let mut outcome =
                Outcome::default().wait_without_pod(request, reason, &message).phase(Phase::Pending);
            if is_new {
                let is_warning = [IN_USE, reader::UNREAD, reader::STALLED].contains(&reason);
                outcome = outcome.event(is_warning, reason, message);
            }
            // The end of a pod in another namespace, or a new key, does not touch this key.
            request.now.checked_add(pause(request)).ok().into_iter().fold(outcome, Outcome::retry_at)
        }
        Stop::Never(reason, message) => {
            Outcome::default().fail(request, reason, &message).and(end_copy(request))
        }
    }
}

/// Pause before a waiting clone is checked again: as long as it has waited so far, within bounds.
fn pause(request: &Request<'_>) -> SignedDuration {
    let said = running(&request.status).filter(|said| said.status == "False");
    let since = said.and_then(|said| said.last_transition_time.as_ref()?.parse::<Timestamp>().ok());
    let waited = since.map_or(LOOK, |since| request.now.duration_since(since));
    waited.clamp(LOOK, RARELY)
}

/// Deletes the pod that still copies for a clone that has failed.
fn end_copy(request: &Request<'_>) -> Outcome {
    let Some(claim) = request.own_claim() else { return Outcome::default() };
    let pod = request.world.worker_for(claim, Work::Import).filter(|pod| !pod.has_ended());
    Outcome::default().after_status(forget_client(claim)).deletes(pod)
}

/// True if the storage has created this PVC from its source. The source may be gone since.
pub(super) fn is_made_by_storage(request: &Request<'_>, claim: &PersistentVolumeClaim) -> bool {
    request.is_clone()
        && request.owns(claim)
        && claim.is_bound()
        && claim.meta.deletion_timestamp.is_none()
        && claim.is_filled_by_driver()
}

/// Outcome while the storage creates the volume of the PVC from its source. The disk is complete when the PVC is bound to that volume.
pub(super) fn follow_population(
    request: &Request<'_>,
    claim: &PersistentVolumeClaim,
    phase: Phase,
) -> Outcome {
    let name = super::claim_name(claim);
    match volume_origin(request.world, claim) {
        VolumeOrigin::Other(why) => return misbound(&format!("PVC {name} {why}")),
        VolumeOrigin::OfSource => return complete(request, claim, None, &api::job::Report::default()),
        VolumeOrigin::Unknown => {}
    }
    let (kind, source) = claim
        .spec
        .data_source
        .as_ref()
        .map_or_else(Default::default, |source| (source.kind.clone(), source.name.clone()));
    let mut message = format!("the storage creates PVC {name} from the {kind} {source}");
    let class = claim.spec.storage_class_name.as_deref();
    let class = class.and_then(|class| request.world.storage_classes.get("", class));
    let waits = !claim.is_bound() && class.is_some_and(|class| class.waits_for_consumer);
    if waits {
        message.push_str(AT_FIRST_POD);
    }
    // The launcher pod of a VMI is that pod.
    let phase = if waits { Phase::PendingPopulation } else { phase };
    let outcome = Outcome::default().wait_without_pod(request, "Pending", &message);
    outcome.enter_phase(phase, false, "CloneInProgress", message)
}

/// Outcome of a source pod that broke off. It is created again, and the importer pod waits for it.
pub(super) fn source_broke(request: &Request<'_>, served: SourcePodState<'_>) -> Outcome {
    match served {
        SourcePodState::Broke(pod, reason, message, next) => {
            retry_after_pod_end(request, Some(pod), &reason, &message, next)
        }
        SourcePodState::Stopped(stop @ Stop::Never(..)) => stop_outcome(request, stop),
        SourcePodState::Ready | SourcePodState::Waits(..) | SourcePodState::Stopped(_) => Outcome::default(),
    }
}

/// Reason of a source to which a VMI or a pod writes.
pub(super) const IN_USE: &str = "CloneSourceInUse";
/// Pauses until a clone that waits is decided on again: the shortest and the longest.
const LOOK: SignedDuration = SignedDuration::from_secs(5);
const RARELY: SignedDuration = SignedDuration::from_secs(60);
/// The kind of a PVC, in messages.
const CLAIM: &str = Kind::PersistentVolumeClaim.name();
