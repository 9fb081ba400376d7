//! Admission of requests: pure, total, without a clock and without a lock.
//!
//! ```text
//!   Request ──admit──► judged against the mode of the VM after all waiting requests
//!                      Queued ──► waits ──pop──► the driver does it      Ignored, Denied ──► the reason goes back
//!   Mode    ──now────► as the driver saw it; waiting requests are judged again when it is their turn
//! ```
//!
//! Every request is named in every mode. A new one compiles only when each mode has answered it.

use api::launcher::{Answer, Denial, DenialReason, Migrate, Request};
use std::collections::VecDeque;

/// Mode of a VM, as far as requests depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No VM was given yet.
    Empty,
    /// The VM is being prepared and started.
    Preparing,
    /// The VM comes from another launcher, and still runs there.
    Receiving,
    Running,
    Paused,
    /// The guest was asked to shut down.
    Stopping,
    Ended,
    /// The VM has gone to another launcher, or may have.
    Moved,
}

impl Mode {
    /// True if the VM does not run here any more.
    pub fn is_over(self) -> bool {
        matches!(self, Mode::Ended | Mode::Moved)
    }
}

/// The waiting requests, and the request in progress.
#[derive(Clone, Debug)]
pub struct Queue {
    mode: Mode,
    doing: Option<Request>,
    waiting: VecDeque<Request>,
}

/// Most requests that wait. Only a client in a loop sends more, and they are refused. The end of the VM is not.
const MOST: usize = 16;

impl Default for Queue {
    fn default() -> Self {
        Queue { mode: Mode::Empty, doing: None, waiting: VecDeque::new() }
    }
}

impl Queue {
    /// Queues a request, or refuses it with a reason.
    pub fn admit(&mut self, request: Request) -> Answer {
        let verdict = judge(self.mode_then(), &request);
        // A forced end is urgent, and makes the requests before it pointless.
        if request == Request::Destroy && verdict == Answer::Queued {
            self.waiting.clear();
            let verdict = judge(self.mode_then(), &request);
            if verdict == Answer::Queued {
                self.waiting.push_back(request);
            }
            return verdict;
        }
        match verdict {
            Answer::Queued if self.waiting.len() >= MOST => self.admit_to_full(&request),
            Answer::Queued => {
                self.waiting.push_back(request);
                Answer::Queued
            }
            Answer::Ignored { .. } | Answer::Denied(_) => verdict,
        }
    }

    /// Queues a shutdown behind too many requests, and refuses any other. Of two grace periods the shorter one waits.
    fn admit_to_full(&mut self, request: &Request) -> Answer {
        let &Request::Shutdown { grace } = request else {
            return Answer::Denied(Denial::new(DenialReason::TooManyRequests, &[&MOST]));
        };
        // A shutdown before a start is that of another life.
        let mut of_life = self.waiting.iter_mut().rev().take_while(|waiting| **waiting != Request::Start);
        let known = of_life.find_map(|waiting| match waiting {
            Request::Shutdown { grace: Some(known) } => Some(known),
            _ => None,
        });
        match (grace, known) {
            (Some(grace), Some(known)) => *known = grace.min(*known),
            _ => self.waiting.push_back(Request::Shutdown { grace }),
        }
        Answer::Queued
    }

    /// The next request, if its time has come. A request that has become pointless meanwhile is returned as
    /// dropped.
    pub fn pop(&mut self) -> Option<Next> {
        if self.doing.is_some() || matches!(self.mode, Mode::Preparing | Mode::Receiving) {
            return None;
        }
        // Another start waits for the end, and later requests wait with it.
        if self.mode == Mode::Stopping && matches!(self.waiting.front(), Some(Request::Start)) {
            return None;
        }
        let request = self.waiting.pop_front()?;
        match judge(self.mode, &request) {
            Answer::Queued => {
                self.doing = Some(request.clone());
                Some(Next::Do(request))
            }
            Answer::Ignored { reason } => Some(Next::Drop(request, reason)),
            Answer::Denied(denial) => Some(Next::Drop(request, denial.to_string())),
        }
    }

    /// Records that the request in progress is done, or has failed.
    pub fn done(&mut self) {
        self.doing = None;
    }

