//! Errors of virt-handler: a small kind that callers branch on, one sentence with its context, and the cause.

use error_core::OfIo;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kind of an error, for callers that branch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The input cannot be used; a retry does not help.
    Refused,
    /// The object does not exist (yet).
    NotFound,
    /// No space is left on the file system.
    NoSpace,
    /// The operation failed; it is retried.
    Failed,
}

impl error_core::ErrorKind for ErrorKind {
    fn may_retry(self) -> bool {
        self != ErrorKind::Refused
    }
}

impl OfIo for ErrorKind {
    const FAILED: ErrorKind = ErrorKind::Failed;
    const NOT_FOUND: ErrorKind = ErrorKind::NotFound;
    const NO_SPACE: ErrorKind = ErrorKind::NoSpace;
}

error_core::error! {
    /// An error of virt-handler. `Display` is one sentence that a person can act on, without the cause; the
    /// cause is in `source()`.
    pub struct Error(ErrorKind);
}

impl Error {
    /// An error of the kind `Refused`.
    pub fn refused(what: impl Into<String>) -> Error {
        Error::new(ErrorKind::Refused, what)
    }

    /// An error of the kind `Failed`.
    pub fn failed(what: impl Into<String>) -> Error {
        Error::new(ErrorKind::Failed, what)
    }
}
