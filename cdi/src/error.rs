//! What went wrong: a small kind that callers branch on, one sentence with its context, the cause.

use container_disk::error::advice;
use std::fmt;
use std::io;

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller may branch on; the program's exit code follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It was tried and failed (a broken connection after all retries, a full disk).
    Failed,
    /// What was asked for makes no sense.
    Usage,
    /// The input is hostile, broken or not supported; trying again will not help.
    Refused,
    /// The source, or a folder on the way to the target, does not exist.
    NotFound,
    /// The server wants other credentials.
    Auth,
    /// The user stopped it.
    Interrupted,
}

/// An error. `Display` is one sentence a person can act on, without its cause; the cause is in `source()` and the
/// chain is printed once, at the edge.
pub struct Error {
    kind: Kind,
    /// What was done until now is of no use.
    spoils: bool,
    /// The disk is whole, and only its name is missing.
    whole: bool,
    what: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// `what` names the object (path, URL, field, offset) and what to do about it.
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Error { kind, spoils: false, whole: false, what: what.into(), source: None }
    }

    /// Something that failed for an outside reason.
    pub fn failed(what: impl Into<String>) -> Self {
        Error::new(Kind::Failed, what)
    }

    /// Input that is refused.
    pub fn refused(what: impl Into<String>) -> Self {
        Error::new(Kind::Refused, what)
    }

    /// The same error with its cause.
    pub fn because(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(cause.into());
        self
    }

    /// The same error with a further sentence on what to do.
    pub fn with_hint(mut self, hint: impl fmt::Display) -> Self {
        self.what = format!("{}; {hint}", self.what);
        self
    }

    /// The same error, after which nothing of this run may be gone on with: the source was replaced.
    pub(crate) fn of_another_version(mut self) -> Self {
        self.spoils = true;
        self
    }

    /// The same error, which comes when the disk is whole and durable and has not got its name: it stays where it is.
    pub(crate) fn of_a_whole_disk(mut self) -> Self {
        self.whole = true;
        self
    }

    /// Whether all that is missing is the disk's name.
    pub(crate) fn is_of_a_whole_disk(&self) -> bool {
        self.whole
    }

    /// An I/O error on `what` ("cannot read /x/y"). An error of this crate or of one below that travelled inside
    /// `io::Error` is taken out again, so the kind and the sentence survive a chain of readers.
    pub fn io(what: impl Into<String>, e: io::Error) -> Self {
        let e = match e.downcast::<Error>() {
            Ok(ours) => return ours,
            Err(e) => e,
        };
        let e = match e.downcast::<disk_format::Error>() {
            Ok(theirs) => return theirs.into(),
            Err(e) => e,
        };
        let e = match e.downcast::<container_disk::Error>() {
            Ok(theirs) => return theirs.into(),
            Err(e) => e,
        };
        let kind = match e.kind() {
            io::ErrorKind::NotFound => Kind::NotFound,
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => Kind::Refused,
            _ => Kind::Failed,
        };
        Error::new(kind, format!("{}{}", what.into(), advice(&e))).because(e)
    }

    /// Whether a later run may go on from what this one has done: neither the input nor the wish is to blame. An
    /// expired token is such a case, and so is a file that is gone for a while.
    pub(crate) fn may_go_on(&self) -> bool {
        !self.spoils && !matches!(self.kind, Kind::Refused | Kind::Usage)
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

impl From<container_disk::Error> for Error {
    fn from(e: container_disk::Error) -> Error {
        use container_disk::Kind as Theirs;
        let kind = match e.kind() {
            Theirs::Failed | Theirs::Changed => Kind::Failed,
            Theirs::Usage => Kind::Usage,
            Theirs::Refused => Kind::Refused,
            Theirs::NotFound => Kind::NotFound,
            Theirs::Auth => Kind::Auth,
        };
        let spoils = e.kind() == Theirs::Changed;
        let (what, cause) = e.into_parts();
        let error = Error { spoils, ..Error::new(kind, what) };
        match cause {
            Some(cause) => error.because(cause),
            None => error,
        }
    }
}

impl From<disk_format::Error> for Error {
    fn from(mut e: disk_format::Error) -> Error {
        // A read that failed for a reason of ours (a lost connection, a changed file) is that reason.
        let cause = match e.take_source().map(io::Error::downcast::<Error>) {
            Some(Ok(ours)) => return ours,
            Some(Err(cause)) => Some(cause),
            None => None,
        };
        let cause = match cause.map(io::Error::downcast::<container_disk::Error>) {
            Some(Ok(theirs)) => return theirs.into(),
            Some(Err(cause)) => Some(cause),
            None => None,
        };
        let kind = if e.kind() == disk_format::Kind::Io { Kind::Failed } else { Kind::Refused };
        let error = Error::new(kind, e.to_string());
        let error = match e.kind() {
            disk_format::Kind::TooLarge => error.with_hint("a larger one is allowed by --max-size"),
            _ => error,
        };
        match cause {
            Some(cause) => error.because(cause),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A parser that could not read its source says why it could not, whoever the source was.
    #[test]
    fn the_reason_of_a_source_comes_through_a_parser() {
        let through = |e: io::Error| {
            Error::from(disk_format::Error::io(disk_format::Format::Qcow2, "cannot read the header", 0, e))
        };
        let denied = through(container_disk::Error::new(container_disk::Kind::Auth, "log in").into());
        assert_eq!((denied.kind(), denied.to_string().as_str()), (Kind::Auth, "log in"));
        let changed = container_disk::Error::new(container_disk::Kind::Changed, "it changed");
        let changed = through(changed.into());
        assert_eq!((changed.kind(), changed.may_go_on()), (Kind::Failed, false));
        assert!(through(Error::failed("broken").into()).may_go_on());
    }
}
