//! When a request is repeated, after which pause, and when we give up.

use super::line::Fault;
use crate::source::options::Options;
use crate::{Error, Result};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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

/// `Retry-After`: seconds, or a date.
pub(super) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let then = UNIX_EPOCH.checked_add(Duration::from_secs(http_date(value)?))?;
    Some(then.duration_since(now).unwrap_or_default())
}

/// "Sun, 06 Nov 1994 08:49:37 GMT" as seconds since 1970; older forms of a date are not sent by anyone.
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let rest = text.split_once(", ")?.1.strip_suffix(" GMT")?;
    let mut words = rest.split(' ');
    let day = below(words.next()?, 32).filter(|day| *day > 0)?;
    let name = words.next()?;
    let month = MONTHS.iter().position(|m| *m == name)? as u64 + 1;
    let year = below(words.next()?, 10_000).filter(|year| *year >= 1970)?;
    let mut clock = words.next()?.split(':');
    let hour = below(clock.next()?, 24)?;
    let minute = below(clock.next()?, 60)?;
    let second = below(clock.next()?, 61)?;
    // Days since 1970 in the calendar that begins its year in March (so the leap day comes last).
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
    Some((days - 719_468) * 86_400 + hour * 3_600 + minute * 60 + second)
}

fn below(text: &str, end: u64) -> Option<u64> {
    text.parse().ok().filter(|n| *n < end)
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

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_770);
        assert_eq!(retry_after("120", now), Some(Duration::from_secs(120)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Sat, 05 Nov 1994 08:49:37 GMT", now), Some(Duration::ZERO));
        assert_eq!(http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(http_date("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
        for bad in ["-1", "soon", "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 0001 08:49:37 GMT", ""] {
            assert_eq!(retry_after(bad, now), None, "{bad}");
        }
    }
}
