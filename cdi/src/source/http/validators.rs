//! What tells one version of a remote file from another, and the `Content-Range` that tells which bytes came.

use crate::source::{Identity, Says};
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};

/// The version of a file, as its server names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Validators {
    etag: Option<String>,
    modified: Option<String>,
    size: Option<u64>,
    /// `Content-Encoding`, empty when there is none: the same file in another encoding is other bytes.
    encoding: Option<String>,
}

impl Validators {
    /// `size` is that of the whole file.
    pub(super) fn new(headers: &HeaderMap, size: Option<u64>) -> Validators {
        let encoding = text(headers, &header::CONTENT_ENCODING).map(|name| name.to_ascii_lowercase());
        Validators {
            etag: text(headers, &header::ETAG),
            modified: text(headers, &header::LAST_MODIFIED),
            size,
            encoding: Some(encoding.filter(|name| name != "identity").unwrap_or_default()),
        }
    }

    /// The size alone, from an answer that does not describe the file otherwise.
    pub(super) fn of_size(size: Option<u64>) -> Validators {
        Validators { size, ..Validators::default() }
    }

    /// What `If-Range` may carry. A weak ETag may not (the server would never match it).
    pub(super) fn if_range(&self) -> Option<HeaderValue> {
        let value = match self.strong_etag() {
            Some(etag) => Some(etag),
            None if self.etag.is_some() => None,
            None => self.modified.as_deref(),
        };
        value.and_then(|v| HeaderValue::from_str(v).ok())
    }

    /// The evidence that is kept in a journal, about the file of this name (a digest of it). Without a size nothing
    /// is proved.
    pub(super) fn identity(&self, name: String) -> Option<Identity> {
        let value = match (&self.etag, &self.modified) {
            (Some(etag), _) => format!("etag:{etag}"),
            (None, Some(modified)) => format!("mtime:{modified}"),
            (None, None) => return None,
        };
        let proves = self.strong_etag().is_some() && self.size.is_some();
        let says = if proves { Says::Version } else { Says::Likely };
        Some(Identity { value, size: self.size, name, says })
    }

    /// How `now` differs from what was seen first, in words; `None` when nothing contradicts. A header that is
    /// missing now contradicts nothing: proxies drop them from a 206.
    pub(super) fn difference(&self, now: &Validators) -> Option<String> {
        if let (Some(a), Some(b)) = (&self.etag, &now.etag) {
            if a != b {
                return Some(format!("ETag {} became {}", clip(a), clip(b)));
            }
        } else if let (Some(a), Some(b)) = (&self.modified, &now.modified)
            && a != b
        {
            return Some(format!("Last-Modified \"{}\" became \"{}\"", clip(a), clip(b)));
        }
        if let (Some(a), Some(b)) = (self.size, now.size)
            && a != b
        {
            return Some(format!("its size of {a} bytes became {b}"));
        }
        match (&self.encoding, &now.encoding) {
            (Some(a), Some(b)) if a != b => {
                Some(format!("Content-Encoding \"{}\" became \"{}\"", clip(a), clip(b)))
            }
            _ => None,
        }
    }

    /// Whether both name a version, and the same one: without it, no difference means nothing. An equal size is no
    /// evidence: disks have round sizes.
    pub(super) fn agrees(&self, now: &Validators) -> bool {
        let equal = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
        equal(&self.etag, &now.etag) || equal(&self.modified, &now.modified)
    }

    /// Whether the server tells versions apart at all.
    pub(super) fn names_a_version(&self) -> bool {
        self.etag.is_some() || self.modified.is_some()
    }

    fn strong_etag(&self) -> Option<&str> {
        self.etag.as_deref().filter(|e| e.len() >= 2 && e.starts_with('"') && e.ends_with('"'))
    }
}

/// `Content-Range: bytes FIRST-LAST/TOTAL`, with `end` one past LAST.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContentRange {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) total: Option<u64>,
}

impl ContentRange {
    /// `None` when the header is missing or makes no sense in itself.
    pub(super) fn of(headers: &HeaderMap) -> Option<ContentRange> {
        let (range, total) = split(headers)?;
        let (first, last) = range.split_once('-')?;
        let (start, last) = (number(first)?, number(last)?);
        let total = if total == "*" { None } else { Some(number(total)?) };
        let end = last.checked_add(1)?;
        let sane = start < end && total.is_none_or(|total| end <= total);
        sane.then_some(ContentRange { start, end, total })
    }

