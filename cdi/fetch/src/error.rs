//! What went wrong: a small kind that callers branch on, one sentence with its context, the cause.
//!
//! The error of this package and of `container-disk` above it.

use std::fmt;
use std::io;

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller may branch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It was tried and failed (every mirror is down, the disk is full).
    Failed,
    /// What was asked for makes no sense.
    Usage,
    /// What came is hostile, broken or not supported; trying again will not help.
    Refused,
    /// There is no such file, image, tag or blob.
    NotFound,
    /// The server wants other credentials.
    Auth,
    /// The file is another one than when its reading began: nothing that was read of it may be gone on with.
    Changed,
}

/// An error. `Display` is one sentence a person can act on, without its cause; the cause is in `source()`.
pub struct Error {
    kind: Kind,
    what: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// `what` names the object (image, blob, path, field) and what to do about it.
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Error { kind, what: what.into(), source: None }
    }

    /// Something that failed for an outside reason.
    pub fn failed(what: impl Into<String>) -> Self {
        Error::new(Kind::Failed, what)
    }

    /// Input that is refused.
    pub fn refused(what: impl Into<String>) -> Self {
        Error::new(Kind::Refused, what)
    }

    /// A wish that makes no sense.
    pub fn usage(what: impl Into<String>) -> Self {
        Error::new(Kind::Usage, what)
    }

    /// The same error with its cause.
    pub fn because(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(cause.into());
        self
    }

    /// An I/O error on `what` ("cannot read /x/y"). An error of ours that travelled inside `io::Error` is taken out
    /// again, so the kind and the sentence survive a chain of readers.
    pub fn io(what: impl Into<String>, e: io::Error) -> Self {
        let e = match e.downcast::<Error>() {
            Ok(ours) => return ours,
            Err(e) => e,
        };
        let kind = match e.kind() {
            io::ErrorKind::NotFound => Kind::NotFound,
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => Kind::Refused,
            _ => Kind::Failed,
        };
        Error::new(kind, format!("{}{}", what.into(), advice(&e))).because(e)
    }

    /// The sentence and the cause, for a caller with an error of its own.
    pub fn into_parts(self) -> (String, Option<Box<dyn std::error::Error + Send + Sync>>) {
        (self.what, self.source)
    }

    /// What a caller may branch on.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

/// What a person can do about an error of the system, as the end of a sentence; empty where its name says enough.
pub fn advice(e: &io::Error) -> &'static str {
    match e.kind() {
        io::ErrorKind::StorageFull => ": its file system is full; make room there or choose another place",
        io::ErrorKind::QuotaExceeded => {
            ": this user's quota there is used up; make room or choose another place"
        }
        _ => "",
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
            Some(cause) => write!(f, ": {cause:?}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}

impl From<Error> for io::Error {
    fn from(e: Error) -> io::Error {
        io::Error::other(e)
    }
}
