//! How a hypervisor fails: a kind to branch on, what was being done, and its own words.

use std::fmt;

/// The result of a verb.
pub type Result<T> = std::result::Result<T, Error>;

/// A verb that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What kind of failure it is.
    pub kind: Kind,
    /// What was being done, like `start default_web`.
    pub doing: String,
    /// Why not, in a sentence.
    pub why: String,
    /// What a person can do about it.
    pub hint: Option<String>,
}

/// What kind of failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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

impl Error {
    /// A failure.
    pub fn new(kind: Kind, doing: impl Into<String>, why: impl Into<String>) -> Error {
        Error { kind, doing: doing.into(), why: why.into(), hint: None }
    }

    /// The same with what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = Some(hint.into());
        self
    }

    /// Trying again may help.
    pub fn retryable(&self) -> bool {
        matches!(self.kind, Kind::Busy | Kind::NoAgent | Kind::TimedOut | Kind::Unavailable)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.doing, self.why)
    }
}

impl std::error::Error for Error {}
