//! What can go wrong between us and the API server.

use cluster_model::objects::Key;
use cluster_model::webhook_paths::redacted;
use error_core::{Cause, Core};
use std::fmt;
use std::time::Duration;

/// A result of ours.
pub type Result<T> = std::result::Result<T, Error>;

/// What a caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// It was decided on an old picture: look again.
    Conflict,
    /// It is there already.
    Exists,
    /// It is not there.
    Gone,
    /// The server will not have it: trying the same again does not help.
    Refused,
    /// The server could not be asked, or could not answer: try again.
    Unreachable,
    /// The surroundings are wrong: an address, a file, a setting.
    Setup,
}

impl error_core::ErrorKind for ErrorKind {
    fn may_retry(self) -> bool {
        matches!(self, ErrorKind::Conflict | ErrorKind::Unreachable)
    }
}

error_core::bare_error! {
    /// What went wrong, and at what.
    pub struct Error(ErrorKind);
}

impl Error {
    /// An error without a cause.
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Error {
        Error(Core::new(kind, what))
    }

    /// An error of the surroundings.
    pub fn setup(what: impl Into<String>, cause: impl Into<Cause>) -> Error {
        Error::new(ErrorKind::Setup, what).because(cause)
    }

    /// What the client says about an object.
    pub fn of_client(doing: &str, key: &Key, error: kube::Error) -> Error {
        let kind = match &error {
            kube::Error::Api(status) => match (status.code, status.reason.as_str()) {
                (409, "AlreadyExists") => ErrorKind::Exists,
                (409, _) => ErrorKind::Conflict,
                (404 | 410, _) => ErrorKind::Gone,
                (429, _) | (500.., _) => ErrorKind::Unreachable,
                _ => ErrorKind::Refused,
            },
            _ => ErrorKind::Unreachable,
        };
        // The server's own sentence is what a person can act on; the rest of its status is noise.
        let said = match &error {
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        };
        // It repeats the whole path of a webhook that did not answer, and what is said here comes into logs, conditions and events.
        let said = redacted(&said);
        let ours = Error(Core::new(kind, format!("cannot {doing} {key}: {said}")));
        match error {
            kube::Error::Api(_) => ours,
            other => ours.because(other),
        }
    }

    /// The request was never sent: the API server knows nothing of it.
    pub(super) fn is_unsent(&self) -> bool {
        let cause = std::error::Error::source(self).and_then(|cause| cause.downcast_ref());
        matches!(cause, Some(kube::Error::Service(cause)) if cause.is::<Late>())
    }
}

/// The turn of a request did not come within this time: it was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late(pub Duration);

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "too many requests to the API server wait: the rate limiter of the KubeVirt object (restClient.rateLimiter) lets none \
             through within {} seconds; try again, or raise its qps",
            self.0.as_secs()
        )
    }
}

impl std::error::Error for Late {}
