//! Common parts of the two computed qcow2 files ([`View`](super::View), [`Dense`](super::Dense)): their
//! layout, and reads at any offset.
//!
//! ```text
//!  header │ refcount table │ L1 │ refcount blocks │ L2 … │ data
//!  └──── one cluster of a table at a time: `table` ─────┘ `data`
//! ```

use super::geometry::{Geometry, refuse};
use super::{Options, header};
use crate::{ErrorKind, ReadAt, Result};
use std::io;
use std::ops::Range;

/// Flag "this host cluster has refcount 1" in L1 and L2 entries.
pub(super) const COPIED: u64 = 1 << 63;
/// Size of an entry in bytes, in all tables but refcount blocks.
pub(super) const ENTRY: u64 = 8;

/// A disk with a map of its holes.
pub trait Sparse: ReadAt {
    /// The first range with possible data that contains `offset` or begins after it. Bytes before it read as
    /// zeros. `None` if there is no data up to the end of the disk.
    fn data_from(&self, offset: u64) -> Option<Range<u64>>;
}

/// Positions of the parts of the file, in clusters.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) refcount_table: u64,
    pub(super) l1: u64,
    pub(super) blocks: u64,
    pub(super) l2: u64,
    pub(super) data: u64,
    pub(super) end: u64,
}

impl Places {
    /// The layout for a number of L2 tables and of data clusters.
    pub(super) fn new(geometry: &Geometry, l2_tables: u64, data_clusters: u64) -> Places {
        let refcount_table = 1;
        let l1 = refcount_table + geometry.refcount_table_clusters;
        let blocks = l1 + geometry.l1_clusters;
        // Each block counts itself and all others that remain.
        let others = blocks + l2_tables + data_clusters;
        let l2 = blocks + others.div_ceil(geometry.counts_per_block() - 1);
        let data = l2 + l2_tables;
        Places { refcount_table, l1, blocks, l2, data, end: data + data_clusters }
    }

    /// The header of the file. Fails if the disk is too large for a qcow2 file that readers accept.
    pub(super) fn header(&self, options: &Options, geometry: &Geometry, disk: u64) -> Result<Vec<u8>> {
        if self.end > u64::from(u32::MAX) {
            let what = format!("a disk of {disk} bytes has more than 2^32 clusters of 64 KiB");
            return Err(refuse(ErrorKind::TooLarge, what));
        }
        let at = |cluster: u64| cluster * geometry.cluster();
        header::encode(options, geometry, at(self.l1), at(self.refcount_table))
    }
}

/// A qcow2 file whose bytes are computed on request.
pub(super) trait Computed {
    fn geometry(&self) -> &Geometry;

    fn places(&self) -> &Places;

    /// The header or a cluster of a table.
    fn table(&self, cluster: u64) -> Vec<u8>;

    /// Reads bytes after the tables. `at` is relative to their end.
    fn data(&self, buf: &mut [u8], at: u64) -> io::Result<()>;

    /// Offset of a cluster in bytes.
    fn at(&self, cluster: u64) -> u64 {
        cluster * self.geometry().cluster()
    }

    /// Size of the file in bytes.
    fn len(&self) -> u64 {
        self.at(self.places().end)
    }

    /// Size of the part before the data, in bytes.
    fn tables(&self) -> u64 {
        self.at(self.places().data)
    }

    /// Reads at any offset of the file.
    fn read(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.len()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let cluster = self.geometry().cluster();
        let (mut rest, mut at) = (buf, offset);
        while at < self.tables() && !rest.is_empty() {
            let table = self.table(at / cluster);
            let table = &table[(at % cluster) as usize..];
            let (here, behind) = rest.split_at_mut(table.len().min(rest.len()));
            here.copy_from_slice(&table[..here.len()]);
            at += here.len() as u64;
            rest = behind;
        }
        if rest.is_empty() { Ok(()) } else { self.data(rest, at - self.tables()) }
    }
}

/// Reads bytes of a disk, and zeros after its end.
pub(super) fn padded(disk: &impl ReadAt, buf: &mut [u8], at: u64) -> io::Result<()> {
    let there = disk.size().saturating_sub(at).min(buf.len() as u64) as usize;
    let (bytes, behind) = buf.split_at_mut(there);
    behind.fill(0);
    if bytes.is_empty() { Ok(()) } else { disk.read_exact_at(bytes, at) }
}

/// Writes an entry at its index.
pub(super) fn put(table: &mut [u8], nth: u64, entry: &[u8]) {
    let at = nth as usize * entry.len();
    if let Some(place) = table.get_mut(at..at + entry.len()) {
        place.copy_from_slice(entry);
    }
}
