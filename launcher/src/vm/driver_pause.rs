//! Pauses and resumptions: of a user, for disk pressure, by the hypervisor.
//!
//! ```text
//!  request done ──► mode, for the requests that wait      event ──► mode, and the published state
//! ```
//!
//! The hypervisor reports an event later or earlier than the result of the request that caused it. A waiting
//! request must be judged by what was done before it: a guest that was just paused has to be resumed for its
//! shutdown.

use super::{Driver, TICK};
use crate::hypervisor::Pause;
use crate::vm::changeable;
use crate::vm::life;
use crate::vm::queue::Mode;
use api::launcher::{Answer, Life, Request};
use tokio::time::Instant;

/// Pauses and resumptions that the hypervisor has reported since the work began. They are newer than the result of the work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PauseEvents {
    pub(super) paused: bool,
    pub(super) resumed: bool,
}

impl Driver {
    pub(super) fn request(&mut self, request: Request) -> Answer {
        if let Some(Err(denial)) = self.known.as_ref().map(|known| changeable::check(known, &request)) {
            return Answer::Denied(denial);
        }
        if let Some(answer) = self.migration_request(&request) {
            return answer;
        }
        let was_under_pressure = self.disk_pressure.is_there();
        let answer = self.disk_pressure.admit(&mut self.queue, request);
        // A user has made the pause theirs.
        if was_under_pressure && !self.disk_pressure.is_there() && self.queue.mode() == Mode::Paused {
            self.saw_paused(Pause::Asked);
        }
        answer
    }

    /// A pause was carried out. An event that came already is newer than this result.
    pub(super) fn record_pause(&mut self) {
        if self.queue.mode() == Mode::Running && !self.heard.paused {
            self.mode(Mode::Paused);
        }
    }

    /// A resumption was carried out.
    pub(super) fn record_resume(&mut self) {
        if self.queue.mode() == Mode::Paused && !self.heard.resumed {
            self.mode(Mode::Running);
        }
    }

    pub(super) fn saw_running(&mut self) {
        self.heard.resumed = true;
        self.disk_pressure.resumed();
        // The guest runs on while it shuts down.
        if self.queue.mode() == Mode::Stopping {
            return;
        }
        if self.disk_error.take().is_some_and(|error| error.no_space) {
            self.resume_waits.resumed(Instant::now());
        }
        self.tick = None;
        // A full disk paused the guest during its shutdown.
        if self.grace.is_some() {
            self.mode(Mode::Stopping);
            self.tick = Some(Instant::now() + TICK);
            return self
                .publisher
                .change(|state| (state.life, state.reason, state.message) = (Life::Stopping, None, None));
        }
        self.mode(Mode::Running);
        self.publisher
            .change(|state| (state.life, state.reason, state.message) = (Life::Running, None, None));
    }

    pub(super) fn saw_paused(&mut self, pause: Pause) {
        if self.queue.mode() == Mode::Stopping && pause != Pause::IoError {
            return;
        }
        if pause == Pause::IoError && self.disk_error.as_ref().is_some_and(|error| error.no_space) {
            let now = Instant::now();
            self.tick = Some(now + self.resume_waits.paused(now));
        }
        self.heard.paused = true;
        self.mode(Mode::Paused);
        let standing = self.disk_pressure.standing(pause);
        let standing = standing
            .or_else(|| self.migration_standing().filter(|_| matches!(pause, Pause::Asked | Pause::Passing)));
        self.stands(&standing.unwrap_or_else(|| life::paused(pause, self.disk_error.as_ref())));
    }
}
