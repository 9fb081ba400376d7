//! A qcow2 whose bytes are changed.

use crate::place::Place;

/// A qcow2 whose bytes are changed.
#[derive(Clone)]
pub(crate) struct Image(pub(crate) Vec<u8>);

impl Image {
    pub(crate) fn get(&self, at: usize, len: usize) -> u64 {
        self.0[at..at + len].iter().fold(0, |n, b| n << 8 | u64::from(*b))
    }

    pub(crate) fn put(&self, at: usize, len: usize, value: u64) -> Image {
        let mut bytes = self.0.clone();
        bytes[at..at + len].copy_from_slice(&value.to_be_bytes()[8 - len..]);
        Image(bytes)
    }

    pub(crate) fn l1(&self) -> usize {
        self.get(40, 8) as usize
    }

    /// Offset of the first L2 table, and of its first entry in use.
    pub(crate) fn l2(&self) -> usize {
        let table = (self.get(self.l1(), 8) & 0x00ff_ffff_ffff_fe00) as usize;
        (0..512).map(|i| table + i * 8).find(|&at| self.get(at, 8) > 1).unwrap()
    }

    pub(crate) fn write(&self, place: &Place, name: &str) {
        std::fs::write(place.path(name), &self.0).unwrap();
    }
}
