//! An upload: a stream that another process receives from its client and sends through standard input.
//!
//! ```text
//!  length (4 bytes, big endian) bytes … │ length bytes … │ 0000
//! ```
//!
//! The end of a pipe does not show why it ended. So the bytes come in pieces with their length before them,
//! and a piece of no bytes is the end of the upload. A broken connection, or a killed process, cannot be
//! mistaken for it.

use super::{Source, SourceFacts};
use crate::{Error, ErrorKind, Result};
use disk_format::ReadAt;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The name of an upload in messages.
pub const NAME: &str = "the upload";

/// The header, with a reason in one word, by which an upload server says that it will refuse the same bytes
/// again.
pub const REFUSED: &str = "upload-refused";

/// The piece that ends an upload.
pub const END: [u8; 4] = [0; 4];

/// The length prefix of a piece.
pub fn before(piece: u32) -> [u8; 4] {
    piece.to_be_bytes()
}

/// The upload on this process's standard input.
#[derive(Debug)]
pub(super) struct Upload {
    facts: SourceFacts,
    is_read: AtomicBool,
}

impl Upload {
    pub(super) fn new(size: Option<u64>) -> Upload {
        let facts = SourceFacts {
            name: NAME.to_owned(),
            size,
            seekable: false,
            remote: false,
            plain: false,
            reentry: false,
            identity: None,
        };
        Upload { facts, is_read: AtomicBool::new(false) }
    }
}

impl Source for Upload {
    fn facts(&self) -> &SourceFacts {
        &self.facts
    }

    fn read_at(&self) -> Option<Arc<dyn ReadAt>> {
        None
    }

    fn stream(&self, from: u64) -> Result<Box<dyn Read + Send>> {
        if from != 0 {
            let what = format!("{NAME} cannot go on at byte {from}: it begins at its first byte");
            return Err(Error::new(ErrorKind::Usage, what));
        }
        if self.is_read.swap(true, Relaxed) {
            return Err(Error::failed(format!("{NAME} has been read already")));
        }
        // Not the descriptor: bytes behind the order may lie in the buffer of this process.
        Ok(Box::new(Pieces::of(io::stdin())))
    }
}

/// The bytes of all pieces.
struct Pieces<R> {
    from: R,
    /// Bytes left of the present piece.
    left: usize,
    taken: u64,
    is_ended: bool,
}

impl<R: Read> Pieces<R> {
    fn of(from: R) -> Pieces<R> {
        Pieces { from, left: 0, taken: 0, is_ended: false }
    }

    fn broken(&self) -> io::Error {
        Error::failed(format!("{NAME} broke off after {} bytes", self.taken)).into()
    }
}

impl<R: Read> Read for Pieces<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.is_ended || buf.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            let mut length = [0; 4];
            self.from.read_exact(&mut length).map_err(|e| match e.kind() {
                io::ErrorKind::UnexpectedEof => self.broken(),
                _ => e,
            })?;
            self.left = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
            if self.left == 0 {
                self.is_ended = true;
                return Ok(0);
            }
        }
        let most = buf.len().min(self.left);
        let got = self.from.read(&mut buf[..most])?;
        if got == 0 {
            return Err(self.broken());
        }
        self.left -= got;
        self.taken = self.taken.saturating_add(got as u64);
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut all = vec![];
        Pieces::of(bytes).read_to_end(&mut all).map(|_| all)
    }

    #[test]
    fn the_pieces_are_one_stream_which_ends_where_its_sender_says_so() {
        let sent = [&before(3)[..], b"abc", &before(2), b"de", &END, b"more"].concat();
        assert_eq!(read(&sent).unwrap(), b"abcde");
        assert_eq!(read(&END).unwrap(), b"");
        for cut in 0..sent.len() - 4 {
            let e = read(&sent[..cut]).unwrap_err();
            assert!(e.to_string().starts_with("the upload broke off after "), "{cut}: {e}");
        }
        let e = read(&sent[..8]).unwrap_err();
        assert_eq!(e.to_string(), "the upload broke off after 3 bytes");
    }

    #[test]
    fn an_upload_is_read_once_from_its_beginning() {
        let upload = Upload::new(Some(5));
        assert_eq!((upload.facts().size, upload.facts().seekable), (Some(5), false));
        assert_eq!(upload.stream(3).err().unwrap().kind(), ErrorKind::Usage);
        assert!(upload.stream(0).is_ok());
        assert!(upload.stream(0).err().unwrap().to_string().contains("read already"));
    }
}
