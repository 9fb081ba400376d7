//! An upload: from bytes that this computer can read to the disk of a DataVolume or a PVC.
//!
//! ```text
//!  flags, or a form of the page ─► Wish ─► run
//!            ├─ source    the bytes: a file, a pipe, a web server, an image; read by a thread of their own
//!            │  dense     without the holes of a sparse disk, for a server of ours
//!            ├─ handed    or a browser's, which hands them in
//!            ├─ place     is there a PVC, and may it be filled? else makes what is asked for (bodies)
//!            ├─ ready     waits until the upload pod takes an upload; says for what (stage, events)
//!            ├─ address   where the upload proxy is, and its paths
//!            ├─ send      attempts (tries), each by tus or by plain ──► proxy (HTTP)
//!            ├─ data_source
//!            └─ done      waits until the disk is whole
//!  hears: whoever is told of all that, a terminal or a page
//! ```
//!
//! **Where the server speaks tus 1.0** (`POST …/v1beta1/upload-tus`), an upload goes on behind the last byte that the
//! server has. Elsewhere each attempt begins at the first byte: by `upload-async` where a probe finds it, else by `upload`.
//! `wish`, `bodies`, `stage`, `address` and `tries` are pure. **Absent:** what a disk is; the upload pod reads it.

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

/// What is to be done, where, and who hears of it.
#[derive(Clone, Copy)]
pub(crate) struct Errand<'a> {
    /// The cluster, and the namespace in it.
    pub(crate) cluster: &'a Cluster,
    /// The upload.
    pub(crate) wish: &'a Wish,
    /// Who is told.
    pub(crate) hears: &'a dyn Hears,
}

/// What is being done, for an error.
fn doing(wish: &Wish, cluster: &Cluster) -> String {
    format!("cannot upload to {} {} in namespace {}", wish.kind, wish.name, cluster.namespace())
}
