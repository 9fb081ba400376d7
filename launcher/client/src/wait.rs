//! For programs without a runtime: a thread waits.

use crate::error::{Error, Result};
use std::sync::OnceLock;
use tokio::runtime::{Builder, Runtime};

/// Does what this client does, and waits for it. Any thread may, but none of a runtime's.
///
/// The runtime behind it has no thread of its own: whoever waits drives it. It is the same one for all, so that what one
/// call began another one goes on with.
pub fn wait<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = match RUNTIME.get() {
        Some(runtime) => runtime,
        None => {
            let new = Builder::new_current_thread().enable_all().build();
            let new = new.map_err(|e| Error::failed("cannot wait for a launcher").because(e))?;
            // Another thread may have been quicker.
            RUNTIME.get_or_init(|| new)
        }
    };
    runtime.block_on(work)
}