    /// The total of `bytes */TOTAL`, which comes with a 416.
    pub(super) fn unsatisfied(headers: &HeaderMap) -> Option<u64> {
        split(headers).filter(|(range, _)| *range == "*").and_then(|(_, total)| number(total))
    }
}

fn split(headers: &HeaderMap) -> Option<(&str, &str)> {
    let value = headers.get(header::CONTENT_RANGE)?.to_str().ok()?.trim();
    let (unit, rest) = value.split_once(' ')?;
    let (range, total) = rest.trim().split_once('/')?;
    unit.eq_ignore_ascii_case("bytes").then_some((range.trim(), total.trim()))
}

/// Digits alone: `parse` would take a sign too.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

fn clip(text: &str) -> &str {
    // Header text that `to_str` let through is ASCII, so any index is a boundary.
    text.get(..80).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_str(v).unwrap())).collect()
    }

    fn validators(etag: &str, modified: &str, size: u64) -> Validators {
        Validators::new(&headers(&[("etag", etag), ("last-modified", modified)]), Some(size))
    }

    #[test]
    fn a_strong_etag_proves_and_anything_else_does_not() {
        let strong = validators("\"a\"", "Mon", 7);
        let identity = |of: &Validators| of.identity("name".into());
        let made =
            |value: &str, size, says| Some(Identity { value: value.into(), size, name: "name".into(), says });
        assert_eq!(identity(&strong), made("etag:\"a\"", Some(7), Says::Version));
        assert_eq!(strong.if_range().unwrap(), "\"a\"");
        let weak = validators("W/\"a\"", "Mon", 7);
        assert_eq!(identity(&weak), made("etag:W/\"a\"", Some(7), Says::Likely));
        assert_eq!(weak.if_range(), None);
        let dated = validators("", "Mon", 7);
        assert_eq!(identity(&dated), made("mtime:Mon", Some(7), Says::Likely));
        assert_eq!(dated.if_range().unwrap(), "Mon");
        assert_eq!(identity(&validators("", "", 7)), None);
        let unmeasured = Validators { size: None, ..strong };
        assert_eq!(identity(&unmeasured), made("etag:\"a\"", None, Says::Likely));
    }

    #[test]
    fn a_difference_is_said_in_words() {
        let first = validators("\"a\"", "Mon", 7);
        assert_eq!(first.difference(&validators("\"b\"", "Mon", 7)).unwrap(), "ETag \"a\" became \"b\"");
        assert_eq!(first.difference(&validators("\"a\"", "Tue", 7)), None, "the ETag decides");
        assert_eq!(
            first.difference(&validators("", "Tue", 7)).unwrap(),
            "Last-Modified \"Mon\" became \"Tue\""
        );
        assert_eq!(first.difference(&validators("", "", 8)).unwrap(), "its size of 7 bytes became 8");
        assert_eq!(first.difference(&validators("", "", 7)), None);
        assert!(first.agrees(&validators("\"a\"", "", 7)) && first.agrees(&validators("", "Mon", 7)));
        assert!(!first.agrees(&validators("", "", 7)), "a size is no evidence");
        assert!(first.names_a_version() && !validators("", "", 7).names_a_version());
    }

    #[test]
    fn content_range_is_read_strictly() {
        let of = |v: &str| ContentRange::of(&headers(&[("content-range", v)]));
        let range = |start, end, total| Some(ContentRange { start, end, total });
        assert_eq!(of("bytes 0-9/10"), range(0, 10, Some(10)));
        assert_eq!(of("Bytes 5-9/*"), range(5, 10, None));
        for bad in [
            "bytes 0-10/10",
            "bytes 5-4/10",
            "bytes +0-9/10",
            "bytes -9/10",
            "bytes 0-18446744073709551615/*",
            "bytes 0-99999999999999999999/*",
            "items 0-9/10",
            "bytes */10",
            "",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
        assert_eq!(ContentRange::unsatisfied(&headers(&[("content-range", "bytes */0")])), Some(0));
        assert_eq!(ContentRange::unsatisfied(&headers(&[("content-range", "bytes 0-9/10")])), None);
    }
}
