//! The format of a file, checked while the file is read.

use crate::{Error, Result};
use disk_format::validate::{self, Validator};
use disk_format::{ErrorKind, Format, Limits};
use std::io::Read;

/// The result for one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A disk that can be read.
    Sound(Format),
    /// A disk whose last tables are too far behind to be checked.
    Unknown(Format),
    /// A broken file, or a format from which VMs cannot start.
    Bad(String),
    /// A disk that refers to another file.
    Outside(String),
}

const PIECE: usize = 256 << 10;

/// Reads a file to its end, or up to its first error.
pub(super) fn judge(file: &mut impl Read) -> Result<Verdict> {
    let (mut judge, mut piece) = (Validator::new(Limits::default()), vec![0; PIECE]);
    loop {
        let n = file.read(&mut piece).map_err(|e| Error::io("cannot read the disk", e))?;
        if n == 0 {
            return Ok(match judge.finish() {
                Ok(validate::Verdict::Sound(format)) => Verdict::Sound(format),
                Ok(validate::Verdict::Unknown(format)) => Verdict::Unknown(format),
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
