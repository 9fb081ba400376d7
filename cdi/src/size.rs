//! Sizes in text, as users write and read them.

use crate::{Error, ErrorKind, Result};
use std::fmt;

/// A byte count as text: "512 bytes", "1.5 GiB", "20 GiB". The unit is the largest that leaves at least one
/// before the point. An exact multiple of the unit has no digit after the point; another count has one, and is
/// rounded to the nearest: "1 GiB" is that many bytes, "1.0 GiB" a few more or less.
#[derive(Debug, Clone, Copy)]
pub struct Human(pub u64);

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let Human(bytes) = *self;
        let mut power = (63 - (bytes | 1).leading_zeros()) / 10;
        if power == 0 {
            return write!(f, "{bytes} bytes");
        }
        if bytes.is_multiple_of(1 << (10 * power)) {
            return write!(f, "{} {}", bytes >> (10 * power), UNITS[power as usize - 1]);
        }
        let tenths = |power: u32| (u128::from(bytes) * 10 + (1 << (10 * power - 1))) >> (10 * power);
        // 1023.96 of a unit are 1.0 of the next one.
        if tenths(power) >= 10_240 {
            power += 1;
        }
        let tenths = tenths(power);
        write!(f, "{}.{} {}", tenths / 10, tenths % 10, UNITS[power as usize - 1])
    }
}

/// [`Human`] as a string.
pub fn human(bytes: u64) -> String {
    Human(bytes).to_string()
}

/// Parses "4096", "20G", "20Gi", "20 GiB", "1.5G" (powers of 1024), "20GB" (powers of 1000).
pub fn parse(text: &str) -> Result<u64> {
    let wrong = || {
        let hint = "write a number with an optional unit, such as 20G, 512MiB or 10GB";
        Error::new(ErrorKind::Usage, format!("{text:?} is not a size; {hint}"))
    };
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" | "bytes" => 1,
        "k" | "ki" | "kib" => 1 << 10,
        "m" | "mi" | "mib" => 1 << 20,
        "g" | "gi" | "gib" => 1 << 30,
        "t" | "ti" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(wrong()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return Err(wrong());
    }
    let whole = whole.parse::<u64>().ok().and_then(|n| n.checked_mul(scale)).ok_or_else(wrong)?;
    let tenth = fraction.parse::<u64>().unwrap_or(0);
    let part = u128::from(tenth) * u128::from(scale) / 10u128.pow(fraction.len() as u32);
    u64::try_from(part).ok().and_then(|p| whole.checked_add(p)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("20G", 20 << 30),
            ("20Gi", 20 << 30),
            ("512MiB", 512 << 20),
            ("1.5G", 3 << 29),
            ("10GB", 10_000_000_000),
            ("10 k", 10240),
        ] {
            assert_eq!(parse(text).unwrap(), bytes, "{text}");
        }
        for text in ["", "G", "-1", "1e3", "20X", "99999999999999999999", "17000000T", "1.2.3"] {
            assert_eq!(parse(text).unwrap_err().kind(), ErrorKind::Usage, "{text}");
        }
    }

    #[test]
    fn sizes_are_written_for_people() {
        let cases = [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            ((1 << 30) - 1, "1.0 GiB"),
            ((1 << 30) - (1 << 16), "1023.9 MiB"),
            ((1 << 30) + 1, "1.0 GiB"),
            (3 << 29, "1.5 GiB"),
            ((3 << 29) - 1, "1.5 GiB"),
            // 48.83 and 48.88 MiB.
            (51_200_000, "48.8 MiB"),
            (51_254_000, "48.9 MiB"),
            (20 << 30, "20 GiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(human(bytes), text);
        }
        for bytes in [0, 1, 1023, 1024, 3 << 20, 20 << 30, 5 << 40] {
            assert_eq!(parse(&human(bytes)).unwrap(), bytes);
        }
    }
}
