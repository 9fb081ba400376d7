//! The writer, which places clusters, keeps the tables, and completes the file.

use super::geometry::{Geometry, refuse, sectors_shift};
use super::l1::L1;
use super::output::Output;
use super::packer::Packer;
use super::space::{Chore, Gap, Space};
use super::{Options, WriteAt, header};
use crate::{ErrorKind, Result};

/// Flag "this host cluster has refcount 1" in L1 and L2 entries.
const COPIED: u64 = 1 << 63;
const COMPRESSED: u64 = 1 << 62;
const READS_ZEROS: u64 = 1;
const SECTOR: u64 = 512;

/// Writer of one qcow2 file. The module's header has the order of calls.
pub struct Writer<W> {
    options: Options,
    geometry: Geometry,
    out: Output<W>,
    space: Space,
    header: Vec<u8>,
    l1: L1,
    l2: Option<L2>,
    /// Offset in the guest's disk from which the next cluster may begin.
    guest: u64,
    written: FileSummary,
}

/// The L2 table of the region that is being written.
struct L2 {
    index: u64,
    at: u64,
    entries: Vec<u64>,
}

/// Size and counts of a finished file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileSummary {
    /// Size of the file. Everything before is written.
    pub file_size: u64,
    /// The guest's size: the requested one, rounded up to whole sectors.
    pub virtual_size: u64,
    /// Number of uncompressed clusters.
    pub plain_clusters: u64,
    /// Number of compressed clusters.
    pub compressed_clusters: u64,
}

impl<W: WriteAt> Writer<W> {
    /// Checks the options. Nothing is written yet.
    pub fn create(out: W, options: Options) -> Result<Self> {
        let geometry = Geometry::new(&options)?;
        let refcount_table_at = geometry.cluster();
        let l1_at = refcount_table_at + geometry.refcount_table_clusters * geometry.cluster();
        let header = header::encode(&options, &geometry, l1_at, refcount_table_at)?;
        Ok(Writer {
            out: Output::new(out),
            space: Space::new(&geometry),
            header,
            l1: L1::new(&geometry, l1_at),
            l2: None,
            guest: 0,
            written: FileSummary { virtual_size: geometry.virtual_size, ..FileSummary::default() },
            options,
            geometry,
        })
    }

    /// Size of a cluster in bytes.
    pub fn cluster_size(&self) -> usize {
        self.geometry.cluster() as usize
    }

    /// Makes a packer for a compressing thread. Every thread needs its own.
    pub fn packer(&self) -> Packer {
        Packer::new(self.options.cluster_bits, self.options.compress)
    }

    /// Stores clusters uncompressed, in as few writes as possible. `guest` must be a multiple of the cluster
    /// size, after everything that was appended before. The length of `data` must be one too, unless it ends
    /// at the end of the disk.
    pub fn append_plain(&mut self, guest: u64, data: &[u8]) -> Result<()> {
        self.advance(guest, data.len() as u64)?;
        let cluster = self.geometry.cluster();
        let (mut guest, mut data) = (guest, data);
        while !data.is_empty() {
            let until_region_ends = self.geometry.region - guest % self.geometry.region;
            let wanted = (data.len() as u64).min(until_region_ends).div_ceil(cluster);
            self.enter_region(guest)?;
            let (at, clusters) = self.space.clusters(wanted);
            self.do_chores()?;
            let (now, later) = data.split_at(data.len().min((clusters * cluster) as usize));
            self.out.data(now, at)?;
            self.out.pad(clusters * cluster - now.len() as u64, at + now.len() as u64)?;
            for i in 0..clusters {
                self.set_entry(guest + i * cluster, (at + i * cluster) | COPIED);
            }
            self.written.plain_clusters += clusters;
            guest += now.len() as u64;
            data = later;
        }
        Ok(())
    }

    /// Stores a cluster that [`Packer::pack`] has compressed.
    pub fn append_compressed(&mut self, guest: u64, packed: &[u8]) -> Result<()> {
        let cluster = self.geometry.cluster();
        self.advance(guest, cluster.min(self.geometry.virtual_size.saturating_sub(guest)))?;
        let len = packed.len() as u64;
        if self.options.compress.is_none() || len == 0 || len >= cluster {
            let what = format!(
                "a compressed cluster of {len} bytes is not valid for clusters of {cluster} bytes with compression {:?}",
                self.options.compress
            );
            return Err(refuse(ErrorKind::Unsupported, what));
        }
        self.enter_region(guest)?;
        let at = self.space.bytes(len);
        self.do_chores()?;
        self.out.data(packed, at)?;
        let more_sectors = (at + len - 1) / SECTOR - at / SECTOR;
        self.set_entry(guest, at | more_sectors << sectors_shift(self.geometry.cluster_bits) | COMPRESSED);
        self.written.compressed_clusters += 1;
        Ok(())
    }

