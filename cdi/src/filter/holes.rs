//! Readers that can skip zeros instead of returning them, so that a hole of a file in an archive costs no
//! byte on its way to the target.

use std::io::{self, Read};

/// A reader whose zeros can be skipped. `read` alone returns all of them.
pub trait HoleRead: Read {
    /// Skips zeros that come next: a multiple of `unit` bytes, at most `most`. 0 if data comes, fewer zeros
    /// are left, or no hole is known.
    fn skip_hole(&mut self, unit: u64, most: u64) -> io::Result<u64> {
        let _nothing_known = (unit, most);
        Ok(0)
    }

    /// Bytes of the whole content, if a header states them.
    fn size(&self) -> Option<u64> {
        None
    }

    /// Bytes of the content in holes, as far as a header states them.
    fn holes(&self) -> u64 {
        0
    }
}

impl<R: HoleRead + ?Sized> HoleRead for Box<R> {
    fn skip_hole(&mut self, unit: u64, most: u64) -> io::Result<u64> {
        (**self).skip_hole(unit, most)
    }

    fn size(&self) -> Option<u64> {
        (**self).size()
    }

    fn holes(&self) -> u64 {
        (**self).holes()
    }
}

/// A reader without known holes.
pub(crate) struct Dense<R>(pub(crate) R);

impl<R: Read> Read for Dense<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

impl<R: Read> HoleRead for Dense<R> {}
