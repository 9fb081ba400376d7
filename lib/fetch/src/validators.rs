//! Versions of a remote file, told apart by the headers of the answers.
//!
//! Two answers are parts of one version if they share a strong validator (RFC 9110, 8.8 and 15.3.7.3). A
//! strong ETag is a strong validator. A weak ETag is not, since a server may give it to two versions that it
//! treats as equivalent. A date is one if it was a minute old when the answer was made: a later version
//! cannot have it too.

use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use std::time::Duration;

/// The least age of a version at the time of its answer for its date to be strong. RFC 9110 (8.8.2.2)
/// requires a second, and RFC 7232 required a minute: file systems date by steps of two seconds, and proxies
/// by clocks of their own.
const OVER: Duration = Duration::from_secs(60);

/// The version of a file, as its server names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    etag: Option<String>,
    modified: Option<String>,
    /// True if `modified` was a minute old when the answer was made.
    is_over: bool,
    size: Option<u64>,
    /// `Content-Encoding`, or an empty text. The same file in another encoding has other bytes.
    encoding: Option<String>,
}

impl Validators {
    /// The version by these headers; `size` is that of the whole file.
    pub fn new(headers: &HeaderMap, size: Option<u64>) -> Validators {
        let encoding = text(headers, &header::CONTENT_ENCODING).map(|name| name.to_ascii_lowercase());
        Validators {
            etag: text(headers, &header::ETAG),
            modified: text(headers, &header::LAST_MODIFIED),
            is_over: is_over(headers).unwrap_or_default(),
            size,
            encoding: Some(encoding.filter(|name| name != "identity").unwrap_or_default()),
        }
    }

    /// The size alone, from an answer that does not describe the file otherwise.
    pub fn with_size(size: Option<u64>) -> Validators {
        Validators { size, ..Validators::default() }
    }

    /// The value for `If-Range`: the strong ETag, which the answer must then repeat. The server would never
    /// match a weak one, and may answer to a date without that date (RFC 9110, 15.3.7), so nothing would show
    /// the version.
    pub fn if_range(&self) -> Option<HeaderValue> {
        self.strong_etag().and_then(|v| HeaderValue::from_str(v).ok())
    }

    /// A name of the version, and whether it proves the version: a strong ETag with a size does, and anything
    /// else makes it likely.
    pub fn evidence(&self) -> Option<(String, bool)> {
        let value = match (&self.etag, &self.modified) {
            (Some(etag), _) => format!("etag:{etag}"),
            (None, Some(modified)) => format!("mtime:{modified}"),
            (None, None) => return None,
        };
        Some((value, self.strong_etag().is_some() && self.size.is_some()))
    }

    /// A name of the version for a caller that only needs a name: a strong ETag, or the date and the size. A
    /// weak ETag may stay while the bytes change.
    pub fn version(&self) -> Option<String> {
        match (self.strong_etag(), &self.modified, self.size) {
            (Some(etag), ..) => Some(format!("etag:{etag}")),
            (None, Some(modified), Some(size)) => Some(format!("mtime:{modified} size:{size}")),
            _ => None,
        }
    }

