//! Errors of the launcher: a small kind that callers branch on, one sentence with its context, the cause.

use error_core::OfIo;

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of a failure, for callers that branch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The input cannot be used; trying again does not help.
    Refused,
    /// The named object is not there.
    NotFound,
    /// Another process uses it now.
    Busy,
    /// There is no room left on the disk.
    NoSpace,
    /// An attempt failed.
    Failed,
    /// The launcher ends, and takes nothing more.
    Ending,
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
    /// An error. `Display` is one sentence for people, without its cause; the cause is in `source()`.
    pub struct Error(ErrorKind);
}

impl Error {
    /// Input that is refused.
    pub fn refused(what: impl Into<String>) -> Error {
        Error::new(ErrorKind::Refused, what)
    }
}
