//! When a request to the only server is repeated, after which pause, and when we give up. (With several servers that is
//! their caller's to decide.)

use crate::retry::{Backoff, jitter};
use crate::{Error, Fault, RateJudge, Result, Silence, Why};
use std::sync::Arc;
use std::time::Duration;

/// The longest pause of our own, and the longest a server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// A connection that broke after this much is simply opened again, without a pause; less does not count, so that nobody
/// is held up by a byte now and then.
pub const GOOD_PROGRESS: u64 = 64 << 10;

/// How often and for how long one server is asked.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// How many times in a row a request is repeated without good progress ([`GOOD_PROGRESS`]) before we give up.
    pub retries: u32,
    /// The pause before the first repetition; it doubles with each further one.
    pub first_pause: Duration,
    /// No byte for this long while we want one is an error.
    pub idle: Duration,
}

/// One transfer and its failures. Only failures without good progress between them count.
pub struct Attempts {
    name: String,
    retry: Retry,
    failures: u32,
    at: u64,
    /// How long nothing has come.
    pub silence: Silence,
}

impl Attempts {
    /// `at` is the offset of the first byte that is wanted.
    pub fn new(name: &str, retry: Retry, at: u64) -> Attempts {
        // A connection may be dead though the server is not: after half of the time another one is tried.
        let half = retry.idle - retry.idle / 2;
        let silence = Silence::in_steps(retry.idle, if retry.retries > 0 { half } else { retry.idle });
        Attempts { name: name.to_owned(), retry, failures: 0, at, silence }
    }

    /// The same transfer with a rate that its bytes must have.
    pub fn judged(self, rate: Option<Arc<RateJudge>>) -> Attempts {
        Attempts { silence: self.silence.judged(rate), ..self }
    }

    /// True if another try cannot help. Silence and a low rate have been waited for when they become faults.
    pub fn is_final(fault: &Fault) -> bool {
        !fault.why.passes() || matches!(fault.why, Why::Silent | Why::Slow)
    }

    /// Waits before the next attempt, which starts at `at`; or gives the final error.
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
        Fault { retry_after: Some(Duration::ZERO), ..Fault::because(Why::Broken, "broken") }
    }

    #[tokio::test]
    async fn only_failures_without_good_progress_between_count() {
        let (mut tries, good) = (attempts(2), GOOD_PROGRESS);
        for at in [0, 1, good, 2 * good - 1, 2 * good, 2 * good + 1, 9 * good, 9 * good] {
            tries.pause(at, fault()).await.unwrap();
        }
        let error = tries.pause(10 * good - 1, fault()).await.unwrap_err();
        assert_eq!(error.to_string(), "http://h/d: gave up at byte 655359 after 3 failures in a row");
        for why in [Why::Odd, Why::Silent, Why::Slow, Why::Changed] {
            let last = attempts(9).pause(0, Fault::because(why, "final")).await.unwrap_err();
            assert_eq!(last.to_string(), "final");
        }
    }
}
