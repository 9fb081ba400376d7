//! `Content-Range`, parsed strictly: the bytes that an answer brings.

use reqwest::header::{self, HeaderMap};

/// The header `Content-Range: bytes FIRST-LAST/TOTAL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentRange {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset behind the last byte.
    pub end: u64,
    /// The size of the whole file, if the header has it.
    pub total: Option<u64>,
}

impl ContentRange {
    /// `None` if the header is missing or contradicts itself.
    pub fn parse(headers: &HeaderMap) -> Option<ContentRange> {
        let (range, total) = split(headers)?;
        let (first, last) = range.split_once('-')?;
        let (start, last) = (number(first)?, number(last)?);
        let total = if total == "*" { None } else { Some(number(total)?) };
        let end = last.checked_add(1)?;
        let sane = start < end && total.is_none_or(|total| end <= total);
        sane.then_some(ContentRange { start, end, total })
    }

    /// The total of `bytes */TOTAL`, which comes with a 416.
    pub fn unsatisfied(headers: &HeaderMap) -> Option<u64> {
        split(headers).filter(|(range, _)| *range == "*").and_then(|(_, total)| number(total))
    }
}

fn split(headers: &HeaderMap) -> Option<(&str, &str)> {
    let value = headers.get(header::CONTENT_RANGE)?.to_str().ok()?.trim();
    let (unit, rest) = value.split_once(' ')?;
    let (range, total) = rest.trim().split_once('/')?;
    unit.eq_ignore_ascii_case("bytes").then_some((range.trim(), total.trim()))
}

/// Parses digits alone: `parse` would accept a sign too.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    fn headers(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::CONTENT_RANGE, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn content_range_is_read_strictly() {
        let of = |v: &str| ContentRange::parse(&headers(v));
        let range = |start, end, total| Some(ContentRange { start, end, total });
        assert_eq!(of("bytes 0-9/10"), range(0, 10, Some(10)));
        assert_eq!(of("Bytes 5-9/*"), range(5, 10, None));
        assert_eq!(of("bytes 0-99/1000"), range(0, 100, Some(1000)));
        assert_eq!(of("bytes 5-5/*"), range(5, 6, None));
        for bad in [
            "bytes 0-10/10",
            "bytes 5-4/10",
            "bytes +0-9/10",
            "bytes -9/10",
            "bytes 0-18446744073709551615/*",
            "bytes 0-99999999999999999999/*",
            "bytes 9-5/10",
            "bytes 0-99999999999999999999/1",
            "items 0-1/2",
            "items 0-9/10",
            "bytes */10",
            "",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
        assert_eq!(ContentRange::unsatisfied(&headers("bytes */0")), Some(0));
        assert_eq!(ContentRange::unsatisfied(&headers("bytes 0-9/10")), None);
    }
}
