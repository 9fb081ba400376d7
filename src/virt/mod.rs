//! A cluster, for whoever types `coracle virt`, `virtctl` or `kubectl virt`: everything about it that is not a verb.
//!
//! ```text
//!  flags, kubeconfig ──connect──► Cluster ── client: requests, and the server's words where it refuses
//!                                   │
//!     object   kinds and their paths │ websocket: streams of bytes, with pings, and an end that has a reason
//!     target   vm/NAME/NAMESPACE     │   ├─ console ◄── keys: the terminal's bytes, and Ctrl-]
//!                                    │   └─ forward: ports of this computer, standard input and output
//!                                    ├ why: what a VM waits for; facts are fetched, the page is pure
//!                                    ├ usage: what VMIs use, of two readings; pure
//!                                    ├ export: a PVC becomes an image, by a pod of the cluster
//!                                    └ upload: from bytes of this computer to the disk of a DataVolume
//! ```
//!
//! Nothing is asked before the arguments are known to make sense. **Absent:** what VMs on this computer need (`vm`), and
//! types of the API: what a server answers is shown, not judged.

pub(crate) mod client;
pub(crate) mod connect;
pub(crate) mod console;
pub(crate) mod export;
pub(crate) mod forward;
mod keys;
pub(crate) mod object;
pub(crate) mod target;
pub(crate) mod upload;
pub(crate) mod usage;
pub(crate) mod websocket;
pub(crate) mod why;

use cdi::{Error, Result};

/// Does this work to its end, on this thread: what the verbs do is to wait for others.
pub(crate) fn wait<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Error::io("cannot begin to wait for the API server", e))?;
    let done = runtime.block_on(work);
    // A thread that reads the terminal never ends by itself.
    runtime.shutdown_background();
    done
}
