//! Blocking waits, for programs without an async runtime.

use crate::error::{Error, Result};
use std::sync::OnceLock;
use tokio::runtime::{Builder, Runtime};

/// Runs a future of this client to its end. Must not be called on a thread of an async runtime.
///
/// The runtime behind it has no thread of its own: the waiting thread drives it. All calls share the runtime,
/// so that a later call can use a connection of an earlier one.
pub fn wait<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = match RUNTIME.get() {
        Some(runtime) => runtime,
        None => {
            let new = Builder::new_current_thread().enable_all().build();
            let new = new.map_err(|e| Error::failed("cannot wait for a launcher").because(e))?;
            // Another thread may have created the runtime meanwhile.
            RUNTIME.get_or_init(|| new)
        }
    };
    runtime.block_on(work)
}
