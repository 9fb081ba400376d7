//! A digest of a disk that does not depend on the order of its parts, for `--verify`.
//!
//! Each 512-byte block that is not zero adds the first 128 bits of `SHA-256(offset ‖ block)`; zeros add
//! nothing, so holes, zero clusters and written zeros are the same. It guards against faults, not against an
//! adversary.

use sha2::{Digest, Sha256};
use std::fmt;

const BLOCK: usize = 512;

/// The sum of the blocks so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DiskSum(pub(crate) u128);

impl DiskSum {
    /// Adds guest bytes; `guest` is a multiple of the block size, and so is the length but at the disk's end.
    pub(crate) fn add(&mut self, guest: u64, data: &[u8]) {
        for (i, block) in data.chunks(BLOCK).enumerate() {
            if block.iter().all(|&b| b == 0) {
                continue;
            }
            let mut hash = Sha256::new();
            hash.update((guest + (i * BLOCK) as u64).to_le_bytes());
            hash.update(block);
            if block.len() < BLOCK {
                // The last block of an odd-sized disk reads back padded.
                hash.update(vec![0; BLOCK - block.len()]);
            }
            let digest = hash.finalize();
            let mut half = [0; 16];
            half.copy_from_slice(&digest[..16]);
            self.0 = self.0.wrapping_add(u128::from_le_bytes(half));
        }
    }

    /// Parses the form of `Display`; `None` is the empty sum.
    pub(crate) fn parse(text: Option<&str>) -> DiskSum {
        DiskSum(text.and_then(|t| u128::from_str_radix(t, 16).ok()).unwrap_or_default())
    }

    pub(crate) fn join(self, other: DiskSum) -> DiskSum {
        DiskSum(self.0.wrapping_add(other.0))
    }
}

impl fmt::Display for DiskSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_zeros_do_not_matter_but_place_does() {
        let (a, b) = ([1u8; 1024], [2u8; 512]);
        let mut forward = DiskSum::default();
        forward.add(0, &a);
        forward.add(4096, &b);
        let mut backward = DiskSum::default();
        backward.add(4096, &b);
        backward.add(1024, &[0; 3072]);
        backward.add(0, &a);
        assert_eq!(forward, backward);
        let mut moved = DiskSum::default();
        moved.add(512, &a);
        moved.add(4096, &b);
        assert_ne!(forward, moved);
    }

    #[test]
    fn every_byte_of_every_block_counts() {
        let sum = |guest, data: &[u8]| {
            let mut sum = DiskSum::default();
            sum.add(guest, data);
            sum
        };
        let mut disk = [1; 2048];
        let whole = sum(0, &disk);
        // In parts, it is the same.
        assert_eq!(sum(0, &disk[..512]).join(sum(512, &disk[512..])), whole);
        for at in [0, 511, 512, 2047] {
            disk[at] = 0;
            assert_ne!(sum(0, &disk), whole, "the byte {at} is zero");
            disk[at] = 1;
        }
        // The end of a disk of another size reads back padded.
        let padded = [&disk[..700], &[0; 324]].concat();
        assert_eq!(sum(0, &disk[..700]), sum(0, &padded));
        assert_ne!(sum(0, &disk[..700]), sum(0, &disk[..1024]));
        assert_eq!(DiskSum::parse(Some(&whole.to_string())), whole);
        assert_eq!(DiskSum::parse(None), DiskSum::default());
    }
}
