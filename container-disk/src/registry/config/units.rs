//! Sizes and times in registry settings.

use serde::de::{Deserialize, Deserializer, Error};
use std::time::Duration;

/// A size, such as `1048576`, `"1MiB"` or `"500k"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size(pub(super) u64);

/// A time, such as `"30s"`, `"500ms"` or `"2m"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time(pub(super) Duration);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = either(from)?;
        let bad = || D::Error::custom(format!("{text:?} is not a size; write it as \"512KiB\" or \"1MiB\""));
        size(&text).map(Size).ok_or_else(bad)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let bad = || D::Error::custom(format!("{text:?} is not a time; write it as \"30s\" or \"2m\""));
        time(&text).map(Time).ok_or_else(bad)
    }
}

fn either<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(u64),
        Text(String),
    }
    Ok(match Either::deserialize(from)? {
        Either::Number(number) => number.to_string(),
        Either::Text(text) => text,
    })
}

fn size(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let unit: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

fn time(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let time = match unit {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.checked_mul(60)?),
        "h" => Duration::from_secs(number.checked_mul(3600)?),
        _ => return None,
    };
    // A zero timeout would end every request at once. More than a year makes no difference.
    (Duration::ZERO < time && time <= Duration::from_secs(365 * 86_400)).then_some(time)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    Some((number.parse().ok()?, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("1MiB", Some(1 << 20)),
            ("64 KiB", Some(64 << 10)),
            ("2g", Some(2 << 30)),
            ("99999999999999999999", None),
            ("18446744073709551615k", None),
            ("MiB", None),
            ("1.5M", None),
            ("-1", None),
        ] {
            assert_eq!(size(text), bytes, "{text}");
        }
        for (text, ms) in [
            ("30s", Some(30_000)),
            ("250ms", Some(250)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("0s", None),
            ("30", None),
            ("99999999999999999h", None),
            ("9999999999h", None),
        ] {
            assert_eq!(time(text), ms.map(Duration::from_millis), "{text}");
        }
    }
}
