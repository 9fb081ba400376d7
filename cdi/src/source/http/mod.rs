//! Disks behind `http://` and `https://`.
//!
//! ```text
//!               open: one GET of the first 256 KiB                                   probe.rs
//!                │ 206                                    │ 200
//!                ▼                                        ▼
//!             Remote: one version of one file          Whole: one response           remote.rs whole.rs
//!              │ transfer: exactly these bytes,           │
//!              │ checked, resumed where they broke        │
//!        ┌─────┴──────────┐                               │
//!     RemoteAt         Ordered                          InOrder                      read_at.rs ordered.rs
//!     + small cache    segments in flight                 │                          cache.rs queue.rs
//!        │                └───────────┬───────────────────┘
//!        ▼                            ▼ (gzip undone)                                encoding.rs
//!      ReadAt                        Read
//! ```
//!
//! Below all of it: `line.rs` (a request, its redirects, which answers are worth another try), `gate.rs` (how many requests at once), `validators.rs` (is it still the same file),
//! the package `fetch` (names without secrets, redirects, time-outs and pauses, TLS, the runtime).
//!
//! What never happens: bytes of two versions in one result; credentials or the user's headers at another origin; a
//! secret in a name, an error or a log line; more than about 24 MiB held.
//!
//! Everything here is for plain threads: calls block, and panic inside an async task.

mod cache;
mod encoding;
mod gate;
mod line;
mod ordered;
mod probe;
mod queue;
mod read_at;
mod remote;
mod validators;
mod whole;

use crate::source::options::Options;
use crate::source::{Facts, Source};
use crate::{Error, Kind, Result};
use disk_format::ReadAt;
use encoding::{Decoded, Encoding};
use line::Line;
use ordered::Ordered;
use probe::Body;
use read_at::RemoteAt;
use remote::Remote;
use std::io::Read;
use std::sync::Arc;
use whole::Whole;

/// An address without what is secret in it.
pub(super) fn shown(url: &str) -> String {
    fetch::Location::parse(url)
        .map_or_else(|_| "an address".to_owned(), |(place, _)| place.shown().to_owned())
}

/// A file on a web server.
pub struct Http {
    facts: Facts,
    bytes: Bytes,
    encoding: Encoding,
}

enum Bytes {
    Ranged(Arc<Remote>),
    Whole(Whole),
}

impl Http {
    /// Asks the server for the first bytes, and learns from the answer what it can do.
    pub fn open(url: &str, options: &Options) -> Result<Http> {
        let line = Line::new(url, options)?;
        let (name, name_digest) = (line.name().to_owned(), line.name_digest());
        let found = fetch::runtime()?.block_on(probe::probe(line))?;
        let (bytes, size, ranges) = match found.body {
            Body::Ranged(remote) => {
                let size = Some(remote.size);
                (Bytes::Ranged(remote), size, true)
            }
            Body::Whole(whole, size) => (Bytes::Whole(whole), size, false),
        };
        let plain = found.encoding == Encoding::Identity;
        let facts = Facts {
            name,
            size: size.filter(|_| plain),
            seekable: ranges && plain,
            remote: true,
            plain: false,
            identity: found.validators.identity(name_digest),
        };
        Ok(Http { facts, bytes, encoding: found.encoding })
    }

    fn cannot_start(&self, from: u64, why: &str) -> Error {
        Error::new(Kind::Usage, format!("{}: cannot start at byte {from}: {why}", self.facts.name))
    }
}

impl Source for Http {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read_at(&self) -> Option<Arc<dyn ReadAt>> {
        match &self.bytes {
            Bytes::Ranged(remote) if self.facts.seekable => Some(Arc::new(RemoteAt(Arc::clone(remote)))),
            _ => None,
        }
    }

    fn stream(&self, from: u64) -> Result<Box<dyn Read + Send>> {
        if from > 0 && self.encoding == Encoding::Gzip {
            return Err(self.cannot_start(from, "the server sends it compressed (Content-Encoding: gzip)"));
        }
        let raw: Box<dyn Read + Send> = match &self.bytes {
            Bytes::Ranged(remote) if from > remote.size => {
                return Err(self.cannot_start(from, &format!("the file has {} bytes", remote.size)));
            }
            Bytes::Ranged(remote) => Box::new(Ordered::new(Arc::clone(remote), from)),
            Bytes::Whole(_) if from > 0 => {
                return Err(self.cannot_start(from, "the server does not support ranges"));
            }
            Bytes::Whole(whole) => Box::new(whole.stream()?),
        };
        Ok(match self.encoding {
            Encoding::Identity => raw,
            Encoding::Gzip => Box::new(Decoded::new(&self.facts.name, raw)),
        })
    }
}
