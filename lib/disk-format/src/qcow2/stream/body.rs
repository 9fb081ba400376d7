//! Reading of the file after its header.

use super::pending::Pending;
use super::spooled::Spooled;
use super::tables::{Passed, Tables};
use super::{gone, misused};
use crate::image::{Limits, Pushed};
use crate::qcow2::header::{Header, SNAPSHOT_ENTRY};
use crate::qcow2::l1::{L1, L1Builder};
use crate::qcow2::map::{Budget, Map, clamp};
use crate::qcow2::occupied::Occupied;
use crate::qcow2::refcounts::RefcountBuilder;
use crate::qcow2::refuse;
use crate::{Data, ErrorKind, Extent, Result};
use std::ops::Range;

/// Raw data is returned in whole units (or clusters, if those are smaller), so that writes stay aligned.
const UNIT: u64 = 4096;
/// Compressed data is counted in sectors.
const SECTOR: u64 = 512;

pub(super) struct Body {
    pub(super) map: Map,
    pub(super) budget: Budget,
    /// Set until the L1 table has been read completely.
    pub(super) l1: Option<L1Builder>,
    pub(super) refcounts: Option<RefcountBuilder>,
    /// Offset up to which the file has been processed.
    pub(super) at: u64,
    /// Tables that the header lists, in file order.
    pub(super) fixed: Vec<Fixed>,
    pub(super) next_fixed: usize,
    /// Index of the next L2 table in file order.
    pub(super) next_table: usize,
    /// Index of the next refcount block in file order.
    pub(super) next_block: usize,
    pub(super) tables: Tables,
    pub(super) pending: Pending,
    most_pending: usize,
    pub(super) spooled: Spooled,
    most_spooled: usize,
    /// End of the cluster of the raw data that was returned last.
    pub(super) cluster_end: u64,
    /// Compressed data has been returned.
    pub(super) has_packed: bool,
    /// Too many ranges were spooled to keep a list. No more data is returned before the end.
    pub(super) keep_all: bool,
    pub(super) ended: bool,
    /// Table at which [`Body::leftover`] continues.
    pub(super) left_table: usize,
    /// Guest offset in that table.
    pub(super) left_from: u64,
}

pub(super) struct Fixed {
    /// Range in whole clusters.
    pub(super) clusters: Range<u64>,
    /// End of the used part.
    end: u64,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    L1,
    Refcounts,
    Nothing,
}

/// Result of one step of the walk.
enum Step {
    On,
    /// The next item extends past the end of the piece.
    Wait,
}

/// A piece of the file, and the result of processing it.
struct Piece<'a> {
    base: u64,
    end: u64,
    bytes: &'a [u8],
    last: bool,
    out: Pushed,
}

impl Piece<'_> {
    fn slice(&self, range: Range<u64>) -> &[u8] {
        let index = |at: u64| usize::try_from(at.saturating_sub(self.base)).unwrap_or(usize::MAX);
        self.bytes.get(index(range.start)..index(range.end)).unwrap_or_default()
    }
}

impl Body {
    pub(super) fn new(header: Header, limits: Limits) -> Self {
        let [head, l1, refcounts, snapshots] = header.fixed().map(|(range, _)| range);
        let snapshots_end = header.snapshots_offset + u64::from(header.snapshots) * SNAPSHOT_ENTRY;
        let mut fixed = vec![
            Fixed { end: 0, clusters: head, what: What::Nothing },
            Fixed { end: header.l1.range().end, clusters: l1, what: What::L1 },
            Fixed { end: header.refcounts.range().end, clusters: refcounts, what: What::Refcounts },
            Fixed { end: snapshots_end, clusters: snapshots, what: What::Nothing },
        ];
        fixed.retain(|fixed| !fixed.clusters.is_empty());
        fixed.sort_by_key(|fixed| fixed.clusters.start);
        Body {
            budget: Budget::new(limits),
            l1: Some(L1Builder::new(&header, limits)),
            refcounts: Some(RefcountBuilder::new(&header, limits)),
            at: 0,
            fixed,
            next_fixed: 0,
            next_table: 0,
            next_block: 0,
            tables: Tables::default(),
            pending: Pending::default(),
            most_pending: limits.table_memory / 6 / size_of::<Extent>(),
            spooled: Spooled::default(),
            most_spooled: (limits.table_memory / 8 / size_of::<Range<u64>>()).max(16),
            cluster_end: 0,
            has_packed: false,
            keep_all: false,
            ended: false,
            left_table: 0,
            left_from: 0,
            map: Map { occupied: Occupied::new(&header), header, l1: L1::default(), file_end: None },
        }
    }

