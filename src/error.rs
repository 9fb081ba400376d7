//! The error of the program, and its exit codes: one number for each kind of failure, documented in
//! `docs/reference/exit-codes.md`.

pub(crate) use cdi::ErrorKind;
use local_vm::worker::INTERRUPTED;
use std::process::ExitCode;

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

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
        Error(e.into_core().with_details(()))
    }
}

impl From<local_vm::Error> for Error {
    fn from(e: local_vm::Error) -> Error {
        Error(e.into_core())
    }
}

/// The worker of `local-vm` reports the error of a job to the process that waits for it.
impl From<Error> for local_vm::Error {
    fn from(e: Error) -> local_vm::Error {
        e.into_core().into()
    }
}

impl From<container_disk::Error> for Error {
    fn from(e: container_disk::Error) -> Error {
        cdi::Error::from(e).into()
    }
}

impl From<disk_format::Error> for Error {
    fn from(e: disk_format::Error) -> Error {
        cdi::Error::from(e).into()
    }
}

/// The exit code of a kind of failure.
pub(crate) fn code_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Failed => 1,
        ErrorKind::Usage => 2,
        ErrorKind::Refused => 3,
        ErrorKind::NotFound => 4,
        ErrorKind::Auth => 5,
        ErrorKind::Interrupted => INTERRUPTED,
    }
}

pub(crate) fn exit_code(e: &Error) -> ExitCode {
    ExitCode::from(code_of(e.kind()))
}
