//! A raw disk as a qcow2 file that is computed on request: each byte is computed when it is read.
//!
//! ```text
//!   the file:  header │ refcount table │ L1 │ refcount blocks │ L2 0 │ L2 1 │ … │ data: the disk, holes included
//!                                       └── tables: from the disk's own map ──┘    at data + guest offset
//! ```
//!
//! **All positions follow from the disk's size.** A cluster of the disk lies at its own offset after the
//! tables, with or without data. No table refers to a hole, so a reader that follows the tables never reads
//! it. So a table needs only the map of its own range: nothing is counted from the beginning of the disk,
//! nothing is kept, and no offset changes if the file system reports other holes the next time.
//!
//! **Memory** is one cluster for each table that is read. The map is walked only for the range of that table,
//! with at most one query for each of its entries.
//!
//! Clusters have 64 KiB, and a file is about 1/8000 longer than its disk. `qemu-img check` finds no errors: a
//! hole is free, and so is a table of holes. A disk of an odd size ends with zeros up to a whole sector.

use super::Options;
use super::computed::{COPIED, Computed, ENTRY, Places, Sparse, padded, put};
use super::geometry::Geometry;
use crate::{ReadAt, Result};
use std::io;
use std::ops::Range;

/// The qcow2 file of a disk, holes included.
#[derive(Debug)]
pub struct View<D> {
    disk: D,
    header: Vec<u8>,
    geometry: Geometry,
    places: Places,
}

impl<D: Sparse> View<D> {
    /// Fails if the disk is too large for a qcow2 file that readers accept.
    pub fn new(disk: D) -> Result<View<D>> {
        let options = Options::new(disk.size());
        let geometry = Geometry::new(&options)?;
        let data_clusters = geometry.virtual_size.div_ceil(geometry.cluster());
        let places = Places::new(&geometry, geometry.l1_entries, data_clusters);
        let header = places.header(&options, &geometry, disk.size())?;
        Ok(View { disk, header, geometry, places })
    }

    /// Number of bytes of the file before the disk itself.
    pub fn tables(&self) -> u64 {
        Computed::tables(self)
    }

    fn padded_table(&self, mut table: Vec<u8>) -> Vec<u8> {
        table.resize(self.geometry.cluster() as usize, 0);
        table
    }

    fn refcount_table(&self, nth: u64) -> Vec<u8> {
        let blocks = self.places.blocks..self.places.l2;
        self.entries(nth, |entries| {
            let found = entries.start..entries.end.min(blocks.end - blocks.start);
            [(found, self.at(blocks.start))]
        })
    }

    fn l1(&self, nth: u64) -> Vec<u8> {
        self.entries(nth, |entries| {
            let found = self.with_data(self.geometry.region, entries);
            found.map(|regions| (regions, self.at(self.places.l2) | COPIED))
        })
    }

    fn l2(&self, nth: u64) -> Vec<u8> {
        self.entries(nth, |entries| {
            let found = self.with_data(self.geometry.cluster(), entries);
            found.map(|clusters| (clusters, self.at(self.places.data) | COPIED))
        })
    }

    /// The `nth` cluster of a table. `named` returns, for a range of entries, those that refer to a cluster,
    /// each with the position of the cluster of entry 0, from which the others follow.
    fn entries<I: IntoIterator<Item = (Range<u64>, u64)>>(
        &self,
        nth: u64,
        named: impl FnOnce(Range<u64>) -> I,
    ) -> Vec<u8> {
        let each = self.geometry.cluster() / ENTRY;
        let first = nth * each;
        let mut table = self.padded_table(vec![]);
        for (found, base) in named(first..first + each) {
            for entry in found {
                put(&mut table, entry - first, &(base + self.at(entry)).to_be_bytes());
            }
        }
        table
    }

    /// A block with the counts of clusters, 16 bits each.
    fn refcount_block(&self, nth: u64) -> Vec<u8> {
        let each = self.geometry.counts_per_block();
        let here = nth * each..(nth + 1) * each;
        let mut block = self.padded_table(vec![]);
        let mut count = |from: u64, used: Range<u64>| {
            for cluster in (from + used.start).max(here.start)..(from + used.end).min(here.end) {
                put(&mut block, cluster - here.start, &1_u16.to_be_bytes());
            }
        };
        let Places { l2, data, end, .. } = self.places;
        count(0, 0..l2);
        for (part, unit) in [(l2..data, self.geometry.region), (data..end, self.geometry.cluster())] {
            let from = part.start;
            let units =
                here.start.max(from).saturating_sub(from)..here.end.min(part.end).saturating_sub(from);
            self.with_data(unit, units).for_each(|used| count(from, used));
        }
        block
    }

    /// The parts of the disk, each of `unit` bytes, that may have data.
    fn with_data(&self, unit: u64, parts: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let mut next = parts.start;
        std::iter::from_fn(move || {
            if next >= parts.end {
                return None;
            }
            let data = self.disk.data_from(next * unit)?;
            let first = (data.start / unit).max(next);
            // Invalid ranges must still move forward.
            next = data.end.div_ceil(unit).max(first.saturating_add(1)).min(parts.end);
            (first < next).then_some(first..next)
        })
    }
}

impl<D: Sparse> Computed for View<D> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn places(&self) -> &Places {
        &self.places
    }

    fn table(&self, cluster: u64) -> Vec<u8> {
        let places = &self.places;
        match cluster {
            0 => self.padded_table(self.header.clone()),
            _ if cluster < places.l1 => self.refcount_table(cluster - places.refcount_table),
            _ if cluster < places.blocks => self.l1(cluster - places.l1),
            _ if cluster < places.l2 => self.refcount_block(cluster - places.blocks),
            _ => self.l2(cluster - places.l2),
        }
    }

    fn data(&self, buf: &mut [u8], at: u64) -> io::Result<()> {
        padded(&self.disk, buf, at)
    }
}

impl<D: Sparse> ReadAt for View<D> {
    fn size(&self) -> u64 {
        self.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.read(buf, offset)
    }
}
