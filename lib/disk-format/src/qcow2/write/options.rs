//! What a new qcow2 file shall be.

use crate::Codec;

/// How clusters are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    /// DEFLATE ("zlib", which every QEMU reads) or Zstandard (QEMU 5.1 and later).
    pub codec: Codec,
    /// 1 (fast) to 9 (small) for DEFLATE, 1 to 19 for Zstandard.
    pub level: u8,
}

impl Compression {
    /// DEFLATE at the level people know as the default.
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

/// The disk that shows through where this one holds nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backing {
    /// Its file name as the guest's QEMU will look for it: relative to the new file, or absolute.
    pub name: String,
    /// Its format's name ("raw", "qcow2"). Always stored, so that nobody has to guess.
    pub format: String,
}

/// What a new qcow2 file shall be: version 3, 16-bit refcounts, no snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The size the guest sees; rounded up to whole sectors of 512 bytes, as QEMU knows no others.
    pub virtual_size: u64,
    /// Cluster size as a power of two, 9 (512 bytes) to 21 (2 MiB).
    pub cluster_bits: u32,
    /// How clusters may be compressed.
    pub compress: Option<Compression>,
    /// The disk below this one.
    pub backing: Option<Backing>,
}

impl Options {
    /// A plain disk with clusters of 64 KiB, as `qemu-img` makes them.
    pub fn new(virtual_size: u64) -> Self {
        Options { virtual_size, cluster_bits: 16, compress: None, backing: None }
    }
}
