//! The L1 table: the positions of all L2 tables. Missing tables need no memory, so an empty disk of any size
//! is small.

use super::header::Header;
use super::refuse;
use crate::{ErrorKind, Limits, Result};

const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
/// Set if the L2 table is used once. Only writers need it.
const COPIED: u64 = 1 << 63;

/// Memory for one L2 table in bytes: 12 here, 8 in a stream.
const TABLE_MEMORY: usize = 20;

/// An existing L2 table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct L2Table {
    /// Index in the L1 table.
    pub(super) index: u32,
    /// Cluster of the file.
    pub(super) cluster: u32,
}

/// The L2 tables in guest order, and their order in the file.
#[derive(Debug, Default)]
pub(super) struct L1 {
    pub(super) tables: Vec<L2Table>,
    /// Positions in `tables`, sorted by cluster.
    by_cluster: Vec<u32>,
}

impl L1 {
    /// Position in `tables` of the first table with this L1 index or a later one.
    pub(super) fn at_or_after(&self, index: u64) -> usize {
        self.tables.partition_point(|t| u64::from(t.index) < index)
    }

    /// Position in `tables` of the `nth` table in file order.
    pub(super) fn in_file(&self, nth: usize) -> Option<usize> {
        self.by_cluster.get(nth).map(|&i| i as usize)
    }

    /// Number of tables before this cluster.
    pub(super) fn before_cluster(&self, cluster: u64) -> usize {
        self.by_cluster.partition_point(|&i| u64::from(self.tables[i as usize].cluster) < cluster)
    }

    /// The cluster of the `nth` table in file order.
    pub(super) fn nth_cluster(&self, nth: usize) -> Option<u64> {
        self.in_file(nth).map(|i| u64::from(self.tables[i].cluster))
    }
}

/// Parser of the L1 table, which it receives in pieces of whole entries.
#[derive(Debug)]
pub(super) struct L1Builder {
    cluster_bits: u32,
    offset: u64,
    next: u32,
    most: usize,
    tables: Vec<L2Table>,
}

impl L1Builder {
    /// Half of the table memory is available for the list of L2 tables.
    pub(super) fn new(header: &Header, limits: Limits) -> Self {
        let most = limits.table_memory / 2 / TABLE_MEMORY;
        L1Builder {
            cluster_bits: header.cluster_bits,
            offset: header.l1.offset,
            next: 0,
            most,
            tables: vec![],
        }
    }

    /// Adds the next entries. `file_end` is the file's size, if known.
    pub(super) fn feed(&mut self, bytes: &[u8], file_end: Option<u64>) -> Result<()> {
        for entry in bytes.chunks_exact(8) {
            let entry = entry.try_into().map_or(0, u64::from_be_bytes);
            let index = self.next;
            self.next += 1;
            if entry & !COPIED == 0 {
                continue;
            }
            let at = self.offset + u64::from(index) * 8;
            let cluster = check(entry, self.cluster_bits, file_end).map_err(|(kind, fault)| {
                refuse(kind, at, format!("L1 entry {index} is {entry:#018x}: {fault}"))
            })?;
            if self.tables.len() >= self.most {
                let what = format!(
                    "the L1 table has more than {} L2 tables, which need more than {} KiB; allow more memory",
                    self.most,
                    self.most * 2 * TABLE_MEMORY / 1024
                );
                return Err(refuse(ErrorKind::TooLarge, at, what));
            }
            self.tables.push(L2Table { index, cluster });
        }
        Ok(())
    }

    /// Ends the table. Fails if an L2 table is listed twice, which would show one range of the disk at two
    /// places.
    pub(super) fn finish(self) -> Result<L1> {
        let tables = self.tables;
        let mut by_cluster: Vec<u32> = (0..tables.len() as u32).collect();
        by_cluster.sort_unstable_by_key(|&i| (tables[i as usize].cluster, i));
        for pair in by_cluster.windows(2) {
            let (first, second) = (tables[pair[0] as usize], tables[pair[1] as usize]);
            if first.cluster == second.cluster {
                let what = format!(
                    "L1 entries {} and {} overlap: both name the L2 table at {:#x}",
                    first.index,
                    second.index,
                    u64::from(first.cluster) << self.cluster_bits
                );
                return Err(refuse(ErrorKind::Malformed, self.offset + u64::from(second.index) * 8, what));
            }
        }
        Ok(L1 { tables, by_cluster })
    }
}

fn check(entry: u64, cluster_bits: u32, file_end: Option<u64>) -> Result<u32, (ErrorKind, String)> {
    let cluster_size = 1_u64 << cluster_bits;
    let offset = entry & OFFSET;
    let reserved = entry & !(OFFSET | COPIED);
    if reserved != 0 {
        return Err((ErrorKind::Malformed, format!("the reserved bits {reserved:#x} are set")));
    }
    if !offset.is_multiple_of(cluster_size) {
        return Err((
            ErrorKind::Malformed,
            format!("{offset:#x} is not a multiple of the cluster size {cluster_size}"),
        ));
    }
    if let Some(file_end) = file_end.filter(|&end| offset + cluster_size > end) {
        return Err((
            ErrorKind::Truncated,
            format!("the L2 table at {offset:#x} lies past the end of the file ({file_end:#x})"),
        ));
    }
    u32::try_from(offset >> cluster_bits).map_err(|_| {
        (
            ErrorKind::Unsupported,
            format!("the L2 table at {offset:#x} lies more than 2^32 clusters into the file"),
        )
    })
}
