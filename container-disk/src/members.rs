//! The members of a layer's tar, or of an image in one tar: what [`crate::tar`] reads, in this crate's words, without what
//! container runtimes do not unpack.

use crate::tar::{Archive, End, Fault, Member, Rules, Source, What, quoted};
use crate::{Error, Result};
use std::io::{self, Read};

/// The end of a layer is known from its digest, and of a file from its size: neither needs the mark. An operating system
/// has a few hundred thousand members of up to four headers each.
const RULES: Rules = Rules { end: End::Bytes, headers: 16 << 20 };

/// The members of a tar. Reads as the bytes of the member that [`Members::next`] told last.
pub(crate) struct Members {
    archive: Archive,
    /// For messages: "layer 2 of docker://h/r".
    name: String,
}

impl Members {
    pub(crate) fn new(name: impl Into<String>, source: impl Source + 'static) -> Self {
        Members { archive: Archive::new(source, RULES), name: name.into() }
    }

    /// The next member; what is left of the last one is passed over.
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

    /// Goes on inside the member that [`Members::next`] told last, with another source, which stands at this byte of the tar.
    pub(crate) fn enter(&mut self, source: impl Source + 'static, at: u64) -> Result<()> {
        self.archive.enter(source, at).map_err(|fault| self.error(fault))
    }

    /// After the last member: reads what is left, which must be zeros, so that checks at the end of the bytes are made.
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
