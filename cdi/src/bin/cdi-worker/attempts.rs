//! Attempts at a job, one after the other, until it is done or has failed for good.
//!
//! ```text
//!  Permit::wait, where the target is a device
//!      ▼
//!  Attempt::start ── lines ──► Progress ──► /v1/report
//!      │ its result
//!      ▼
//!  may it be tried again? ─┬─ no ────► termination message, exit
//!                          └─ pause ─► Waiting, then anew; cut short when the pod is asked to end
//! ```

use crate::attempt_process::{Attempt, AttemptResult};
use crate::fault::{self, BASE, KILLED};
use crate::permit::Permit;
use crate::pod::{self, owner};
use crate::progress::Progress;
use crate::protocol::{Fault, Job, Order, ProgressLine};
use crate::server::{self, Pages, SharedProgress};
use crate::settings;
use crate::stop::Stop;
use api::job::Report;
use cdi::Result;
use fetch::retry::{Backoff, jitter};
use jiff::{SignedDuration, Timestamp};
use printable::line;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const PAUSES: Backoff = Backoff { first: Duration::from_secs(5), longest: Duration::from_secs(300) };
/// Killed attempts in a row without progress, after which the job fails.
const MAX_KILLS: u32 = 10;
/// Time between two log lines about the progress.
const PERIOD: Duration = Duration::from_secs(10);

/// Does a job, and serves its progress. `listen`: another address than that of a worker pod.
pub(crate) fn run<J: Job>(job: J, progress: Progress, listen: Option<&str>) -> Result<Report> {
    let registries = settings::write(job.registry())?;
    let permit = Permit::from_environment()?;
    let order = Order { memory: pod::memory()?, job, owner: owner(), registries };
    let shown = Arc::new(SharedProgress { progress: Mutex::new(progress), owner: order.owner.clone() });
    let stop = Stop::listen()?;
    let (at, _) = server::start(server::bind(listen)?, Arc::new(Pages::new(Arc::clone(&shown))?))?;
    tracing::info!("serves https://{at}/v1/report, /metrics and /healthz");
    let attempts = Attempts { order, shown, stop };
    match permit {
        Some(permit) if !permit.wait(&attempts.stop) => Ok(attempts.without_permit()),
        _ => attempts.run(),
    }
}

/// The fault of an attempt, which becomes final after too many failures. `failures`: attempts in a row
/// without progress.
fn escalate(fault: Fault, failures: u32, memory: u64) -> Fault {
    if fault.reason != KILLED || failures < MAX_KILLS {
        return fault;
    }
    let limit = memory.saturating_add(BASE);
    let message = format!(
        "{failures} attempts in a row were killed and came no further: the image wants more memory than the pod's limit of \
         {limit} bytes"
    );
    Fault { reason: "MemoryLimit".to_owned(), message, may_retry: false, ..Fault::default() }
}

/// The fault of a pod that waited too long for its permit.
fn not_permitted() -> Fault {
    Fault {
        reason: "NotPermitted".to_owned(),
        message: "virt-controller has not permitted this pod to write to the device: the disk may be complete, or in use \
                  by a VMI"
            .to_owned(),
        may_retry: true,
        ..Fault::default()
    }
}

struct Attempts<J> {
    order: Order<J>,
    shown: Arc<SharedProgress>,
    stop: Stop,
}

impl<J: Job> Attempts<J> {
    /// The report of a job that was not permitted to write.
    fn without_permit(&self) -> Report {
        let mut progress = self.progress();
        match self.stop.is_asked() {
            true => progress.stops(),
            false => progress.wait_until(&not_permitted(), Timestamp::now()),
        }
        progress.report().clone()
    }

    fn run(&self) -> Result<Report> {
        loop {
            self.progress().begins();
            let ended = self.attempt()?;
            if self.stop.is_asked() && !matches!(ended, AttemptResult::Done(_)) {
                self.progress().stops();
                break;
            }
            let fault = match ended {
                AttemptResult::Done(disk) => {
                    self.progress().done(disk);
                    break;
                }
                AttemptResult::Failed(fault) => fault,
            };
            let failures = if fault.may_retry { Some(self.progress().failed()) } else { None };
            let fault = escalate(fault, failures.unwrap_or(0), self.order.memory);
            let failures = failures.filter(|_| fault.may_retry);
            let Some(pause) = failures.map(|failures| jitter(PAUSES.pause(failures))) else {
                self.progress().fails(&fault);
                break;
            };
            self.wait(&fault, pause);
            if self.stop.is_asked() {
                self.progress().stops();
                break;
            }
        }
        Ok(self.progress().report().clone())
    }

    fn wait(&self, fault: &Fault, pause: Duration) {
        let pause = pause.min(PAUSES.longest);
        let until =
            SignedDuration::try_from(pause).ok().and_then(|pause| Timestamp::now().checked_add(pause).ok());
        self.progress().wait_until(fault, until.unwrap_or_else(Timestamp::now));
        tracing::warn!(
            reason = fault.reason,
            "{}; the next attempt is in {} s",
            line(&fault.message),
            pause.as_secs()
        );
        self.stop.wait(pause);
    }

    fn attempt(&self) -> Result<AttemptResult> {
        let mut attempt = match Attempt::start(&self.order, &self.stop) {
            Ok(attempt) => attempt,
            Err(e) => return Ok(AttemptResult::Failed(fault::of_start(&e))),
        };
        let mut told = Instant::now();
        while let Some(said) = attempt.next() {
            let mut progress = self.progress();
            match said {
                ProgressLine::Planned => progress.planned(),
                ProgressLine::Moved { done, total, is_finishing, .. } => {
                    let now = Instant::now();
                    progress.moved(done, total, is_finishing, now);
                    if now.duration_since(told) >= PERIOD {
                        told = now;
                        tracing::info!("{}", progress.sentence());
                    }
                }
                // The last lines are the result of the attempt.
                ProgressLine::Whole | ProgressLine::Done(_) | ProgressLine::Failed(_) => {}
            }
        }
        attempt.end()
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.shown.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_that_are_killed_come_to_an_end_with_their_number() {
        let killed = || Fault {
            reason: KILLED.to_owned(),
            message: "it was killed".to_owned(),
            may_retry: true,
            ..Fault::default()
        };
        assert!(escalate(killed(), MAX_KILLS - 1, 96 << 20).may_retry);
        let last = escalate(killed(), MAX_KILLS, 96 << 20);
        assert_eq!((last.reason.as_str(), last.may_retry), ("MemoryLimit", false));
        assert!(
            last.message.contains("10 attempts") && last.message.contains("134217728"),
            "{}",
            last.message
        );
        let server = Fault { reason: "Failed".to_owned(), ..killed() };
        assert!(escalate(server, 1000, 96 << 20).may_retry, "a server may come back");
    }
}
