//! Readers of the filter targets: a source that comes in pieces, and a check of the decoders' guarantees.

use cdi::{Error, ErrorKind};
use std::io::Read;

/// Bytes that come in pieces of changing length.
pub(crate) struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    longest: usize,
    turn: usize,
}

impl Pieces {
    /// Pieces of at most `longest` bytes.
    pub(crate) fn new(bytes: Vec<u8>, longest: usize) -> Self {
        Pieces { bytes, at: 0, longest: longest.max(1), turn: 0 }
    }
}

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.turn = (self.turn + 1) % 3;
        let left = &self.bytes[self.at..];
        let n = left.len().min(out.len()).min((self.longest / (self.turn + 1)).max(1));
        out[..n].copy_from_slice(&left[..n]);
        self.at += n;
        Ok(n)
    }
}

/// Reads to the end, `step` bytes at a time. More than `most` bytes are a breach, and so is an end after an error.
pub(crate) fn all(reader: &mut dyn Read, step: usize, most: usize) -> Result<Vec<u8>, Error> {
    let (mut out, mut buf) = (Vec::new(), vec![0; step.max(1)]);
    loop {
        match reader.read(&mut buf) {
            Ok(0) => {
                assert!(matches!(reader.read(&mut buf), Ok(0)), "after the end comes something else");
                return Ok(out);
            }
            Ok(n) => out.extend_from_slice(&buf[..n]),
            Err(e) => {
                assert!(
                    reader.read(&mut buf).is_err(),
                    "a reader that has failed goes on; it failed with: {e}"
                );
                return Err(refusal(Error::io("reading", e)));
            }
        }
        assert!(out.len() <= most, "{} bytes came out, at most {most} may", out.len());
    }
}

/// Bytes in memory can only be refused; nothing else can go wrong with them.
pub(crate) fn refusal(e: Error) -> Error {
    assert!(e.kind() == ErrorKind::Refused, "{e:?}");
    let sentence = e.to_string();
    assert!(!sentence.contains("this is a bug") && !sentence.contains(char::is_control), "{sentence:?}");
    e
}
