//! The refcount table, read only for the positions of the refcount blocks. Only writers need the counts.

use super::header::Header;
use super::refuse;
use crate::{ErrorKind, Limits, Result};

const RESERVED: u64 = 0x1ff;

/// Parser of the refcount table, which it receives in pieces of whole entries.
#[derive(Debug)]
pub(super) struct RefcountBuilder {
    cluster_bits: u32,
    offset: u64,
    next: u32,
    most: usize,
    blocks: Vec<u32>,
}

impl RefcountBuilder {
    /// An eighth of the table memory is available for the list of blocks (4 bytes each: 8 MiB cover 512 TiB
    /// of file).
    pub(super) fn new(header: &Header, limits: Limits) -> Self {
        let most = limits.table_memory / 16 / size_of::<u32>();
        RefcountBuilder {
            cluster_bits: header.cluster_bits,
            offset: header.refcounts.offset,
            next: 0,
            most,
            blocks: vec![],
        }
    }

    /// Adds the next entries. `file_end` is the file's size, if known.
    pub(super) fn feed(&mut self, bytes: &[u8], file_end: Option<u64>) -> Result<()> {
        let cluster_size = 1_u64 << self.cluster_bits;
        for entry in bytes.chunks_exact(8) {
            let entry = entry.try_into().map_or(0, u64::from_be_bytes);
            let index = self.next;
            self.next += 1;
            if entry == 0 {
                continue;
            }
            let (kind, fault) = match u32::try_from(entry >> self.cluster_bits) {
                _ if entry & RESERVED != 0 => (ErrorKind::Malformed, "reserved bits are set"),
                _ if entry % cluster_size != 0 => {
                    (ErrorKind::Malformed, "not a multiple of the cluster size")
                }
                _ if file_end.is_some_and(|end| entry.checked_add(cluster_size).is_none_or(|e| e > end)) => {
                    (ErrorKind::Truncated, "the block lies past the end of the file")
                }
                Err(_) => (ErrorKind::Unsupported, "the block lies more than 2^32 clusters into the file"),
                Ok(block) => {
                    // The list is full. Overlaps with further blocks are not noticed, as in QEMU.
                    if self.blocks.len() < self.most {
                        self.blocks.push(block);
                    }
                    continue;
                }
            };
            let what = format!("refcount table entry {index} is {entry:#018x}: {fault}");
            return Err(refuse(kind, self.offset + u64::from(index) * 8, what));
        }
        Ok(())
    }

    /// The clusters of all blocks, sorted.
    pub(super) fn finish(mut self) -> Vec<u32> {
        self.blocks.sort_unstable();
        self.blocks
    }
}
