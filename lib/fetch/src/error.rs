//! The error of a fetch: a kind that callers branch on, one sentence with its context, and the cause.
//!
//! It is the error of this package and of `container-disk` above it.

use error_core::OfIo;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kinds of errors that a caller may branch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The operation was tried and failed (every mirror is down, the disk is full).
    Failed,
    /// The request makes no sense.
    Usage,
    /// The received bytes are hostile, broken or not supported; trying again will not help.
    Refused,
    /// The file, image, tag or blob does not exist.
    NotFound,
    /// The server demands other credentials.
    Auth,
    /// The file has changed since its reading began: a transfer must not go on from the bytes read so far.
    Changed,
}

impl error_core::ErrorKind for ErrorKind {
    fn may_retry(self) -> bool {
        !matches!(self, ErrorKind::Usage | ErrorKind::Refused | ErrorKind::Changed)
    }
}

impl OfIo for ErrorKind {
    const FAILED: ErrorKind = ErrorKind::Failed;
    const NOT_FOUND: ErrorKind = ErrorKind::NotFound;
    const MALFORMED: ErrorKind = ErrorKind::Refused;
    const NEVER: ErrorKind = ErrorKind::Refused;
}

error_core::error! {
    /// An error. `Display` is one sentence a person can act on, without its cause; the cause is in
    /// `source()`.
    pub struct Error(ErrorKind);
}

impl Error {
    /// An operation that failed for an outside reason.
    pub fn failed(what: impl Into<String>) -> Self {
        Error::new(ErrorKind::Failed, what)
    }

    /// Input that is refused.
    pub fn refused(what: impl Into<String>) -> Self {
        Error::new(ErrorKind::Refused, what)
    }

    /// A request that makes no sense.
    pub fn usage(what: impl Into<String>) -> Self {
        Error::new(ErrorKind::Usage, what)
    }
}
