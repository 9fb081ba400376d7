//! A start that finds no room on a disk: the VM waits for it, and has not failed. The same of a VM that was
//! paused by a full disk when its launcher was killed.
//!
//! ```text
//!  Preparing ──start──► Running
//!     ▲ │ no room, and no domain runs
//!     │ ▼
//!  Preparing, reason NoSpace ── Shutdown, Destroy, the end of the launcher ──► Failed
//!     (the whole start again, each tick)
//! ```
//!
//! Each file of a start has its name only when it is whole, so that a start may be repeated from its beginning.

use super::{Driver, TICK};
use crate::vm::life::{DiskError, Standing};
use crate::vm::publish;
use crate::vm::queue::Mode;
use api::launcher::{Life, START_FAILED, State};
use tokio::time::Instant;

/// The state at the begin of a start. Reason and message of a start that is repeated stand until it is over.
pub(super) fn emptied(state: &State) -> State {
    let emptied = publish::emptied(state);
    match state.life {
        Life::Preparing => State { reason: state.reason.clone(), message: state.message.clone(), ..emptied },
        _ => emptied,
    }
}

impl Driver {
    /// The start came to nothing.
    pub(super) fn failed(&mut self, why: &Standing) {
        self.early.clear();
        self.broken_start = None;
        self.stands(why);
        let waits = why.life == Life::Preparing;
        // By the next tick, the events of this start have come.
        self.tick = waits.then(|| Instant::now() + TICK);
        if !waits {
            self.mode(Mode::Ended);
        }
    }

    /// Schedules the resumption of a VM that was taken over while an error of a disk paused it. The previous launcher alone knew the
    /// disk and the cause, so a full disk is assumed. If the error occurs again, the hypervisor reports the disk.
    pub(super) fn resume_with_room(&mut self, before: State) {
        let path = self.parts.root.folder().display().to_string();
        self.disk_error = Some(DiskError { disk: None, path, no_space: true });
        self.tick = Some(Instant::now() + TICK);
        self.publisher.change(|state| {
            if state.reason == before.reason {
                state.message = before.message;
            }
        });
    }

    /// True while a start waits for room, and nothing is done.
    pub(super) fn waits_for_room(&self) -> bool {
        self.queue.mode() == Mode::Preparing && self.work.is_none() && self.broken_start.is_none()
    }

    /// Ends a VM that waits for room and is asked to end. It has no guest yet.
    pub(super) fn end_without_start(&mut self) {
        if self.waits_for_room() && self.queue.has_end() {
            let why = self.publisher.state().message.unwrap_or_default();
            let message = format!("the VM was stopped before it could start: {why}");
            self.failed(&Standing::failed(START_FAILED, message));
        }
    }
}
