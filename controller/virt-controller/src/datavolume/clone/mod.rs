//! Clones: a DataVolume that is filled from another PVC, of its own namespace or of another one.
//!
//! ```text
//!  spec.source.pvc ───────────────────────┐                          ┌─ copy       source pod ──TLS──► importer pod
//!  spec.sourceRef ─► DataSource ─► PVC ───┴─► may it? ─► is it ready? ┤             (serve, pod)        (fill, as an import)
//!                    (once: the answer stands on the PVC)             ├─ csi-clone  PVC with dataSource: no pod
//!  spec.source.snapshot ──────────────────────────────────────────────┴─ snapshot   PVC with dataSource: no pod
//!
//!  source   what is cloned, and whether that can be now      permit  who may clone from another namespace
//!  way      which of the three ways, and why not another     serve   the source pod: made, made known, made anew
//!  choose   the way of a PVC that is about to be made
//!  pod      the source pod as an object                      reader  a source pod that nobody reads from is let go of
//! ```
//!
//! **Steps.** [`resolve`] finds what is cloned and whether that can be now, [`choose_way`] how, and [`serve`] sees to the source pod. Each
//! returns an outcome, which ends up in the one of the walk (`datavolume::reconcile`).
//! **Flow.** Before there is a PVC, the clone waits until its source can be cloned; the PVC then has its size, and notes what it is a
//! clone of. The source pod is made when the target may be written, and the importer pod when the source pod answers. All that is
//! said is said of the target's DataVolume.
//! **Guarantees.** Nothing of another namespace is told or read, and nothing but a DataSource looked at, before it is verified that who
//! made the DataVolume may clone there; and again before each source pod. While a source pod reads a PVC, or a storage clones it,
//! nothing is written to the PVC: no VMI starts on it ([`crate::vmi`]) and no pod fills it. A storage is asked to clone a PVC when
//! nobody writes to the PVC. Source pods outlive neither their target nor their source: whichever goes, they go.
//! **Bounds.** Of one source PVC there are [`serve::PLACES`] source pods, which namespaces share. One that is not ready, or that no
//! importer pod reads from, goes ([`reader`]), and VMs of its namespace may start. A clone that waits is looked at after [`LOOK`], and
//! the less often the longer it has waited, up to [`RARELY`].
//! **Assumptions.** Who may write in the namespace of the source may do with its disk what they like, also lie to its clones: to the
//! importer what comes is foreign bytes. Who may write in that of the target can show themselves to the source pod as the importer.
//! **Caveats.** A clone token holds as long as virt-api's public key is known: a clone that waits for a month has to be made anew, and
//! says so (`CloneTokenExpired`). Who may clone a PVC can keep its VMs waiting by one clone after another.

mod choose;
mod permit;
mod pod;
mod reader;
mod serve;
mod source;
#[cfg(test)]
mod tests;
mod way;

pub(super) use choose::choose_way;
pub(crate) use permit::{FarClone, far_clone};
pub(super) use serve::{Served, forget_client, is_needed, serve, take_away};
pub(super) use source::{Cloned, Size, resolve};
pub(super) use way::Way;

use super::claim_annotations::running;
use super::fill::{broke, done};
use super::outcome::Outcome;
use super::request::Request;
use api::datavolume::Phase;
use cluster_model::objects::{Kind, PersistentVolumeClaim, Work};
use jiff::{SignedDuration, Timestamp};

/// Reason and message of a clone that does not go on.
#[derive(Clone, Debug)]
pub(super) enum Stop {
    /// It may later.
    Waits(&'static str, String),
    /// No time mends that.
    Never(&'static str, String),
}

impl Stop {
    fn waits<T>(reason: &'static str, message: impl Into<String>) -> Result<T, Stop> {
        Err(Stop::Waits(reason, message.into()))
    }

    fn never<T>(reason: &'static str, message: impl Into<String>) -> Result<T, Stop> {
        Err(Stop::Never(reason, message.into()))
    }
}

/// The clone does not go on.
pub(super) fn stopped(request: &Request<'_>, stop: Stop) -> Outcome {
    match stop {
        Stop::Waits(reason, message) => {
            let is_new = running(&request.status).is_none_or(|said| said.reason.as_deref() != Some(reason));
            let mut outcome = Outcome::default().stands(request, reason, &message).phase(Phase::Pending);
            if is_new {
                let is_warning = [IN_USE, reader::UNREAD, reader::STALLED].contains(&reason);
                outcome = outcome.event(is_warning, reason, message);
            }
            // The end of a pod in another namespace, or a new key, does not touch this key.
            request.now.checked_add(pause(request)).ok().into_iter().fold(outcome, Outcome::again)
        }
        Stop::Never(reason, message) => {
            Outcome::default().fails(request, reason, &message).and(end_copy(request))
        }
    }
}

/// The time until a clone that waits is looked at again: as long as it has waited so far, within bounds.
fn pause(request: &Request<'_>) -> SignedDuration {
    let said = running(&request.status).filter(|said| said.status == "False");
    let since = said.and_then(|said| said.last_transition_time.as_ref()?.parse::<Timestamp>().ok());
    let waited = since.map_or(LOOK, |since| request.now.duration_since(since));
    waited.clamp(LOOK, RARELY)
}

/// The clone has failed: a pod that still copies for it is deleted.
fn end_copy(request: &Request<'_>) -> Outcome {
    let Some(claim) = request.own_claim() else { return Outcome::default() };
    let pod = request.world.worker_for(claim, Work::Import).filter(|pod| !pod.has_ended());
    Outcome::default().then(forget_client(claim)).deletes(pod)
}

/// The storage has made this PVC from its source, which may be gone since.
pub(super) fn is_made_by_storage(request: &Request<'_>, claim: &PersistentVolumeClaim) -> bool {
    request.is_clone()
        && request.owns(claim)
        && claim.is_bound()
        && claim.meta.deletion_timestamp.is_none()
        && !matches!(way::of_claim(claim), Way::Copy(_))
}

/// The storage makes the PVC from its source. It is complete when it is bound.
pub(super) fn populated(request: &Request<'_>, claim: &PersistentVolumeClaim, phase: Phase) -> Outcome {
    let name = super::claim_name(claim);
    if claim.is_bound() {
        return done(request, claim, None, &api::job::Report::default());
    }
    let (kind, source) = claim
        .spec
        .data_source
        .as_ref()
        .map_or_else(Default::default, |source| (source.kind.clone(), source.name.clone()));
    let message = format!("the storage makes PVC {name} from the {kind} {source}");
    let outcome = Outcome::default().stands(request, "Pending", &message);
    outcome.enters(phase, false, "CloneInProgress", message)
}

/// The source pod broke off, and is made anew; the importer pod waits for it.
pub(super) fn source_broke(request: &Request<'_>, served: Served<'_>) -> Outcome {
    match served {
        Served::Broke(pod, reason, message, next) => broke(request, Some(pod), &reason, &message, next),
        Served::Stopped(stop @ Stop::Never(..)) => stopped(request, stop),
        Served::Ready | Served::Waits(..) | Served::Stopped(_) => Outcome::default(),
    }
}

/// Reason of a source to which a VMI or a pod writes.
pub(super) const IN_USE: &str = "CloneSourceInUse";
/// Pauses until a clone that waits is decided on again: the shortest and the longest.
const LOOK: SignedDuration = SignedDuration::from_secs(5);
const RARELY: SignedDuration = SignedDuration::from_secs(60);
/// The kind of a PVC, in messages.
const CLAIM: &str = Kind::PersistentVolumeClaim.name();
