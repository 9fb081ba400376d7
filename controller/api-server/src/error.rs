//! What can go wrong between us and the API server.

use kubernetes::objects::Key;

/// A result of ours.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, and at what.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct Error {
    kind: Kind,
    what: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What a caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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

impl Error {
    /// An error without a cause.
    pub fn new(kind: Kind, what: impl Into<String>) -> Error {
        Error { kind, what: what.into(), source: None }
    }

    /// An error of the surroundings.
    pub fn setup(
        what: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        Error { kind: Kind::Setup, what: what.into(), source: Some(source.into()) }
    }

    /// What the client says about an object.
    pub fn of_client(doing: &str, key: &Key, error: kube::Error) -> Error {
        let kind = match &error {
            kube::Error::Api(status) => match (status.code, status.reason.as_str()) {
                (409, "AlreadyExists") => Kind::Exists,
                (409, _) => Kind::Conflict,
                (404 | 410, _) => Kind::Gone,
                (429, _) | (500.., _) => Kind::Unreachable,
                _ => Kind::Refused,
            },
            _ => Kind::Unreachable,
        };
        // The server's own sentence is what a person can act on; the rest of its status is noise.
        let said = match &error {
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        };
        let source: Option<Box<dyn std::error::Error + Send + Sync>> = match error {
            kube::Error::Api(_) => None,
            other => Some(Box::new(other)),
        };
        Error { kind, what: format!("cannot {doing} {key}: {said}"), source }
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

/// An error with its causes, as one sentence.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        next = cause.source();
    }
    text
}