    /// Sets the mode that the driver saw.
    pub fn now(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// The mode that the driver saw last.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The request in progress and the waiting ones, in order.
    pub fn outstanding(&self) -> impl Iterator<Item = &Request> {
        self.doing.iter().chain(&self.waiting)
    }

    /// The request in progress.
    pub fn doing(&self) -> Option<&Request> {
        self.doing.as_ref()
    }

    /// The migration in progress, or the one that waits.
    pub fn migration(&self) -> Option<&Migrate> {
        self.outstanding().find_map(|request| match request {
            Request::Migrate(order) => Some(&**order),
            _ => None,
        })
    }

    /// Removes waiting migrations.
    pub fn forget_migrations(&mut self) {
        self.waiting.retain(|request| !matches!(request, Request::Migrate(_)));
    }

    /// True if the request in progress or a waiting one ends the VM.
    pub fn has_end(&self) -> bool {
        self.outstanding().any(|request| matches!(request, Request::Shutdown { .. } | Request::Destroy))
    }

    /// True if a waiting request ends the VM at once. `grace`: grace period of a shutdown without its own.
    pub fn is_to_end(&self, grace: u64) -> bool {
        self.waiting.iter().any(|request| match request {
            Request::Destroy => true,
            Request::Shutdown { grace: own } => own.unwrap_or(grace) == 0,
            _ => false,
        })
    }

    /// Grace period of a waiting shutdown: its own, or else `grace`.
    pub fn waiting_shutdown(&self, grace: u64) -> Option<u64> {
        self.waiting.iter().find_map(|request| match request {
            Request::Shutdown { grace: own } => Some(own.unwrap_or(grace)),
            _ => None,
        })
    }

    /// Mode of the VM after all waiting requests.
    fn mode_then(&self) -> Mode {
        self.outstanding().fold(self.mode, after)
    }
}

/// The next step of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Carry the request out.
    Do(Request),
    /// Drop the request, for this reason.
    Drop(Request, String),
}

fn ignored(reason: &str) -> Answer {
    Answer::Ignored { reason: reason.into() }
}

fn denied(reason: DenialReason) -> Answer {
    Answer::Denied(Denial::new(reason, &[]))
}

/// The answer to a request in a mode.
pub fn judge(mode: Mode, request: &Request) -> Answer {
    match mode {
        Mode::Empty => when_empty(request),
        Mode::Preparing => when_preparing(request),
        Mode::Receiving => denied(DenialReason::Receiving),
        Mode::Running => when_running(request),
        Mode::Paused => when_paused(request),
        Mode::Stopping => when_stopping(request),
        Mode::Ended => when_ended(request),
        Mode::Moved => denied(DenialReason::Moved),
    }
}

/// The driver aborts a migration that is in progress; another one never reaches the queue's judgement.
const NO_MIGRATION: &str = "no such migration is in progress";
/// The driver releases a VM that waits for it; nothing else does.
const RELEASED: &str = "no VM waits here for its release";

/// The answer to requests that are not supported yet, in any mode.
fn not_yet(what: &str) -> Answer {
    Answer::Denied(Denial::new(DenialReason::NotSupported, &[&what]))
}

fn when_empty(request: &Request) -> Answer {
    let nothing = || denied(DenialReason::NoVm);
    match request {
        Request::Start => nothing(),
        Request::Shutdown { .. } => nothing(),
        Request::Destroy => nothing(),
        Request::Reboot => nothing(),
        Request::Reset => nothing(),
        Request::Pause => nothing(),
        Request::Unpause => nothing(),
        Request::PauseForDiskPressure { .. } => nothing(),
        Request::ResumeAfterDiskPressure => nothing(),
        Request::Eject { .. } | Request::Insert { .. } | Request::Link { .. } => nothing(),
        Request::Hotplug => not_yet("hotplug"),
        Request::Snapshot => not_yet("a snapshot"),
        Request::Migrate(_) | Request::AbortMigration { .. } | Request::Release(_) => nothing(),
    }
}

fn when_preparing(request: &Request) -> Answer {
    let early = || denied(DenialReason::Starting);
    match request {
        Request::Start => ignored("the VM is being started"),
        Request::Shutdown { .. } => Answer::Queued,
        Request::Destroy => Answer::Queued,
        Request::Reboot => early(),
        Request::Reset => early(),
        Request::Pause => Answer::Queued,
        Request::Unpause => early(),
        Request::PauseForDiskPressure { .. } => early(),
        Request::ResumeAfterDiskPressure => early(),
        Request::Eject { .. } | Request::Insert { .. } | Request::Link { .. } => early(),
        Request::Hotplug => not_yet("hotplug"),
        Request::Snapshot => not_yet("a snapshot"),
        Request::Migrate(_) => early(),
        Request::AbortMigration { .. } => ignored(NO_MIGRATION),
        Request::Release(_) => ignored(RELEASED),
    }
}

fn when_running(request: &Request) -> Answer {
    match request {
        Request::Start => ignored("the VM runs already"),
        Request::Shutdown { .. } => Answer::Queued,
        Request::Destroy => Answer::Queued,
        Request::Reboot => Answer::Queued,
        Request::Reset => Answer::Queued,
        Request::Pause => Answer::Queued,
        Request::Unpause => ignored("the VM is not paused"),
        Request::PauseForDiskPressure { .. } => Answer::Queued,
        Request::ResumeAfterDiskPressure => ignored("the VM is not paused"),
        Request::Eject { .. } | Request::Insert { .. } | Request::Link { .. } => Answer::Queued,
        Request::Hotplug => not_yet("hotplug"),
        Request::Snapshot => not_yet("a snapshot"),
        Request::Migrate(_) => Answer::Queued,
        Request::AbortMigration { .. } => ignored(NO_MIGRATION),
        Request::Release(_) => ignored(RELEASED),
    }
}

