//! Readers that pass over zeros instead of giving them: a hole of an archive's file costs no byte on its way to the target.

use std::io::{self, Read};

/// A reader whose zeros may be passed over. Whoever only reads gets all of them.
pub trait HoleRead: Read {
    /// Passes over zeros that come next: a multiple of `unit` bytes, at most `most`. 0 where bytes come, fewer zeros are left, or
    /// nothing is known of them.
    fn skip_hole(&mut self, unit: u64, most: u64) -> io::Result<u64> {
        let _nothing_known = (unit, most);
        Ok(0)
    }

    /// Bytes of all that it gives from the first to the last, where a header has told them.
    fn size(&self) -> Option<u64> {
        None
    }

    /// Bytes of it that are holes, as far as a header has told them.
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

/// A reader that knows of no holes.
pub(crate) struct Dense<R>(pub(crate) R);

impl<R: Read> Read for Dense<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

impl<R: Read> HoleRead for Dense<R> {}
