//! The piece of work in progress, on a thread of its own, and the forced end that does not wait for it.
//!
//! ```text
//!  begin ── 2 s ──► hangs: a forced end that waits in the queue is carried out beside it, again and again
//!        ── 30 s ─► late: the state reports the wait (a start: 120 s)
//! ```
//!
//! libvirt waits for QEMU without an end, and QEMU for its storage. Killing QEMU ends both waits.

use super::blocking_work::Outcome;
use crate::hypervisor::{Hypervisor, Result};
use crate::threads::{self, Running};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Time after which a forced end is carried out beside the work, and between two attempts.
const HANGS: Duration = Duration::from_secs(2);
/// Time after which the state reports the wait.
const LATE: Duration = Duration::from_secs(30);
/// Time after which the state reports a start, which waits for disks and devices.
const LATE_START: Duration = Duration::from_secs(120);

/// The work in progress.
pub(super) struct Work {
    doing: String,
    since: Instant,
    running: Running<Outcome>,
    /// Next time to check hanging work.
    pub(super) look: Instant,
    /// The outcome, while a forced end is still in progress.
    outcome: Option<Outcome>,
    forced: Option<Running<Result<()>>>,
    /// Message about the wait in the state.
    said: Option<String>,
}

impl Work {
    /// Starts the work. `doing`: name of the request.
    pub(super) fn begin(doing: String, work: impl FnOnce() -> Outcome + Send + 'static) -> Work {
        let since = Instant::now();
        let running = threads::run("driver", work);
        Work { doing, since, running, look: since + HANGS, outcome: None, forced: None, said: None }
    }

    /// True if the work takes longer than a forced end may be delayed.
    pub(super) fn hangs(&self) -> bool {
        self.since.elapsed() >= HANGS
    }

    /// Ends the domain beside the work, unless that is in progress.
    pub(super) fn force(&mut self, hypervisor: &Arc<dyn Hypervisor>, name: &str) {
        if self.forced.as_ref().is_some_and(|forced| !forced.is_finished()) {
            return;
        }
        tracing::warn!("'{}' hangs: {name} is forced off beside it", self.doing);
        let (hypervisor, name) = (hypervisor.clone(), name.to_owned());
        self.forced = Some(threads::run("destroy", move || {
            hypervisor.destroy(&name).inspect_err(|e| tracing::warn!("{e}; it is tried again"))
        }));
    }

    /// Sets the next check. Returns a message for the state, once, if the work is late.
    pub(super) fn looked(&mut self) -> Option<String> {
        self.look = Instant::now() + HANGS;
        let limit = if self.doing == "start" { LATE_START } else { LATE };
        if self.said.is_some() || self.since.elapsed() < limit {
            return None;
        }
        let late = format!(
            "'{}' has not returned for {} s: libvirt, QEMU or the storage of a disk does not answer",
            self.doing,
            limit.as_secs()
        );
        self.said = Some(late.clone());
        Some(late)
    }

    /// The message that [`Work::looked`] returned for the state.
    pub(super) fn said(self) -> Option<String> {
        self.said
    }
}

/// The outcome of work; pending if no work is in progress. A forced end in progress is awaited as well: it
/// must not affect the next run of the VM.
pub(super) async fn outcome(work: &mut Option<Work>) -> Outcome {
    let Some(work) = work else { return pending().await };
    let outcome = match work.outcome.take() {
        Some(outcome) => outcome,
        None => (&mut work.running).await.unwrap_or_else(Outcome::Broken),
    };
    if let Some(forced) = &mut work.forced {
        // This future may be dropped here, and called again.
        work.outcome = Some(outcome);
        // Its result was logged; the event of the VM's end follows.
        let _ = forced.await;
        work.forced = None;
        return work.outcome.take().unwrap_or_else(|| Outcome::Broken("an outcome was lost".to_owned()));
    }
    outcome
}
