//! Allocation of host clusters and their reference counts. No I/O.
//!
//! ```text
//!   host clusters, in the order of allocation:   … │ plain │ packed packed pa│cked ░░│ plain │ plain │
//!                                                                             └gap─┘         ▲ next
//! ```
//!
//! Compressed clusters are adjacent and may cross from one host cluster into the next. If a plain cluster
//! ends such a run, the gap before it stays available for a compressed cluster that fits completely. Gaps are
//! closed (with zeros) at the end of an L2 table's region, so that no data lies before its table. They are
//! also closed where a refcount block's range ends, so that the block can be written and dropped.

use super::geometry::Geometry;
use std::collections::VecDeque;

/// Limit of gaps. With more, the smallest is closed, since a search would take too long.
const MAX_GAPS: usize = 32;

/// A pending write that is not the guest's data.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Chore {
    /// Zeros for a gap that is not used any more.
    Close(Gap),
    /// A complete refcount block.
    Counts { at: u64, counts: Vec<u16> },
}

/// Bytes after compressed data, up to the end of the host cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    pub at: u64,
    pub len: u64,
}

pub(super) struct Space {
    cluster_bits: u32,
    per_block: u64,
    /// The first host cluster that is not allocated.
    next: u64,
    /// Offsets of the refcount blocks, in the order of their ranges.
    blocks: Vec<u64>,
    /// Refcount blocks that may still change. The first one has the number `first_open`.
    open: VecDeque<Vec<u16>>,
    first_open: u64,
    gaps: Vec<Gap>,
    chores: Vec<Chore>,
}

impl Space {
    /// A new file, with the clusters of the header, refcount table and L1 allocated in this order.
    pub(super) fn new(geometry: &Geometry) -> Self {
        let mut space = Space {
            cluster_bits: geometry.cluster_bits,
            per_block: geometry.counts_per_block(),
            next: 0,
            blocks: Vec::new(),
            open: VecDeque::new(),
            first_open: 0,
            gaps: Vec::new(),
            chores: Vec::new(),
        };
        space.next = 1 + geometry.refcount_table_clusters + geometry.l1_clusters;
        let fixed = space.next;
        space.add_blocks();
        (0..fixed).for_each(|index| space.count(index));
        space.retire_blocks();
        space
    }

    /// Allocates a host cluster for an L2 table. All later allocations lie after it.
    pub(super) fn table(&mut self) -> u64 {
        self.close_gaps();
        self.clusters(1).0
    }

    /// Allocates up to `wanted` adjacent host clusters. Returns the offset and the number (at least one).
    pub(super) fn clusters(&mut self, wanted: u64) -> (u64, u64) {
        self.add_due_blocks();
        let first = self.next;
        let n = wanted.min(self.blocks.len() as u64 * self.per_block - first);
        self.next += n;
        (first..first + n).for_each(|index| self.count(index));
        (first << self.cluster_bits, n)
    }

    /// Allocates `len` bytes (0 < `len` < a cluster) for a compressed cluster.
    pub(super) fn bytes(&mut self, len: u64) -> u64 {
        if let Some(i) = self.best_gap(len) {
            return self.fill_gap(i, len);
        }
        match self.tail() {
            Some(i) => {
                let gap = self.gaps.swap_remove(i);
                self.count(gap.at >> self.cluster_bits);
                self.begin_cluster(len - gap.len);
                gap.at
            }
            None => self.begin_cluster(len),
        }
    }

    /// Closes all gaps and blocks after the last allocation.
    pub(super) fn finish(&mut self) {
        self.close_gaps();
        while let Some(counts) = self.open.pop_front() {
            self.retire(counts);
        }
    }

    /// Returns the writes that are pending.
    pub(super) fn take_chores(&mut self) -> Vec<Chore> {
        std::mem::take(&mut self.chores)
    }

    /// Entries of the refcount table.
    pub(super) fn blocks(&self) -> &[u64] {
        &self.blocks
    }

    /// Offset of the end of the last host cluster.
    pub(super) fn end(&self) -> u64 {
        self.next << self.cluster_bits
    }

    /// The smallest gap with room for `len` bytes in a host cluster whose count can still be raised.
    fn best_gap(&self, len: u64) -> Option<usize> {
        let fits = |(_, gap): &(usize, &Gap)| gap.len >= len && self.countable(gap);
        self.gaps.iter().enumerate().filter(fits).min_by_key(|(_, gap)| (gap.len, gap.at)).map(|(i, _)| i)
    }

    /// The gap before the next host cluster, if data may cross into that cluster.
    fn tail(&self) -> Option<usize> {
        let is_tail = |gap: &Gap| gap.at + gap.len == self.end() && self.countable(gap);
        self.gaps.iter().position(|gap| is_tail(gap) && !self.block_is_due())
    }

    fn countable(&self, gap: &Gap) -> bool {
        let (block, slot) = self.slot(gap.at >> self.cluster_bits);
        self.open[block][slot] < u16::MAX
    }

    fn fill_gap(&mut self, i: usize, len: u64) -> u64 {
        let Gap { at, len: room } = self.gaps[i];
        self.count(at >> self.cluster_bits);
        match room - len {
            0 => drop(self.gaps.swap_remove(i)),
            rest => self.gaps[i] = Gap { at: at + len, len: rest },
        }
        at
    }

    /// Allocates a host cluster, uses `len` bytes of it, and keeps the rest as a gap.
    fn begin_cluster(&mut self, len: u64) -> u64 {
        let (at, _) = self.clusters(1);
        let cluster = 1u64 << self.cluster_bits;
        if len < cluster {
            self.gaps.push(Gap { at: at + len, len: cluster - len });
        }
        if self.gaps.len() > MAX_GAPS {
            let smallest = self.gaps.iter().enumerate().min_by_key(|(_, gap)| (gap.len, gap.at));
            if let Some((i, _)) = smallest {
                let gap = self.gaps.swap_remove(i);
                self.chores.push(Chore::Close(gap));
            }
        }
        at
    }

    fn close_gaps(&mut self) {
        self.chores.extend(self.gaps.drain(..).map(Chore::Close));
    }

    /// Allocates the next refcount block if its range has begun.
    fn add_due_blocks(&mut self) {
        if self.block_is_due() {
            self.close_gaps();
            self.add_blocks();
            self.retire_blocks();
        }
    }

    fn block_is_due(&self) -> bool {
        self.blocks.len() as u64 * self.per_block <= self.next
    }

    /// Allocates all refcount blocks that are due. More than one is due only after a large L1.
    fn add_blocks(&mut self) {
        let first = self.next;
        while self.block_is_due() {
            self.blocks.push(self.end());
            self.open.push_back(vec![0; self.per_block as usize]);
            self.next += 1;
        }
        (first..self.next).for_each(|index| self.count(index));
    }

    /// Passes on the blocks whose counts are final.
    fn retire_blocks(&mut self) {
        while (self.first_open + 1) * self.per_block <= self.next {
            let Some(counts) = self.open.pop_front() else { break };
            self.retire(counts);
        }
    }

    fn retire(&mut self, counts: Vec<u16>) {
        let at = self.blocks[self.first_open as usize];
        self.first_open += 1;
        self.chores.push(Chore::Counts { at, counts });
    }

    fn count(&mut self, cluster: u64) {
        let (block, slot) = self.slot(cluster);
        self.open[block][slot] += 1;
    }

    fn slot(&self, cluster: u64) -> (usize, usize) {
        ((cluster / self.per_block - self.first_open) as usize, (cluster % self.per_block) as usize)
    }
}
