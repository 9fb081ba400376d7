//! Exit codes: one number a kind of failure, documented in `docs/reference/exit-codes.md`.

use cdi::Kind;
use std::process::ExitCode;

/// The exit code that a kind of failure has.
pub(crate) fn code_of(kind: Kind) -> u8 {
    match kind {
        Kind::Failed => 1,
        Kind::Usage => 2,
        Kind::Refused => 3,
        Kind::NotFound => 4,
        Kind::Auth => 5,
        Kind::Interrupted => 130,
    }
}

pub(crate) fn exit_code(e: &cdi::Error) -> ExitCode {
    ExitCode::from(code_of(e.kind()))
}