    /// Makes a range of the guest's disk read as zeros. Over a backing file they hide its data; without one,
    /// omitting the range has the same result.
    pub fn append_zeros(&mut self, guest: u64, len: u64) -> Result<()> {
        self.advance(guest, len)?;
        if self.options.backing.is_none() {
            return Ok(());
        }
        for at in (guest..guest + len).step_by(self.cluster_size()) {
            self.enter_region(at)?;
            self.do_chores()?;
            self.set_entry(at, READS_ZEROS);
        }
        Ok(())
    }

    /// Writes the tables and, last, the header. Nothing is synced to disk; the target does that.
    pub fn finish(self) -> Result<FileSummary> {
        self.finish_into().map(|(written, _)| written)
    }

    /// Like [`Writer::finish`], and returns the output.
    pub fn finish_into(mut self) -> Result<(FileSummary, W)> {
        self.leave_region()?;
        self.space.finish();
        self.do_chores()?;
        self.out.flush()?;
        self.l1.finish(&mut self.out)?;
        let table: Vec<u8> = self.space.blocks().iter().flat_map(|at| at.to_be_bytes()).collect();
        let cluster = self.geometry.cluster();
        let table_len = self.geometry.refcount_table_clusters * cluster;
        self.out.write("the refcount table", &table, cluster)?;
        self.out.zero("the refcount table", table_len - table.len() as u64, cluster + table.len() as u64)?;
        let header_len = self.header.len() as u64;
        self.out.zero("the header", cluster - header_len, header_len)?;
        self.out.write("the header", &self.header, 0)?;
        self.written.file_size = self.space.end();
        Ok((self.written, self.out.into_inner()))
    }

    /// Checks that `len` bytes may follow at `guest`, and moves the position behind them.
    fn advance(&mut self, guest: u64, len: u64) -> Result<()> {
        let (cluster, size) = (self.geometry.cluster(), self.geometry.virtual_size);
        // A disk with an odd size is written completely. The bytes up to the next sector are padding.
        let end = guest.checked_add(len).filter(|&end| end <= size);
        let whole = |end: u64| end.is_multiple_of(cluster) || end > size - SECTOR.min(size);
        match end {
            Some(end) if guest >= self.guest && guest.is_multiple_of(cluster) && whole(end) => {
                self.guest = end.next_multiple_of(cluster);
                Ok(())
            }
            _ => {
                let what = format!(
                    "{len} bytes at guest offset {guest} are out of order: the next cluster of {cluster} bytes may begin \
                     at {}, and the disk ends at {size}",
                    self.guest
                );
                Err(refuse(ErrorKind::Unsupported, what))
            }
        }
    }

    /// Allocates the L2 table for `guest` if it is a new one.
    fn enter_region(&mut self, guest: u64) -> Result<()> {
        let index = guest / self.geometry.region;
        if self.l2.as_ref().is_some_and(|l2| l2.index == index) {
            return Ok(());
        }
        self.leave_region()?;
        let at = self.space.table();
        let entries = vec![0; (self.geometry.cluster() / 8) as usize];
        self.l2 = Some(L2 { index, at, entries });
        self.l1.set(index, at | COPIED, &mut self.out)
    }

    fn leave_region(&mut self) -> Result<()> {
        let Some(l2) = self.l2.take() else { return Ok(()) };
        let table: Vec<u8> = l2.entries.iter().flat_map(|entry| entry.to_be_bytes()).collect();
        self.out.table("an L2 table", &table, l2.at)
    }

    fn set_entry(&mut self, guest: u64, entry: u64) {
        if let Some(l2) = &mut self.l2 {
            l2.entries[(guest % self.geometry.region / self.geometry.cluster()) as usize] = entry;
        }
    }

    fn do_chores(&mut self) -> Result<()> {
        for chore in self.space.take_chores() {
            match chore {
                Chore::Close(Gap { at, len }) => self.out.pad(len, at)?,
                Chore::Counts { at, counts } => {
                    let block: Vec<u8> = counts.iter().flat_map(|n| n.to_be_bytes()).collect();
                    self.out.table("a refcount block", &block, at)?;
                }
            }
        }
        Ok(())
    }
}