    pub(super) fn header(&self) -> &Header {
        &self.map.header
    }

    pub(super) fn push(&mut self, base: u64, bytes: &[u8], last: bool) -> Result<Pushed> {
        let end = base.checked_add(bytes.len() as u64).filter(|_| base <= self.at && !self.ended);
        let end = end.ok_or_else(|| misused(format!("a piece starts at {base}, {} is next", self.at)))?;
        let mut piece = Piece { base, end, bytes, last, out: Pushed::default() };
        if last {
            self.map.file_end = Some(end);
        }
        if self.header().l1.entries == 0 && self.l1.is_some() {
            self.l1_passed(&mut piece.out)?;
        }
        while let Step::On = self.step(&mut piece)? {}
        // After `resume_from` the position may be behind the piece, which has then passed completely.
        piece.out.keep_from = self.at.min(self.next_pending().unwrap_or(u64::MAX)).min(end);
        if last {
            self.end(end)?;
            piece.out.keep_from = end;
        }
        Ok(piece.out)
    }

    /// Processes the item at the current position.
    fn step(&mut self, piece: &mut Piece<'_>) -> Result<Step> {
        if self.next_pending().is_some_and(|at| at <= self.at && at < piece.end) {
            return self.take_data(piece);
        }
        if self.at >= piece.end {
            return Ok(Step::Wait);
        }
        let fixed = self.fixed.get(self.next_fixed).map(|fixed| fixed.clusters.start);
        if fixed.is_some_and(|start| start <= self.at) {
            return self.take_fixed(piece);
        }
        let table = self.next_table_at();
        if table.is_some_and(|start| start <= self.at) {
            return self.take_table(piece);
        }
        let block = self.next_block_at();
        if let Some(start) = block.filter(|&start| start <= self.at) {
            let block_end = start + self.header().cluster_size();
            self.at = self.at.max(block_end.min(piece.end));
            self.next_block += usize::from(block_end <= self.at);
            return Ok(Step::On);
        }
        let next = [fixed, table, block, self.next_pending()].into_iter().flatten().min().unwrap_or(u64::MAX);
        match self.unread() {
            Some(unread) if unread.start <= self.at => self.at = unread.end.min(next).min(piece.end),
            Some(unread) => self.unknown(self.at..unread.start.min(next).min(piece.end), piece),
            None => self.unknown(self.at..next.min(piece.end), piece),
        }
        Ok(Step::On)
    }

    /// Number of bytes from `base` on that no table refers to, now or later.
    pub(super) fn skippable(&self, base: u64) -> u64 {
        let is_known = self.l1.is_none() && self.refcounts.is_none() && self.tables.all_read();
        if base != self.at || !is_known || self.keep_all || self.ended {
            return 0;
        }
        let fixed = self.fixed.get(self.next_fixed).map(|fixed| fixed.clusters.start);
        let named = [fixed, self.next_table_at(), self.next_block_at(), self.next_pending()];
        named.into_iter().flatten().min().unwrap_or(u64::MAX).saturating_sub(base)
    }

    /// Skips `len` of these bytes.
    pub(super) fn skip(&mut self, len: u64) {
        self.at += len;
    }

    /// Unused bytes of a cluster of known data, at the current position or later: missing subclusters, and
    /// bytes after the end of the disk.
    fn unread(&self) -> Option<Range<u64>> {
        if self.keep_all {
            return None;
        }
        if self.at < self.cluster_end {
            return Some(self.at..self.cluster_end);
        }
        let next = self.pending.peek().filter(|next| matches!(next.data, Data::Raw { .. }));
        let at = next?.file_range()?.start;
        let start = at >> self.header().cluster_bits << self.header().cluster_bits;
        (start < at).then_some(start..at)
    }

    /// Processes bytes that no table has referred to. They are spooled if a later table may refer to them.
    fn unknown(&mut self, range: Range<u64>, piece: &mut Piece<'_>) {
        if self.l1.is_none() && self.tables.all_read() && !self.keep_all {
            self.at = range.end;
        } else {
            self.spool(range, piece);
        }
    }

