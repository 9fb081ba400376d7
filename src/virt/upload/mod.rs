//! An upload: from bytes that this computer can read to the disk of a DataVolume or a PVC.
//!
//! ```text
//!  flags ─► Wish
//!            ├─ source    the bytes: a file, a pipe, a web server, an image; read by a thread of their own
//!            ├─ place     is there a PVC, and may it be filled? else makes what is asked for (bodies)
//!            ├─ ready     waits until the upload pod takes an upload; says for what (stage, events)
//!            ├─ address   where the upload proxy is, and its paths
//!            ├─ send      attempts (tries), each by tus or by plain ──► proxy (HTTP)
//!            ├─ data_source
//!            └─ done      waits until the disk is whole
//! ```
//!
//! **Where the server speaks tus 1.0** (`POST …/v1beta1/upload-tus`), an upload goes on behind the last byte that the
//! server has. Elsewhere each attempt begins at the first byte: by `upload-async` where a probe finds it, else by `upload`.
//! `wish`, `bodies`, `stage`, `address` and `tries` are pure. **Absent:** what a disk is; the upload pod reads it.

pub(crate) mod address;
mod annotations;
mod bodies;
pub(crate) mod data_source;
pub(crate) mod done;
mod ended;
mod events;
mod place;
mod plain;
mod proxy;
mod ready;
mod send;
mod source;
mod stage;
mod tries;
mod tus;
pub(crate) mod wish;

pub(crate) use place::prepare;
pub(crate) use proxy::Proxy;
pub(crate) use ready::wait_for_pod;
pub(crate) use send::send_bytes;
pub(crate) use source::Bytes;
pub(crate) use wish::Wish;

use crate::virt::client::Cluster;

/// What is being done, for an error.
fn doing(wish: &Wish, cluster: &Cluster) -> String {
    format!("cannot upload to {} {} in namespace {}", wish.kind, wish.name, cluster.namespace())
}
