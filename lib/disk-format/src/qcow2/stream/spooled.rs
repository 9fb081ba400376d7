//! List of the file ranges that the caller was told to keep.

use std::ops::Range;

/// Spooled ranges in file order, merged if adjacent.
#[derive(Default)]
pub(super) struct Spooled {
    ranges: Vec<Range<u64>>,
}

impl Spooled {
    /// Number of separate ranges.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Adds a range that starts at the end of all others or after it.
    pub(super) fn add(&mut self, range: Range<u64>) {
        match self.ranges.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => self.ranges.push(range),
        }
    }

    /// True if all of `range` was spooled.
    pub(super) fn holds(&self, range: &Range<u64>) -> bool {
        self.held_from(range.start) >= range.end
    }

    /// End of the spooled range around `at`. `at` itself if it was not spooled.
    pub(super) fn held_from(&self, at: u64) -> u64 {
        let after = self.ranges.partition_point(|r| r.start <= at);
        after.checked_sub(1).map_or(at, |i| self.ranges[i].end.max(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_ranges_are_one() {
        let mut spooled = Spooled::default();
        for range in [10..20, 20..30, 40..50, 45..60] {
            spooled.add(range);
        }
        assert_eq!(spooled.len(), 2);
        assert!(spooled.holds(&(10..30)) && spooled.holds(&(15..16)) && spooled.holds(&(41..60)));
        assert!(!spooled.holds(&(9..11)) && !spooled.holds(&(25..41)) && !spooled.holds(&(59..61)));
        assert_eq!((spooled.held_from(25), spooled.held_from(35)), (30, 35));
        assert!(!Spooled::default().holds(&(0..1)));
    }
}
