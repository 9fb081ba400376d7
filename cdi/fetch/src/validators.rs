//! What tells one version of a remote file from another.

use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};

/// The version of a file, as its server names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    etag: Option<String>,
    modified: Option<String>,
    size: Option<u64>,
    /// `Content-Encoding`, empty when there is none: the same file in another encoding is other bytes.
    encoding: Option<String>,
}

impl Validators {
    /// `size` is that of the whole file.
    pub fn new(headers: &HeaderMap, size: Option<u64>) -> Validators {
        let encoding = text(headers, &header::CONTENT_ENCODING).map(|name| name.to_ascii_lowercase());
        Validators {
            etag: text(headers, &header::ETAG),
            modified: text(headers, &header::LAST_MODIFIED),
            size,
            encoding: Some(encoding.filter(|name| name != "identity").unwrap_or_default()),
        }
    }

    /// The size alone, from an answer that does not describe the file otherwise.
    pub fn of_size(size: Option<u64>) -> Validators {
        Validators { size, ..Validators::default() }
    }

    /// What `If-Range` may carry: the strong ETag, which the answer must then repeat. A weak one the server would never
    /// match, and to a date it may answer without that date (RFC 9110, 15.3.7): nothing would show the version.
    pub fn if_range(&self) -> Option<HeaderValue> {
        self.strong_etag().and_then(|v| HeaderValue::from_str(v).ok())
    }

    /// What names the version, and whether it proves it: a strong ETag does, with a size, and anything else makes it likely.
    pub fn evidence(&self) -> Option<(String, bool)> {
        let value = match (&self.etag, &self.modified) {
            (Some(etag), _) => format!("etag:{etag}"),
            (None, Some(modified)) => format!("mtime:{modified}"),
            (None, None) => return None,
        };
        Some((value, self.strong_etag().is_some() && self.size.is_some()))
    }

    /// The size of the whole file.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// How `now` differs from what was seen first, in words; `None` when nothing contradicts. That is no agreement: a
    /// header that is missing now contradicts nothing ([`Self::agrees`]).
    pub fn difference(&self, now: &Validators) -> Option<String> {
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
    pub fn agrees(&self, now: &Validators) -> bool {
        let equal = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
        equal(&self.etag, &now.etag) || equal(&self.modified, &now.modified)
    }

    /// Whether the server tells versions apart at all.
    pub fn names_a_version(&self) -> bool {
        self.etag.is_some() || self.modified.is_some()
    }

    fn strong_etag(&self) -> Option<&str> {
        self.etag.as_deref().filter(|e| e.len() >= 2 && e.starts_with('"') && e.ends_with('"'))
    }
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?.trim();
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
        assert!(first.agrees(&validators("\"a\"", "", 7)) && first.agrees(&validators("", "Mon", 7)));
        assert!(!first.agrees(&validators("", "", 7)), "a size is no evidence");
        assert!(first.names_a_version() && !validators("", "", 7).names_a_version());
    }
}
