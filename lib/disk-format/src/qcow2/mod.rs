//! qcow2, versions 2 and 3: QEMU's copy-on-write format.
//!
//! ```text
//!   cluster 0      refcount table    L1 table          L2 tables            data clusters
//!  ┌──────────┐    ┌────────────┐   ┌────────────┐   ┌──────────────┐    ┌──────────────────┐
//!  │ header   │───►│ blocks ──────► │ one entry  │──►│ one entry a  │───►│ uncompressed or  │
//!  │ L1 ───────────────────────────►│ an L2 table│   │ guest cluster│    │ compressed       │
//!  └──────────┘    └────────────┘   └────────────┘   └──────────────┘    └──────────────────┘
//!   header.rs       refcounts.rs     l1.rs            l2.rs, map.rs       the caller reads them
//!   extensions.rs   occupied.rs: positions of metadata, which nothing else may overlap
//!   snapshots.rs    leftover.rs: bytes of the file that are not of the disk
//! ```
//!
//! **Owns** the meaning of every table entry, and checks each before it becomes an [`Extent`](crate::Extent):
//! no reserved bits, aligned, inside the file, no overlap with metadata, and no L2 table used twice.
//! **Two ways to read:** `image.rs` reads tables at their offsets, window by window. `stream/` receives the
//! file in order and parses the tables as they pass. Both use `map.rs`.
//! **Never does:** open a backing file or an external data file, decrypt, follow a snapshot, repair, or read
//! zeros past the end of the file.

mod extensions;
mod header;
mod image;
mod l1;
mod l2;
mod leftover;
mod map;
mod occupied;
mod refcounts;
mod snapshots;
mod stream;
pub mod write;

pub use image::Qcow2;
pub use leftover::{Leftover, snapshots_of};
pub use stream::Qcow2Stream;

use crate::{Error, ErrorKind, Format};

/// An error with its kind, one sentence, and the offset of the field.
fn refuse(kind: ErrorKind, offset: u64, what: impl Into<String>) -> Error {
    Error::new(kind, Format::Qcow2, what).at(offset)
}