    fn spool(&mut self, range: Range<u64>, piece: &mut Piece<'_>) {
        self.at = range.end;
        self.spooled.add(range.clone());
        match piece.out.spool.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => piece.out.spool.push(range),
        }
        // Pending data lies ahead, stays pending, and is spooled too.
        self.keep_all |= self.spooled.len() > self.most_spooled;
    }

    /// Returns the next pending data, as far as the piece contains it.
    fn take_data(&mut self, piece: &mut Piece<'_>) -> Result<Step> {
        let Some(next) = self.pending.peek().copied() else { return Ok(Step::On) };
        let told = match next.data {
            Data::Zero => None,
            Data::Raw { at } | Data::Packed { at, .. } if at < piece.base => return Err(gone(&next, at)),
            Data::Raw { at } => {
                let unit = UNIT.min(self.header().cluster_size());
                let there = if piece.last { piece.end } else { piece.end - piece.end % unit };
                if there <= at {
                    return Ok(Step::Wait);
                }
                self.pending.pop_front(there - at)
            }
            Data::Packed { at, size, codec, unpacked } => {
                let there = if piece.last { clamp(at, size, piece.end).unwrap_or(size) } else { size };
                if at + u64::from(there) > piece.end {
                    return Ok(Step::Wait);
                }
                let data = Data::Packed { at, size: there, codec, unpacked };
                self.pending.pop().map(|extent| Extent { data, ..extent })
            }
        };
        if let Some(extent) = told {
            self.at = self.at.max(self.dealt_with(&extent, piece));
            match extent.data {
                Data::Raw { .. } => self.cluster_end = self.at.next_multiple_of(self.header().cluster_size()),
                _ => self.has_packed = true,
            }
            piece.out.extents.push(extent);
        }
        Ok(Step::On)
    }

    /// Offset up to which the file is no longer needed after this data was returned.
    ///
    /// Compressed data ends somewhere in its last sector, and other clusters may begin in the rest of that
    /// sector. If its end is unknown, the position of the next pending data may show that no other cluster
    /// begins there. This requires that both belong to one table, which keeps its data apart from that of
    /// unknown tables. Otherwise the last sector is spooled.
    fn dealt_with(&mut self, told: &Extent, piece: &Piece<'_>) -> u64 {
        let range = told.file_range().unwrap_or_default();
        let Data::Packed { at, codec, .. } = told.data else { return range.end };
        if let Some(end) = codec.end(piece.slice(range.clone())) {
            return at + end as u64;
        }
        let table = |extent: &Extent| extent.guest >> self.map.header.table_bits();
        let nth = self.map.l1.at_or_after(table(told));
        let follows = |next: &Extent| next.file_range().is_some_and(|next| next.start <= range.end);
        let neighbour = self.pending.peek().is_some_and(|next| follows(next) && table(next) == table(told));
        let apart = neighbour && self.tables.keeps_apart(nth);
        self.tables.count_data(nth, told.guest >> self.header().cluster_bits);
        if apart { range.end } else { range.start.max((range.end - 1) / SECTOR * SECTOR) }
    }

    /// Data before the current position, from the spool. The last sector of compressed data may partly belong
    /// to other clusters.
    pub(super) fn kept(&self, extent: &Extent) -> Result<Extent> {
        let kept = extent.file_range().and_then(|range| {
            let held = self.spooled.held_from(range.start);
            match extent.data {
                Data::Packed { at, size, codec, unpacked } => {
                    let size = clamp(at, size, held)?;
                    Some(Extent { data: Data::Packed { at, size, codec, unpacked }, ..*extent })
                }
                _ => (held >= range.end).then_some(*extent),
            }
        });
        kept.ok_or_else(|| gone(extent, extent.file_range().unwrap_or_default().start))
    }

    fn take_fixed(&mut self, piece: &mut Piece<'_>) -> Result<Step> {
        let Fixed { ref clusters, end, what } = self.fixed[self.next_fixed];
        let clusters_end = clusters.end;
        if self.at < end && what != What::Nothing {
            let there = end.min(piece.end) - self.at;
            let entries = self.at..self.at + there / 8 * 8;
            if entries.is_empty() {
                return Ok(Step::Wait);
            }
            self.at = entries.end;
            self.feed(what, piece.slice(entries), piece.last.then_some(piece.end))?;
            if self.at < end {
                return Ok(Step::On);
            }
            match what {
                What::L1 => self.l1_passed(&mut piece.out)?,
                _ => self.refcounts_passed()?,
            }
        }
        self.at = clusters_end.min(piece.end);
        self.next_fixed += usize::from(self.at == clusters_end);
        Ok(Step::On)
    }

    fn feed(&mut self, what: What, entries: &[u8], file_end: Option<u64>) -> Result<()> {
        match (what, &mut self.l1, &mut self.refcounts) {
            (What::L1, Some(l1), _) => l1.feed(entries, file_end),
            (What::Refcounts, _, Some(refcounts)) => refcounts.feed(entries, file_end),
            _ => Ok(()),
        }
    }

    fn refcounts_passed(&mut self) -> Result<()> {
        if let Some(refcounts) = self.refcounts.take() {
            let offset = self.header().refcounts.offset;
            self.map.occupied.set_blocks(refcounts.finish(), Some(&self.map.l1), offset)?;
            let cluster = self.at.div_ceil(self.header().cluster_size());
            self.next_block = self.map.occupied.blocks().partition_point(|&block| u64::from(block) < cluster);
        }
        Ok(())
    }

    /// Handles the end of the L1 table, when all L2 tables are known. Tables that have passed must have been
    /// spooled. Ranges without a table are zeros.
    fn l1_passed(&mut self, out: &mut Pushed) -> Result<()> {
        let Some(l1) = self.l1.take() else { return Ok(()) };
        let l1 = l1.finish()?;
        self.map.occupied.check_l1(&l1, self.header().l1.offset)?;
        self.map.l1 = l1;
        self.tables = Tables::new(self.map.l1.tables.len(), self.header().cluster_bits);
        let cluster_size = self.header().cluster_size();
        self.next_table = self.map.l1.before_cluster(self.at.div_ceil(cluster_size));
        for nth in (0..self.next_table).filter_map(|nth| self.map.l1.in_file(nth)) {
            let offset = self.map.table_offset(nth);
            if !self.spooled.holds(&(offset..offset + cluster_size)) {
                let what = "an L2 table overlaps other metadata that was already read from the stream";
                return Err(refuse(ErrorKind::Malformed, offset, what));
            }
        }
        let mut guest = 0;
        let tables = (0..self.map.l1.tables.len()).map(|nth| self.map.guest_of(nth));
        let end = self.header().size;
        for table in tables.chain(std::iter::once(end..end)) {
            if table.start > guest {
                out.extents.push(Extent { guest, len: table.start - guest, data: Data::Zero });
            }
            guest = guest.max(table.end);
        }
        Ok(())
    }

    fn take_table(&mut self, piece: &mut Piece<'_>) -> Result<Step> {
        let Some(nth) = self.map.l1.in_file(self.next_table) else { return Ok(Step::On) };
        let offset = self.map.table_offset(nth);
        let range = offset..offset + self.header().cluster_size();
        if offset != self.at {
            return Err(refuse(
                ErrorKind::Malformed,
                offset,
                "an L2 table overlaps data that was already read from the stream",
            ));
        }
        if range.end > piece.end {
            return Ok(Step::Wait);
        }
        self.next_table += 1;
        let room = self.most_pending.saturating_sub(self.pending.len());
        let Some(extents) = self.map.table(nth, piece.slice(range.clone()), room)? else {
            self.spool(range, piece);
            return Ok(Step::On);
        };
        self.tables.set(nth, Passed::Read);
        let mut late = false;
        for extent in extents {
            match extent.file_range() {
                None => piece.out.extents.push(extent),
                Some(data) if data.start >= range.end => {
                    self.pending.add(extent);
                    self.tables.pends(nth);
                }
                Some(_) => {
                    self.kept(&extent)?;
                    late = true;
                }
            }
        }
        if late {
            self.tables.set(nth, Passed::Late);
            self.spool(range, piece);
        } else {
            self.at = range.end;
        }
        Ok(Step::On)
    }

    /// Handles the end of the file. Fails if any table or data is missing.
    fn end(&mut self, file_end: u64) -> Result<()> {
        self.ended = true;
        let missing = |what: &str, at: u64| {
            Err(refuse(
                ErrorKind::Truncated,
                at,
                format!("{what} lies past the end of the file ({file_end:#x})"),
            ))
        };
        if let Some(fixed) = self.fixed.iter().find(|fixed| fixed.end > file_end) {
            return missing("a table that the header lists", fixed.clusters.start);
        }
        let cluster_size = self.header().cluster_size();
        let blocks = self.map.occupied.blocks().last();
        let block = blocks.map(|&block| u64::from(block) << self.header().cluster_bits);
        if let Some(at) = block.filter(|at| at + cluster_size > file_end) {
            return missing("a refcount block", at);
        }
        if self.keep_all {
            return Ok(());
        }
        if let Some(at) = self.next_table_at() {
            return missing("an L2 table", at);
        }
        match self.next_pending() {
            Some(at) => missing("data", at),
            None => Ok(()),
        }
    }

    fn next_pending(&self) -> Option<u64> {
        self.pending.next_at().filter(|_| !self.keep_all)
    }

    fn next_table_at(&self) -> Option<u64> {
        let nth = self.map.l1.in_file(self.next_table).filter(|_| !self.keep_all)?;
        Some(self.map.table_offset(nth))
    }

    fn next_block_at(&self) -> Option<u64> {
        let block = self.map.occupied.blocks().get(self.next_block).filter(|_| !self.keep_all)?;
        Some(u64::from(*block) << self.header().cluster_bits)
    }
}
