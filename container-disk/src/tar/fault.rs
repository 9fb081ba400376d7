//! Why an archive is not read on. Callers put it into their own words of which archive it is.

use std::io;

/// An archive that cannot be read, or must not be.
#[derive(Debug)]
pub enum Fault {
    /// Its bytes could not be read.
    Io(io::Error),
    /// It ends too early.
    Truncated {
        /// Bytes before its end, or before what is missing.
        at: u64,
        /// What it ends inside of.
        inside: &'static str,
    },
    /// It is broken, hostile or of an unknown kind.
    Refused {
        /// Where, in its bytes.
        at: u64,
        /// A sentence without the archive's name.
        what: String,
    },
}

impl Fault {
    pub(super) fn refused(at: u64, what: impl Into<String>) -> Fault {
        Fault::Refused { at, what: what.into() }
    }
}
