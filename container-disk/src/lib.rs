//! Disks inside OCI images.
//!
//! ```text
//!  name ("docker://h/r:t", "oci:DIR", "store:N", …)  reference.rs; without a scheme: meaning/
//!    │ open
//!    ▼
//!  a Place ── document(), blob() ──► bytes           place.rs; one module for each kind of place:
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
//! **Owns** the format of images and the places that hold them. **Independent of** Kubernetes, VMs and
//! terminals. The content of a disk is the task of `disk-format`. All calls block and are meant for plain
//! threads. Bytes from a registry or an archive are treated as hostile: documents are bounded before they are
//! parsed, each blob's size and digest are verified as it streams, and no file gets its final name before it
//! is complete and durable.

mod anonymous_file;
pub mod archive;
mod background_hash;
mod confined;
pub mod describe;
pub mod digest;
mod expected_blob;
pub mod image;
pub mod inputs;
mod layer_decoder;
pub mod layout;
pub mod locate;
pub mod manifest;
pub mod meaning;
mod members;
pub mod open;
pub mod pack;
pub mod place;
pub mod progress;
mod read_ahead;
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
mod verifying_reader;
pub mod write_behind;

pub use anonymous_file::{AnonymousFile, anonymous_file, reserve};
pub use confined::run_confined;
pub use digest::Digest;
pub use fetch::error;
pub use fetch::{Error, ErrorKind, Result};
pub use reentry::{OnReentry, Reentry};
pub use reference::Name;
