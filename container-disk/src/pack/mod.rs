//! Packs a disk, or a kernel and its initrd, into one layer as a stream.
//!
//! ```text
//!   file's bytes ──► LayerWriter ──► tar ──┬──► hash: the diff-id         background_hash.rs, its own thread
//!    (Write)         layer.rs              └──► pieces of 1 MiB ──► lanes ──► in order ──► the sink's BlobWriter
//!                                                               lanes.rs, packer.rs        (which hashes: the digest)
//! ```
//!
//! **No temporary copy is made**, and the same bytes and options give the same layer on any host: a piece is
//! always 1 MiB of tar, whichever thread compresses it. gzip: one member per piece. zstd: one frame per
//! piece, with its size in its header. Both formats allow this, and eStargz and zstd:chunked images use it,
//! so every runtime reads such layers. A reader can start at each piece, or decompress several at once.
//!
//! **Memory**: a lane holds two plain and two compressed pieces, and the memory of its compressor: 5 MiB
//! (gzip) or 9 MiB (zstd). There are as many lanes as threads, but no more than fit into [`Options::memory`].
//! The hashes take 2 MiB more. So two threads take 12 or 20 MiB.
//!
//! A disk's layer has the layout of common containerDisks: folder `disk/` (0555), file `disk/disk.img`
//! (0444), both with uid and gid 107, the user of QEMU.

mod lanes;
mod layer;
mod packer;
#[cfg(test)]
mod tests;

pub use layer::{Layer, LayerWriter};
pub use packer::Compression;

/// Options for a layer. All but `threads` and `memory` change the layer's digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    pub compression: Compression,
    /// The date of all files, in seconds since 1970. 0 if none is known.
    pub created: u64,
    /// Number of compressing threads. 0: one per core.
    pub threads: usize,
    /// Maximum bytes of memory for these threads.
    pub memory: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { compression: Compression::Zstd, created: 0, threads: 0, memory: 48 << 20 }
    }
}

/// User and group ID of a disk: those of QEMU.
pub const OWNER: u32 = 107;
/// Name of that user and group.
pub const OWNER_NAME: &str = "qemu";
/// Path of the disk in its layer.
pub const DISK: &str = "disk/disk.img";
/// The folder of kernels.
pub const BOOT: &str = "boot";
