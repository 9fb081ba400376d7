//! Ends that do not come: SIGTERM is sent once, and a grace period is over once, so both are acted upon until the VM
//! has ended.
//!
//! ```text
//!  the launcher is to end ──► Shutdown ──► fails, or is dropped ──► Shutdown, after a tick
//!  the grace period is over ─► Destroy ──► fails ──────────────────► Destroy, after a tick
//! ```

use super::{Driver, TICK};
use crate::vm::queue::Mode;
use api::launcher::Request;
use tokio::time::Instant;

impl Driver {
    /// Ends the launcher, and with it the VM.
    pub(super) fn end(&mut self) {
        self.ending = true;
        self.ask_at = Some(Instant::now() + TICK);
        let may_run = matches!(self.queue.mode(), Mode::Preparing | Mode::Running | Mode::Paused);
        if self.queue.mode() == Mode::Receiving {
            self.end_reception();
        }
        // A guest that was asked ends with its grace period at the latest.
        if may_run && self.grace.is_none() && !self.queue.has_end() {
            let answer = self.queue.admit(Request::Shutdown { grace: None });
            tracing::info!("the launcher is to end, so its VM is shut down: {answer:?}");
        }
    }

    pub(super) fn grace_is_over(&mut self) {
        let Some(grace) = self.grace.take() else { return };
        self.tick = None;
        if self.queue.mode().is_over() {
            return;
        }
        let seconds = grace.seconds();
        (self.grace, self.before.grace_over) = (Some(grace.over(Instant::now() + TICK)), Some(seconds));
        let answer = self.queue.admit(Request::Destroy);
        tracing::info!("{seconds} s are over, the VM is forced off: {answer:?}");
    }
}
