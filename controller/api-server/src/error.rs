//! What can go wrong between us and the API server.

use error_core::{Cause, Core};
use kubernetes::objects::Key;

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
        let ours = Error(Core::new(kind, format!("cannot {doing} {key}: {said}")));
        match error {
            kube::Error::Api(_) => ours,
            other => ours.because(other),
        }
    }
}
