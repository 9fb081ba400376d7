//! Waiting: for an answer, for the rest of one, and before the next try.

use crate::{Error, Fault, Why};
use reqwest::Response;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime};

/// Waits for work; `None` when time is up.
pub async fn within<T>(time: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(time, work).await.ok()
}

/// Nothing came.
pub fn silent(name: &str, wanted: &str, idle: Duration) -> Fault {
    Fault::because(
        Why::Silent,
        format!("{name}: nothing came for {} s while waiting for {wanted}", seconds(idle)),
    )
}

/// What it means that no answer came, for a reason that the client tells.
pub(crate) fn why_unanswered(e: &reqwest::Error) -> Why {
    match find::<rustls::Error>(e) {
        Some(_) => Why::Tls,
        None => Why::Unreachable,
    }
}

/// How long a short body may take.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// No byte for this long ends it.
    pub idle: Duration,
    /// All of it, from now on: a byte now and then is no progress.
    pub all: Duration,
}

impl Wait {
    /// Where nothing may come for `idle`, all of it may take twice as long.
    pub fn of(idle: Duration) -> Wait {
        Wait { idle, all: idle.saturating_mul(2) }
    }
}

/// A body that must be short, in size and in time.
pub async fn body(response: &mut Response, most: usize, wait: Wait, name: &str) -> Result<Vec<u8>, Fault> {
    let whole = within(wait.all, pieces(response, most, wait.idle, name)).await;
    whole.unwrap_or_else(|| {
        let what = format!("{name}: the answer was not complete after {} s", seconds(wait.all));
        Err(Fault::because(Why::Slow, what))
    })
}

async fn pieces(response: &mut Response, most: usize, idle: Duration, name: &str) -> Result<Vec<u8>, Fault> {
    let mut body = Vec::new();
    let too_long = || {
        let what = format!("{name}: the answer is longer than {} KiB; that is refused", most >> 10);
        Fault::because(Why::Wrong, what)
    };
    if response.content_length().is_some_and(|length| length > most as u64) {
        return Err(too_long());
    }
    loop {
        match within(idle, response.chunk()).await {
            Some(Ok(Some(bytes))) if body.len() + bytes.len() > most => return Err(too_long()),
            Some(Ok(Some(bytes))) => body.extend_from_slice(&bytes),
            Some(Ok(None)) => return Ok(body),
            Some(Err(e)) => {
                let what = format!("{name}: the connection broke in the middle of the answer");
                return Err(Fault::new(Why::Cut, Error::failed(what).because(e.without_url())));
            }
            None => return Err(silent(name, "the rest of the answer", idle)),
        }
    }
}

/// `Retry-After`: seconds, or a date.
pub fn after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?;
    retry_after(value, SystemTime::now())
}

/// A pause and up to half of it more: many clients do not come back at the same moment, and none too soon.
pub fn jitter(pause: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish() % 1024;
    pause.mul_f64(1.0 + random as f64 / 2048.0)
}

/// Pauses of our own: each twice as long as the one before, up to a bound. Who waits takes them with [`jitter`].
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// The first pause.
    pub first: Duration,
    /// No pause is longer.
    pub longest: Duration,
}

impl Backoff {
    /// The pause after so many failures in a row.
    pub fn pause(&self, failures: u32) -> Duration {
        self.first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(self.longest)
    }
}

/// The cause of this type, also inside of `io::Error`.
pub fn find<'a, T: std::error::Error + 'static>(e: &'a (dyn std::error::Error + 'static)) -> Option<&'a T> {
    let mut next = Some(e);
    while let Some(e) = next {
        if let Some(found) = e.downcast_ref::<T>() {
            return Some(found);
        }
        let wrapped = e.downcast_ref::<std::io::Error>().and_then(|io| io.get_ref());
        next = match wrapped {
            Some(inner) => Some(inner),
            None => e.source(),
        };
    }
    None
}

/// A time for people: whole seconds where it is some.
pub fn seconds(time: Duration) -> String {
    if time.subsec_millis() == 0 { time.as_secs().to_string() } else { format!("{:.1}", time.as_secs_f64()) }
}

/// `Retry-After`: seconds, or a date.
fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let then = httpdate::parse_http_date(value).ok()?;
    Some(then.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn pauses_double_up_to_a_bound() {
        let ms = Duration::from_millis;
        let backoff = Backoff { first: ms(100), longest: ms(10_000) };
        for (failures, pause) in [(0, 100), (1, 100), (2, 200), (5, 1600), (8, 10_000), (100, 10_000)] {
            assert_eq!(backoff.pause(failures), ms(pause), "after {failures}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_770);
        assert_eq!(retry_after("120", now), Some(Duration::from_secs(120)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Sat, 05 Nov 1994 08:49:37 GMT", now), Some(Duration::ZERO));
        let leap = UNIX_EPOCH + Duration::from_secs(1_709_208_000 - 1);
        assert_eq!(retry_after("Thu, 29 Feb 2024 12:00:00 GMT", leap), Some(Duration::from_secs(1)));
        for bad in ["-1", "soon", "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 0001 08:49:37 GMT", ""] {
            assert_eq!(retry_after(bad, now), None, "{bad}");
        }
    }

    #[test]
    fn a_pause_is_never_shortened_and_made_longer_by_at_most_half() {
        let pause = Duration::from_secs(8);
        for _ in 0..100 {
            let taken = jitter(pause);
            assert!(pause <= taken && taken <= pause + pause / 2, "{taken:?}");
        }
    }
}
