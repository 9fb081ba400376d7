//! A disk inside an OCI image.
//!
//! ```text
//!  name ("docker://h/r:t", "oci:DIR", "store:N", …)  reference.rs
//!    │ open
//!    ▼
//!  a Place ── document(), blob() ──► bytes           place.rs; each place is one module:
//!    ├── layout/     oci:, an OCI image layout in a folder
//!    ├── store/      the user's own store: a layout with locks, partial blobs, prune
//!    ├── archive/    oci-archive:, docker-archive:
//!    └── registry/   docker://, with mirrors, tokens, fail-over in the middle of a blob
//!
//!  disk ──pack──► layer ──► a Sink (the same places)   pack/: tar, compression, digests, all as it streams
//!  image ──locate──► the one disk in it                locate/
//!  image ──verify──► each claim, passed or failed      verify/
//! ```
//!
//! **Owns** what an image is and where it is kept. **Knows nothing of** Kubernetes, VMs, terminals; what a
//! disk's own bytes mean is `disk-format`'s. Everything here is for plain threads: calls block. What comes out of a
//! registry or an archive is an attack until proven otherwise: documents are bounded before they are parsed, every
//! blob's size and digest are checked as it streams, and nothing has a final name before it is whole and durable.

mod ahead;
mod apart;
pub mod archive;
mod aside;
pub mod behind;
mod checked;
pub mod describe;
pub mod digest;
pub mod image;
pub mod layout;
pub mod locate;
pub mod manifest;
mod members;
mod nameless;
pub mod open;
pub mod ours;
pub mod pack;
mod peel;
pub mod place;
mod promise;
pub mod publish;
mod reentry;
pub mod reference;
pub mod registry;
mod section;
mod spooled;
pub mod store;
pub mod tar;
pub mod tee;
mod units;
pub mod verify;
pub mod watched;

pub use apart::apart;
pub use digest::Digest;
pub use fetch::error;
pub use fetch::{Error, ErrorKind, Result};
pub use nameless::{Nameless, nameless, reserve};
pub use reentry::{OnReentry, Reentry};
pub use reference::Name;
