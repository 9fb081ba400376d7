//! Disks at `http://` and `https://` URLs.
//!
//! ```text
//!               open: one GET of the first 256 KiB                                   probe.rs
//!                │ 206 with a strong validator            │ 200, or a 206 without: requested again
//!                ▼                                        ▼
//!             Remote: one version of one file          Whole: one response           remote.rs whole.rs
//!              │ transfer: exactly these bytes,           │
//!              │ checked, resumed where they broke        │
//!        ┌─────┴──────────┐                               │
//!     fetch::ReadAt    fetch::Ordered                   InOrder
//!     + small cache    segments in flight                 │
//!        │                └───────────┬───────────────────┘
//!        ▼                            ▼ (gzip undone)                                encoding.rs
//!      ReadAt                        Read
//! ```
//!
//! Below all of it: `remote_file.rs` (the requests, and messages about the server), `credentials.rs` (credentials),
//! and the package `fetch` (redirects, timeouts and pauses, the number of requests at once, the version of
//! the file, TLS, the runtime).
//!
//! Guarantees: bytes of two versions are never mixed in one result; credentials and the user's headers never
//! go to another origin; no name, error or log line holds a secret; at most about 24 MiB are held.
//!
//! All functions are for plain threads: calls block, and panic inside an async task.

mod credentials;
mod encoding;
mod probe;
mod remote;
mod remote_file;
mod whole;

use crate::source::options::Options;
use crate::source::{EvidenceStrength, Identity, Source, SourceFacts};
use crate::{Error, ErrorKind, Result};
use disk_format::ReadAt;
use encoding::{Decoded, Encoding};
use fetch::Validators;
use fetch::ordered::Ordered;
use probe::Body;
use remote::{Remote, RemoteWindow};
use remote_file::RemoteFile;
use std::io::{self, Read};
use std::sync::Arc;
use whole::Whole;

/// The printable form of a URL, without secrets.
pub(super) fn shown(url: &str) -> String {
    fetch::Location::parse(url)
        .map_or_else(|_| "an address".to_owned(), |(place, _)| place.shown().to_owned())
}

/// The version of the file at a URL by its server's headers; `None` if those name none.
pub(crate) fn version(url: &str, options: &Options) -> Result<Option<String>> {
    let found = fetch::runtime()?.block_on(probe::probe(RemoteFile::new(url, options)?))?;
    Ok(found.validators.version())
}

/// A file on a web server.
pub struct Http {
    facts: SourceFacts,
    bytes: Bytes,
    encoding: Encoding,
    decoded: fetch::Decoded,
}

enum Bytes {
    Ranged(Arc<fetch::ReadAt<Remote>>),
    Whole(Box<Whole>),
}

impl Http {
    /// Requests the first bytes, and finds out from the answer what the server supports.
    pub fn open(url: &str, options: &Options) -> Result<Http> {
        let remote_file = RemoteFile::new(url, options)?;
        let (name, name_digest) = (remote_file.name().to_owned(), remote_file.name_digest());
        let found = fetch::runtime()?.block_on(probe::probe(remote_file))?;
        let (bytes, size, ranges) = match found.body {
            Body::Ranged(remote) => {
                let size = Some(remote.size);
                (Bytes::Ranged(Arc::new(fetch::ReadAt::new(remote))), size, true)
            }
            Body::Whole(whole, size) => (Bytes::Whole(whole), size, false),
        };
        let plain = found.encoding == Encoding::Identity;
        let facts = SourceFacts {
            name,
            size: size.filter(|_| plain),
            seekable: ranges && plain,
            remote: true,
            plain: false,
            reentry: false,
            identity: identity(&found.validators, name_digest),
        };
        Ok(Http { facts, bytes, encoding: found.encoding, decoded: options.decoded.clone() })
    }

    fn cannot_start(&self, from: u64, why: &str) -> Error {
        Error::new(ErrorKind::Usage, format!("{}: cannot start at byte {from}: {why}", self.facts.name))
    }
}

/// The evidence for a journal, about the file of this name (a digest of it). Without a size nothing is
/// proved.
fn identity(validators: &Validators, name: String) -> Option<Identity> {
    let (value, proves) = validators.evidence()?;
    let says = if proves { EvidenceStrength::Version } else { EvidenceStrength::Likely };
    Some(Identity { value, size: validators.size(), name, says })
}

/// The file at any offset.
struct RemoteAt(Arc<fetch::ReadAt<Remote>>);

impl ReadAt for RemoteAt {
    fn size(&self) -> u64 {
        self.0.file().size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }
}

impl Source for Http {
    fn facts(&self) -> &SourceFacts {
        &self.facts
    }

    fn read_at(&self) -> Option<Arc<dyn ReadAt>> {
        match &self.bytes {
            Bytes::Ranged(bytes) if self.facts.seekable => Some(Arc::new(RemoteAt(Arc::clone(bytes)))),
            _ => None,
        }
    }

    fn undone(&self) -> usize {
        usize::from(self.encoding == Encoding::Gzip)
    }

    fn marks_its_end(&self) -> bool {
        match &self.bytes {
            Bytes::Ranged(_) => true,
            // A Content-Encoding of gzip marks no end either: another member may follow.
            Bytes::Whole(whole) => whole.marks_its_end,
        }
    }

    fn stream(&self, from: u64) -> Result<Box<dyn Read + Send>> {
        if from > 0 && self.encoding == Encoding::Gzip {
            return Err(self.cannot_start(from, "the server sends it compressed (Content-Encoding: gzip)"));
        }
        let raw: Box<dyn Read + Send> = match &self.bytes {
            Bytes::Ranged(bytes) if from > bytes.file().size => {
                let size = bytes.file().size;
                return Err(self.cannot_start(from, &format!("the file has {size} bytes")));
            }
            Bytes::Ranged(bytes) => {
                let remote = bytes.file();
                Box::new(Ordered::new(Arc::clone(remote), from, RemoteWindow(Arc::clone(remote))))
            }
            Bytes::Whole(_) if from > 0 => {
                return Err(self.cannot_start(from, "it comes in one answer, from its beginning"));
            }
            Bytes::Whole(whole) => Box::new(whole.stream()?),
        };
        Ok(match self.encoding {
            Encoding::Identity => raw,
            Encoding::Gzip => Box::new(Decoded::new(&self.facts.name, raw, self.decoded.clone())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{ETAG, HeaderMap, HeaderValue, LAST_MODIFIED};

    #[test]
    fn a_strong_etag_proves_and_anything_else_does_not() {
        let made = |etag: &'static str, modified: &'static str, size| {
            let mut headers = HeaderMap::new();
            headers.insert(ETAG, HeaderValue::from_static(etag));
            headers.insert(LAST_MODIFIED, HeaderValue::from_static(modified));
            identity(&Validators::new(&headers, size), "name".into())
        };
        let expected =
            |value: &str, size, says| Some(Identity { value: value.into(), size, name: "name".into(), says });
        assert_eq!(made("\"a\"", "Mon", Some(7)), expected("etag:\"a\"", Some(7), EvidenceStrength::Version));
        assert_eq!(
            made("W/\"a\"", "Mon", Some(7)),
            expected("etag:W/\"a\"", Some(7), EvidenceStrength::Likely)
        );
        assert_eq!(made("", "Mon", Some(7)), expected("mtime:Mon", Some(7), EvidenceStrength::Likely));
        assert_eq!(made("", "", Some(7)), None);
        assert_eq!(made("\"a\"", "Mon", None), expected("etag:\"a\"", None, EvidenceStrength::Likely));
    }
}
