//! Repetition of a request to a single server: when, after which pause, and when it is given up. (With
//! several servers their caller decides that.)

use crate::retry::{Backoff, jitter};
use crate::{Error, Fault, FaultKind, RateJudge, Result, Silence};
use std::sync::Arc;
use std::time::Duration;

/// The longest pause without `Retry-After`, and the longest with it.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Bytes after which a broken connection is opened again without a pause. Fewer do not count as progress, so
/// that a server that sends a byte now and then cannot delay a transfer for ever.
pub const GOOD_PROGRESS: u64 = 64 << 10;

/// The number of repetitions and the pauses between them.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// The most repetitions in a row without good progress ([`GOOD_PROGRESS`]) before the request fails.
    pub retries: u32,
    /// The pause before the first repetition; it doubles with each further one.
    pub first_pause: Duration,
    /// The longest silence of a server that bytes are expected from; after it the request fails.
    pub idle: Duration,
}

/// One transfer and its failures. Only failures without good progress between them count.
pub struct Attempts {
    name: String,
    retry: Retry,
    failures: u32,
    at: u64,
    /// The time since the last byte.
    pub silence: Silence,
}

impl Attempts {
    /// `at` is the offset of the first byte to fetch.
    pub fn new(name: &str, retry: Retry, at: u64) -> Attempts {
        // A connection may be dead although the server is not: after half of the time another one is tried.
        let half = retry.idle - retry.idle / 2;
        let silence = Silence::in_steps(retry.idle, if retry.retries > 0 { half } else { retry.idle });
        Attempts { name: name.to_owned(), retry, failures: 0, at, silence }
    }

    /// The same transfer with a least rate.
    pub fn with_rate_judge(self, rate: Option<Arc<RateJudge>>) -> Attempts {
        Attempts { silence: self.silence.with_rate_judge(rate), ..self }
    }

    /// True if another try cannot help. Silence and a low rate become faults only after a long wait, so these
    /// are final too.
    pub fn is_final(fault: &Fault) -> bool {
        !fault.kind.is_transient() || matches!(fault.kind, FaultKind::Silent | FaultKind::Slow)
    }

    /// Waits before the next attempt, which continues at byte `at`. Returns the error if `fault` is final or no attempt is left.
    pub async fn pause(&mut self, at: u64, fault: Fault) -> Result<()> {
        let is_final = Attempts::is_final(&fault);
        let Fault { error, retry_after, .. } = fault;
        if is_final {
            return Err(error);
        }
        let progress = at.saturating_sub(self.at);
        if progress >= GOOD_PROGRESS {
            (self.at, self.failures) = (at, 0);
        }
        self.failures += 1;
        if self.failures > self.retry.retries {
            let times = if self.failures == 1 {
                "a failure"
            } else {
                &format!("{} failures in a row", self.failures)
            };
            let what = format!("{}: gave up at byte {at} after {times}", self.name);
            return Err(Error::new(error.kind(), what).because(error));
        }
        let pause = match retry_after {
            Some(asked) => jitter(asked.min(LONGEST_RETRY_AFTER)),
            None if progress >= GOOD_PROGRESS => Duration::ZERO,
            None => {
                let backoff = Backoff { first: self.retry.first_pause, longest: LONGEST_PAUSE };
                jitter(backoff.pause(self.failures))
            }
        };
        tracing::debug!(name = self.name, at, failures = self.failures, ?pause, %error, "a request is repeated");
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(retries: u32) -> Attempts {
        let idle = Duration::from_millis(40);
        let first_pause = Duration::from_millis(100);
        Attempts::new("http://h/d", Retry { retries, idle, first_pause }, 0)
    }

    fn fault() -> Fault {
        Fault { retry_after: Some(Duration::ZERO), ..Fault::from_kind(FaultKind::Broken, "broken") }
    }

    #[tokio::test]
    async fn only_failures_without_good_progress_between_count() {
        let (mut tries, good) = (attempts(2), GOOD_PROGRESS);
        for at in [0, 1, good, 2 * good - 1, 2 * good, 2 * good + 1, 9 * good, 9 * good] {
            tries.pause(at, fault()).await.unwrap();
        }
        let error = tries.pause(10 * good - 1, fault()).await.unwrap_err();
        assert_eq!(error.to_string(), "http://h/d: gave up at byte 655359 after 3 failures in a row");
        for why in [FaultKind::Odd, FaultKind::Silent, FaultKind::Slow, FaultKind::Changed] {
            let last = attempts(9).pause(0, Fault::from_kind(why, "final")).await.unwrap_err();
            assert_eq!(last.to_string(), "final");
        }
    }
}
