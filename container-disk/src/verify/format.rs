//! The format of a file as it passes: recognised by its first bytes, its tables read, nothing it refers to opened.
//!
//! Tables that come after the data they describe can only be read at the end, from what was kept of the file: at most
//! [`KEPT`] bytes, which is many times what the usual tools leave for then. More is said to be not checked.

use crate::{Error, Result};
use disk_format::{Format, Kind, Limits, ReadAt, StreamImage};
use std::collections::BTreeMap;
use std::io::{self, Read};

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A disk that can be read.
    Sound(Format),
    /// A disk, whose last tables lie where they could not be kept.
    Unknown(Format),
    /// It is broken, or of a format that machines do not start from.
    Bad(String),
    /// It needs another file.
    Outside(String),
}

/// Longer than what any format asks for again: two clusters of a qcow2, of 2 MiB at most.
const PIECE: usize = 8 << 20;
const KEPT: usize = 32 << 20;

/// Reads a file to its end, or up to what is wrong with it.
pub(super) fn judge(file: &mut impl Read) -> Result<Verdict> {
    let mut piece = Vec::with_capacity(PIECE);
    let mut last = fill(file, &mut piece)?;
    let format = Format::probe(&piece[..piece.len().min(Format::HEAD)]);
    let mut image = match disk_format::stream(format, Limits::default()) {
        Ok(image) => image,
        Err(e) => return verdict_of(&e),
    };
    let mut kept = Kept::default();
    let mut base = 0;
    loop {
        let pushed = match image.push(base, &piece, last) {
            Ok(pushed) => pushed,
            Err(e) => return verdict_of(&e),
        };
        for range in pushed.spool {
            kept.keep(base, &piece, &range);
        }
        let end = base + piece.len() as u64;
        if last {
            kept.size = end;
            return finish(format, &mut *image, &kept);
        }
        let done = usize::try_from(pushed.keep_from.saturating_sub(base)).unwrap_or(usize::MAX);
        piece.drain(..done.min(piece.len()));
        base = end - piece.len() as u64;
        last = fill(file, &mut piece)?;
    }
}

fn finish(format: Format, image: &mut dyn StreamImage, kept: &Kept) -> Result<Verdict> {
    if kept.overflowed {
        return Ok(Verdict::Unknown(format));
    }
    loop {
        match image.leftover(kept) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(Verdict::Sound(format)),
            Err(e) => return verdict_of(&e),
        }
    }
}

/// Fills the piece; whether the file ends in it.
fn fill(file: &mut impl Read, piece: &mut Vec<u8>) -> Result<bool> {
    let want = PIECE - piece.len();
    let got = file.take(want as u64).read_to_end(piece).map_err(|e| Error::io("cannot read the disk", e))?;
    Ok(got < want)
}

fn verdict_of(e: &disk_format::Error) -> Result<Verdict> {
    match e.kind() {
        Kind::Outside => Ok(Verdict::Outside(e.to_string())),
        _ => Ok(Verdict::Bad(e.to_string())),
    }
}

/// What was kept of the file, at its own offsets.
#[derive(Default)]
struct Kept {
    ranges: BTreeMap<u64, Vec<u8>>,
    held: usize,
    overflowed: bool,
    size: u64,
}

impl Kept {
    fn keep(&mut self, base: u64, piece: &[u8], range: &std::ops::Range<u64>) {
        let at = |offset: u64| usize::try_from(offset.saturating_sub(base)).unwrap_or(usize::MAX);
        let bytes = piece.get(at(range.start)..at(range.end)).unwrap_or_default();
        self.overflowed |= self.held + bytes.len() > KEPT;
        if self.overflowed {
            self.ranges.clear();
            return;
        }
        self.held += bytes.len();
        // Ranges that touch are one, so that a read may cross them.
        if let Some((start, before)) = self.ranges.range_mut(..range.start).next_back()
            && start + before.len() as u64 == range.start
        {
            before.extend_from_slice(bytes);
        } else {
            self.ranges.insert(range.start, bytes.to_vec());
        }
    }
}

impl ReadAt for Kept {
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
