//! Errors of a hypervisor: a kind to branch on, the attempted work, and the hypervisor's own words.

use error_core::Core;

/// The result of a verb.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no such domain.
    NotFound,
    /// The domain is not in a state for it.
    NotNow,
    /// Another user is in the way: another VM of the disk, another call of the domain. Trying again may help.
    Busy,
    /// The host has no room (memory, disk).
    NoSpace,
    /// The host does not permit it.
    Denied,
    /// The hypervisor does not support it.
    Unsupported,
    /// The XML of the domain is wrong.
    Invalid,
    /// The guest agent does not answer.
    NoAgent,
    /// It took too long.
    TimedOut,
    /// The hypervisor itself cannot be reached.
    Unavailable,
    /// Anything else.
    Failed,
}

impl error_core::ErrorKind for ErrorKind {
    fn may_retry(self) -> bool {
        matches!(self, ErrorKind::Busy | ErrorKind::NoAgent | ErrorKind::TimedOut | ErrorKind::Unavailable)
    }
}

error_core::bare_error! {
    /// A verb that failed.
    pub struct Error(ErrorKind);
}

impl Error {
    /// A failure: the attempted work, like `start default_web`, and the reason.
    pub fn new(kind: ErrorKind, doing: impl AsRef<str>, why: impl AsRef<str>) -> Error {
        Error(Core::new(kind, format!("cannot {}: {}", doing.as_ref(), why.as_ref())))
    }

    /// The same failure with another kind.
    #[must_use]
    pub fn of_kind(mut self, kind: ErrorKind) -> Error {
        self.0.kind = kind;
        self
    }
}
