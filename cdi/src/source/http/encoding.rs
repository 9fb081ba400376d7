//! `Content-Encoding`: we ask for none, and undo gzip where a server sends it all the same.

use bytes::Bytes;
use flate2::read::{GzDecoder, MultiGzDecoder};
use reqwest::header::{self, HeaderMap};
use std::io::{self, Read};

/// What lies around the file on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Nothing: offsets are offsets of the file.
    Identity,
    /// gzip: the file is only known in order.
    Gzip,
}

/// Reads the header; an encoding that was not asked for and that we cannot undo is refused.
pub(super) fn of(headers: &HeaderMap) -> Result<Encoding, String> {
    let mut found = Encoding::Identity;
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let value = value.to_str().unwrap_or("unreadable");
        for name in value.split(',').map(|name| name.trim().to_ascii_lowercase()) {
            match (name.as_str(), found) {
                ("" | "identity", _) => {}
                ("gzip" | "x-gzip", Encoding::Identity) => found = Encoding::Gzip,
                _ => {
                    let value = printable::text(value, 80);
                    return Err(format!("Content-Encoding: {value} was not asked for and is not supported"));
                }
            }
        }
    }
    Ok(found)
}

impl Encoding {
    /// As much of the file's beginning as `head` gives, for a look at it.
    pub(super) fn first_bytes(self, head: &Bytes) -> Bytes {
        match self {
            Encoding::Identity => head.clone(),
            Encoding::Gzip => {
                let mut first = vec![];
                // Cut off somewhere, as it must be: what came before the cut counts.
                let _ = GzDecoder::new(&head[..]).take(1 << 10).read_to_end(&mut first);
                first.into()
            }
        }
    }
}

/// The file out of its gzip form.
pub(super) struct Decoded<R> {
    name: String,
    inner: MultiGzDecoder<R>,
    at: u64,
    count: fetch::Decoded,
}

impl<R: Read> Decoded<R> {
    pub(super) fn new(name: &str, inner: R, count: fetch::Decoded) -> Decoded<R> {
        Decoded { name: name.to_owned(), inner: MultiGzDecoder::new(inner), at: 0, count }
    }
}

impl<R: Read> Read for Decoded<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let done = self.inner.read(buf).map_err(|e| match e.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
                let (name, at) = (&self.name, self.at);
                let what = format!(
                    "{name}: its Content-Encoding: gzip is broken or cut off, after {at} bytes of the file"
                );
                crate::Error::refused(what).because(e).into()
            }
            _ => e,
        })?;
        self.at += done as u64;
        self.count.add(done as u64);
        Ok(done)
    }
}
