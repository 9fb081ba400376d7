//! The members of a layer's tar, or of an image in one tar. Wraps [`crate::tar`] with this crate's errors,
//! and refuses members that container runtimes do not unpack.

use crate::tar::{Archive, End, Fault, Member, Rules, Source, What, quoted};
use crate::{Error, Result};
use std::io::{self, Read};

/// A layer's end is given by its digest, and a file's by its size, so no end mark is needed. An operating
/// system has a few hundred thousand members of up to four headers each.
const RULES: Rules = Rules { end: End::Bytes, headers: 16 << 20 };

/// The members of a tar. As a reader it returns the bytes of the member that [`Members::next`] returned last.
pub(crate) struct Members {
    archive: Archive,
    /// Name for messages: "layer 2 of docker://h/r".
    name: String,
}

impl Members {
    pub(crate) fn new(name: impl Into<String>, source: impl Source + 'static) -> Self {
        Members { archive: Archive::new(source, RULES), name: name.into() }
    }

    /// Moves to the next member. Unread bytes of the previous one are skipped.
    pub(crate) fn next(&mut self) -> Result<Option<Member>> {
        let member = self.archive.next_member().map_err(|fault| self.error(fault))?;
        let Some(member) = member else { return Ok(None) };
        let refused = match (&member.map, &member.what) {
            (Some(_), _) => "a sparse member, which container runtimes refuse".to_owned(),
            (None, What::Note(kind)) => {
                format!("of the type {kind:?}, a note of GNU tar, which container runtimes refuse")
            }
            (None, _) => return Ok(Some(member)),
        };
        let what = format!("{} is {refused}", quoted(&member.name));
        Err(self.error(Fault::Refused { at: member.at, what }))
    }

    /// Continues inside the member that [`Members::next`] returned last, from another source that starts at
    /// offset `at` of the tar.
    pub(crate) fn enter(&mut self, source: impl Source + 'static, at: u64) -> Result<()> {
        self.archive.enter(source, at).map_err(|fault| self.error(fault))
    }

    /// Reads the bytes after the last member, which must be zeros, so that the checks at the end of the
    /// source are made.
    pub(crate) fn drain(&mut self) -> Result<()> {
        self.archive.drain().map_err(|fault| self.error(fault))
    }

    fn error(&self, fault: Fault) -> Error {
        let name = &self.name;
        match fault {
            Fault::Io(e) => Error::io(format!("cannot read the tar of {name}"), e),
            Fault::Truncated { at, inside } => {
                Error::refused(format!("the tar of {name} ends too early, inside {inside} (at offset {at})"))
            }
            Fault::Refused { at, what } => {
                Error::refused(format!("the tar of {name} is refused: {what} (at offset {at})"))
            }
        }
    }
}

impl Read for Members {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.archive.data(out).map_err(|fault| self.error(fault).into())
    }
}
