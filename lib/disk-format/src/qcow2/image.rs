//! A qcow2 image whose bytes can be read at any offset.

use super::header::{Header, Parsed, Table};
use super::l1::L1Builder;
use super::map::{Budget, Map};
use super::occupied::Occupied;
use super::refcounts::RefcountBuilder;
use super::{refuse, snapshots};
use crate::image::{Image, Limits};
use crate::{Error, ErrorKind, Format, ReadAt, Result, Window};
use std::ops::Range;
use std::sync::Arc;

/// Size of the first read. It covers the header and its extensions in common images.
const FIRST_READ: usize = 4 << 10;
const CHUNK: u64 = 256 << 10;

/// A qcow2 image whose bytes can be read at any offset.
pub struct Qcow2 {
    bytes: Arc<dyn ReadAt>,
    map: Map,
    budget: Budget,
}

impl Qcow2 {
    /// Reads and checks the header, the L1 table, the refcount table and the snapshot table.
    pub fn open(bytes: Arc<dyn ReadAt>, limits: Limits) -> Result<Self> {
        let header = read_header(&bytes, limits)?;
        let file_end = bytes.size();
        let mut l1 = L1Builder::new(&header, limits);
        read_table(&bytes, &header.l1, "the L1 table", |entries| l1.feed(entries, Some(file_end)))?;
        let l1 = l1.finish()?;
        let mut blocks = RefcountBuilder::new(&header, limits);
        let fed = |entries: &[u8]| blocks.feed(entries, Some(file_end));
        read_table(&bytes, &header.refcounts, "the refcount table", fed)?;
        let mut occupied = Occupied::new(&header);
        occupied.check_l1(&l1, header.l1.offset)?;
        occupied.set_blocks(blocks.finish(), Some(&l1), header.refcounts.offset)?;
        snapshots::check(&header, &bytes)?;
        let map = Map { header, l1, occupied, file_end: Some(file_end) };
        Ok(Qcow2 { bytes, map, budget: Budget::new(limits) })
    }

    /// Names of the internal snapshots.
    pub fn snapshots(&self) -> Result<Vec<String>> {
        snapshots::names(&self.map.header, &self.bytes)
    }

    pub(super) fn bytes(&self) -> &dyn ReadAt {
        &*self.bytes
    }

    pub(super) fn header(&self) -> &Header {
        &self.map.header
    }

    /// Ranges of the file with tables and the header.
    pub(super) fn metadata(&self) -> impl Iterator<Item = Range<u64>> {
        let (bits, map) = (self.map.header.cluster_bits, &self.map);
        let whole = move |cluster: u32| (u64::from(cluster) << bits)..(u64::from(cluster) + 1) << bits;
        let tables =
            map.l1.tables.iter().map(|table| table.cluster).chain(map.occupied.blocks().iter().copied());
        map.header.fixed().into_iter().map(|(range, _)| range).chain(tables.map(whole))
    }
}

impl Image for Qcow2 {
    fn format(&self) -> Format {
        Format::Qcow2
    }

    fn virtual_size(&self) -> u64 {
        self.map.header.size
    }

    fn window(&self, from: u64) -> Result<Window> {
        let header = &self.map.header;
        if !from.is_multiple_of(header.cluster_size()) {
            let what = format!("a window at guest offset {from} does not start on a cluster");
            return Err(Error::new(ErrorKind::Io, Format::Qcow2, what));
        }
        let mut extents = vec![];
        let reached = self.map.fill(&self.bytes, self.budget, from..header.size.max(from), &mut extents)?;
        Ok(Window { extents, next: (reached < header.size).then_some(reached) })
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        self.map.header.facts()
    }
}

fn read_header(bytes: &dyn ReadAt, limits: Limits) -> Result<Header> {
    let mut need = FIRST_READ;
    loop {
        let len = bytes.size().min(need as u64) as usize;
        let mut head = vec![0; len];
        bytes
            .read_exact_at(&mut head, 0)
            .map_err(|e| Error::io(Format::Qcow2, "the header cannot be read", 0, e))?;
        match Header::parse(&head, len as u64 == bytes.size(), limits)? {
            Parsed::Done(header) => return Ok(*header),
            Parsed::Need(more) => need = more.max(need + 1),
        }
    }
}

/// Passes a table to `feed` in chunks. Fails first if the table extends past the end of the file.
fn read_table(
    bytes: &dyn ReadAt,
    table: &Table,
    name: &str,
    mut feed: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut range = table.range();
    if range.end > bytes.size() {
        let what = format!("{name} reaches past the end of the file ({:#x})", bytes.size());
        return Err(refuse(ErrorKind::Truncated, range.start, what));
    }
    let mut buffer = vec![];
    while !range.is_empty() {
        buffer.resize((range.end - range.start).min(CHUNK) as usize, 0);
        bytes
            .read_exact_at(&mut buffer, range.start)
            .map_err(|e| Error::io(Format::Qcow2, format!("{name} cannot be read"), range.start, e))?;
        feed(&buffer)?;
        range.start += buffer.len() as u64;
    }
    Ok(())
}
