//! A raw disk as a qcow2 file that nobody writes: each of its bytes is computed when it is read.
//!
//! ```text
//!   the file:  header │ refcount table │ L1 │ refcount blocks │ L2 0 │ L2 1 │ … │ data: the disk, holes included
//!                                       └── tables: from the disk's own map ──┘    at data + guest offset
//! ```
//!
//! **Every place is fixed by the disk's size.** A cluster of the disk lies at its own offset behind the tables, whether it
//! holds data or not; a hole is a cluster that no table names, so whoever reads by the tables never asks for it. So a
//! table needs no more than the map of what it describes: nothing is counted from the beginning of the disk, nothing is
//! kept, and a file system that tells its holes differently the next time changes no offset.
//!
//! **Memory** is one cluster for each table that is read; the map is walked for the range of that table alone, with at
//! most one question for each of its entries.
//!
//! Clusters are of 64 KiB, and a file is as long as its disk and about 1/8000 more. `qemu-img check` finds nothing to
//! mend: a hole is free, and so is a table of holes. A disk of an odd size ends with zeros up to a whole sector.

use super::Options;
use super::computed::{COPIED, Computed, ENTRY, Places, Sparse, padded, put};
use super::geometry::Geometry;
use crate::{ReadAt, Result};
use std::io;
use std::ops::Range;

/// The qcow2 file of a disk.
#[derive(Debug)]
pub struct View<D> {
    disk: D,
    header: Vec<u8>,
    geometry: Geometry,
    places: Places,
}

impl<D: Sparse> View<D> {
    /// Refuses a disk that is too large for a qcow2 that readers open.
    pub fn new(disk: D) -> Result<View<D>> {
        let options = Options::new(disk.size());
        let geometry = Geometry::new(&options)?;
        let data_clusters = geometry.virtual_size.div_ceil(geometry.cluster());
        let places = Places::new(&geometry, geometry.l1_entries, data_clusters);
        let header = places.header(&options, &geometry, disk.size())?;
        Ok(View { disk, header, geometry, places })
    }

    /// Bytes of the file before the disk itself.
    pub fn tables(&self) -> u64 {
        Computed::tables(self)
    }

    fn whole(&self, mut table: Vec<u8>) -> Vec<u8> {
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

    /// The nth cluster of a table. `named`: of a range of entries those that name a cluster, each with the place of the
    /// cluster of entry 0, from which the others follow.
    fn entries<I: IntoIterator<Item = (Range<u64>, u64)>>(
        &self,
        nth: u64,
        named: impl FnOnce(Range<u64>) -> I,
    ) -> Vec<u8> {
        let each = self.geometry.cluster() / ENTRY;
        let first = nth * each;
        let mut table = self.whole(vec![]);
        for (found, base) in named(first..first + each) {
            for entry in found {
                put(&mut table, entry - first, &(base + self.at(entry)).to_be_bytes());
            }
        }
        table
    }

    /// Which clusters of the file are in use, 16 bits each.
    fn refcount_block(&self, nth: u64) -> Vec<u8> {
        let each = self.geometry.counts_per_block();
        let here = nth * each..(nth + 1) * each;
        let mut block = self.whole(vec![]);
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

    /// Of these parts of the disk, each of so many bytes, those that may hold data.
    fn with_data(&self, unit: u64, parts: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let mut next = parts.start;
        std::iter::from_fn(move || {
            if next >= parts.end {
                return None;
            }
            let data = self.disk.data_from(next * unit)?;
            let first = (data.start / unit).max(next);
            // What makes no sense goes forward all the same.
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
            0 => self.whole(self.header.clone()),
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
