//! The bytes that were sent last, kept in case they did not arrive.

use bytes::Bytes;
use std::collections::VecDeque;

/// Blocks at the end of a stream.
#[derive(Debug, Default)]
pub(super) struct Recent {
    blocks: VecDeque<Bytes>,
    start: u64,
    end: u64,
}

impl Recent {
    /// No blocks yet, of a stream that begins at `start`.
    pub(super) fn at(start: u64) -> Recent {
        Recent { blocks: VecDeque::new(), start, end: start }
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// True if all bytes from `at` to the end of the stream are kept.
    pub(super) fn covers(&self, at: u64) -> bool {
        self.start <= at && at <= self.end
    }

    pub(super) fn push(&mut self, block: Bytes) {
        self.end += block.len() as u64;
        self.blocks.push_back(block);
    }

    /// Drops the oldest blocks until at most `most` bytes are kept. Bytes from `needed` on are never dropped.
    pub(super) fn trim(&mut self, most: u64, needed: u64) {
        while let Some(first) = self.blocks.front() {
            let after = self.start + first.len() as u64;
            if self.end - self.start <= most || after > needed {
                break;
            }
            self.start = after;
            self.blocks.pop_front();
        }
    }

    /// The kept bytes from `at` to the end of the block, at most `most`. Empty if `at` is not kept.
    pub(super) fn block(&self, at: u64, most: u64) -> Bytes {
        let mut start = self.start;
        for block in &self.blocks {
            let end = start + block.len() as u64;
            if (start..end).contains(&at) {
                let from = (at - start) as usize;
                let to = (end - at).min(most) as usize + from;
                return block.slice(from..to);
            }
            start = end;
        }
        Bytes::new()
    }

    /// The next `len` bytes from `at` on, or fewer at the end.
    pub(super) fn copy(&self, mut at: u64, len: u64) -> Vec<u8> {
        let end = at.saturating_add(len).min(self.end);
        let mut out = Vec::with_capacity((end.saturating_sub(at)) as usize);
        while at < end {
            let block = self.block(at, end - at);
            if block.is_empty() {
                break;
            }
            at += block.len() as u64;
            out.extend_from_slice(&block);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recent() -> Recent {
        let mut recent = Recent::at(10);
        for block in ["abc", "de", "fghi"] {
            recent.push(Bytes::from(block));
        }
        recent
    }

    #[test]
    fn bytes_are_found_where_they_were() {
        let recent = recent();
        assert_eq!(recent.end(), 19);
        for (at, most, found) in
            [(10, 9, "abc"), (11, 1, "b"), (13, 9, "de"), (18, 9, "i"), (19, 9, ""), (9, 9, "")]
        {
            assert_eq!(recent.block(at, most), found, "{at}");
        }
        assert_eq!(recent.copy(11, 5), b"bcdef");
        assert_eq!(recent.copy(17, 100), b"hi");
        assert_eq!(recent.copy(19, 1), b"");
        assert!(recent.covers(10) && recent.covers(19) && !recent.covers(9) && !recent.covers(20));
    }

    #[test]
    fn the_oldest_is_forgotten_and_never_what_is_needed() {
        let mut recent = recent();
        recent.trim(6, 19);
        assert!(recent.covers(13) && !recent.covers(12));
        recent.trim(0, 14);
        assert!(recent.covers(13), "14 is in that block");
        recent.trim(0, 19);
        assert!(recent.covers(19) && !recent.covers(18));
        assert_eq!(recent.copy(19, 1), b"");
    }
}
