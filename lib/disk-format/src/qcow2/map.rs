//! Conversion of L2 tables to extents: entries are decoded, checked against the file and the metadata, and
//! merged.

use super::header::Header;
use super::l1::L1;
use super::l2::{Cluster, SUBCLUSTERS, decode};
use super::occupied::Occupied;
use super::refuse;
use crate::{Data, Error, ErrorKind, Extent, Format, Limits, ReadAt, Result};
use std::ops::Range;

/// The tables that are needed to convert entries to extents.
#[derive(Debug)]
pub(super) struct Map {
    pub(super) header: Header,
    pub(super) l1: L1,
    pub(super) occupied: Occupied,
    /// Size of the file, if it is known already.
    pub(super) file_end: Option<u64>,
}

/// Limits of memory and reads for one walk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    pub(super) extents: usize,
    buffer: usize,
    table_bytes: u64,
}

impl Budget {
    /// Limits for a walk. A growing list takes twice its length for a moment and is copied once, so it may
    /// take an eighth of the memory.
    pub(super) fn new(limits: Limits) -> Self {
        let memory = limits.table_memory;
        Budget {
            extents: (memory / 8 / size_of::<Extent>()).max(64),
            buffer: (memory / 8).clamp(4096, 1 << 20),
            table_bytes: memory as u64 / 2,
        }
    }
}

impl Map {
    /// Adds the extents of `range`, until its end or until the budget is used up. Returns the offset reached.
    /// Always makes progress.
    pub(super) fn fill(
        &self,
        bytes: &dyn ReadAt,
        budget: Budget,
        range: Range<u64>,
        out: &mut Vec<Extent>,
    ) -> Result<u64> {
        let table_bits = self.header.table_bits();
        let mut builder = Builder::new(self, out);
        let (mut guest, mut read, mut buffer) = (range.start, 0, vec![]);
        while guest < range.end && builder.out.len() < budget.extents && read <= budget.table_bytes {
            let index = guest >> table_bits;
            let nth = self.l1.at_or_after(index);
            match self.l1.tables.get(nth) {
                Some(table) if u64::from(table.index) == index => {
                    let slice = self.slice(nth, guest..range.end, budget.buffer);
                    buffer.resize((slice.end - slice.start) as usize, 0);
                    bytes.read_exact_at(&mut buffer, slice.start).map_err(|e| {
                        Error::io(Format::Qcow2, "the L2 table cannot be read", slice.start, e)
                    })?;
                    read += buffer.len() as u64;
                    guest = builder.entries(guest, slice.start, &buffer, budget.extents)?;
                }
                next => {
                    let end = next.map_or(range.end, |t| (u64::from(t.index) << table_bits).min(range.end));
                    builder.zero(guest, end - guest);
                    guest = end;
                }
            }
        }
        Ok(guest.min(range.end))
    }

    /// All extents of one L2 table whose bytes are given, if there are at most `most` of them.
    pub(super) fn table(&self, nth: usize, bytes: &[u8], most: usize) -> Result<Option<Vec<Extent>>> {
        let mut out = vec![];
        let guest = self.guest_of(nth);
        let reached =
            Builder::new(self, &mut out).entries(guest.start, self.table_offset(nth), bytes, most)?;
        Ok((reached >= guest.end && out.len() <= most).then_some(out))
    }

    /// The guest's range that a table maps. Empty after the end of the disk, where QEMU stores a VM's memory.
    pub(super) fn guest_of(&self, nth: usize) -> Range<u64> {
        let bits = self.header.table_bits();
        let start = u64::from(self.l1.tables[nth].index) << bits;
        start.min(self.header.size)..(start + (1 << bits)).min(self.header.size)
    }

    /// Offset of a table in the file.
    pub(super) fn table_offset(&self, nth: usize) -> u64 {
        u64::from(self.l1.tables[nth].cluster) << self.header.cluster_bits
    }

    /// The file range of the entries from `guest.start` on: at most `most` bytes, at most to `guest.end`. It
    /// extends over further tables if they follow in both the guest and the file.
    fn slice(&self, nth: usize, guest: Range<u64>, most: usize) -> Range<u64> {
        let header = &self.header;
        let (cluster_size, entry) = (header.cluster_size(), header.entry_bytes());
        let first = (guest.start & ((1 << header.table_bits()) - 1)) >> header.cluster_bits;
        let start = self.table_offset(nth) + first * entry;
        let wanted = ((guest.end - guest.start).div_ceil(cluster_size) * entry).min(most as u64);
        let mut end = self.table_offset(nth) + cluster_size;
        for pair in self.l1.tables[nth..].windows(2) {
            let follows =
                pair[1].index == pair[0].index + 1 && pair[1].cluster == pair[0].cluster.wrapping_add(1);
            if end - start >= wanted || !follows {
                break;
            }
            end += cluster_size;
        }
        start..end.min(start + wanted)
    }
}

/// Checks entries and merges them into a list of extents in guest order.
struct Builder<'a> {
    map: &'a Map,
    out: &'a mut Vec<Extent>,
    /// A range of the file without metadata. It makes most clusters checkable by two comparisons.
    gap: Range<u64>,
}