    /// The size of the whole file.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// The difference between the first answer (`self`) and `now`, as text; `None` if nothing contradicts.
    /// That does not prove agreement: a header that is missing now contradicts nothing ([`Self::agrees`]).
    pub fn difference(&self, now: &Validators) -> Option<String> {
        if let (Some(a), Some(b)) = (&self.etag, &now.etag)
            && a != b
        {
            return Some(format!("ETag {} became {}", clip(a), clip(b)));
        }
        // Servers that share a file, and its strong ETag, may date it differently.
        let same_etag = equal(self.strong_etag(), now.strong_etag());
        if let (Some(a), Some(b)) = (&self.modified, &now.modified)
            && a != b
            && !same_etag
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

    /// True if both answers share a strong validator, and so are of one version. Without it, the absence of a
    /// difference proves nothing. An equal size proves nothing either, since disks have round sizes.
    pub fn agrees(&self, now: &Validators) -> bool {
        equal(self.strong_etag(), now.strong_etag()) || equal(self.strong_date(), now.strong_date())
    }

    /// True if another answer can be shown to be of the same version.
    pub fn are_strong(&self) -> bool {
        self.strong_etag().is_some() || self.strong_date().is_some()
    }

    fn strong_date(&self) -> Option<&str> {
        self.modified.as_deref().filter(|_| self.is_over)
    }

    fn strong_etag(&self) -> Option<&str> {
        self.etag.as_deref().filter(|e| e.len() >= 2 && e.starts_with('"') && e.ends_with('"'))
    }
}

fn equal(a: Option<&str>, b: Option<&str>) -> bool {
    a.is_some() && a == b
}

/// True if `Last-Modified` was a minute old at `Date`; `None` if one of them is missing or not a date.
fn is_over(headers: &HeaderMap) -> Option<bool> {
    let time = |name: &HeaderName| httpdate::parse_http_date(&text(headers, name)?).ok();
    let (modified, date) = (time(&header::LAST_MODIFIED)?, time(&header::DATE)?);
    Some(date.duration_since(modified).is_ok_and(|age| age >= OVER))
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?;
    // A value that is not text is compared too; it is neither a strong ETag nor a date, since it begins with
    // a letter.
    let value =
        value.to_str().map_or_else(|_| format!("bytes {}", value.as_bytes().escape_ascii()), str::to_owned);
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

fn clip(text: &str) -> String {
    printable::text(text, 80)
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

    fn dated(modified: &str, date: &str) -> Validators {
        Validators::new(&headers(&[("last-modified", modified), ("date", date)]), Some(7))
    }

    #[test]
    fn a_version_is_named_by_what_changes_with_the_bytes() {
        let of = |etag: &'static str, modified: &'static str, size| {
            let all = [("etag", etag), ("last-modified", modified)];
            let there: Vec<_> = all.into_iter().filter(|(_, value)| !value.is_empty()).collect();
            Validators::new(&headers(&there), size).version()
        };
        assert_eq!(of("\"a\"", "b", Some(7)).as_deref(), Some("etag:\"a\""));
        assert_eq!(of("W/\"a\"", "b", Some(7)).as_deref(), Some("mtime:b size:7"));
        for (etag, modified, size) in [("W/\"a\"", "b", None), ("W/\"a\"", "", Some(7)), ("", "", Some(7))] {
            assert_eq!(of(etag, modified, size), None);
        }
    }

    #[test]
    fn a_date_is_strong_when_it_is_a_minute_old() {
        let modified = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (date, strong) in [
            ("Sun, 06 Nov 1994 08:50:37 GMT", true),
            ("Sunday, 06-Nov-94 08:50:37 GMT", true),
            ("Sun Nov  6 08:50:37 1994", true),
            ("Fri, 31 Dec 9999 23:59:59 GMT", true),
            (modified, false),
            ("Sun, 06 Nov 1994 08:50:36 GMT", false),
            ("Sun, 06 Nov 1994 08:49:36 GMT", false),
            ("Sun, 06 Nov 1994 08:50:38", false),
            ("tomorrow", false),
            ("", false),
        ] {
            let first = dated(modified, date);
            assert_eq!((first.are_strong(), first.agrees(&first)), (strong, strong), "{date}");
        }
        assert!(!dated("yesterday", modified).are_strong(), "no date");
        assert!(!dated("", modified).are_strong());
        let (early, late) = (dated(modified, modified), dated(modified, "Mon, 07 Nov 1994 08:49:37 GMT"));
        assert!(!early.agrees(&late), "what came within the minute may be another version");
        assert!(!late.agrees(&early));
        assert_eq!(early.difference(&late), None);
    }

    #[test]
    fn an_etag_that_is_no_text_is_compared_and_proves_nothing() {
        let of = |etag: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ETAG, HeaderValue::from_bytes(etag).unwrap());
            Validators::new(&headers, Some(7))
        };
        let (one, other) = (of(b"\"\xe4\""), of(b"\"\xe5\""));
        assert!(one.difference(&other).unwrap().starts_with("ETag"));
        assert!(!one.are_strong() && one.difference(&one).is_none());
    }

    #[test]
    fn a_weak_etag_shows_a_difference_and_no_agreement() {
        let day = |day: &str| format!("{day} Nov 1994 08:49:37 GMT");
        let weak = |etag: &str, modified: &str| {
            let date = day("Tue, 08");
            Validators::new(
                &headers(&[("etag", etag), ("last-modified", modified), ("date", &date)]),
                Some(7),
            )
        };
        let (alone, dated) = (weak("W/\"a\"", ""), weak("W/\"a\"", &day("Sun, 06")));
        assert!(!alone.are_strong() && !alone.agrees(&alone));
        assert!(dated.are_strong() && dated.agrees(&dated) && !dated.agrees(&alone));
        assert_eq!(
            dated.difference(&weak("W/\"b\"", &day("Sun, 06"))).unwrap(),
            "ETag W/\"a\" became W/\"b\""
        );
        let later = weak("W/\"a\"", &day("Mon, 07"));
        assert!(dated.difference(&later).unwrap().starts_with("Last-Modified"), "the ETag does not decide");
        for odd in ["a", "\"", "w/\"a\"", "W/\"a"] {
            assert!(!weak(odd, "").are_strong(), "{odd}");
        }
    }

    #[test]
    fn a_strong_etag_proves_and_anything_else_does_not() {
        let strong = validators("\"a\"", "Mon", 7);
        let evidence = |value: &str, proves| Some((value.to_owned(), proves));
        assert_eq!(strong.evidence(), evidence("etag:\"a\"", true));
        assert_eq!(strong.if_range().unwrap(), "\"a\"");
        let weak = validators("W/\"a\"", "Mon", 7);
        assert_eq!(weak.evidence(), evidence("etag:W/\"a\"", false));
        assert_eq!(weak.if_range(), None);
        let dated = validators("", "Mon", 7);
        assert_eq!(dated.evidence(), evidence("mtime:Mon", false));
        assert_eq!(dated.if_range(), None, "the answer may leave the date out");
        assert_eq!(validators("", "", 7).evidence(), None);
        let unmeasured = Validators { size: None, ..strong };
        assert_eq!((unmeasured.evidence(), unmeasured.size()), (evidence("etag:\"a\"", false), None));
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
        assert!(first.agrees(&validators("\"a\"", "", 7)) && !first.agrees(&validators("", "Mon", 7)));
        assert!(!first.agrees(&validators("", "", 7)), "a size is no evidence");
        assert!(first.are_strong() && !validators("", "", 7).are_strong());
    }
}
