//! Cluster access for `coracle virt`, `virtctl` and `kubectl virt`; the verbs themselves are in
//! `commands/virt/`.
//!
//! ```text
//!  flags, kubeconfig ──connect──► Cluster ── client: requests; failure: errors from the server's refusals
//!                                   │
//!     target   vm/NAME/NAMESPACE     │ websocket: streams of bytes, with pings, and an end that has a reason
//!                                    │   ├─ console ◄── keys: the terminal's bytes, and Ctrl-]
//!                                    │   └─ forward: ports of this computer, standard input and output
//!                                    ├ why: what a VM waits for; facts are fetched, the page is pure
//!                                    ├ usage: resources that VMIs use, of two readings; pure
//!                                    ├ export: a PVC becomes an image, by a pod of the cluster
//!                                    └ upload: from bytes of this computer to the disk of a DataVolume
//! ```
//!
//! Nothing is sent before the arguments are checked. Kinds, their paths, and the reader of lists are those of
//! `cluster-model`. **Absent:** VMs on this computer (`vm`), and types of the API: an answer of the server is
//! shown, not checked.

pub(crate) mod client;
pub(crate) mod connect;
pub(crate) mod console;
pub(crate) mod export;
pub(crate) mod failure;
pub(crate) mod forward;
pub(crate) mod json;
mod keys;
pub(crate) mod target;
pub(crate) mod upload;
pub(crate) mod usage;
pub(crate) mod websocket;
pub(crate) mod why;

use crate::error::{Error, Result};

/// Runs this work to its end, on this thread: the verbs mostly wait for the API server.
pub(crate) fn wait<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Error::io("cannot begin to wait for the API server", e))?;
    let done = runtime.block_on(work);
    // The thread that reads standard input never ends by itself.
    runtime.shutdown_background();
    done
}
