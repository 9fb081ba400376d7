//! The piece of work in progress, on a thread of its own, and the forced end that does not wait for it.
//!
//! ```text
//!  begin ── 2 s ──► hangs: a forced end that waits in the queue is done beside it, again and again
//!        ── 30 s ─► late: the state says what is waited for (a start: 120 s)
//! ```
//!
//! libvirt waits for QEMU without an end, and QEMU for its storage. A QEMU that is killed ends both.

use super::effort::Outcome;
use crate::hypervisor::{Hypervisor, Result};
use crate::threads::{self, Running};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The time after which a forced end is done beside the work, and from one try to the next.
const HANGS: Duration = Duration::from_secs(2);
/// The time after which the state says what is waited for.
const LATE: Duration = Duration::from_secs(30);
/// The same for a start, which waits for disks and devices.
const LATE_START: Duration = Duration::from_secs(120);

/// The work in progress.
pub(super) struct Work {
    doing: String,
    since: Instant,
    running: Running<Outcome>,
    /// The next time to look at work that hangs.
    pub(super) look: Instant,
    /// The outcome, while a forced end is still beside it.
    outcome: Option<Outcome>,
    forced: Option<Running<Result<()>>>,
    /// What the state says about it.
    said: Option<String>,
}

impl Work {
    /// Begins it. `doing` is the word of a request.
    pub(super) fn begin(doing: String, work: impl FnOnce() -> Outcome + Send + 'static) -> Work {
        let since = Instant::now();
        let running = threads::run("driver", work);
        Work { doing, since, running, look: since + HANGS, outcome: None, forced: None, said: None }
    }

    /// True if it takes longer than a VM may be made to wait for its forced end.
    pub(super) fn hangs(&self) -> bool {
        self.since.elapsed() >= HANGS
    }

    /// Ends the domain beside the work, unless that is being done.
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

    /// Looks again later. Returns a sentence for the state, once, where the work is late.
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

    /// The sentence that [`Work::looked`] gave for the state.
    pub(super) fn said(self) -> Option<String> {
        self.said
    }
}

/// The outcome of work; there is none where nothing is in progress. A forced end beside it is waited for as well: it must not
/// reach the next run of the VM.
pub(super) async fn outcome(work: &mut Option<Work>) -> Outcome {
    let Some(work) = work else { return pending().await };
    let outcome = match work.outcome.take() {
        Some(outcome) => outcome,
        None => (&mut work.running).await.unwrap_or_else(Outcome::Broken),
    };
    if let Some(forced) = &mut work.forced {
        // This future may be dropped here, and be asked for again.
        work.outcome = Some(outcome);
        // What became of it is in the log; the event of the VM's end tells the rest.
        let _ = forced.await;
        work.forced = None;
        return work.outcome.take().unwrap_or_else(|| Outcome::Broken("an outcome was lost".to_owned()));
    }
    outcome
}
