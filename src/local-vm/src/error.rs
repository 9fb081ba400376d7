//! The error of this package: a kind that callers branch on, one sentence with its context, and the cause.

pub use cdi::ErrorKind;
use error_core::Core;

pub type Result<T, E = Error> = std::result::Result<T, E>;

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

impl From<Core<ErrorKind>> for Error {
    fn from(core: Core<ErrorKind>) -> Error {
        Error(core)
    }
}

impl From<cdi::Error> for Error {
    fn from(e: cdi::Error) -> Error {
        Error(e.into_core().with_details(()))
    }
}

impl From<container_disk::Error> for Error {
    fn from(e: container_disk::Error) -> Error {
        cdi::Error::from(e).into()
    }
}
