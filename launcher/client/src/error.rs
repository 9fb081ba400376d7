//! What went wrong with a launcher: a small kind that callers branch on, one sentence, the refusal itself, the cause.

use crate::connect::Cause;
use crate::words;
use api::launcher::Refusal;
use std::fmt;

/// This client's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller may branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Nobody listens.
    Absent,
    /// The door did not open: [`Error::into_cause`] says why.
    Closed,
    /// What was waited for did not come in its time.
    Late,
    /// The launcher says more than is read.
    Endless,
    /// The launcher answers that what was asked for is not there.
    NotFound,
    /// The launcher refuses what it was given; trying again does not help.
    Refused,
    /// The launcher broke off, is not understood, or could not do what was asked.
    Failed,
}

/// An error. `Display` is one sentence, without its cause.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    what: String,
    refusal: Option<Box<Refusal>>,
    cause: Option<Cause>,
}

impl Error {
    pub(crate) fn new(kind: Kind, what: impl Into<String>) -> Error {
        Error { kind, what: what.into(), refusal: None, cause: None }
    }

    pub(crate) fn failed(what: impl Into<String>) -> Error {
        Error::new(Kind::Failed, what)
    }

    pub(crate) fn because(mut self, cause: impl Into<Cause>) -> Error {
        self.cause = Some(cause.into());
        self
    }

    /// A refusal in the launcher's own words, which are made short lines here.
    pub(crate) fn refused(kind: Kind, said: Refusal) -> Error {
        let refusal = words::refusal(said);
        let mut what = refusal.error.clone();
        if refusal.faults.len() > 1 {
            what = refusal.faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        }
        if let Some(hint) = &refusal.hint {
            what = format!("{what} ({hint})");
        }
        Error { refusal: Some(refusal.into()), ..Error::new(kind, words::line(&what)) }
    }

    /// What a caller may branch on.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The launcher's refusal, where it gave one: for whoever shows its faults one by one.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_deref()
    }

    /// Why, for an error that is told in a caller's own words.
    pub fn into_cause(self) -> Option<Cause> {
        self.cause
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

/// Why a launcher's words could not be read; it repeats some of them.
pub(crate) fn unread(e: &serde_json::Error) -> String {
    words::line(&e.to_string())
}
