//! An upload: from bytes that this computer can read to the disk of a DataVolume or a PVC.
//!
//! ```text
//!  flags, or a form of the page ─► Wish ─► run
//!            ├─ source    the bytes: a file, a pipe, a web server, an image; read in a thread of their own
//!            │  dense     without the holes of a sparse disk, for our own server
//!            ├─ handed    the bytes of a browser
//!            ├─ place     uses a PVC that may be filled, or creates the objects (bodies)
//!            ├─ ready     waits until the upload pod is ready, and reports why it is not (stage, events)
//!            ├─ address   address of the upload proxy, and its paths
//!            ├─ send      attempts (tries), each by tus or by plain ──► proxy (HTTP)
//!            ├─ data_source
//!            └─ done      waits until the disk is complete
//!  hears: receives progress and messages, for a terminal or a page
//! ```
//!
//! **Where the server supports tus 1.0** (`POST …/v1beta1/upload-tus`), an upload resumes after the last byte
//! that the server has. Elsewhere each attempt begins at the first byte: by `upload-async` if a probe finds
//! it, else by `upload`. `wish`, `bodies`, `stage`, `address` and `tries` are pure. **Absent:** disk formats;
//! the upload pod reads them.

mod address;
mod annotations;
mod bodies;
mod data_source;
mod dense;
mod done;
mod ended;
mod events;
mod handed;
mod hears;
mod place;
mod plain;
mod proxy;
mod ready;
mod run;
mod send;
mod source;
mod stage;
mod tries;
mod tus;
pub(crate) mod wish;

pub(crate) use handed::{Cut, Handed};
pub(crate) use hears::{Hears, Phase};
pub(crate) use run::{At, run};
pub(crate) use source::Bytes;
pub(crate) use wish::Wish;

use crate::virt::client::Cluster;

/// An upload, its cluster, and the receiver of its progress.
#[derive(Clone, Copy)]
pub(crate) struct Errand<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) wish: &'a Wish,
    pub(crate) hears: &'a dyn Hears,
}

/// Beginning of the upload's error messages.
fn doing(wish: &Wish, cluster: &Cluster) -> String {
    format!("cannot upload to {} {} in namespace {}", wish.kind, wish.name, cluster.namespace())
}