fn when_paused(request: &Request) -> Answer {
    match request {
        Request::Start => ignored("the VM is paused; unpause it instead"),
        // The driver resumes the VM first, so that the guest can react.
        Request::Shutdown { .. } => Answer::Queued,
        Request::Destroy => Answer::Queued,
        Request::Reboot => denied(DenialReason::Paused),
        Request::Reset => Answer::Queued,
        Request::Pause => ignored("the VM is paused already"),
        Request::Unpause => Answer::Queued,
        Request::PauseForDiskPressure { .. } => ignored("the VM is paused already"),
        Request::ResumeAfterDiskPressure => Answer::Queued,
        Request::Eject { .. } | Request::Insert { .. } | Request::Link { .. } => Answer::Queued,
        Request::Hotplug => not_yet("hotplug"),
        Request::Snapshot => not_yet("a snapshot"),
        Request::Migrate(_) => Answer::Queued,
        Request::AbortMigration { .. } => ignored(NO_MIGRATION),
        Request::Release(_) => ignored(RELEASED),
    }
}

fn when_stopping(request: &Request) -> Answer {
    let late = || denied(DenialReason::Stopping);
    match request {
        // The VM starts again after it has ended.
        Request::Start => Answer::Queued,
        // A new grace period moves the end; the same request again does not.
        Request::Shutdown { grace: Some(_) } => Answer::Queued,
        Request::Shutdown { grace: None } => ignored("the VM is stopping already"),
        Request::Destroy => Answer::Queued,
        Request::Reboot => late(),
        Request::Reset => late(),
        Request::Pause => late(),
        Request::Unpause => late(),
        Request::PauseForDiskPressure { .. } => late(),
        Request::ResumeAfterDiskPressure => late(),
        Request::Eject { .. } | Request::Insert { .. } | Request::Link { .. } => late(),
        Request::Hotplug => not_yet("hotplug"),
        Request::Snapshot => not_yet("a snapshot"),
        Request::Migrate(_) => late(),
        Request::AbortMigration { .. } => ignored(NO_MIGRATION),
        Request::Release(_) => ignored(RELEASED),
    }
}

fn when_ended(request: &Request) -> Answer {
    let over = || denied(DenialReason::Ended);
    match request {
        Request::Start => Answer::Queued,
        Request::Shutdown { .. } => ignored("the VM has ended already"),
        Request::Destroy => ignored("the VM has ended already"),
        Request::Reboot => over(),
        Request::Reset => over(),
        Request::Pause => over(),
        Request::Unpause => over(),
        Request::PauseForDiskPressure { .. } => over(),
        Request::ResumeAfterDiskPressure => over(),
        Request::Eject { .. } | Request::Insert { .. } | Request::Link { .. } => over(),
        Request::Hotplug => not_yet("hotplug"),
        Request::Snapshot => not_yet("a snapshot"),
        Request::Migrate(_) => over(),
        Request::AbortMigration { .. } => ignored(NO_MIGRATION),
        Request::Release(_) => ignored(RELEASED),
    }
}

/// Mode after a request was carried out in a mode that queued it.
fn after(mode: Mode, request: &Request) -> Mode {
    match request {
        Request::Start => Mode::Preparing,
        Request::Shutdown { .. } => Mode::Stopping,
        Request::Destroy => Mode::Ended,
        Request::Reboot => Mode::Running,
        Request::Reset => mode,
        Request::Pause | Request::PauseForDiskPressure { .. } => Mode::Paused,
        Request::Unpause | Request::ResumeAfterDiskPressure => Mode::Running,
        Request::Eject { .. } | Request::Insert { .. } | Request::Link { .. } => mode,
        Request::Hotplug | Request::Snapshot => mode,
        Request::Migrate(_) | Request::AbortMigration { .. } | Request::Release(_) => mode,
    }
}

/// Name of a pause for disk pressure, in [`api::launcher::State::doing`].
pub(super) const DISK_PRESSURE: &str = "pause for disk pressure";

/// Name of a request in messages.
pub(super) fn word(request: &Request) -> String {
    match request {
        Request::Start => "start",
        Request::Shutdown { .. } => "shutdown",
        Request::Destroy => "destroy",
        Request::Reboot => "reboot",
        Request::Reset => "reset",
        Request::Pause => "pause",
        Request::Unpause => "unpause",
        Request::PauseForDiskPressure { .. } => DISK_PRESSURE,
        Request::ResumeAfterDiskPressure => "resume after disk pressure",
        Request::Eject { .. } => "eject",
        Request::Insert { .. } => "insert",
        Request::Link { .. } => "link",
        Request::Hotplug => "hotplug",
        Request::Snapshot => "snapshot",
        Request::Migrate(_) => "migrate",
        Request::AbortMigration { .. } => "abort migration",
        Request::Release(_) => "release",
    }
    .to_owned()
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
