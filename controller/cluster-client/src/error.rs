//! Errors of requests to the API server.

use cluster_model::objects::Key;
use cluster_model::webhook_paths::redacted;
use error_core::{Cause, Core};
use std::fmt;
use std::time::Duration;

/// Result with this module's error.
pub type Result<T> = std::result::Result<T, Error>;

/// Kind of an error, by the caller's possible reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The decision was made on an outdated object: decide again.
    Conflict,
    /// The object exists already.
    Exists,
    /// The object does not exist.
    Gone,
    /// The server has forgotten the version that was asked for: list again.
    Expired,
    /// The server refuses the request: the same request would fail again.
    Refused,
    /// The server could not be reached or could not answer: retry.
    Unreachable,
    /// The environment is wrong: an address, a file, a setting.
    Setup,
}

impl error_core::ErrorKind for ErrorKind {
    fn may_retry(self) -> bool {
        matches!(self, ErrorKind::Conflict | ErrorKind::Expired | ErrorKind::Unreachable)
    }
}

error_core::bare_error! {
    /// Error of a request, with the object that it was about.
    pub struct Error(ErrorKind);
}

impl Error {
    /// An error without a cause.
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Error {
        Error(Core::new(kind, what))
    }

    /// An error of the environment.
    pub fn setup(what: impl Into<String>, cause: impl Into<Cause>) -> Error {
        Error::new(ErrorKind::Setup, what).because(cause)
    }

    /// The error of the client for a request about an object.
    pub fn of_client(doing: &str, key: &Key, error: kube::Error) -> Error {
        let kind = match &error {
            kube::Error::Api(status) => match (status.code, status.reason.as_str()) {
                (409, "AlreadyExists") => ErrorKind::Exists,
                (409, _) => ErrorKind::Conflict,
                (404, _) => ErrorKind::Gone,
                (410, _) => ErrorKind::Expired,
                (429, _) | (500.., _) => ErrorKind::Unreachable,
                _ => ErrorKind::Refused,
            },
            _ => ErrorKind::Unreachable,
        };
        // The server's message is what a user can act on. The rest of its status is left out.
        let said = match &error {
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        };
        // The server repeats the whole path of a failed webhook, and this text goes to logs, conditions and
        // events.
        let said = redacted(&said);
        let ours = Error(Core::new(kind, format!("cannot {doing} {key}: {said}")));
        match error {
            kube::Error::Api(_) => ours,
            other => ours.because(other),
        }
    }

    /// True if the request was never sent to the API server.
    pub(super) fn is_unsent(&self) -> bool {
        let cause = std::error::Error::source(self).and_then(|cause| cause.downcast_ref());
        matches!(cause, Some(kube::Error::Service(cause)) if cause.is::<RateLimited>())
    }
}

/// Error of a request that was not sent, because the rate limiter did not admit it within this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimited(pub Duration);

impl fmt::Display for RateLimited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "too many requests to the API server wait: the rate limiter of the KubeVirt object (restClient.rateLimiter) lets none \
             through within {} seconds; try again, or raise its qps",
            self.0.as_secs()
        )
    }
}

impl std::error::Error for RateLimited {}
