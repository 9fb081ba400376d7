//! A disk, or a kernel and its initrd, becomes one layer, as it streams.
//!
//! ```text
//!   file's bytes ──► LayerWriter ──► tar ──┬──► hash: the diff-id           aside.rs, its own thread
//!    (Write)         layer.rs              └──► pieces of 1 MiB ──► lanes ──► in order ──► the sink's BlobWriter
//!                                                               lanes.rs, packer.rs        (which hashes: the digest)
//! ```
//!
//! **Nothing is stored on the way**, and the same bytes and options give the same layer on any host: a piece is
//! always 1 MiB of tar, whichever thread packs it. gzip: one member per piece; zstd: one frame per piece, with its size
//! in its header. Both are what the formats allow and what eStargz and zstd:chunked images are made of, so every
//! runtime reads them; and whoever unpacks can enter at each piece, or unpack several at once.
//!
//! **Memory**: a lane holds two pieces and two packed pieces, and what its compressor needs: 5 MiB (gzip) or 9 MiB
//! (zstd). There are as many lanes as threads, but no more than [`Options::memory`] holds. Beside them 2 MiB for the
//! hashes. So two threads take 12 or 20 MiB.
//!
//! The layout of a disk's layer is that of the usual containerDisks: folder `disk/` (0555), file `disk/disk.img`
//! (0444), both of uid and gid 107, which qemu runs as.

mod lanes;
mod layer;
mod packer;
#[cfg(test)]
mod tests;

pub use layer::{Layer, LayerWriter};
pub use packer::Compression;

/// What a layer is made with. Besides `threads` and `memory`, each changes the layer's digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How the layer is compressed.
    pub compression: Compression,
    /// The date of all files in it, in seconds since 1970; 0 where none is known.
    pub created: u64,
    /// Threads that compress; 0 is one for each core.
    pub threads: usize,
    /// Bytes these may hold.
    pub memory: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { compression: Compression::Zstd, created: 0, threads: 0, memory: 48 << 20 }
    }
}

/// The user and group that a disk belongs to: qemu's.
pub const OWNER: u32 = 107;
/// Their name.
pub const OWNER_NAME: &str = "qemu";
/// Where the disk is in its layer.
pub const DISK: &str = "disk/disk.img";
/// The folder that kernels are in.
pub const BOOT: &str = "boot";
