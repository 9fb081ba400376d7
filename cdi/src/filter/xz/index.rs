//! The index at a stream's end repeats the sizes of all blocks. It is compared with the blocks' sizes in
//! constant memory: by a digest of the sizes on both sides.

use super::broken;
use super::container::{Number, StreamFlags, footer};
use crate::filter::lanes::{Stop, Tape};
use crate::filter::{Layer, truncated};
use sha2::{Digest, Sha256};

/// Sizes of the blocks of one stream.
#[derive(Clone, Default)]
pub(super) struct BlockSizes {
    /// Sums of the blocks before the position where decoding was entered. The index records of these blocks
    /// cannot be compared one by one, but must add up to this.
    pub(super) before: Sums,
    /// Sums of all blocks, those before included.
    pub(super) sums: Sums,
    digest: Sha256,
}

/// Number of blocks, their bytes in the file (with padding), their uncompressed bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) blocks: u64,
    pub(super) packed: u64,
    pub(super) plain: u64,
}

impl Sums {
    fn add(&mut self, unpadded: u64, plain: u64) -> Option<()> {
        self.blocks = self.blocks.checked_add(1)?;
        self.packed = self.packed.checked_add(unpadded.checked_next_multiple_of(4)?)?;
        self.plain = self.plain.checked_add(plain)?;
        Some(())
    }
}

impl BlockSizes {
    pub(super) fn entered(before: Sums) -> Self {
        BlockSizes { before, sums: before, digest: Sha256::new() }
    }

    /// Adds a block; `None` if the sums exceed 64 bits.
    pub(super) fn block(&mut self, unpadded: u64, plain: u64) -> Option<()> {
        self.sums.add(unpadded, plain)?;
        hash(&mut self.digest, unpadded, plain);
        Some(())
    }

    /// Reads the index (its first byte, a zero, is the next) and the footer, and compares them.
    pub(super) fn check(self, tape: &mut Tape, flags: &StreamFlags) -> Result<(), Stop> {
        let start = tape.offset();
        let mut index = Index { tape, crc: crc32fast::Hasher::new(), start };
        index.byte()?;
        let blocks = index.number()?;
        if blocks != self.sums.blocks {
            let what = format_args!("the index tells of {blocks} blocks, there were {}", self.sums.blocks);
            return Err(broken(start, what).into());
        }
        let wrong = |what: &str| Stop::from(broken(start, format_args!("the index {what}")));
        let mut listed = BlockSizes::default();
        for block in 0..blocks {
            let (unpadded, plain) = (index.number()?, index.number()?);
            if block == self.before.blocks && listed.sums != self.before {
                break;
            }
            let sum = if block < self.before.blocks {
                listed.sums.add(unpadded, plain)
            } else {
                listed.block(unpadded, plain)
            };
            sum.ok_or_else(|| wrong("has sizes that add up to more than 64 bits"))?;
        }
        if listed.sums != self.sums || listed.digest.finalize() != self.digest.finalize() {
            return Err(wrong("states other block sizes than the blocks have"));
        }
        while !(index.tape.offset() - start).is_multiple_of(4) {
            if index.byte()? != 0 {
                return Err(wrong("has bytes other than 0 as padding"));
            }
        }
        let computed = index.crc.finalize();
        let mut stored = [0; 4];
        if tape.take(&mut stored)? < stored.len() {
            return Err(truncated(Layer::Xz, tape.offset(), "the index").into());
        }
        if u32::from_le_bytes(stored) != computed {
            return Err(wrong("has a wrong CRC-32"));
        }
        let (at, size) = (tape.offset(), tape.offset() - start);
        let mut actual = [0; 12];
        if tape.take(&mut actual)? < actual.len() {
            return Err(truncated(Layer::Xz, tape.offset(), "the stream footer").into());
        }
        match footer(flags, size) {
            Some(expected) if expected == actual => Ok(()),
            _ => Err(broken(at, "the stream footer does not fit the header and the index").into()),
        }
    }
}

/// The index of a stream that holds just one block.
pub(super) fn of_one_block(unpadded: u64, plain: u64) -> Vec<u8> {
    let mut index = vec![0, 1];
    Number::write(unpadded, &mut index);
    Number::write(plain, &mut index);
    index.resize(index.len().next_multiple_of(4), 0);
    let crc = crc32fast::hash(&index);
    index.extend(crc.to_le_bytes());
    index
}

fn hash(digest: &mut Sha256, unpadded: u64, plain: u64) {
    digest.update(unpadded.to_le_bytes());
    digest.update(plain.to_le_bytes());
}

struct Index<'a> {
    tape: &'a mut Tape,
    crc: crc32fast::Hasher,
    start: u64,
}

impl Index<'_> {
    fn byte(&mut self) -> Result<u8, Stop> {
        let byte = self.tape.byte()?.ok_or_else(|| truncated(Layer::Xz, self.tape.offset(), "the index"))?;
        self.crc.update(&[byte]);
        Ok(byte)
    }

    fn number(&mut self) -> Result<u64, Stop> {
        let mut number = Number::default();
        loop {
            let byte = self.byte()?;
            if let Some(value) = number.push(byte).map_err(|what| broken(self.start, what))? {
                return Ok(value);
            }
        }
    }
}
