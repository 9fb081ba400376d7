//! An upload: from bytes that this computer can read to the disk of a DataVolume or a PVC.
//!
//! ```text
//!  flags, or a form of the page ─► UploadParams ─► run
//!            ├─ source    the bytes: a file, a pipe, a web server, an image; read in a thread of their own
//!            │  dense     without the holes of a sparse disk, for our own server
//!            ├─ browser    the bytes of a browser
//!            ├─ place     uses a PVC that may be filled, or creates the objects (bodies)
//!            ├─ ready     waits until the upload pod is ready, and reports why it is not (stage, events)
//!            ├─ address   address of the upload proxy, and its paths
//!            ├─ send      attempts (attempts), each by tus or by plain ──► proxy (HTTP)
//!            ├─ data_source
//!            └─ done      waits until the disk is complete
//!  observer: receives progress and messages, for a terminal or a page
//! ```
//!
//! **Where the server supports tus 1.0** (`POST …/v1beta1/upload-tus`), an upload resumes after the last byte
//! that the server has. Elsewhere each attempt begins at the first byte: by `upload-async` if a probe finds
//! it, else by `upload`. `params`, `bodies`, `stage`, `address` and `attempts` are pure. **Absent:** disk formats;
//! the upload pod reads them.

mod address;
mod annotations;
mod attempt;
mod attempts;
mod bodies;
mod browser;
mod data_source;
mod dense;
mod done;
mod events;
mod observer;
pub(crate) mod params;
mod place;
mod plain;
mod proxy;
mod ready;
mod run;
mod send;
mod source;
mod stage;
mod tus;

pub(crate) use browser::{BrowserUpload, Cut};
pub(crate) use observer::{Phase, UploadObserver};
pub(crate) use params::UploadParams;
pub(crate) use run::{ProxySettings, run};
pub(crate) use source::Bytes;

use crate::virt::client::Cluster;

/// An upload, its cluster, and the receiver of its progress.
#[derive(Clone, Copy)]
pub(crate) struct UploadContext<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) params: &'a UploadParams,
    pub(crate) observer: &'a dyn UploadObserver,
}

/// Beginning of the upload's error messages.
fn doing(params: &UploadParams, cluster: &Cluster) -> String {
    format!("cannot upload to {} {} in namespace {}", params.kind, params.name, cluster.namespace())
}
