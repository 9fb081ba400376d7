//! Errors of a hypervisor: a kind to branch on, the attempted verb, and the hypervisor's own message.

use error_core::Core;

pub type Result<T> = std::result::Result<T, Error>;

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The domain does not exist.
    NotFound,
    /// The domain is in the wrong state for the verb.
    NotNow,
    /// The disk is used by another VM, or the domain by another call. Another try may help.
    Busy,
    /// A disk of the host is full.
    NoSpace,
    /// The host does not have the memory.
    NoMemory,
    /// The host does not permit the verb.
    Denied,
    /// The hypervisor does not support the verb.
    Unsupported,
    /// The XML of the domain is invalid.
    Invalid,
    /// The guest agent does not answer.
    NoAgent,
    /// The verb exceeded its time limit.
    TimedOut,
    /// The hypervisor is not reachable.
    Unavailable,
    /// The domain has arrived from another launcher and was let go on, and is not there any more.
    Ended,
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
    /// A failed verb: the attempt, such as `start default_web`, and the reason.
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
