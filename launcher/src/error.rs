//! Errors of the launcher: a kind that callers branch on, one sentence with its context, and the cause.

use error_core::OfIo;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of a failure, for callers that branch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The input cannot be used; another try does not help.
    Refused,
    /// The named object does not exist.
    NotFound,
    /// The object is used by another process now.
    Busy,
    /// The disk has no space left.
    NoSpace,
    /// The operation failed; another attempt may succeed.
    Failed,
    /// The launcher is ending, and accepts no more requests.
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
    /// An error. `Display` is one sentence for users, without its cause; the cause is in `source()`.
    pub struct Error(ErrorKind);
}

impl Error {
    /// An error of refused input.
    pub fn refused(what: impl Into<String>) -> Error {
        Error::new(ErrorKind::Refused, what)
    }
}