impl<'a> Builder<'a> {
    fn new(map: &'a Map, out: &'a mut Vec<Extent>) -> Self {
        Builder { map, out, gap: 0..0 }
    }

    /// Decodes entries for the guest from `guest` on, until the disk or the entries end, or until there are
    /// `most` extents. Returns the guest offset reached.
    fn entries(&mut self, mut guest: u64, at: u64, bytes: &[u8], most: usize) -> Result<u64> {
        let header = &self.map.header;
        let (cluster_size, size) = (header.cluster_size(), header.size);
        let step = header.entry_bytes() as usize;
        for (i, raw) in bytes.chunks_exact(step).enumerate() {
            if guest >= size || self.out.len() >= most {
                break;
            }
            let word = |from: usize| {
                raw.get(from..from + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_be_bytes)
            };
            let (entry, bitmap) = (word(0), word(8));
            let len = cluster_size.min(size - guest);
            if entry | bitmap == 0 {
                self.zero(guest, len);
            } else {
                self.cluster(guest, len, entry, bitmap).map_err(|(kind, fault)| {
                    let what = format!("the L2 entry for guest offset {guest:#x} is {entry:#018x}: {fault}");
                    refuse(kind, at + (i * step) as u64, what)
                })?;
            }
            guest += cluster_size;
        }
        Ok(guest)
    }

    fn cluster(&mut self, guest: u64, len: u64, entry: u64, bitmap: u64) -> Result<(), (ErrorKind, String)> {
        match decode(&self.map.header, entry, bitmap)? {
            Cluster::Zero => self.zero(guest, len),
            Cluster::Raw { at } => self.raw(guest, len, at)?,
            Cluster::Parts { at, present } => {
                let part = self.map.header.cluster_size() / u64::from(SUBCLUSTERS);
                for i in 0..u64::from(SUBCLUSTERS) {
                    let len = part.min(len.saturating_sub(i * part));
                    match (len, present >> i & 1) {
                        (0, _) => break,
                        (_, 0) => self.zero(guest + i * part, len),
                        _ => self.raw(guest + i * part, len, at + i * part)?,
                    }
                }
            }
            Cluster::Packed { at, size } => {
                let unpacked = 1 << self.map.header.cluster_bits;
                let size = self.clamp(at, size)?;
                self.free(at, u64::from(size))?;
                let data = Data::Packed { at, size, codec: self.map.header.codec, unpacked };
                self.out.push(Extent { guest, len, data });
            }
        }
        Ok(())
    }

    fn zero(&mut self, guest: u64, len: u64) {
        match self.out.last_mut() {
            Some(last) if last.data == Data::Zero && last.end() == guest => last.len += len,
            _ => self.out.push(Extent { guest, len, data: Data::Zero }),
        }
    }

    fn raw(&mut self, guest: u64, len: u64, at: u64) -> Result<(), (ErrorKind, String)> {
        if let Some(end) = self.map.file_end.filter(|&end| at + len > end) {
            return Err((ErrorKind::Truncated, past_end("data", at, end)));
        }
        self.free(at, len)?;
        if let Some(last) = self.out.last_mut()
            && let Data::Raw { at: start } = last.data
            && last.end() == guest
            && start + last.len == at
        {
            last.len += len;
            return Ok(());
        }
        self.out.push(Extent { guest, len, data: Data::Raw { at } });
        Ok(())
    }

    /// Truncates compressed data at the end of the file. Its last sector may be incomplete, but no whole
    /// sector may be missing.
    fn clamp(&self, at: u64, size: u32) -> Result<u32, (ErrorKind, String)> {
        let Some(file_end) = self.map.file_end else { return Ok(size) };
        clamp(at, size, file_end)
            .ok_or_else(|| (ErrorKind::Truncated, past_end("compressed data", at, file_end)))
    }

    fn free(&mut self, at: u64, len: u64) -> Result<(), (ErrorKind, String)> {
        if self.gap.start <= at && at + len <= self.gap.end {
            return Ok(());
        }
        let overlap = |at: u64, name| (ErrorKind::Malformed, format!("its data at {at:#x} overlaps {name}"));
        self.gap = self.map.occupied.gap(at, &self.map.l1).map_err(|name| overlap(at, name))?;
        if at + len <= self.gap.end {
            return Ok(());
        }
        let name = self.map.occupied.gap(self.gap.end, &self.map.l1).err().unwrap_or("metadata");
        Err(overlap(at, name))
    }
}

/// Number of the `size` bytes at `at` that are in the file. `None` if a whole sector of them is missing.
pub(super) fn clamp(at: u64, size: u32, file_end: u64) -> Option<u32> {
    let there = file_end.checked_sub(at).filter(|&there| there > 0)?;
    match u64::from(size).saturating_sub(there) {
        0 => Some(size),
        missing if missing < 512 => u32::try_from(there).ok(),
        _ => None,
    }
}

fn past_end(what: &str, at: u64, end: u64) -> String {
    format!("its {what} at {at:#x} reaches past the end of the file ({end:#x})")
}
