//! What went wrong: a small kind that callers branch on, one sentence with its context, the cause.

use std::error::Error as Cause;
use std::fmt;
use std::io;

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller may branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// What was given cannot be used; trying again does not help.
    Refused,
    /// What is named is not there.
    NotFound,
    /// Someone else has it now.
    Busy,
    /// There is no room left on the disk.
    NoSpace,
    /// It was tried and failed.
    Failed,
}

/// An error. `Display` is one sentence a person can act on, without its cause; the cause is in `source()`.
pub struct Error {
    kind: Kind,
    what: String,
    source: Option<Box<dyn Cause + Send + Sync>>,
}

impl Error {
    /// `what` names the object (field, path, machine) and what to do about it.
    pub fn new(kind: Kind, what: impl Into<String>) -> Error {
        Error { kind, what: what.into(), source: None }
    }

    /// Input that is refused.
    pub fn refused(what: impl Into<String>) -> Error {
        Error::new(Kind::Refused, what)
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
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.what)?;
        match &self.source {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl Cause for Error {
    fn source(&self) -> Option<&(dyn Cause + 'static)> {
        self.source.as_deref().map(|cause| cause as _)
    }
}

/// An error and its causes in one line, for a place that has only one.
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
