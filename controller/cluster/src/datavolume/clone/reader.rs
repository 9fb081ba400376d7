//! A source pod that nobody reads from: it goes, so that the VMs of its namespace may start.
//!
//! ```text
//!  source pod ready ──► an importer pod runs: it stays while that one does
//!        ▲         └──► none does within IDLE ──► both pods go ──► waits (CloneNotStarted), each time longer than before
//!        └─────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Whether the importer pod starts is in the hands of the target's namespace (its quota, its image secrets, its StorageClass), and what
//! waits meanwhile are VMs of another one. After a reader that broke off, the pause before the next one counts for nothing.
//! **State.** When the source pod went is when the condition Running began to say so; how often, its DataVolume counts as restarts.

use super::super::{Round, notes, worker};
use super::{Stop, serve};
use jiff::{SignedDuration, Timestamp};
use kubernetes::conditions::stamp;
use kubernetes::objects::{PersistentVolumeClaim, Pod, Work, names};

/// The reason of a clone whose source pod went because nobody read from it.
pub(super) const UNREAD: &str = "CloneNotStarted";
/// How long a source pod waits for a reader.
const IDLE: SignedDuration = SignedDuration::from_mins(5);
/// The time after which there is another source pod, in seconds: the first, and the longest.
const PAUSE: (i64, i64) = (60, 3600);

impl<'a> Round<'a> {
    /// Goes on while the source pod of the clone into this PVC is read from, or has not waited for long.
    pub(super) fn is_read(
        &mut self,
        target: &'a PersistentVolumeClaim,
        source: &PersistentVolumeClaim,
    ) -> Result<(), Stop> {
        if let Some(until) = self.is_let_go_until() {
            return if until > self.now { self.waits_for_reader(target, until) } else { Ok(()) };
        }
        let Some(until) = self.is_waited_for_until(target, source) else { return Ok(()) };
        if until > self.now {
            self.after.look_again(until);
            return Ok(());
        }
        self.next.restart_count = Some(self.next.restart_count.unwrap_or(0).max(0).saturating_add(1));
        self.waits_for_reader(target, self.after_pause(self.now))
    }

    /// The source pod goes when this is answered, for it is needed no more (`serve::is_needed`).
    fn waits_for_reader(&mut self, target: &'a PersistentVolumeClaim, until: Timestamp) -> Result<(), Stop> {
        self.deletes(self.world.worker_for(target, Work::Import).filter(|pod| !pod.has_ended()));
        self.after.look_again(until);
        let message = format!(
            "no importer pod ran within {} minutes after the source pod was ready, and VMs of the source wait meanwhile: look why no \
             pod of this namespace starts (its quota, its nodes, the worker's image); the next source pod is made at {}",
            IDLE.as_secs() / 60,
            stamp(until)
        );
        Stop::waits(UNREAD, message)
    }

    /// Until when there is no other source pod, where that is what was said last.
    fn is_let_go_until(&self) -> Option<Timestamp> {
        let said = notes::running(&self.next).filter(|said| said.reason.as_deref() == Some(UNREAD))?;
        Some(self.after_pause(said.last_heartbeat_time.as_ref()?.parse().ok()?))
    }

    fn after_pause(&self, since: Timestamp) -> Timestamp {
        let times = self.next.restart_count.unwrap_or(0).clamp(1, 10) - 1;
        let pause = PAUSE.0.saturating_mul(1 << times).min(PAUSE.1);
        since.checked_add(SignedDuration::from_secs(pause)).unwrap_or(since)
    }

    /// Until when a reader must run; nothing where one does, or where there is nothing yet to be read from.
    fn is_waited_for_until(
        &self,
        target: &PersistentVolumeClaim,
        source: &PersistentVolumeClaim,
    ) -> Option<Timestamp> {
        let uid = target.meta.uid.as_deref().unwrap_or_default();
        let namespace = source.meta.namespace.as_deref().unwrap_or_default();
        let pod = self.world.pods.get(namespace, &names::cloner(uid))?;
        let reader = self.world.worker_for(target, Work::Import);
        if !serve::is_source_pod(pod, source, target) || pod.is_going() || reader.is_some_and(has_run) {
            return None;
        }
        let ready = pod.condition("Ready").filter(|said| said.status == "True")?;
        let ready: Timestamp = ready.since.as_ref()?.parse().ok()?;
        let ended = self.last_reader_ended().filter(|ended| *ended > ready);
        let since = ended.map_or(Some(ready), |ended| {
            ended.checked_add(SignedDuration::from_secs(worker::PAUSE.1)).ok()
        })?;
        since.checked_add(IDLE).ok()
    }

    /// When the last importer pod ended, if one ran: since then it is said that none does.
    fn last_reader_ended(&self) -> Option<Timestamp> {
        let said = notes::running(&self.next).filter(|said| said.status == "False")?;
        said.last_transition_time.as_ref()?.parse().ok()
    }
}

/// The pod runs, or has: what comes of that is decided elsewhere (`fill`).
fn has_run(pod: &Pod) -> bool {
    let container = pod.container(Work::Import.container());
    pod.has_ended() || container.is_some_and(|container| container.running || container.ended.is_some())
}
