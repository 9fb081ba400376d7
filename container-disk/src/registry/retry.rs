//! Waiting for answers: how long, what it means when nothing comes, and what a server says about trying again.

use super::fault::{Fault, Why};
use crate::Error;
use reqwest::Response;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Waits for work; `None` when time is up.
pub(super) async fn within<T>(time: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(time, work).await.ok()
}

/// Nothing came.
pub(super) fn silent(name: &str, wanted: &str, idle: Duration) -> Fault {
    Fault::because(
        Why::Silent,
        format!("{name}: nothing came for {} s while waiting for {wanted}", seconds(idle)),
    )
}

/// No answer, for a reason that the client tells.
pub(super) fn unreachable(what: String, e: reqwest::Error) -> Fault {
    let e = e.without_url();
    let why = match find::<rustls::Error>(&e) {
        Some(_) => Why::Tls,
        None => Why::Unreachable,
    };
    Fault::new(why, Error::failed(what).because(e))
}

/// A body that must be short.
pub(super) async fn body(
    response: &mut Response,
    most: usize,
    idle: Duration,
    name: &str,
) -> Result<Vec<u8>, Fault> {
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
pub(super) fn after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?;
    retry_after(value, SystemTime::now())
}

/// A pause and up to half of it more: many clients do not come back at the same moment, and none too soon.
pub(super) fn jitter(pause: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish() % 1024;
    pause.mul_f64(1.0 + random as f64 / 2048.0)
}

/// The cause of this type, also inside of `io::Error`.
pub(super) fn find<'a, T: std::error::Error + 'static>(
    e: &'a (dyn std::error::Error + 'static),
) -> Option<&'a T> {
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
pub(super) fn seconds(time: Duration) -> String {
    if time.subsec_millis() == 0 { time.as_secs().to_string() } else { format!("{:.1}", time.as_secs_f64()) }
}

/// `Retry-After`: seconds, or a date.
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
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

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_770);
        assert_eq!(retry_after("120", now), Some(Duration::from_secs(120)));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Duration::from_secs(7)));
        assert_eq!(retry_after("Sat, 05 Nov 1994 08:49:37 GMT", now), Some(Duration::ZERO));
        assert_eq!(http_date("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
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
