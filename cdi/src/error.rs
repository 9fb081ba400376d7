//! The error of the engine: a kind that callers branch on, one sentence with its context, and the cause.

use error_core::{Core, Details, OfIo};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kinds of errors that a caller may branch on; the program's exit code follows the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorKind {
    /// The operation was tried and failed (a broken connection after all retries, a full disk).
    Failed,
    /// The request makes no sense.
    Usage,
    /// The input is hostile, broken or not supported; trying again will not help.
    Refused,
    /// The source, or a folder on the way to the target, does not exist.
    NotFound,
    /// The server demands other credentials.
    Auth,
    /// The user stopped the run.
    Interrupted,
}

impl error_core::ErrorKind for ErrorKind {
    /// True also for an expired token, and for a file that is gone for a while.
    fn may_retry(self) -> bool {
        !matches!(self, ErrorKind::Refused | ErrorKind::Usage)
    }
}

impl OfIo for ErrorKind {
    const FAILED: ErrorKind = ErrorKind::Failed;
    const NOT_FOUND: ErrorKind = ErrorKind::NotFound;
    const MALFORMED: ErrorKind = ErrorKind::Refused;
    const NEVER: ErrorKind = ErrorKind::Refused;
}

/// Structured data of an error, for callers with messages of their own: the user of a DataVolume has no
/// command line flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    /// The disk is larger than its target may be.
    TooLarge {
        /// Bytes of the disk.
        disk: u64,
        /// Bytes that the target may have.
        room: u64,
    },
    /// The disk has bytes behind the end of its target. If `size` differs from the size in the disk's own
    /// header, the disk is larger than the target.
    Behind {
        /// Bytes of the target.
        size: u64,
    },
    /// The files of an archive are larger than the folder may become.
    Files {
        /// The file that exceeds the limit.
        name: String,
        /// Bytes of the files up to that one.
        bytes: u64,
        /// Limit of the folder, in bytes.
        room: u64,
    },
    /// The bound on memory is too low; the number of bytes that would suffice.
    Memory(u64),
    /// The source does not have the expected checksum.
    Checksum,
    /// The process may not open this file or device.
    Denied(PathBuf),
}

/// Package-specific data of an error.
#[derive(Default)]
pub struct ErrorDetails {
    detail: Option<Detail>,
    /// True if the sentence is about the source's bytes and does not name the source.
    is_nameless: bool,
    /// True if the bytes written so far are of no use.
    is_spoilt: bool,
    /// True if the disk is complete, and only the rename to its name is missing.
    is_whole: bool,
}

impl Details for ErrorDetails {}

error_core::error! {
    /// An error. `Display` is one sentence a person can act on, without its cause. The cause is in
    /// `source()`; the program's entry point prints the chain, once.
    pub struct Error(ErrorKind, ErrorDetails) from io: disk_format::Error, container_disk::Error;
}

impl Error {
    /// An operation that failed for an outside reason.
    pub fn failed(what: impl Into<String>) -> Self {
        Error::new(ErrorKind::Failed, what)
    }

    /// Input that is refused.
    pub fn refused(what: impl Into<String>) -> Self {
        Error::new(ErrorKind::Refused, what)
    }

    /// An error about the bytes of a source, by a reader that does not know the source's name: [`Error::of`]
    /// adds that.
    pub(crate) fn of_bytes(what: impl Into<String>) -> Self {
        Error::refused(what).nameless()
    }

    /// A failed read of the source. An error of the source itself, which travelled inside, names it already.
    pub(crate) fn reading(what: impl Into<String>, cause: io::Error) -> Self {
        let is_told = cause.get_ref().is_some_and(|e| e.is::<Error>() || e.is::<container_disk::Error>());
        let error = Error::io(what, cause);
        if is_told { error } else { error.nameless() }
    }

    /// The same error with structured data.
    pub fn with_detail(mut self, detail: Detail) -> Self {
        self.0.details.detail = Some(detail);
        self
    }

    /// Structured data, for callers with messages of their own.
    pub fn detail(&self) -> Option<&Detail> {
        self.0.details.detail.as_ref()
    }

    pub(crate) fn nameless(mut self) -> Self {
        self.0.details.is_nameless = true;
        self
    }

    /// The same error with this name before its sentence, if it does not name the source yet.
    pub(crate) fn of(mut self, name: &str) -> Self {
        if std::mem::take(&mut self.0.details.is_nameless) {
            self.0.sentence = format!("{name}: {}", self.0.sentence);
        }
        self
    }

