//! Waits for answers, and pauses between tries.

use crate::{Fault, FaultKind};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime};

/// Waits for work; `None` when the time is up.
pub async fn within<T>(time: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(time, work).await.ok()
}

/// The fault for a server that sent no byte within the idle time.
pub fn silent(name: &str, wanted: &str, idle: Duration) -> Fault {
    Fault::from_kind(
        FaultKind::Silent,
        format!(
            "{name}: no byte came for {} s while waiting for {wanted}; the server or the network stalled (this is the \
             idle timeout)",
            seconds(idle)
        ),
    )
}

/// The kind of fault for a request without an answer, by the error of the client.
pub(crate) fn kind_of_unanswered(e: &reqwest::Error) -> FaultKind {
    match find::<rustls::Error>(e) {
        Some(_) => FaultKind::Tls,
        None => FaultKind::Unreachable,
    }
}

/// True if the server answered a TLS ClientHello with something else, as one that speaks plain HTTP does.
pub fn is_plain(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(find::<rustls::Error>(error), Some(rustls::Error::InvalidMessage(_)))
}

/// The value of `Retry-After`: seconds, or a date.
pub fn after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?;
    retry_after(value, SystemTime::now())
}

/// A pause and up to half of it more: many clients do not come back at the same moment, and none too soon.
pub fn jitter(pause: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish() % 1024;
    pause.mul_f64(1.0 + random as f64 / 2048.0)
}

/// Exponential backoff: each pause is twice as long as the one before, up to a bound. Callers add [`jitter`].
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    pub first: Duration,
    pub longest: Duration,
}

impl Backoff {
    /// The pause after this number of failures in a row.
    pub fn pause(&self, failures: u32) -> Duration {
        self.first.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(self.longest)
    }
}

/// The cause of this type, also inside `io::Error`.
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

/// A time as text: whole seconds if it is one, else with one decimal.
pub fn seconds(time: Duration) -> String {
    if time.subsec_millis() == 0 { time.as_secs().to_string() } else { format!("{:.1}", time.as_secs_f64()) }
}

/// The value of `Retry-After`: seconds, or a date.
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
