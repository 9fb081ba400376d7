//! What went wrong on a node: a small kind that callers branch on, one sentence with its context, the cause.

use error_core::OfIo;

/// virt-handler's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller may branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// What was given cannot be used; trying again does not help.
    Refused,
    /// What is named is not there, or not there yet.
    NotFound,
    /// There is no room left.
    NoSpace,
    /// It was tried and failed; it is tried again.
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
    /// An error. `Display` is one sentence a person can act on, without its cause; the cause is in `source()`.
    pub struct Error(ErrorKind);
}

impl Error {
    /// Input that is refused.
    pub fn refused(what: impl Into<String>) -> Error {
        Error::new(ErrorKind::Refused, what)
    }

    /// Something that did not work this time.
    pub fn failed(what: impl Into<String>) -> Error {
        Error::new(ErrorKind::Failed, what)
    }
}
