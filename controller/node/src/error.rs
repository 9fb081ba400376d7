//! What went wrong on a node: a small kind that callers branch on, one sentence with its context, the cause.

use std::error::Error as Cause;
use std::fmt;
use std::io;

/// The node agent's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller may branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// What was given cannot be used; trying again does not help.
    Refused,
    /// What is named is not there, or not there yet.
    NotFound,
    /// There is no room left.
    NoSpace,
    /// It was tried and failed; it is tried again.
    Failed,
}

/// An error. `Display` is one sentence a person can act on, without its cause; the cause is in `source()`.
pub struct Error {
    kind: Kind,
    what: String,
    source: Option<Box<dyn Cause + Send + Sync>>,
}

impl Error {
    /// `what` names the object (field, path, pod) and what to do about it.
    pub fn new(kind: Kind, what: impl Into<String>) -> Error {
        Error { kind, what: what.into(), source: None }
    }

    /// Input that is refused.
    pub fn refused(what: impl Into<String>) -> Error {
        Error::new(Kind::Refused, what)
    }

    /// Something that did not work this time.
    pub fn failed(what: impl Into<String>) -> Error {
        Error::new(Kind::Failed, what)
    }

    /// An I/O error on `what` ("cannot read /x/y").
    pub fn io(what: impl Into<String>, cause: impl Into<io::Error>) -> Error {
        let cause = cause.into();
        let kind = match cause.kind() {
            io::ErrorKind::NotFound => Kind::NotFound,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Kind::NoSpace,
            _ => Kind::Failed,
        };
        Error::new(kind, what).because(cause)
    }

    /// The same error with its cause.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn Cause + Send + Sync>>) -> Error {
        self.source = Some(cause.into());
        self
    }

    /// What a caller may branch on.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The error and its causes in one line, for a condition or an event.
    pub fn chain(&self) -> String {
        chain(self)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.chain())
    }
}

impl Cause for Error {
    fn source(&self) -> Option<&(dyn Cause + 'static)> {
        self.source.as_deref().map(|cause| cause as _)
    }
}

/// An error and its causes in one line.
pub fn chain(error: &(dyn Cause + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        next = cause.source();
    }
    text
}
