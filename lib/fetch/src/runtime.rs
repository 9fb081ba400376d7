//! The one runtime of the process, and the one thread behind it.
//!
//! A caller is a plain thread; one that waits for bytes of its own runs its future itself. One worker watches the sockets
//! and runs what is fetched ahead of its reader or sent behind its writer. One is enough: TLS passes more than a GB/s
//! through a core, which is more than anything that packs or unpacks beside it.

use crate::{Error, Result};
use std::sync::OnceLock;
use tokio::runtime::{Builder, Runtime};

/// The process's runtime for network work. Whoever calls it from an async task is told so by a panic of the runtime.
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
