//! Disks that need no memory, since each byte is computed from its offset.

use disk_format::ReadAt;
use disk_format::qcow2::write::Sparse;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A disk by a rule: the byte of each offset in its data, and zeros in its holes. It counts the queries for
/// its data.
#[derive(Clone, Debug)]
pub struct Rule {
    pub size: u64,
    /// Ranges with data in rising order, with gaps in between.
    pub data: Vec<Range<u64>>,
    pub asked: Arc<AtomicU64>,
}

impl Rule {
    pub fn new(size: u64, data: Vec<Range<u64>>) -> Rule {
        assert!(data.is_sorted_by(|a, b| a.end < b.start) && data.iter().all(|range| range.end <= size));
        Rule { size, data, asked: Arc::default() }
    }

    /// A disk of alternating gaps and lengths, truncated at its size.
    pub fn of(size: u64, gaps_and_lengths: &[(u64, u64)]) -> Rule {
        let (mut at, mut data) = (0_u64, vec![]);
        for (gap, length) in gaps_and_lengths {
            let start = at + gap;
            at = (start + length).min(size) + 1;
            if start < size && *length > 0 {
                data.push(start..at - 1);
            }
        }
        Rule::new(size, data)
    }

    pub fn byte(&self, at: u64) -> u8 {
        let nth = self.data.partition_point(|range| range.end <= at);
        match self.data.get(nth) {
            Some(range) if range.contains(&at) => (at.wrapping_mul(0x9e37_79b9) >> 13) as u8 | 1,
            _ => 0,
        }
    }
}

impl ReadAt for Rule {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        assert!(!buf.is_empty() && offset + buf.len() as u64 <= self.size, "{offset}, {} bytes", buf.len());
        for (byte, at) in buf.iter_mut().zip(offset..) {
            *byte = self.byte(at);
        }
        Ok(())
    }
}

impl Sparse for Rule {
    fn data_from(&self, offset: u64) -> Option<Range<u64>> {
        self.asked.fetch_add(1, Relaxed);
        self.data.get(self.data.partition_point(|range| range.end <= offset)).cloned()
    }
}
