//! What went wrong: a small kind that callers branch on, one sentence with its context, the cause.
//!
//! The error of this package and of `container-disk` above it.

use error_core::OfIo;

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller may branch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// It was tried and failed (every mirror is down, the disk is full).
    Failed,
    /// What was asked for makes no sense.
    Usage,
    /// What came is hostile, broken or not supported; trying again will not help.
    Refused,
    /// There is no such file, image, tag or blob.
    NotFound,
    /// The server wants other credentials.
    Auth,
    /// The file is another one than when its reading began: nothing that was read of it may be gone on with.
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
    /// An error. `Display` is one sentence a person can act on, without its cause; the cause is in `source()`.
    pub struct Error(ErrorKind);
}

impl Error {
    /// Something that failed for an outside reason.
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
