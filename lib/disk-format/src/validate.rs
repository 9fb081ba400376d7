//! Check that a file is a valid image, made while the file is read in order. The format is recognised by the
//! first bytes, the tables are read, and files that the image refers to are not opened.
//!
//! Tables that follow the data they describe can only be read at the end, from the parts of the file that
//! were kept: at most 32 MiB, which is many times the need of common tools. If more would be needed, the
//! result is unknown.

use crate::{Error, ErrorKind, Format, Limits, ReadAt, Result, StreamImage, stream};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// Size of a piece. It is longer than any format's lookback, which is at most two qcow2 clusters of 2 MiB.
const PIECE: usize = 8 << 20;
const KEPT: usize = 32 << 20;

/// Checks the first bytes of a file ([`Format::HEAD`], or all if there are fewer). Fails for an unsupported
/// format, an invalid header, or a reference to another file.
pub fn head(bytes: &[u8], limits: Limits) -> Result<Format> {
    let format = Format::probe(bytes);
    let mut image = stream(format, limits)?;
    image.push(0, bytes, false)?;
    // An incomplete header may still refer to another file.
    if format == Format::Qcow2 && image.virtual_size().is_none() {
        let what = format!("its header does not end within the first {} bytes of the file", bytes.len());
        return Err(Error::new(ErrorKind::Unsupported, format, what));
    }
    Ok(format)
}

/// Checks a file that is given in order.
pub struct Validator {
    limits: Limits,
    image: Option<Box<dyn StreamImage>>,
    piece: Vec<u8>,
    base: u64,
    kept: KeptRanges,
}

/// The result for a file without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A disk that can be read.
    Sound(Format),
    /// A disk whose last tables could not be checked, since too much of the file would have to be kept.
    Unknown(Format),
}

impl Validator {
    /// Maximum memory in bytes.
    pub const MEMORY: u64 = (PIECE + KEPT) as u64;

    /// Starts the check of a file.
    pub fn new(limits: Limits) -> Validator {
        Validator { limits, image: None, piece: Vec::new(), base: 0, kept: KeptRanges::default() }
    }

    /// Adds bytes of the file. An error is a defect of the image.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let room = PIECE.saturating_sub(self.piece.len());
            if room == 0 {
                return Err(self.without_progress());
            }
            let (now, rest) = bytes.split_at(bytes.len().min(room));
            self.piece.extend_from_slice(now);
            bytes = rest;
            if self.piece.len() == PIECE {
                self.step(false)?;
            }
        }
        Ok(())
    }

    /// Ends the file and returns the result.
    pub fn finish(mut self) -> Result<Verdict> {
        self.step(true)?;
        let Validator { image: Some(mut image), kept, .. } = self else {
            return Ok(Verdict::Unknown(Format::Raw));
        };
        if kept.overflowed {
            return Ok(Verdict::Unknown(image.format()));
        }
        while image.leftover(&kept)?.is_some() {}
        Ok(Verdict::Sound(image.format()))
    }

    /// The error of a reader that has kept a whole piece, and would wait for the next byte forever.
    fn without_progress(&self) -> Error {
        let format = self.image.as_ref().map_or(Format::Raw, |image| image.format());
        let what = format!("more than {PIECE} bytes of it would have to be read at once");
        Error::new(ErrorKind::Unsupported, format, what).at(self.base)
    }

    fn step(&mut self, last: bool) -> Result<()> {
        let image = match &mut self.image {
            Some(image) => image,
            none => {
                let format = Format::probe(&self.piece[..self.piece.len().min(Format::HEAD)]);
                none.insert(stream(format, self.limits)?)
            }
        };
        let pushed = image.push(self.base, &self.piece, last)?;
        for range in pushed.spool {
            self.kept.keep(self.base, &self.piece, &range);
        }
        self.kept.size = self.base + self.piece.len() as u64;
        let done = usize::try_from(pushed.keep_from.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let done = done.min(self.piece.len());
        self.piece.drain(..done);
        self.base += done as u64;
        Ok(())
    }
}

/// Parts of the file that were kept, at their own offsets.
#[derive(Default)]
struct KeptRanges {
    ranges: BTreeMap<u64, Vec<u8>>,
    held: usize,
    overflowed: bool,
    size: u64,
}

impl KeptRanges {
    fn keep(&mut self, base: u64, piece: &[u8], range: &Range<u64>) {
        let at = |offset: u64| usize::try_from(offset.saturating_sub(base)).unwrap_or(usize::MAX);
        let bytes = piece.get(at(range.start)..at(range.end)).unwrap_or_default();
        self.overflowed |= self.held + bytes.len() > KEPT;
        if self.overflowed {
            self.ranges.clear();
            return;
        }
        self.held += bytes.len();
        // Adjacent ranges are merged, so that a read may cross them.
        if let Some((start, before)) = self.ranges.range_mut(..range.start).next_back()
            && start + before.len() as u64 == range.start
        {
            before.extend_from_slice(bytes);
        } else {
            self.ranges.insert(range.start, bytes.to_vec());
        }
    }
}

impl ReadAt for KeptRanges {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let (start, bytes) = self.ranges.range(..=offset).next_back().ok_or(io::ErrorKind::UnexpectedEof)?;
        let from = usize::try_from(offset - start).map_err(io::Error::other)?;
        let bytes = bytes.get(from..).and_then(|rest| rest.get(..buf.len()));
        buf.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Extent;
    use crate::image::{Pushed, StreamImage};

    /// A reader that waits for the end of the file.
    struct Waiting;

    impl StreamImage for Waiting {
        fn format(&self) -> Format {
            Format::Qcow2
        }

        fn virtual_size(&self) -> Option<u64> {
            None
        }

        fn lookback(&self) -> usize {
            PIECE
        }

        fn push(&mut self, base: u64, _: &[u8], _: bool) -> Result<Pushed> {
            Ok(Pushed { keep_from: base, ..Pushed::default() })
        }

        fn leftover(&mut self, _: &dyn ReadAt) -> Result<Option<Vec<Extent>>> {
            Ok(None)
        }
    }

    #[test]
    fn a_reader_that_keeps_everything_is_an_error_and_no_loop() {
        let mut validator = Validator::new(Limits::default());
        validator.image = Some(Box::new(Waiting));
        validator.push(&vec![0; PIECE - 1]).unwrap();
        let error = validator.push(&[0; 2]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("would have to be read at once"), "{error}");
    }

    /// A file to which the image refers could be named after the bytes that were read.
    #[test]
    fn a_header_that_is_longer_than_what_was_read_is_refused() {
        let mut header = vec![0; Format::HEAD];
        let mut put = |at: usize, value: u32| header[at..at + 4].copy_from_slice(&value.to_be_bytes());
        put(0, 0x5146_49fb);
        put(4, 3);
        put(20, 21);
        put(28, 1 << 30);
        put(36, 1);
        put(44, 4 << 20);
        put(52, 2 << 20);
        put(56, 1);
        put(96, 4);
        put(100, 104);
        assert_eq!(head(&header, Limits::default()).unwrap(), Format::Qcow2);
        header[100..104].copy_from_slice(&(1_u32 << 20).to_be_bytes());
        let error = head(&header, Limits::default()).unwrap_err();
        assert!(error.to_string().contains("does not end within"), "{error}");
    }
}
