//! What went wrong in an image: kind, format, field, offset, cause.

use crate::Format;
use std::fmt;
use std::io;

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller may branch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The bytes contradict the format, or one another: broken or hostile.
    Malformed,
    /// The file ends before the data it promises.
    Truncated,
    /// Valid, but we do not do it (yet): a feature bit, a format, encryption.
    Unsupported,
    /// The image refers to another file; nothing outside the image is ever opened.
    Outside,
    /// It would need more than a limit allows (virtual size, table memory).
    TooLarge,
    /// The bytes could not be read or written.
    Io,
}

/// One refused or failed thing. `Display` is one sentence without its cause; the cause is in `source()`.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    format: Format,
    what: String,
    offset: Option<u64>,
    source: Option<io::Error>,
}

impl Error {
    /// `what` names the field and its value: "l1_size is 4294967295, at most 4194304 is allowed".
    pub fn new(kind: Kind, format: Format, what: impl Into<String>) -> Self {
        Error { kind, format, what: what.into(), offset: None, source: None }
    }

    /// Where in the image file the field lies.
    pub fn at(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    /// A read of `what` that failed. An early end of file is [`Kind::Truncated`], anything else [`Kind::Io`].
    pub fn io(format: Format, what: impl Into<String>, offset: u64, source: io::Error) -> Self {
        let kind = if source.kind() == io::ErrorKind::UnexpectedEof { Kind::Truncated } else { Kind::Io };
        Error { kind, format, what: what.into(), offset: Some(offset), source: Some(source) }
    }

    /// What a caller may branch on.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The format that was being read or written.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Where in the image file, if one place is to blame.
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// Takes the cause out, for a caller that carries a richer error inside `io::Error`.
    pub fn take_source(&mut self) -> Option<io::Error> {
        self.source.take()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.format, self.what)?;
        match self.offset {
            Some(offset) => write!(f, " (at offset {offset:#x} of the image)"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e as _)
    }
}

impl From<Error> for io::Error {
    fn from(e: Error) -> io::Error {
        io::Error::other(e)
    }
}
