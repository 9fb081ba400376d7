//! What went wrong in an image: kind, format, field, offset, cause.

use crate::Format;
use error_core::{Core, Details};
use std::fmt;
use std::io;

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller may branch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
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

impl error_core::ErrorKind for ErrorKind {
    fn may_retry(self) -> bool {
        self == ErrorKind::Io
    }
}

/// Where in which image.
pub struct Spot {
    format: Format,
    offset: Option<u64>,
}

impl Details for Spot {
    fn write(&self, sentence: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {sentence}", self.format)?;
        match self.offset {
            Some(offset) => write!(f, " (at offset {offset:#x} of the image)"),
            None => Ok(()),
        }
    }
}

error_core::bare_error! {
    /// One refused or failed thing. `Display` is one sentence without its cause; the cause is in `source()`.
    pub struct Error(ErrorKind, Spot);
}

impl Error {
    /// `what` names the field and its value: "l1_size is 4294967295, at most 4194304 is allowed".
    pub fn new(kind: ErrorKind, format: Format, what: impl Into<String>) -> Self {
        let details = Spot { format, offset: None };
        Error(Core { kind, sentence: what.into(), hint: None, details, cause: None })
    }

    /// Where in the image file the field lies.
    pub fn at(mut self, offset: u64) -> Self {
        self.0.details.offset = Some(offset);
        self
    }

    /// A read of `what` that failed. An early end of file is [`ErrorKind::Truncated`], anything else [`ErrorKind::Io`].
    pub fn io(format: Format, what: impl Into<String>, offset: u64, source: io::Error) -> Self {
        let is_short = source.kind() == io::ErrorKind::UnexpectedEof;
        let kind = if is_short { ErrorKind::Truncated } else { ErrorKind::Io };
        Error::new(kind, format, what).at(offset).because(source)
    }

    /// The format that was being read or written.
    pub fn format(&self) -> Format {
        self.0.details.format
    }

    /// Where in the image file, if one place is to blame.
    pub fn offset(&self) -> Option<u64> {
        self.0.details.offset
    }

    /// Takes the error out that a read or write failed with, for a caller that carries a richer error inside it.
    pub fn take_io(&mut self) -> Option<io::Error> {
        match self.0.cause.take()?.downcast::<io::Error>() {
            Ok(cause) => Some(*cause),
            Err(cause) => {
                self.0.cause = Some(cause);
                None
            }
        }
    }
}
