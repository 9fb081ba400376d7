//! Errors in images: kind, format, field, offset, cause.

use crate::Format;
use error_core::{Core, Details};
use std::fmt;
use std::io;

/// Result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kind of an error, for callers that treat kinds differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The bytes contradict the format or one another: the image is broken or hostile.
    Malformed,
    /// The file ends before its data does.
    Truncated,
    /// The image is valid, but uses an unsupported feature, format or encryption.
    Unsupported,
    /// The image refers to another file. Files outside of the image are never opened.
    Outside,
    /// The image exceeds a limit (virtual size, table memory).
    TooLarge,
    /// The bytes could not be read or written.
    Io,
}

impl error_core::ErrorKind for ErrorKind {
    fn may_retry(self) -> bool {
        self == ErrorKind::Io
    }
}

/// Format of the image, and the offset of the error.
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
    /// An error in an image. `Display` is one sentence without the cause; the cause is in `source()`.
    pub struct Error(ErrorKind, Spot);
}

impl Error {
    /// An error. `what` names the field and its value: "l1_size is 4294967295, at most 4194304 is allowed".
    pub fn new(kind: ErrorKind, format: Format, what: impl Into<String>) -> Self {
        let details = Spot { format, offset: None };
        Error(Core { kind, sentence: what.into(), hint: None, details, cause: None })
    }

    /// Sets the offset of the field in the image file.
    pub fn at(mut self, offset: u64) -> Self {
        self.0.details.offset = Some(offset);
        self
    }

    /// A failed read of `what`. An early end of the file is [`ErrorKind::Truncated`], anything else
    /// [`ErrorKind::Io`].
    pub fn io(format: Format, what: impl Into<String>, offset: u64, source: io::Error) -> Self {
        let is_short = source.kind() == io::ErrorKind::UnexpectedEof;
        let kind = if is_short { ErrorKind::Truncated } else { ErrorKind::Io };
        Error::new(kind, format, what).at(offset).because(source)
    }

    /// The format that was being read or written.
    pub fn format(&self) -> Format {
        self.0.details.format
    }

    /// The offset in the image file, if the error belongs to one place.
    pub fn offset(&self) -> Option<u64> {
        self.0.details.offset
    }

    /// Removes and returns the I/O error of a failed read or write, for a caller that wraps a richer error in
    /// it.
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
