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

/// The kind of failure that an exit code stands for.
pub(crate) fn kind_of(code: u8) -> Kind {
    let kinds = [Kind::Usage, Kind::Refused, Kind::NotFound, Kind::Auth, Kind::Interrupted];
    kinds.into_iter().find(|kind| code_of(*kind) == code).unwrap_or(Kind::Failed)
}

pub(crate) fn exit_code(e: &cdi::Error) -> ExitCode {
    ExitCode::from(code_of(e.kind()))
}
