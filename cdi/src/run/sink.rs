//! Sinks of the workers' bytes: a target that takes any order, or one that takes them in guest order.
//!
//! In guest order the costly half (compressing) is done by each worker with its own [`Packer`], and the cheap
//! half (appending) by one thread with [`Ordered::commit`].

use crate::Result;
use crate::target::Target;

/// The sink of guest bytes.
pub(crate) enum EngineSink<'a> {
    Any(&'a dyn Target),
    Ordered(&'a dyn Ordered),
}

/// A target that is written by rising guest offset without gaps.
pub(crate) trait Ordered: Sync {
    /// The state a worker needs to prepare its part.
    fn packer(&self) -> Box<dyn Packer + '_>;

    /// Appends the result of a packer. Called in guest order, by one thread.
    fn commit(&self, packed: &Packed) -> Result<()>;
}

/// Prepares guest bytes for an [`Ordered`] target.
pub(crate) trait Packer {
    /// Packs the guest bytes at `guest` into `out`, which is empty but keeps its memory.
    fn pack(&mut self, guest: u64, data: &[u8], out: &mut Packed) -> Result<()>;
}

/// A prepared stretch of the guest's disk.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    pub(crate) guest: u64,
    /// Length for the guest.
    pub(crate) len: u64,
    /// Parts in order; together they are `len` long. Empty: all zeros.
    pub(crate) parts: Vec<Part>,
    /// The parts' bytes, one after another.
    pub(crate) bytes: Vec<u8>,
}

/// One part: `len` guest bytes that are `size` of the packed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) len: u64,
    pub(crate) size: usize,
    pub(crate) kind: PartKind,
}

/// The form of a part's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartKind {
    Zero,
    Plain,
    Compressed,
}

impl Packed {
    pub(crate) fn reset(&mut self, guest: u64, len: u64) {
        self.guest = guest;
        self.len = len;
        self.parts.clear();
        self.bytes.clear();
    }

    /// The parts with their guest offsets and bytes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Part, &[u8])> {
        self.parts.iter().scan((self.guest, 0), |(guest, at), part| {
            let here = (*guest, *part, &self.bytes[*at..*at + part.size]);
            *guest += part.len;
            *at += part.size;
            Some(here)
        })
    }
}
