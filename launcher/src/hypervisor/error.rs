//! How a hypervisor fails: a kind to branch on, what was being done, and its own words.

use error_core::Core;

/// The result of a verb.
pub type Result<T> = std::result::Result<T, Error>;

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no such machine.
    NotFound,
    /// The machine is not in a state for it.
    NotNow,
    /// Somebody else has it: another machine its disk, another call the machine. Trying again may help.
    Busy,
    /// The host has no room (memory, disk).
    NoSpace,
    /// The host may not.
    Denied,
    /// The hypervisor does not know how.
    Unsupported,
    /// The description of the machine is wrong.
    Invalid,
    /// The guest's agent does not answer.
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
    /// A failure: what was being done, like `start default_web`, and why it failed.
    pub fn new(kind: ErrorKind, doing: impl AsRef<str>, why: impl AsRef<str>) -> Error {
        Error(Core::new(kind, format!("cannot {}: {}", doing.as_ref(), why.as_ref())))
    }

    /// The same failure, for a caller that knows the kind better.
    #[must_use]
    pub fn of_kind(mut self, kind: ErrorKind) -> Error {
        self.0.kind = kind;
        self
    }
}
