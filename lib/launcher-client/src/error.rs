//! Errors of requests to a launcher: kind, message, refusal of the launcher, cause.

use crate::sanitize;
use api::launcher::Refusal;
use error_core::{Cause, Core, Details};

/// Result type of this package.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of a failure, for callers that branch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// No process listens on the socket.
    NotListening,
    /// The connection failed; [`Error::into_cause`] has the reason.
    Unreachable,
    /// The answer exceeded its time limit.
    TimedOut,
    /// The answer exceeded its size limit.
    TooLarge,
    /// The launcher answered that the requested object does not exist.
    NotFound,
    /// The launcher refused the request; a retry does not help.
    Refused,
    /// The connection broke, the answer was not understood, or the launcher failed in the work.
    Failed,
}

impl error_core::ErrorKind for ErrorKind {
    fn may_retry(self) -> bool {
        !matches!(self, ErrorKind::Refused | ErrorKind::TooLarge)
    }
}

/// Refusal of the launcher, if it sent one, and HTTP status.
#[derive(Default)]
pub struct ErrorDetails {
    status: Option<u16>,
    refusal: Option<Box<Refusal>>,
}

impl Details for ErrorDetails {}

error_core::bare_error! {
    /// An error. `Display` is one sentence, without its cause.
    pub struct Error(ErrorKind, ErrorDetails);
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, what: impl Into<String>) -> Error {
        Error(Core::new(kind, what))
    }

    pub(crate) fn failed(what: impl Into<String>) -> Error {
        Error::new(ErrorKind::Failed, what)
    }

    /// An error with the launcher's refusal, shortened to single lines.
    pub(crate) fn refused(kind: ErrorKind, said: Refusal) -> Error {
        let refusal = sanitize::refusal(said);
        let mut what = refusal.error.clone();
        if refusal.faults.len() > 1 {
            what = refusal.faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        }
        if let Some(hint) = &refusal.hint {
            what = format!("{what} ({hint})");
        }
        let details = ErrorDetails { status: None, refusal: Some(refusal.into()) };
        Error(Core { details, ..Core::new(kind, sanitize::line(&what)) })
    }

    /// The same error with the status that was answered.
    pub(crate) fn of_status(mut self, status: u16) -> Error {
        self.0.details.status = Some(status);
        self
    }

    /// The launcher's refusal, if it sent one, for callers that show its faults one by one.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.0.details.refusal.as_deref()
    }

    /// HTTP status of a failed request, for callers that pass it on. A proxy between client and launcher may
    /// have sent it.
    pub fn status(&self) -> Option<u16> {
        self.0.details.status
    }

    /// The cause, for callers with a message of their own.
    pub fn into_cause(self) -> Option<Cause> {
        self.0.cause
    }
}

/// Text of a parse error, which quotes a part of the answer.
pub(crate) fn unread(e: &serde_json::Error) -> String {
    sanitize::line(&e.to_string())
}
