//! Dates in image documents: RFC 3339, in UTC.

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};

/// The date of a number of seconds since 1970: `1970-01-01T00:00:00Z` for 0. Dates after the year 9999 become
/// its last second.
pub fn rfc3339(seconds: u64) -> String {
    let since = i64::try_from(seconds).map_or(SignedDuration::MAX, SignedDuration::from_secs);
    let last = date(9999, 12, 31).at(23, 59, 59, 0);
    let moment = beginning().checked_add(since).unwrap_or(last);
    format!("{moment}Z")
}

/// The seconds since 1970 of an RFC 3339 date. `None` if the text is not a date, lies before 1970, or has
/// another zone than `Z`. Fractions of a second are ignored.
pub fn seconds(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z')?;
    let whole = text.split_once('.').map_or(text, |(whole, _)| whole);
    let moment: DateTime = whole.parse().ok()?;
    let seconds = u64::try_from(moment.duration_since(beginning()).as_secs()).ok()?;
    // The parser accepts other forms of ISO 8601 too.
    (rfc3339(seconds).strip_suffix('Z') == Some(whole)).then_some(seconds)
}

fn beginning() -> DateTime {
    date(1970, 1, 1).at(0, 0, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_and_read_back() {
        for (number, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_176_000, "2026-11-20T12:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(number), text);
            assert_eq!(seconds(text), Some(number), "{text}");
        }
        assert_eq!(seconds("2000-02-29T00:00:00.123456789Z"), Some(951_782_400));
        for late in [253_402_300_800, i64::MAX as u64, u64::MAX] {
            assert_eq!(rfc3339(late), "9999-12-31T23:59:59Z");
        }
    }

    #[test]
    fn what_is_no_date_has_no_seconds() {
        for text in [
            "",
            "2000-02-30T00:00:00Z",
            "2000-13-01T00:00:00Z",
            "2000-01-01T24:00:00Z",
            "2000-01-01 00:00:00Z",
            "2000-01-01T00:00:00+01:00",
            "2000-01-01T00:00:00",
            "2000-0x-01T00:00:00Z",
            "99999-01-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "20000101T000000Z",
            "2000-01-01T00:00Z",
            "2000-01-01t00:00:00Z",
            "2000-01-01T00:00:60Z",
            "2000-1-01T00:00:00Z",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
