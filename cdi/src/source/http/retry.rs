//! When a request is repeated, after which pause, and when we give up.

use super::line::Fault;
use crate::source::options::Options;
use crate::{Error, Result};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

/// The longest pause of our own, and the longest a server may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// A connection that broke after this much is simply opened again, without a pause.
const GOOD_PROGRESS: u64 = 64 << 10;

/// One transfer and its failures. Only failures without a new byte between them count.
pub(super) struct Attempts {
    name: String,
    retries: u32,
    first_pause: Duration,
    failures: u32,
    at: u64,
    pub(super) silence: Silence,
}

impl Attempts {
    /// `at` is the offset of the first byte that is wanted.
    pub(super) fn new(name: &str, options: &Options, at: u64) -> Attempts {
        let (retries, first_pause) = (options.retries, options.first_pause);
        let silence =
            Silence { idle: options.idle_timeout, spent: Duration::ZERO, may_try_another: retries > 0 };
        Attempts { name: name.to_owned(), retries, first_pause, failures: 0, at, silence }
    }

    /// Waits before the next attempt, which starts at `at`; or gives the final error.
    pub(super) async fn pause(&mut self, at: u64, fault: Fault) -> Result<()> {
        let (error, retry_after) = match fault {
            Fault::Final(error) => return Err(error),
            Fault::Again { error, retry_after } => (error, retry_after),
        };
        let progress = at.saturating_sub(self.at);
        if progress > 0 {
            (self.at, self.failures) = (at, 0);
        }
        self.failures += 1;
        if self.failures > self.retries {
            let times = if self.failures == 1 {
                "a failure"
            } else {
                &format!("{} failures in a row", self.failures)
            };
            let what = format!("{}: gave up at byte {at} after {times}", self.name);
            return Err(Error::new(error.kind(), what).because(error));
        }
        let pause = match retry_after {
            Some(asked) => asked.min(LONGEST_RETRY_AFTER),
            None if progress >= GOOD_PROGRESS => Duration::ZERO,
            None => self.back_off(),
        };
        tracing::debug!(name = self.name, at, failures = self.failures, ?pause, %error, "a request is repeated");
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// Doubles with each failure; a random half keeps many clients from coming back at the same moment.
    fn back_off(&self) -> Duration {
        let doubled = self.first_pause.saturating_mul(1 << (self.failures - 1).min(16));
        let random = RandomState::new().build_hasher().finish() % 1024;
        doubled.min(LONGEST_PAUSE).mul_f64(0.5 + random as f64 / 2048.0)
    }
}

/// How long nothing has come while we waited for it, over all attempts since the last byte.
pub(super) struct Silence {
    idle: Duration,
    spent: Duration,
    may_try_another: bool,
}

/// What silence asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TooQuiet {
    /// The connection may be dead though the server is not: try another.
    TryAnother(Duration),
    /// The idle timeout has passed.
    Timeout(Duration),
}

impl Silence {
    /// Waits for the head of an answer. A slow server gets the whole time for it.
    pub(super) async fn head<T>(&mut self, work: impl Future<Output = T>) -> Result<T, TooQuiet> {
        let allowed = self.idle.saturating_sub(self.spent);
        self.wait(allowed, work).await
    }

    /// Waits for bytes of a body. After half the time a fresh connection is tried, once.
    pub(super) async fn body<T>(&mut self, work: impl Future<Output = T>) -> Result<T, TooQuiet> {
        let half = self.idle / 2;
        let until = if self.may_try_another && self.spent < half { half } else { self.idle };
        self.wait(until.saturating_sub(self.spent), work).await
    }

    /// A byte has come.
    pub(super) fn broken(&mut self) {
        self.spent = Duration::ZERO;
    }

    async fn wait<T>(&mut self, allowed: Duration, work: impl Future<Output = T>) -> Result<T, TooQuiet> {
        let since = Instant::now();
        match tokio::time::timeout(allowed, work).await {
            Ok(done) => {
                self.spent += since.elapsed();
                Ok(done)
            }
            Err(_) => {
                self.spent += allowed;
                let all = self.spent >= self.idle;
                Err(if all { TooQuiet::Timeout(self.idle) } else { TooQuiet::TryAnother(self.spent) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(retries: u32) -> Attempts {
        let idle_timeout = Duration::from_millis(40);
        let first_pause = Duration::from_millis(100);
        Attempts::new("http://h/d", &Options { retries, idle_timeout, first_pause, ..Options::default() }, 0)
    }

    fn fault() -> Fault {
        Fault::Again { error: Error::failed("broken"), retry_after: Some(Duration::ZERO) }
    }

    #[tokio::test]
    async fn only_failures_without_a_new_byte_count() {
        let mut tries = attempts(2);
        for at in [0, 0, 1, 1, 2, 1000] {
            tries.pause(at, fault()).await.unwrap();
        }
        tries.pause(1000, fault()).await.unwrap();
        let error = tries.pause(1000, fault()).await.unwrap_err();
        assert_eq!(error.to_string(), "http://h/d: gave up at byte 1000 after 3 failures in a row");
        let last = attempts(0).pause(0, Fault::Final(Error::failed("final"))).await.unwrap_err();
        assert_eq!(last.to_string(), "final");
    }

    #[test]
    fn pauses_double_up_to_a_bound() {
        let mut attempts = attempts(100);
        for (failures, most) in [(1, 100), (2, 200), (5, 1600), (8, 10_000), (100, 10_000)] {
            attempts.failures = failures;
            let pause = attempts.back_off();
            let most = Duration::from_millis(most);
            assert!(most / 2 <= pause && pause <= most, "{pause:?} after {failures}");
        }
    }

    #[tokio::test]
    async fn silence_is_counted_over_connections_and_a_byte_breaks_it() {
        let (never, half, all) =
            (std::future::pending::<()>, Duration::from_millis(20), Duration::from_millis(40));
        let mut silence = attempts(1).silence;
        assert_eq!(silence.body(never()).await, Err(TooQuiet::TryAnother(half)));
        silence.broken();
        assert_eq!(silence.body(never()).await, Err(TooQuiet::TryAnother(half)));
        assert_eq!(silence.head(never()).await, Err(TooQuiet::Timeout(all)));
        assert_eq!(
            attempts(0).silence.body(never()).await,
            Err(TooQuiet::Timeout(all)),
            "no other may be tried"
        );
    }
}
