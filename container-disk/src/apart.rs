//! Foreign bytes are looked at by a thread that can do nothing else ([`guard::confine::apart`]).

use crate::{Error, Result};

/// Runs `work` on such a thread.
pub fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    guard::confine::apart(work).map_err(|e| Error::io("cannot start a thread that reads foreign bytes", e))
}
