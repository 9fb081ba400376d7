//! What a range of the guest's disk holds, and where its bytes lie in the image file.

use crate::Codec;

/// Where the bytes of an extent are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// The guest reads zeros; the image file holds nothing for it.
    Zero,
    /// As they are, at this offset of the image file; as long as the extent.
    Raw {
        /// Offset in the image file.
        at: u64,
    },
    /// Compressed: `size` bytes at `at` of the image file unpack to `unpacked` bytes, of which the extent is the front.
    /// `size` may reach past the true end of the compressed data (qcow2 counts whole sectors) but never past the
    /// end of the file.
    Packed {
        /// Offset in the image file.
        at: u64,
        /// How many bytes to read there.
        size: u32,
        /// How to unpack them.
        codec: Codec,
        /// How many bytes they unpack to: the extent's length, except where the disk ends inside a cluster. There
        /// the extent is shorter, and what lies past it is not the guest's.
        unpacked: u32,
    },
}

/// A range of the guest's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins for the guest.
    pub guest: u64,
    /// How long it is for the guest; never 0.
    pub len: u64,
    /// What it holds.
    pub data: Data,
}

impl Extent {
    /// The range of the image file that must be read for it; `None` for zeros.
    pub fn file_range(&self) -> Option<std::ops::Range<u64>> {
        match self.data {
            Data::Zero => None,
            Data::Raw { at } => Some(at..at + self.len),
            Data::Packed { at, size, .. } => Some(at..at + u64::from(size)),
        }
    }

    /// The first byte after it, for the guest.
    pub fn end(&self) -> u64 {
        self.guest + self.len
    }
}

/// As much of the map as fits the memory bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// In guest order, without gap or overlap, starting where the window was asked for.
    pub extents: Vec<Extent>,
    /// Where the next window begins; `None` when this one reached the end of the disk.
    pub next: Option<u64>,
}