    /// The same error with an addition to its sentence.
    pub(crate) fn and(mut self, what: &str) -> Self {
        self.0.sentence = format!("{}; {what}", self.0.sentence);
        self
    }

    /// The same error; no later run may continue this one, since the source was replaced.
    pub(crate) fn of_another_version(mut self) -> Self {
        self.0.details.is_spoilt = true;
        self
    }

    /// The same error; no later run may continue this one, since written bytes were lost.
    pub(crate) fn of_lost_data(mut self) -> Self {
        self.0.details.is_spoilt = true;
        self
    }

    /// The same error; the disk is complete and durable, but the rename failed, so it stays where it is.
    pub(crate) fn of_a_whole_disk(mut self) -> Self {
        self.0.details.is_whole = true;
        self
    }

    /// True if only the rename to the disk's name is missing.
    pub(crate) fn is_of_a_whole_disk(&self) -> bool {
        self.0.details.is_whole
    }

    /// True if a later run may continue this one: neither the input nor the request is to blame.
    pub(crate) fn may_go_on(&self) -> bool {
        !self.0.details.is_spoilt && self.may_retry()
    }
}

impl From<container_disk::Error> for Error {
    fn from(e: container_disk::Error) -> Error {
        use container_disk::ErrorKind as Theirs;
        let kind = match e.kind() {
            Theirs::Failed | Theirs::Changed => ErrorKind::Failed,
            Theirs::Usage => ErrorKind::Usage,
            Theirs::Refused => ErrorKind::Refused,
            Theirs::NotFound => ErrorKind::NotFound,
            Theirs::Auth => ErrorKind::Auth,
        };
        let is_spoilt = e.kind() == Theirs::Changed;
        let Core { sentence, hint, cause, .. } = e.into_core();
        Error(Core {
            kind,
            sentence,
            hint,
            details: ErrorDetails { is_spoilt, ..ErrorDetails::default() },
            cause,
        })
    }
}

impl From<disk_format::Error> for Error {
    fn from(mut e: disk_format::Error) -> Error {
        // A read that failed for a reason of this package (a lost connection, a changed file) has that reason
        // as its error.
        let cause = match e.take_io().map(io::Error::downcast::<Error>) {
            Some(Ok(ours)) => return ours,
            Some(Err(cause)) => Some(cause),
            None => None,
        };
        let cause = match cause.map(io::Error::downcast::<container_disk::Error>) {
            Some(Ok(theirs)) => return theirs.into(),
            Some(Err(cause)) => Some(cause),
            None => None,
        };
        let kind =
            if e.kind() == disk_format::ErrorKind::Io { ErrorKind::Failed } else { ErrorKind::Refused };
        let error = Error::new(kind, e.to_string());
        let error = match e.kind() {
            disk_format::ErrorKind::TooLarge => error.with_hint("a larger one is allowed by --max-size"),
            _ => error,
        };
        let error = error.nameless();
        match cause {
            Some(cause) => error.because(cause),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk_format::Format;

    /// A parser that could not read its source reports the reason, for any kind of source.
    #[test]
    fn the_reason_of_a_source_comes_through_a_parser() {
        let through =
            |e: io::Error| Error::from(disk_format::Error::io(Format::Qcow2, "cannot read the header", 0, e));
        let denied = through(container_disk::Error::new(container_disk::ErrorKind::Auth, "log in").into());
        assert_eq!((denied.kind(), denied.to_string().as_str()), (ErrorKind::Auth, "log in"));
        let changed = container_disk::Error::new(container_disk::ErrorKind::Changed, "it changed");
        let changed = through(changed.into());
        assert_eq!((changed.kind(), changed.may_go_on()), (ErrorKind::Failed, false));
        assert!(through(Error::failed("broken").into()).may_go_on());
    }

    #[test]
    fn who_reads_bytes_does_not_name_the_source_and_who_knows_it_does_so_once() {
        let refused = || disk_format::Error::new(disk_format::ErrorKind::Malformed, Format::Qcow2, "bad");
        let named = Error::from(refused()).of("a.qcow2").of("b");
        assert_eq!(named.to_string(), "a.qcow2: qcow2: bad");
        let broken = io::Error::other("the disk is broken");
        assert_eq!(Error::reading("cannot read", broken).of("a").to_string(), "a: cannot read");
        let told = io::Error::from(Error::failed("http://h/a is gone"));
        assert_eq!(Error::reading("cannot read", told).of("a").to_string(), "http://h/a is gone");
        let inside = io::Error::from(Error::of_bytes("gzip: bad"));
        assert_eq!(Error::io("cannot read", inside).of("a.gz").to_string(), "a.gz: gzip: bad");
    }
}
