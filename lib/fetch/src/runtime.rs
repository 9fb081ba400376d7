//! The only runtime of the process, and its only thread.
//!
//! Callers are plain threads; one that waits for its own bytes runs its future itself. One worker watches the
//! sockets and runs transfers ahead of a reader or behind a writer. One is enough: TLS passes more than a
//! GB/s through a core, which is more than anything that packs or unpacks beside it.

use crate::{Error, Result};
use std::sync::OnceLock;
use tokio::runtime::{Builder, Runtime};

/// The process's runtime for network work. Called from an async task, `block_on` panics.
pub fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let made = Builder::new_multi_thread().worker_threads(1).thread_name("network").enable_all().build();
    let made =
        made.map_err(|e| Error::failed("cannot start the thread that watches connections").because(e))?;
    Ok(RUNTIME.get_or_init(|| made))
}
