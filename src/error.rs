//! The error of the program, and its exit codes: one number for each kind of failure, documented in
//! `docs/reference/exit-codes.md`.

use error_core::{Core, OfIo};
use std::process::ExitCode;

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Kinds of failures, each with an exit code of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ErrorKind {
    /// The operation was tried and failed.
    Failed,
    /// The command makes no sense.
    Usage,
    /// The input is hostile, broken or not supported; trying again will not help.
    Refused,
    /// The named file, image or object does not exist.
    NotFound,
    /// The server demands other credentials.
    Auth,
    /// The user stopped the command.
    Interrupted,
}

impl ErrorKind {
    /// The exit code of a kind of failure.
    pub(crate) fn code(self) -> u8 {
        match self {
            ErrorKind::Failed => 1,
            ErrorKind::Usage => 2,
            ErrorKind::Refused => 3,
            ErrorKind::NotFound => 4,
            ErrorKind::Auth => 5,
            ErrorKind::Interrupted => 130,
        }
    }
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

error_core::error! {
    /// An error. `Display` is one sentence a person can act on, without its cause. `main` prints the chain of
    /// causes, once.
    pub struct Error(ErrorKind) from io: cdi::Error, container_disk::Error, local_vm::Error;
}

impl Error {
    /// An operation that failed for an outside reason.
    pub(crate) fn failed(what: impl Into<String>) -> Self {
        Error::new(ErrorKind::Failed, what)
    }

    /// Input that is refused.
    pub(crate) fn refused(what: impl Into<String>) -> Self {
        Error::new(ErrorKind::Refused, what)
    }
}

impl From<cdi::Error> for Error {
    fn from(e: cdi::Error) -> Error {
        let kind = match e.kind() {
            cdi::ErrorKind::Failed => ErrorKind::Failed,
            cdi::ErrorKind::Usage => ErrorKind::Usage,
            cdi::ErrorKind::Refused => ErrorKind::Refused,
            cdi::ErrorKind::NotFound => ErrorKind::NotFound,
            cdi::ErrorKind::Auth => ErrorKind::Auth,
            cdi::ErrorKind::Interrupted => ErrorKind::Interrupted,
        };
        let Core { sentence, hint, cause, .. } = e.into_core();
        Error(Core { kind, sentence, hint, details: (), cause })
    }
}

impl From<local_vm::Error> for Error {
    fn from(e: local_vm::Error) -> Error {
        let kind = match e.kind() {
            local_vm::ErrorKind::Failed => ErrorKind::Failed,
            local_vm::ErrorKind::Usage => ErrorKind::Usage,
            local_vm::ErrorKind::Refused => ErrorKind::Refused,
            local_vm::ErrorKind::NotFound => ErrorKind::NotFound,
            local_vm::ErrorKind::Auth => ErrorKind::Auth,
            local_vm::ErrorKind::Interrupted => ErrorKind::Interrupted,
        };
        let Core { sentence, hint, cause, .. } = e.into_core();
        Error(Core { kind, sentence, hint, details: (), cause })
    }
}

impl From<container_disk::Error> for Error {
    fn from(e: container_disk::Error) -> Error {
        let kind = match e.kind() {
            container_disk::ErrorKind::Failed | container_disk::ErrorKind::Changed => ErrorKind::Failed,
            container_disk::ErrorKind::Usage => ErrorKind::Usage,
            container_disk::ErrorKind::Refused => ErrorKind::Refused,
            container_disk::ErrorKind::NotFound => ErrorKind::NotFound,
            container_disk::ErrorKind::Auth => ErrorKind::Auth,
        };
        let Core { sentence, hint, cause, .. } = e.into_core();
        Error(Core { kind, sentence, hint, details: (), cause })
    }
}

/// The worker of `local-vm` tells the error of a job to the process that waits for it.
impl From<Error> for local_vm::Error {
    fn from(e: Error) -> local_vm::Error {
        let kind = match e.kind() {
            ErrorKind::Failed => local_vm::ErrorKind::Failed,
            ErrorKind::Usage => local_vm::ErrorKind::Usage,
            ErrorKind::Refused => local_vm::ErrorKind::Refused,
            ErrorKind::NotFound => local_vm::ErrorKind::NotFound,
            ErrorKind::Auth => local_vm::ErrorKind::Auth,
            ErrorKind::Interrupted => local_vm::ErrorKind::Interrupted,
        };
        let Core { sentence, hint, cause, .. } = e.into_core();
        let error = local_vm::Error::new(kind, sentence);
        let error = hint.into_iter().fold(error, local_vm::Error::with_hint);
        cause.into_iter().fold(error, local_vm::Error::because)
    }
}

impl From<disk_format::Error> for Error {
    fn from(e: disk_format::Error) -> Error {
        cdi::Error::from(e).into()
    }
}

pub(crate) fn exit_code(e: &Error) -> ExitCode {
    ExitCode::from(e.kind().code())
}
