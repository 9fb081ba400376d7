//! The error of this package: a kind that callers branch on, one sentence with its context, and the cause.

use error_core::{Core, OfIo};
use serde::{Deserialize, Serialize};

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kinds of errors that a caller may branch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorKind {
    /// The operation was tried and failed.
    Failed,
    /// The request makes no sense.
    Usage,
    /// The manifest, the disk or the image is hostile, broken or not supported.
    Refused,
    /// The named file, image or VM does not exist.
    NotFound,
    /// The server demands other credentials.
    Auth,
    /// The user stopped the work.
    Interrupted,
}

impl error_core::ErrorKind for ErrorKind {
    /// True also for an expired token, and for a file that is gone for a while.
    fn may_retry(self) -> bool {
        !matches!(self, ErrorKind::Refused | ErrorKind::Usage)
    }
}

impl OfIo for ErrorKind {
    const FAILED: ErrorKind = ErrorKind::Failed;
    const NOT_FOUND: ErrorKind = ErrorKind::NotFound;
    const MALFORMED: ErrorKind = ErrorKind::Refused;
    const NEVER: ErrorKind = ErrorKind::Refused;
}

error_core::error! {
    /// An error. `Display` is one sentence a person can act on, without its cause.
    pub struct Error(ErrorKind) from io: cdi::Error, container_disk::Error;
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
}

impl From<cdi::Error> for Error {
    fn from(e: cdi::Error) -> Error {
        let kind = match e.kind() {
            cdi::ErrorKind::Failed => ErrorKind::Failed,
            cdi::ErrorKind::Usage => ErrorKind::Usage,
            cdi::ErrorKind::Refused => ErrorKind::Refused,
            cdi::ErrorKind::NotFound => ErrorKind::NotFound,
            cdi::ErrorKind::Auth => ErrorKind::Auth,
            cdi::ErrorKind::Interrupted => ErrorKind::Interrupted,
        };
        let Core { sentence, hint, cause, .. } = e.into_core();
        Error(Core { kind, sentence, hint, details: (), cause })
    }
}

impl From<container_disk::Error> for Error {
    fn from(e: container_disk::Error) -> Error {
        let kind = match e.kind() {
            container_disk::ErrorKind::Failed | container_disk::ErrorKind::Changed => ErrorKind::Failed,
            container_disk::ErrorKind::Usage => ErrorKind::Usage,
            container_disk::ErrorKind::Refused => ErrorKind::Refused,
            container_disk::ErrorKind::NotFound => ErrorKind::NotFound,
            container_disk::ErrorKind::Auth => ErrorKind::Auth,
        };
        let Core { sentence, hint, cause, .. } = e.into_core();
        Error(Core { kind, sentence, hint, details: (), cause })
    }
}
