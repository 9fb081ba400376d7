//! The position of a reader, and continuing from it with another reader.

use super::body::Body;
use super::misused;
use super::pending::Pending;
use super::tables::Passed;
use crate::image::StreamPosition;
use crate::{Data, Extent, Result};

impl Body {
    pub(super) fn position(&self) -> Option<StreamPosition> {
        // A table that has passed was either read or spooled.
        let is_known = self.has_front() && self.spooled.len() == 0 && !self.keep_all && !self.ended;
        if !is_known || self.has_packed || self.pending.len() > StreamPosition::MOST {
            return None;
        }
        let front = self.front();
        let at = self.at.min(self.pending.next_at().unwrap_or(u64::MAX));
        let in_file = |extent: &Extent| match extent.data {
            Data::Raw { at } => Some((extent.guest, extent.len, at)),
            Data::Zero | Data::Packed { .. } => None,
        };
        let mut pending = self.pending.iter().map(in_file).collect::<Option<Vec<_>>>()?;
        pending.sort_unstable_by_key(|&(_, _, at)| at);
        (front <= StreamPosition::FRONT && front <= at).then_some(StreamPosition { front, at, pending })
    }

    /// End of the tables that the header lists.
    pub(super) fn front(&self) -> u64 {
        self.fixed.iter().map(|fixed| fixed.clusters.end).max().unwrap_or(0)
    }

    pub(super) fn resume_from(&mut self, position: &StreamPosition) -> Result<()> {
        let cluster = self.header().cluster_size();
        let disk = self.header().size.checked_next_multiple_of(cluster).unwrap_or(u64::MAX);
        let is_sound = |&(guest, len, at): &(u64, u64, u64)| {
            let is_inside = guest.checked_add(len).is_some_and(|end| end <= disk);
            len > 0 && is_inside && at >= position.at && at.checked_add(len).is_some()
        };
        let is_ready = self.has_front() && self.spooled.len() == 0 && !self.ended && self.at <= position.at;
        let is_few = position.pending.len() <= StreamPosition::MOST;
        let end = position.at.checked_next_multiple_of(cluster);
        let Some(end) = end.filter(|_| is_ready && is_few && position.pending.iter().all(is_sound)) else {
            return Err(misused(format!("the reader cannot continue from byte {}", position.at)));
        };
        (self.at, self.cluster_end) = (position.at, end);
        let before = position.at.div_ceil(cluster);
        self.next_table = self.map.l1.before_cluster(before);
        let passed: Vec<usize> = (0..self.next_table).filter_map(|nth| self.map.l1.in_file(nth)).collect();
        passed.into_iter().for_each(|nth| self.tables.set(nth, Passed::Read));
        self.next_block = self.map.occupied.blocks().partition_point(|&block| u64::from(block) < before);
        self.pending = Pending::default();
        for &(guest, len, at) in &position.pending {
            self.pending.add(Extent { guest, len, data: Data::Raw { at } });
        }
        Ok(())
    }

    /// True if the header, L1 and refcount table have been read.
    fn has_front(&self) -> bool {
        self.l1.is_none() && self.refcounts.is_none() && self.next_fixed == self.fixed.len()
    }
}
