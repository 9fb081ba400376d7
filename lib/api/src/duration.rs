//! Durations in Kubernetes' notation: `5m0s`, `168h`, `1.5h`, `300ms`.
//!
//! ```text
//! [+-] ( digits [. digits] ns|us|µs|ms|s|m|h )+      or just 0
//! ```
//!
//! A duration keeps its text, and has a value in whole nanoseconds.

use crate::fault::Fault;
use crate::wire::{Path, Schema, Unknown, Wire, expected};
use serde_json::{Value, json};
use std::fmt;

/// Pattern of the texts that [`Duration::parse`] accepts, for schemas.
const PATTERN: &str = r"^[+-]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";

/// A duration, with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duration {
    text: String,
    nanos: i64,
}

impl Duration {
    /// Parses a duration; `None` if the text is not a duration, or one of more than 292 years.
    pub fn parse(text: &str) -> Option<Duration> {
        Some(Duration { text: text.to_owned(), nanos: parse(text)? })
    }

    /// The text as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The duration in nanoseconds.
    pub fn nanos(&self) -> i64 {
        self.nanos
    }

    /// The duration as a span of the standard library; `None` if it is below zero.
    pub fn to_std(&self) -> Option<std::time::Duration> {
        u64::try_from(self.nanos).ok().map(std::time::Duration::from_nanos)
    }
}

impl Default for Duration {
    fn default() -> Self {
        Duration { text: "0s".to_owned(), nanos: 0 }
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Wire for Duration {
    fn read(value: Value, at: &Path, faults: &mut Vec<Fault>) -> Option<Self> {
        let duration = value.as_str().and_then(Duration::parse);
        if duration.is_none() {
            faults.push(expected("a span of time like 5m0s, 168h or 300ms", &value, at));
        }
        duration
    }

    fn write(&self) -> Value {
        Value::from(self.text.as_str())
    }

    fn unknown(&self, _: &Path, _: &mut Vec<Unknown>) {}

    fn schema() -> Schema {
        Schema::scalar(json!({"type": "string", "pattern": PATTERN}))
    }
}

crate::always!(Duration);
crate::serde_by_value!(Duration);

fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut nanos: i128 = 0;
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        nanos = nanos.checked_add(part(number, read_unit(unit)?)?)?;
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    i64::try_from(if negative { -nanos } else { nanos }).ok()
}

fn read_unit(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// A number with at most one point, times `unit`, rounded down to a nanosecond.
fn part(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let digit = |digit: u8| i128::from(digit - b'0');
    let add = |sum: i128, next| sum.checked_mul(10)?.checked_add(digit(next));
    let mut nanos = whole.bytes().try_fold(0_i128, add)?.checked_mul(unit)?;
    let mut place = unit;
    for next in fraction.bytes() {
        place /= 10;
        nanos = nanos.checked_add(digit(next) * place)?;
    }
    Some(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_others_refused() {
        for (text, nanos) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("0s", Some(0)),
            ("5m0s", Some(300_000_000_000)),
            ("168h0m0s", Some(604_800_000_000_000)),
            ("1.5h", Some(5_400_000_000_000)),
            (".5s", Some(500_000_000)),
            ("1.s", Some(1_000_000_000)),
            ("0h1ns", Some(1)),
            ("-2us3µs", Some(-5_000)),
            ("+1ms", Some(1_000_000)),
            ("9223372036854775807ns", Some(i64::MAX)),
            ("9223372036854775808ns", None),
            ("99999999999999999999999999999999999999999999h", None),
            ("", None),
            ("+", None),
            ("5", None),
            ("00", None),
            ("m", None),
            (".s", None),
            ("1.2.3s", None),
            ("1d", None),
            ("1 s", None),
            ("1s ", None),
            ("1s5", None),
            ("٥s", None),
        ] {
            assert_eq!(Duration::parse(text).map(|span| span.nanos()), nanos, "{text}");
        }
    }
}
