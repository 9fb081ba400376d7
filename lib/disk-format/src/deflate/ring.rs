//! The input for the matcher, as a ring that needs no bounds checks, since indexes wrap at its size.

use super::matcher::WINDOW;
use super::tables::MAX_MATCH;

/// Maximum number of bytes that are parsed at once.
pub(super) const SEGMENT: usize = 128 << 10;

/// Size of the ring: the current segment and the one before it.
const SPAN: usize = 2 * SEGMENT;
/// Number of bytes from the ring's beginning that are repeated after its end, for matches that cross the end.
const REPEATED: usize = MAX_MATCH.next_multiple_of(8) + 8;

pub(super) struct Ring {
    bytes: Box<[u8; SPAN + REPEATED]>,
}

const _: () = assert!(WINDOW <= SEGMENT && SPAN.is_power_of_two());

impl Ring {
    pub(super) fn new() -> Self {
        Ring { bytes: Box::new([0; SPAN + REPEATED]) }
    }

    /// Adds the next segment of the input. `at` is its offset, a multiple of [`SEGMENT`].
    pub(super) fn push(&mut self, at: usize, segment: &[u8]) {
        let from = at % SPAN;
        self.bytes[from..from + segment.len()].copy_from_slice(segment);
        if from == 0 {
            let n = segment.len().min(REPEATED);
            self.bytes[SPAN..SPAN + n].copy_from_slice(&segment[..n]);
        }
    }

    /// Four bytes of input at `at`, the first one lowest. They are undefined past the end of the segment.
    #[inline(always)]
    pub(super) fn load32(&self, at: usize) -> u32 {
        match self.bytes[at % SPAN..].first_chunk() {
            Some(bytes) => u32::from_le_bytes(*bytes),
            None => 0,
        }
    }

    /// Number of equal bytes at `from` and `at`, at most `max`. The first four must be equal.
    #[inline(always)]
    pub(super) fn common(&self, from: usize, at: usize, max: usize) -> usize {
        let (a, b) = (self.reach(from), self.reach(at));
        let mut len = 4;
        while len < max {
            let differ = load64(a, len) ^ load64(b, len);
            if differ != 0 {
                return max.min(len + differ.trailing_zeros() as usize / 8);
            }
            len += 8;
        }
        max
    }

    #[inline(always)]
    fn reach(&self, at: usize) -> &[u8; REPEATED] {
        const NONE: &[u8; REPEATED] = &[0; REPEATED];
        self.bytes[at % SPAN..].first_chunk().unwrap_or(NONE)
    }
}

#[inline(always)]
fn load64(bytes: &[u8; REPEATED], at: usize) -> u64 {
    match bytes[at..].first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => 0,
    }
}
