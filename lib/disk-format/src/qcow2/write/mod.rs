//! Writes qcow2: one pass, any number of compressing threads, the same bytes every time.
//!
//! ```text
//!   cluster ──Packer::pack──► Zero | Plain | Compressed        one Packer a thread, pure
//!                                   │
//!   in guest order                  ▼
//!   Writer::create ─► append_plain / append_compressed / append_zeros … ─► finish ─► Written
//!                                   │
//!                      Space decides where (pure) ──► WriteAt
//!
//!   the file:  header │ refcount table │ L1 │ refcount block 0 │ L2 │ its data │ L2 │ its data …
//!              (a further refcount block wherever the range of the last one ends)
//! ```
//!
//! **Owns** the layout, which depends on the disk and the [`Options`] alone, never on threads or on how the calls
//! are cut. Every table lies before what it describes, so a reader can convert the file while it arrives. Every byte
//! of the file is written exactly once; the header comes last, so a file cut short is not a qcow2.
//! **Knows nothing of** threads: whoever calls it runs packers and hands their results over in guest order.
//! Memory is one L2 table, one refcount block, the refcount table (8 bytes for 2 GiB of file at 64 KiB clusters) and
//! two write buffers.
//!
//! A file that nobody writes, since a reader wants parts of it alone: `view.rs`; since it is sent in order: `dense.rs`; what both
//! have in common: `computed.rs`.
//!
//! `README.md` beside this file draws the layout and tells why DEFLATE must not look back more than 4 KiB.

mod computed;
mod dense;
mod geometry;
mod header;
mod l1;
mod options;
mod output;
mod packer;
mod space;
mod view;
mod write_at;
mod writer;

pub use computed::Sparse;
pub use dense::Dense;
pub use options::{Backing, Compression, Options};
pub use packer::{Packed, Packer};
pub use view::View;
pub use write_at::{FreshFile, WriteAt};
pub use writer::{Writer, Written};

use crate::Result;

/// Writes an empty disk: all zeros or, over a backing file, all of the base.
pub fn empty<W: WriteAt>(out: W, options: Options) -> Result<Written> {
    Writer::create(out, options)?.finish()
}
