//! Ranges of the guest's disk, and the positions of their bytes in the image file.

use crate::Codec;

/// Position of an extent's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// No bytes: the guest reads zeros.
    Zero,
    /// Uncompressed bytes at this offset of the image file, with the same length as the extent.
    Raw {
        /// Offset in the image file.
        at: u64,
    },
    /// Compressed bytes: `size` bytes at `at` of the image file decompress to `unpacked` bytes, and the
    /// extent is their beginning. `size` may exceed the compressed data (qcow2 counts whole sectors), but
    /// never the end of the file.
    Packed {
        /// Offset in the image file.
        at: u64,
        /// Number of bytes in the image file.
        size: u32,
        /// Compression of the bytes.
        codec: Codec,
        /// Number of bytes after decompression. This is the extent's length, unless the disk ends inside the
        /// cluster. Then the extent is shorter, and the bytes after it do not belong to the guest.
        unpacked: u32,
    },
}

/// A range of the guest's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the guest's disk.
    pub guest: u64,
    /// Length in the guest's disk. Never 0.
    pub len: u64,
    pub data: Data,
}

impl Extent {
    /// The range of the image file with the extent's bytes. `None` for zeros.
    pub fn file_range(&self) -> Option<std::ops::Range<u64>> {
        match self.data {
            Data::Zero => None,
            Data::Raw { at } => Some(at..at + self.len),
            Data::Packed { at, size, .. } => Some(at..at + u64::from(size)),
        }
    }

    /// Offset of the extent's end in the guest's disk.
    pub fn end(&self) -> u64 {
        self.guest + self.len
    }
}

/// The extents of a part of the disk, as many as fit the memory limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Extents in guest order from the requested offset on, without gap or overlap.
    pub extents: Vec<Extent>,
    /// Start of the next window. `None` if this one ends at the end of the disk.
    pub next: Option<u64>,
}
