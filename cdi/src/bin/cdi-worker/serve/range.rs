//! The range of bytes of a request (RFC 9110, 13.1.5 and 14.2). Pure.
//!
//! One range is served. Several are refused: a client could otherwise get any number of answers for one
//! request.

use hyper::header::{HeaderMap, HeaderName, IF_RANGE, RANGE};
use std::ops::Range;

/// The bytes to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All bytes, of a version that the client may not know.
    Whole,
    /// A range that is not empty.
    Range(Range<u64>),
    /// None: there are no such bytes, or it is not one range.
    Nowhere,
}

/// The requested part of the version with this ETag and size in bytes.
pub(super) fn part(headers: &HeaderMap, etag: &str, size: u64) -> Part {
    let mut ranges = headers.get_all(RANGE).iter();
    let range = match (ranges.next(), ranges.next()) {
        (None, _) => return Part::Whole,
        (Some(range), None) => range.to_str().unwrap_or_default(),
        (Some(_), Some(_)) => return Part::Nowhere,
    };
    if let Some(known) = text(headers, &IF_RANGE)
        && known != etag
    {
        return Part::Whole;
    }
    let one = range.trim().strip_prefix("bytes=").and_then(|range| bytes(range.trim(), size));
    one.filter(|range| !range.is_empty()).map_or(Part::Nowhere, Part::Range)
}

/// Parses `FIRST-LAST`, `FIRST-` or `-LENGTH`, cut at the end of the disk.
fn bytes(range: &str, size: u64) -> Option<Range<u64>> {
    let (first, last) = range.split_once('-')?;
    let number = |digits: &str| {
        let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        // A larger number than the size means the end.
        is_plain.then(|| digits.parse().unwrap_or(u64::MAX))
    };
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => Some(first..last.saturating_add(1).min(size)),
        (Some(first), None) if last.is_empty() => Some(first..size),
        (None, Some(length)) if first.is_empty() => Some(size.saturating_sub(length)..size),
        _ => None,
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default().trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(HeaderName, &str)]) -> Part {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value.parse().expect("a header"));
        }
        part(&headers, "\"a\"", 1000)
    }

    #[test]
    fn one_range_is_given_and_cut_at_the_end() {
        for (range, expected) in [
            ("bytes=0-0", 0..1),
            ("bytes=10-19", 10..20),
            ("bytes=990-", 990..1000),
            ("bytes=-7", 993..1000),
            ("bytes=-5000", 0..1000),
            ("bytes=999-99999999999999999999999", 999..1000),
            (" bytes= 1-2", 1..3),
        ] {
            assert_eq!(of(&[(RANGE, range)]), Part::Range(expected), "{range}");
        }
        assert_eq!(of(&[]), Part::Whole);
    }

    #[test]
    fn what_is_not_one_range_of_the_disk_is_refused() {
        for range in [
            "bytes=1000-",
            "bytes=99999999999999999999999-",
            "bytes=5-4",
            "bytes=-0",
            "bytes=-",
            "bytes=",
            "bytes",
            "",
            "bytes=0-1,5-6",
            "bytes=+1-2",
            "bytes=1--2",
            "lines=0-1",
            "bytes=0x1-2",
        ] {
            assert_eq!(of(&[(RANGE, range)]), Part::Nowhere, "{range}");
        }
        assert_eq!(of(&[(RANGE, "bytes=0-1"), (RANGE, "bytes=5-6")]), Part::Nowhere);
    }

    #[test]
    fn a_range_of_another_version_is_the_whole_of_this_one() {
        assert_eq!(of(&[(RANGE, "bytes=0-1"), (IF_RANGE, "\"a\"")]), Part::Range(0..2));
        for other in ["\"b\"", "W/\"a\"", "a", "", "Sun, 06 Nov 1994 08:49:37 GMT"] {
            assert_eq!(of(&[(RANGE, "bytes=0-1"), (IF_RANGE, other)]), Part::Whole, "{other}");
        }
    }
}
