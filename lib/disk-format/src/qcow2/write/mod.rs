//! A writer of qcow2: one pass, any number of compressing threads, and always the same bytes.
//!
//! ```text
//!   cluster ──Packer::pack──► Zero | Plain | Compressed        one Packer per thread, pure
//!                                   │
//!   in guest order                  ▼
//!   Writer::create ─► append_plain / append_compressed / append_zeros … ─► finish ─► Written
//!                                   │
//!                      Space chooses the positions (pure) ──► WriteAt
//!
//!   the file:  header │ refcount table │ L1 │ refcount block 0 │ L2 │ its data │ L2 │ its data …
//!              (a further refcount block follows where the range of the last one ends)
//! ```
//!
//! **Owns** the layout, which depends only on the disk and the [`Options`], never on threads or on how the
//! calls divide the data. Every table lies before its data, so a reader can convert the file while it
//! arrives. Every byte of the file is written exactly once. The header is written last, so a truncated file
//! is not a qcow2 file.
//! **Independent of** threads: the caller runs packers and passes their results on in guest order. Memory is
//! one L2 table, one refcount block, the refcount table (8 bytes for 2 GiB of file at 64 KiB clusters) and
//! two write buffers.
//!
//! Two kinds of files are computed on request instead: `view.rs` for readers that need only parts, and
//! `dense.rs` for sending in order. `computed.rs` has their common parts.
//!
//! `README.md` next to this file describes the layout, and why DEFLATE must not reach back more than 4 KiB.

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
pub use writer::{FileSummary, Writer};

use crate::Result;

/// Writes an empty disk: all zeros, or all of the backing file if there is one.
pub fn empty<W: WriteAt>(out: W, options: Options) -> Result<FileSummary> {
    Writer::create(out, options)?.finish()
}
