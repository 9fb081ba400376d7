//! What the two qcow2 files have in common that nobody writes ([`View`](super::View), [`Dense`](super::Dense)): where their parts
//! begin, and how they are read from any offset.
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

/// "This host cluster has refcount 1", in L1 and L2 entries.
pub(super) const COPIED: u64 = 1 << 63;
/// Bytes of an entry of all tables but refcount blocks.
pub(super) const ENTRY: u64 = 8;

/// A disk that knows its holes.
pub trait Sparse: ReadAt {
    /// The first range that begins at this offset or behind it and may hold data, or holds the offset; what lies between
    /// reads as zeros. `None`: no data up to the end of the disk.
    fn data_from(&self, offset: u64) -> Option<Range<u64>>;
}

/// Where the parts of the file begin, in clusters.
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
    /// With so many L2 tables, and so many clusters of data.
    pub(super) fn new(geometry: &Geometry, l2_tables: u64, data_clusters: u64) -> Places {
        let refcount_table = 1;
        let l1 = refcount_table + geometry.refcount_table_clusters;
        let blocks = l1 + geometry.l1_clusters;
        // Each block counts itself, and as many others as are left.
        let others = blocks + l2_tables + data_clusters;
        let l2 = blocks + others.div_ceil(geometry.counts_per_block() - 1);
        let data = l2 + l2_tables;
        Places { refcount_table, l1, blocks, l2, data, end: data + data_clusters }
    }

    /// The header of the file. Refuses a disk that is too large for a qcow2 that readers open.
    pub(super) fn header(&self, options: &Options, geometry: &Geometry, disk: u64) -> Result<Vec<u8>> {
        if self.end > u64::from(u32::MAX) {
            let what = format!("a disk of {disk} bytes has more than 2^32 clusters of 64 KiB");
            return Err(refuse(ErrorKind::TooLarge, what));
        }
        let at = |cluster: u64| cluster * geometry.cluster();
        header::encode(options, geometry, at(self.l1), at(self.refcount_table))
    }
}

/// A file whose bytes are computed.
pub(super) trait Computed {
    fn geometry(&self) -> &Geometry;

    fn places(&self) -> &Places;

    /// The header or a table, as long as a cluster.
    fn table(&self, cluster: u64) -> Vec<u8>;

    /// Bytes behind the tables, from this offset of them on.
    fn data(&self, buf: &mut [u8], at: u64) -> io::Result<()>;

    /// The offset of a cluster.
    fn at(&self, cluster: u64) -> u64 {
        cluster * self.geometry().cluster()
    }

    /// Bytes of the file.
    fn len(&self) -> u64 {
        self.at(self.places().end)
    }

    /// Bytes of the file before its data.
    fn tables(&self) -> u64 {
        self.at(self.places().data)
    }

    /// Reads from any offset.
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

/// Bytes of a disk, and the zeros behind its end.
pub(super) fn padded(disk: &impl ReadAt, buf: &mut [u8], at: u64) -> io::Result<()> {
    let there = disk.size().saturating_sub(at).min(buf.len() as u64) as usize;
    let (bytes, behind) = buf.split_at_mut(there);
    behind.fill(0);
    if bytes.is_empty() { Ok(()) } else { disk.read_exact_at(bytes, at) }
}

/// Puts an entry at its place.
pub(super) fn put(table: &mut [u8], nth: u64, entry: &[u8]) {
    let at = nth as usize * entry.len();
    if let Some(place) = table.get_mut(at..at + entry.len()) {
        place.copy_from_slice(entry);
    }
}
