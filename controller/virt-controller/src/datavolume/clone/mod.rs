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
//!  pod      the source pod as an object                      reader  a source pod that nobody reads from is let go of
//! ```
//!
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

mod permit;
mod pod;
mod reader;
mod serve;
mod source;
#[cfg(test)]
mod tests;
mod way;

pub(crate) use permit::{FarClone, far_clone};
pub(super) use serve::{Served, forget_client, is_needed, take_away};
pub(super) use source::{Cloned, Size};
pub(super) use way::Way;

use super::Round;
use super::claim::Wanted;
use api::claim::DataReference;
use api::datavolume::{ConditionType, Phase};
use cluster_model::clones::{CLONE_FALLBACK, CLONE_REQUEST, CLONE_TYPE};
use cluster_model::objects::{Kind, Work};
use jiff::{SignedDuration, Timestamp};

/// Annotations.
type Notes = Vec<(&'static str, String)>;

/// Why a clone does not go on: a word and a sentence.
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

impl Round<'_> {
    /// The disk is filled from another PVC, or from a snapshot of one.
    pub(super) fn is_clone(&self) -> bool {
        let spec = &self.volume.spec;
        let source = spec.source.as_ref();
        spec.source_ref.is_some()
            || source.is_some_and(|source| source.pvc.is_some() || source.snapshot.is_some())
    }

    /// How the PVC that is about to be made is cloned: what it notes of that, and what it is made from.
    pub(super) fn way_of(&mut self, wanted: &Wanted<'_>) -> Result<(Notes, Option<DataReference>), Stop> {
        let Some(cloned) = self.clone.clone() else { return Ok(Default::default()) };
        let own = self.volume.metadata.namespace.as_deref().unwrap_or_default();
        let way = way::choose(self.world, own, &cloned, wanted)?;
        if let (Way::Csi, Some(source)) = (&way, cloned.claim) {
            self.is_still(source)?;
        }
        self.say(ConditionType::Cloning, "True", way.name(), &way.told());
        let mut notes = vec![(CLONE_REQUEST, cloned.shown()), (CLONE_TYPE, way.name().to_owned())];
        if let Way::Copy(why) = &way
            && !why.is_empty()
        {
            notes.push((CLONE_FALLBACK, why.clone()));
        }
        Ok((notes, way.data_source(&cloned.name)))
    }

    /// Says why the clone does not go on.
    pub(super) fn stops(&mut self, stop: Stop) {
        match stop {
            Stop::Waits(reason, message) => {
                let is_new = super::notes::running(&self.next)
                    .is_none_or(|said| said.reason.as_deref() != Some(reason));
                self.stands(reason, &message);
                self.go(Phase::Pending, None);
                if is_new {
                    self.tell([IN_USE, reader::UNREAD, reader::STALLED].contains(&reason), reason, message);
                }
                // Nobody says here that a pod has ended, or that a key has come.
                if let Ok(next) = self.now.checked_add(self.pause()) {
                    self.after.look_again(next);
                }
            }
            Stop::Never(reason, message) => {
                self.fail(reason, &message);
                self.lets_go();
            }
        }
    }

    /// Nobody writes to what the storage is about to clone.
    fn is_still(&mut self, source: &cluster_model::objects::PersistentVolumeClaim) -> Result<(), Stop> {
        if let Some(stop) = self.in_use(source) {
            return Err(stop);
        }
        let failed = self.world.failures.get(&self.key());
        // While the next try waits, nothing is made: then nothing is asked.
        if failed.is_none_or(|failed| failed.retry <= self.now) {
            self.after.unused(&source.meta);
        }
        Ok(())
    }

    /// The time until a clone that waits is looked at again: as long as it has waited so far, within bounds.
    fn pause(&self) -> SignedDuration {
        let said = super::notes::running(&self.next);
        let since = said.and_then(|said| said.last_transition_time.as_ref()?.parse::<Timestamp>().ok());
        let waited = since.map_or(LOOK, |since| self.now.duration_since(since));
        waited.clamp(LOOK, RARELY)
    }

    /// The clone has failed: whoever still copies for it ends.
    fn lets_go(&mut self) {
        let meta = &self.volume.metadata;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let claim = self.world.pvcs.get(&text(&meta.namespace), &text(&meta.name));
        let Some(claim) = claim.filter(|claim| self.is_ours(claim)) else { return };
        forget_client(claim, &mut self.after);
        self.deletes(self.world.worker_for(claim, Work::Import).filter(|pod| !pod.has_ended()));
    }

    /// The storage has made this PVC from its source, which may be gone since.
    pub(super) fn is_made_by_storage(&self, claim: &cluster_model::objects::PersistentVolumeClaim) -> bool {
        self.is_clone()
            && self.is_ours(claim)
            && claim.is_bound()
            && claim.meta.deletion_timestamp.is_none()
            && !matches!(way::of_claim(claim), Way::Copy(_))
    }

    /// The PVC is made from its source by its storage: there is nothing to do but to wait.
    pub(super) fn populated(&mut self, claim: &cluster_model::objects::PersistentVolumeClaim, phase: Phase) {
        let name = super::claim_name(claim).to_owned();
        if claim.is_bound() {
            return self.done(claim, None, &api::job::Report::default());
        }
        let (kind, source) = claim
            .spec
            .data_source
            .as_ref()
            .map_or_else(Default::default, |source| (source.kind.clone(), source.name.clone()));
        let message = format!("the storage makes PVC {name} from the {kind} {source}");
        self.stands("Pending", &message);
        self.go(phase, Some((false, "CloneInProgress", message)));
    }

    /// The source pod broke off, and is made anew; the importer pod waits for it.
    pub(super) fn source_broke(&mut self, served: Served<'_>) {
        match served {
            Served::Broke(pod, reason, message, next) => self.broke(Some(pod), &reason, &message, next),
            Served::Stopped(stop @ Stop::Never(..)) => self.stops(stop),
            Served::Ready | Served::Waits(..) | Served::Stopped(_) => {}
        }
    }
}

/// The reason of a source to which somebody writes.
pub(super) const IN_USE: &str = "CloneSourceInUse";
/// The time between two looks at what nobody tells of: at first, and at last.
const LOOK: SignedDuration = SignedDuration::from_secs(5);
const RARELY: SignedDuration = SignedDuration::from_secs(60);
/// The kind of a PVC, in words.
const CLAIM: &str = Kind::PersistentVolumeClaim.name();
