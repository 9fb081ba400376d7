//! Errors of requests to a launcher: a small kind that callers branch on, one sentence, the refusal itself, the cause.

use crate::words;
use api::launcher::Refusal;
use error_core::{Cause, Core, Details};

/// This client's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of a failure, for callers that branch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// No process listens.
    Absent,
    /// The door did not open: [`Error::into_cause`] has the reason.
    Closed,
    /// The answer did not come in time.
    Late,
    /// The answer is larger than its limit.
    Endless,
    /// The launcher answers that the requested object is not there.
    NotFound,
    /// The launcher refuses its input; trying again does not help.
    Refused,
    /// The launcher broke off, is not understood, or could not do the requested work.
    Failed,
}

impl error_core::ErrorKind for ErrorKind {
    fn may_retry(self) -> bool {
        !matches!(self, ErrorKind::Refused | ErrorKind::Endless)
    }
}

/// The launcher's refusal, where it gave one, and its status.
#[derive(Default)]
pub struct Said {
    status: Option<u16>,
    refusal: Option<Box<Refusal>>,
}

impl Details for Said {}

error_core::bare_error! {
    /// An error. `Display` is one sentence, without its cause.
    pub struct Error(ErrorKind, Said);
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, what: impl Into<String>) -> Error {
        Error(Core::new(kind, what))
    }

    pub(crate) fn failed(what: impl Into<String>) -> Error {
        Error::new(ErrorKind::Failed, what)
    }

    /// A refusal in the launcher's own words, shortened to single lines.
    pub(crate) fn refused(kind: ErrorKind, said: Refusal) -> Error {
        let refusal = words::refusal(said);
        let mut what = refusal.error.clone();
        if refusal.faults.len() > 1 {
            what = refusal.faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        }
        if let Some(hint) = &refusal.hint {
            what = format!("{what} ({hint})");
        }
        let details = Said { status: None, refusal: Some(refusal.into()) };
        Error(Core { details, ..Core::new(kind, words::line(&what)) })
    }

    /// The same error with the status that was answered.
    pub(crate) fn of_status(mut self, status: u16) -> Error {
        self.0.details.status = Some(status);
        self
    }

    /// The launcher's refusal, where it gave one: for callers that show its faults one by one.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.0.details.refusal.as_deref()
    }

    /// The HTTP status of an answer that is not what was asked for: for callers that pass it on. Whoever is between this
    /// client and the launcher may have given it.
    pub fn status(&self) -> Option<u16> {
        self.0.details.status
    }

    /// The cause, for callers with a sentence of their own.
    pub fn into_cause(self) -> Option<Cause> {
        self.0.cause
    }
}

/// The error of an unreadable answer; the text repeats a part of it.
pub(crate) fn unread(e: &serde_json::Error) -> String {
    words::line(&e.to_string())
}
