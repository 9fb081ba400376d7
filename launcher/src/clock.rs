//! The time as RFC 3339 in UTC.

use jiff::Timestamp;
use std::time::SystemTime;

/// The current time. A clock without a date gives the beginning of 1970.
pub fn now() -> String {
    rfc3339(SystemTime::now().try_into().unwrap_or_default())
}

/// The time with microseconds.
fn rfc3339(moment: Timestamp) -> String {
    format!("{moment:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_seconds_become_their_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, "2000-02-28T23:59:59.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (4_102_444_800, "2100-01-01T00:00:00.000000Z"),
            (1_763_754_000, "2025-11-21T19:40:00.000000Z"),
        ] {
            assert_eq!(rfc3339(Timestamp::from_second(seconds).unwrap()), text);
        }
        let part = Timestamp::new(0, 1_234_567).unwrap();
        assert_eq!(rfc3339(part), "1970-01-01T00:00:00.001234Z");
    }
}
