//! Options for a new qcow2 file.

use crate::Codec;

/// Codec and level for the clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    /// DEFLATE ("zlib", which every QEMU reads) or Zstandard (QEMU 5.1 and later).
    pub codec: Codec,
    /// 1 (fast) to 9 (small) for DEFLATE, 1 to 19 for Zstandard.
    pub level: u8,
}

impl Compression {
    /// DEFLATE at its common default level.
    pub const ZLIB: Compression = Compression { codec: Codec::Deflate, level: 6 };
    /// Zstandard at its default level.
    pub const ZSTD: Compression = Compression { codec: Codec::Zstd, level: 3 };

    /// The highest level of a codec; the lowest is 1.
    pub fn max_level(codec: Codec) -> u8 {
        match codec {
            Codec::Deflate => 9,
            Codec::Zstd => 19,
        }
    }
}

/// The disk below an overlay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backing {
    /// File name for the QEMU of the guest: relative to the new file, or absolute.
    pub name: String,
    /// Name of its format ("raw", "qcow2"). Always stored, so that no program has to guess it.
    pub format: String,
}

/// Options for a new qcow2 file. It always has version 3, 16-bit refcounts and no snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Size of the guest's disk, rounded up to sectors of 512 bytes, which QEMU requires.
    pub virtual_size: u64,
    /// Cluster size as a power of two, 9 (512 bytes) to 21 (2 MiB).
    pub cluster_bits: u32,
    /// Compression of clusters. Unset: none.
    pub compress: Option<Compression>,
    /// The disk below this one. Unset: none.
    pub backing: Option<Backing>,
}

impl Options {
    /// A plain disk with clusters of 64 KiB, the default of `qemu-img`.
    pub fn new(virtual_size: u64) -> Self {
        Options { virtual_size, cluster_bits: 16, compress: None, backing: None }
    }
}
