//! Exit codes: one number for each kind of failure, documented in `docs/reference/exit-codes.md`.

use cdi::ErrorKind;
use std::process::ExitCode;

/// The exit code of a kind of failure.
pub(crate) fn code_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Failed => 1,
        ErrorKind::Usage => 2,
        ErrorKind::Refused => 3,
        ErrorKind::NotFound => 4,
        ErrorKind::Auth => 5,
        ErrorKind::Interrupted => 130,
    }
}

/// The kind of failure of an exit code.
pub(crate) fn kind_of(code: u8) -> ErrorKind {
    let kinds =
        [ErrorKind::Usage, ErrorKind::Refused, ErrorKind::NotFound, ErrorKind::Auth, ErrorKind::Interrupted];
    kinds.into_iter().find(|kind| code_of(*kind) == code).unwrap_or(ErrorKind::Failed)
}

pub(crate) fn exit_code(e: &cdi::Error) -> ExitCode {
    ExitCode::from(code_of(e.kind()))
}
