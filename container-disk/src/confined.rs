//! Parsing of foreign bytes on a confined thread, which cannot open files or sockets
//! ([`guard::confine::run_confined`]).

use crate::{Error, Result};

/// Runs `work` on a confined thread and returns its result.
pub fn run_confined<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    guard::confine::run_confined(work)
        .map_err(|e| Error::io("cannot start the confined thread that parses foreign bytes", e))
}
