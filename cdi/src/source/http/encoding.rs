//! `Content-Encoding`: requests ask for none; gzip is undone where a server sends it nevertheless.

use bytes::Bytes;
use flate2::read::{GzDecoder, MultiGzDecoder};
use reqwest::header::{self, HeaderMap};
use std::io::{self, Read};

/// The encoding of the file on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// None: offsets are offsets of the file.
    Identity,
    /// gzip: the file can only be read in order.
    Gzip,
}

/// Parses the header; an encoding that was not requested and is not supported is refused.
pub(super) fn parse(headers: &HeaderMap) -> Result<Encoding, String> {
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
    /// The beginning of the file, as far as `head` gives it, to guess its type.
    pub(super) fn first_bytes(self, head: &Bytes) -> Bytes {
        match self {
            Encoding::Identity => head.clone(),
            Encoding::Gzip => {
                let mut first = vec![];
                // The end of `head` cuts the stream somewhere; the bytes before the cut count.
                let _ = GzDecoder::new(&head[..]).take(1 << 10).read_to_end(&mut first);
                first.into()
            }
        }
    }
}

/// A reader that undoes the gzip encoding.
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
