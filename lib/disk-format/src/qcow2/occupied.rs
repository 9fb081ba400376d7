//! Positions of metadata, which data and other metadata must not overlap.

use super::header::Header;
use super::l1::L1;
use super::refuse;
use crate::{ErrorKind, Result};
use std::ops::Range;

/// The clusters that hold metadata.
#[derive(Debug)]
pub(super) struct Occupied {
    cluster_bits: u32,
    fixed: [(Range<u64>, &'static str); 4],
    /// Clusters of refcount blocks, sorted. Empty while they are unknown.
    blocks: Vec<u32>,
}

impl Occupied {
    pub(super) fn new(header: &Header) -> Self {
        Occupied { cluster_bits: header.cluster_bits, fixed: header.fixed(), blocks: vec![] }
    }

    /// Fails if an L2 table overlaps other metadata.
    pub(super) fn check_l1(&self, l1: &L1, l1_offset: u64) -> Result<()> {
        for table in &l1.tables {
            let at = u64::from(table.cluster) << self.cluster_bits;
            if let Some(name) = self.fixed_at(at, 1).or_else(|| self.block_at(table.cluster)) {
                let what = format!(
                    "L1 entry {} refers to an L2 table at {at:#x}, which overlaps {name}",
                    table.index
                );
                return Err(refuse(ErrorKind::Malformed, l1_offset + u64::from(table.index) * 8, what));
            }
        }
        Ok(())
    }

    /// Sets the refcount blocks (sorted). Fails if they overlap other metadata that is known.
    pub(super) fn set_blocks(&mut self, blocks: Vec<u32>, l1: Option<&L1>, table_offset: u64) -> Result<()> {
        for (i, &block) in blocks.iter().enumerate() {
            let at = u64::from(block) << self.cluster_bits;
            let twice = i > 0 && blocks[i - 1] == block;
            let l2 =
                l1.is_some_and(|l1| l1.nth_cluster(l1.before_cluster(block.into())) == Some(block.into()));
            let over =
                self.fixed_at(at, 1).or(twice.then_some("another one")).or(l2.then_some("an L2 table"));
            if let Some(name) = over {
                let what = format!("the refcount table refers to a block at {at:#x}, which overlaps {name}");
                return Err(refuse(ErrorKind::Malformed, table_offset, what));
            }
        }
        self.blocks = blocks;
        Ok(())
    }

    /// The refcount blocks, sorted.
    pub(super) fn blocks(&self) -> &[u32] {
        &self.blocks
    }

    /// The range around `at` without metadata, or the name of the metadata at `at`.
    pub(super) fn gap(&self, at: u64, l1: &L1) -> Result<Range<u64>, &'static str> {
        let mut gap = 0..u64::MAX;
        for (range, name) in self.fixed.iter().filter(|(range, _)| !range.is_empty()) {
            narrow(&mut gap, range.clone(), at).map_err(|()| *name)?;
        }
        let cluster = at >> self.cluster_bits;
        let size = 1_u64 << self.cluster_bits;
        let bytes = |cluster: u64| (cluster << self.cluster_bits)..(cluster << self.cluster_bits) + size;
        let next = l1.before_cluster(cluster);
        for nth in [next.checked_sub(1), Some(next)].into_iter().flatten() {
            if let Some(table) = l1.nth_cluster(nth) {
                narrow(&mut gap, bytes(table), at).map_err(|()| "an L2 table")?;
            }
        }
        let next = self.blocks.partition_point(|&block| u64::from(block) < cluster);
        for nth in [next.checked_sub(1), Some(next)].into_iter().flatten() {
            if let Some(&block) = self.blocks.get(nth) {
                narrow(&mut gap, bytes(block.into()), at).map_err(|()| "a refcount block")?;
            }
        }
        Ok(gap)
    }

    fn fixed_at(&self, at: u64, len: u64) -> Option<&'static str> {
        self.fixed.iter().find(|(range, _)| range.start < at + len && at < range.end).map(|(_, name)| *name)
    }

    fn block_at(&self, cluster: u32) -> Option<&'static str> {
        self.blocks.binary_search(&cluster).is_ok().then_some("a refcount block")
    }
}

/// Reduces `gap` to the side of `taken` on which `at` lies. Fails if `at` is inside `taken`.
fn narrow(gap: &mut Range<u64>, taken: Range<u64>, at: u64) -> Result<(), ()> {
    match () {
        () if taken.contains(&at) => return Err(()),
        () if taken.end <= at => gap.start = gap.start.max(taken.end),
        () => gap.end = gap.end.min(taken.start),
    }
    Ok(())
}
