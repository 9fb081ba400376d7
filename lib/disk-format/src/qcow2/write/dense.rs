//! A raw disk without its holes, as a qcow2 file that is computed on request. For sending the file from its
//! first byte to its last.
//!
//! ```text
//!   the file:  header │ refcount table │ L1 │ refcount blocks │ L2 … │ data: clusters with data, without gaps
//!                                       └── of regions with data ──┘
//! ```
//!
//! `view.rs` reserves space for each hole, and needs no memory for it. Here holes take no space, so the map
//! of the disk is walked once and kept: 24 bytes for each run of clusters, and no more runs than the caller
//! allows. All offsets follow from that map, even if the file system reports other holes later. A reader of a
//! stream needs no spool: data follows its tables, in the order of the disk.
//!
//! The caller must ensure that the disk does not change. Holes of the map are never read.

use super::Options;
use super::computed::{COPIED, Computed, ENTRY, Places, Sparse, padded, put};
use super::geometry::Geometry;
use crate::{ReadAt, Result};
use std::io;

/// The qcow2 file of a disk's data.
#[derive(Debug)]
pub struct Dense<D> {
    disk: D,
    header: Vec<u8>,
    geometry: Geometry,
    runs: Vec<Run>,
    /// Indexes of the L2 tables whose part of the disk has data.
    regions: Vec<u64>,
    places: Places,
}

/// Contiguous clusters of the disk with data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    first: u64,
    count: u64,
    /// Number of clusters with data before these.
    before: u64,
}

impl<D: Sparse> Dense<D> {
    /// Walks the map of a disk. `None` if it has more than `most_runs` runs of data. Fails if the disk is too
    /// large for a qcow2 file that readers accept.
    pub fn new(disk: D, most_runs: usize) -> Result<Option<Dense<D>>> {
        let options = Options::new(disk.size());
        let geometry = Geometry::new(&options)?;
        let Some(runs) = runs(&disk, geometry.cluster(), most_runs) else { return Ok(None) };
        let each = geometry.region / geometry.cluster();
        let mut regions: Vec<u64> = Vec::new();
        for run in &runs {
            let last = (run.first + run.count - 1) / each;
            let next = regions.last().map_or(0, |region| region + 1).max(run.first / each);
            regions.extend(next..=last);
        }
        let places = Places::new(&geometry, regions.len() as u64, runs.last().map_or(0, Run::behind));
        let header = places.header(&options, &geometry, disk.size())?;
        Ok(Some(Dense { disk, header, geometry, runs, regions, places }))
    }

    /// Number of bytes of the disk that lie before an offset of the file, for the progress of a reader.
    pub fn disk_before(&self, offset: u64) -> u64 {
        let Some(within) = offset.checked_sub(self.at(self.places.data)) else { return 0 };
        let (cluster, rest) = (within / self.geometry.cluster(), within % self.geometry.cluster());
        match self.run_of(cluster) {
            Some(run) => (self.at(run.first + (cluster - run.before)) + rest).min(self.disk.size()),
            None => self.disk.size(),
        }
    }

    /// The run with the `nth` cluster of those with data.
    fn run_of(&self, nth: u64) -> Option<&Run> {
        self.runs.get(self.runs.partition_point(|run| run.behind() <= nth))
    }
}

impl<D: Sparse> Computed for Dense<D> {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn places(&self) -> &Places {
        &self.places
    }

    fn table(&self, cluster: u64) -> Vec<u8> {
        let places = &self.places;
        let mut table = match cluster {
            0 => self.header.clone(),
            _ => vec![],
        };
        table.resize(self.geometry.cluster() as usize, 0);
        let each = self.geometry.cluster() / ENTRY;
        let entry = |nth: u64, place: u64| (nth, (self.at(place) | COPIED).to_be_bytes());
        match cluster {
            0 => {}
            _ if cluster < places.l1 => {
                let first = (cluster - places.refcount_table) * each;
                for block in first..(first + each).min(places.l2 - places.blocks) {
                    put(&mut table, block - first, &self.at(places.blocks + block).to_be_bytes());
                }
            }
            _ if cluster < places.blocks => {
                let first = (cluster - places.l1) * each;
                let from = self.regions.partition_point(|region| *region < first);
                let named = self.regions.iter().zip(0..).skip(from);
                for (region, nth) in named.take_while(|(region, _)| **region < first + each) {
                    let (at, entry) = entry(region - first, places.l2 + nth);
                    put(&mut table, at, &entry);
                }
            }
            _ if cluster < places.l2 => {
                let counts = self.geometry.counts_per_block();
                let first = (cluster - places.blocks) * counts;
                for used in first..(first + counts).min(places.end) {
                    put(&mut table, used - first, &1_u16.to_be_bytes());
                }
            }
            _ => {
                let Some(region) = self.regions.get((cluster - places.l2) as usize) else { return table };
                let (first, end) = (region * each, (region + 1) * each);
                let from = self.runs.partition_point(|run| run.first + run.count <= first);
                for run in self.runs[from..].iter().take_while(|run| run.first < end) {
                    for data in run.first.max(first)..(run.first + run.count).min(end) {
                        let (at, entry) = entry(data - first, places.data + run.before + (data - run.first));
                        put(&mut table, at, &entry);
                    }
                }
            }
        }
        table
    }

    fn data(&self, buf: &mut [u8], at: u64) -> io::Result<()> {
        let (mut rest, mut at) = (buf, at);
        while !rest.is_empty() {
            let cluster = at / self.geometry.cluster();
            let run = self.run_of(cluster).ok_or(io::ErrorKind::UnexpectedEof)?;
            let left = self.at(run.behind()) - at;
            let (here, behind) =
                rest.split_at_mut(usize::try_from(left).unwrap_or(usize::MAX).min(rest.len()));
            let on_disk = self.at(run.first) + (at - self.at(run.before));
            padded(&self.disk, here, on_disk)?;
            at += here.len() as u64;
            rest = behind;
        }
        Ok(())
    }
}

impl<D: Sparse> ReadAt for Dense<D> {
    fn size(&self) -> u64 {
        self.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.read(buf, offset)
    }
}

impl Run {
    /// Number of clusters with data up to the end of this run.
    fn behind(&self) -> u64 {
        self.before + self.count
    }
}

/// The runs of clusters that may have data. `None` if there are more than `most`.
fn runs(disk: &impl Sparse, cluster: u64, most: usize) -> Option<Vec<Run>> {
    let end = disk.size().div_ceil(cluster);
    let (mut runs, mut next) = (Vec::<Run>::new(), 0);
    while next < end {
        let Some(data) = disk.data_from(next * cluster) else { break };
        let first = (data.start / cluster).max(next);
        // Invalid ranges must still move forward.
        let behind = data.end.div_ceil(cluster).max(first.saturating_add(1)).min(end);
        if first >= behind {
            break;
        }
        let (before, is_full) = (runs.last().map_or(0, Run::behind), runs.len() >= most);
        match runs.last_mut().filter(|last| last.first + last.count == first) {
            Some(last) => last.count += behind - first,
            None if is_full => return None,
            None => runs.push(Run { first, count: behind - first, before }),
        }
        next = behind;
    }
    Some(runs)
}
