//! Search for zeros in read data, so that they need not be written.

use std::ops::Range;

/// Block size of the search: a file system's usual block, so a shorter run would free nothing.
pub const GRANULARITY: usize = 4096;

/// True if all bytes are zero. On zeros it is as fast as the memory; on data it stops early.
pub fn is_zero(data: &[u8]) -> bool {
    // One OR over 256 bytes at a time compiles to the widest vectors, with one test at the end of each.
    let (chunks, rest) = data.as_chunks::<256>();
    chunks.iter().all(|chunk| {
        let (words, _) = chunk.as_chunks::<8>();
        words.iter().fold(0, |all, word| all | u64::from_ne_bytes(*word)) == 0
    }) && rest.iter().fold(0, |all, byte| all | byte) == 0
}

/// Splits `data`, which lies at `offset` of the disk, into runs of zeros and of data, each as long as it can
/// be. Zeros are found in whole blocks of `granularity` bytes of the disk (and in the parts of a block at the
/// two ends).
pub fn runs(data: &[u8], offset: u64, granularity: usize) -> Runs<'_> {
    let granularity = granularity.max(1);
    // Position of the data in its block. It fits: it is less than a usize.
    let skew = (offset % granularity as u64) as usize;
    Runs { data, at: 0, granularity, first: granularity - skew, next: None }
}

/// The runs of a piece, in order; see [`runs`].
#[derive(Debug)]
pub struct Runs<'a> {
    data: &'a [u8],
    at: usize,
    granularity: usize,
    /// Length of the first block.
    first: usize,
    /// True if the block at `at` is zero, where that is known already.
    next: Option<bool>,
}

impl Runs<'_> {
    /// The end of the block that begins at `at`.
    fn block_end(&self, at: usize) -> usize {
        let end = if at == 0 { self.first } else { at.saturating_add(self.granularity) };
        end.min(self.data.len())
    }
}

impl Iterator for Runs<'_> {
    type Item = (Range<usize>, bool);

    fn next(&mut self) -> Option<(Range<usize>, bool)> {
        let from = self.at;
        if from >= self.data.len() {
            return None;
        }
        let mut to = self.block_end(from);
        let zero = self.next.take().unwrap_or_else(|| is_zero(&self.data[from..to]));
        while to < self.data.len() {
            let end = self.block_end(to);
            let this = is_zero(&self.data[to..end]);
            if this != zero {
                self.next = Some(this);
                break;
            }
            to = end;
        }
        self.at = to;
        Some((from..to, zero))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_single_bit_anywhere_is_seen() {
        for len in [0, 1, 7, 255, 256, 257, 1000, 4096] {
            let mut data = vec![0; len];
            assert!(is_zero(&data), "{len}");
            for at in 0..len {
                data[at] = 1 << (at % 8);
                assert!(!is_zero(&data), "{at} of {len}");
                data[at] = 0;
            }
        }
    }

    #[test]
    fn runs_follow_the_blocks_of_the_disk() {
        let mut data = vec![0; 100];
        data[45] = 1;
        // The disk's blocks of 16 begin at 6, 22, 38 … of the piece.
        let got: Vec<_> = runs(&data, 10, 16).collect();
        assert_eq!(got, [(0..38, true), (38..54, false), (54..100, true)]);
        assert_eq!(runs(&[], 3, 16).count(), 0);
        assert_eq!(runs(&[0; 4], u64::MAX, 4096).collect::<Vec<_>>(), [(0..4, true)]);
    }

    proptest! {
        #[test]
        fn runs_cover_all_and_never_lie(
            parts in prop::collection::vec((any::<bool>(), 0usize..40), 0..20),
            offset in 0u64..1000,
            granularity in 0usize..20,
        ) {
            let data: Vec<u8> = parts.iter().flat_map(|&(zero, len)| vec![u8::from(!zero); len]).collect();
            let mut end = 0;
            let mut last = None;
            for (run, zero) in runs(&data, offset, granularity) {
                prop_assert_eq!(run.start, end);
                prop_assert!(!run.is_empty());
                prop_assert_ne!(last, Some(zero));
                if zero {
                    prop_assert!(data[run.clone()].iter().all(|&b| b == 0));
                } else {
                    // Whole blocks, each with something in it.
                    let g = granularity.max(1) as u64;
                    let mut at = run.start;
                    while at < run.end {
                        let stop = run.end.min(at + (g - (offset + at as u64) % g) as usize);
                        prop_assert!(data[at..stop].iter().any(|&b| b != 0));
                        at = stop;
                    }
                }
                (end, last) = (run.end, Some(zero));
            }
            prop_assert_eq!(end, data.len());
        }
    }
}
