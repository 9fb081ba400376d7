//! Errors of reading an archive. Callers add the archive's name.

use std::io;

/// An error of reading an archive.
#[derive(Debug)]
pub enum Fault {
    /// The bytes could not be read.
    Io(io::Error),
    /// The archive ends too early.
    Truncated {
        /// Offset at which the bytes end, or at which the missing part begins.
        at: u64,
        /// The part that is incomplete.
        inside: &'static str,
    },
    /// The archive is broken, hostile or of an unknown kind.
    Refused {
        /// Offset of the problem.
        at: u64,
        /// The reason, without the archive's name.
        what: String,
    },
}

impl Fault {
    pub(super) fn refused(at: u64, what: impl Into<String>) -> Fault {
        Fault::Refused { at, what: what.into() }
    }
}
