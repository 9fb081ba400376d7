//! The format of a file as it passes.

use crate::{Error, Result};
use disk_format::judge::{self, Judge};
use disk_format::{ErrorKind, Format, Limits};
use std::io::Read;

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A disk that can be read.
    Sound(Format),
    /// A disk, whose last tables lie where they could not be kept.
    Unknown(Format),
    /// It is broken, or of a format from which VMs do not start.
    Bad(String),
    /// It needs another file.
    Outside(String),
}

const PIECE: usize = 256 << 10;

/// Reads a file to its end, or up to what is wrong with it.
pub(super) fn judge(file: &mut impl Read) -> Result<Verdict> {
    let (mut judge, mut piece) = (Judge::new(Limits::default()), vec![0; PIECE]);
    loop {
        let n = file.read(&mut piece).map_err(|e| Error::io("cannot read the disk", e))?;
        if n == 0 {
            return Ok(match judge.finish() {
                Ok(judge::Verdict::Sound(format)) => Verdict::Sound(format),
                Ok(judge::Verdict::Unknown(format)) => Verdict::Unknown(format),
                Err(e) => verdict_of(&e),
            });
        }
        if let Err(e) = judge.push(&piece[..n]) {
            return Ok(verdict_of(&e));
        }
    }
}

fn verdict_of(e: &disk_format::Error) -> Verdict {
    match e.kind() {
        ErrorKind::Outside => Verdict::Outside(e.to_string()),
        _ => Verdict::Bad(e.to_string()),
    }
}
