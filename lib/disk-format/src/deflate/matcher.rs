//! Search for earlier occurrences, with hash chains over the last 4 KiB.
//!
//! ```text
//!   4 bytes ─hash─► latest4[h] ─► position ─► previous[position mod 4096] ─► position … ever farther back
//!   3 bytes ─hash─► latest3[h] ─► position (the nearest one only)
//! ```
//!
//! Positions are kept modulo 2^16. A stale or wrapped entry still refers to some position inside the window,
//! and the bytes of each candidate are compared. So such an entry can cost time, but never give a wrong
//! match. The tables take 48 KiB.

use super::ring::Ring;

/// Maximum distance of a match: the window of qcow2's readers.
pub(super) const WINDOW: usize = 4096;

const HASH3_BITS: u32 = 12;
const HASH4_BITS: u32 = 14;
/// Maximum distance of a match of three bytes. Beyond it, the match costs more than three literals.
const NEAR: usize = 1 << 9;
/// Marks an empty entry. At position 0 it lies outside of the window; later it is overwritten or compared.
const NOWHERE: u16 = 0x8000;

/// Effort of a search.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Maximum number of candidates to compare.
    pub depth: u32,
    /// Length of a match that ends the search.
    pub nice: usize,
}

pub(super) struct Matcher {
    latest3: Box<[u16; 1 << HASH3_BITS]>,
    latest4: Box<[u16; 1 << HASH4_BITS]>,
    previous: Box<[u16; WINDOW]>,
}

/// A match of `len` bytes, `distance` bytes back. A distance of 0 means that no match was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Match {
    pub len: usize,
    pub distance: usize,
}

impl Matcher {
    pub(super) fn new() -> Self {
        Matcher {
            latest3: Box::new([NOWHERE; 1 << HASH3_BITS]),
            latest4: Box::new([NOWHERE; 1 << HASH4_BITS]),
            previous: Box::new([NOWHERE; WINDOW]),
        }
    }

    /// Removes all recorded positions.
    pub(super) fn reset(&mut self) {
        self.latest3.fill(NOWHERE);
        self.latest4.fill(NOWHERE);
        self.previous.fill(NOWHERE);
    }

    /// Records `at`, and finds the longest earlier match that is longer than `beat` and at most `max` bytes.
    /// `at` must lie behind every recorded position, with at least four bytes left.
    #[inline(always)]
    pub(super) fn find(&mut self, input: &Ring, at: usize, beat: usize, max: usize, effort: Effort) -> Match {
        let here = input.load32(at);
        let (near, first) = self.note(here, at);
        let mut best = Match { len: beat.max(3), distance: 0 };
        if beat < 3 {
            let distance = back(at, near);
            if distance.wrapping_sub(1) < NEAR && (input.load32(at - distance) ^ here) << 8 == 0 {
                best.distance = distance;
            }
        }
        if best.len >= max {
            return best;
        }
        let mut candidate = first;
        let mut last_distance = 0;
        let mut end_here = input.load32(at + best.len - 3);
        for _ in 0..effort.depth {
            let distance = back(at, candidate);
            if distance <= last_distance || distance > WINDOW {
                break;
            }
            let from = at - distance;
            // Compares the byte that would extend the match, with the three before it; then the beginning.
            if input.load32(from + best.len - 3) == end_here && input.load32(from) == here {
                let len = input.common(from, at, max);
                if len > best.len {
                    best = Match { len, distance };
                    if len >= effort.nice.min(max) {
                        break;
                    }
                    end_here = input.load32(at + len - 3);
                }
            }
            candidate = self.previous[from % WINDOW];
            last_distance = distance;
        }
        best
    }

    /// Records the positions of a range. Four bytes must be left at each.
    #[inline(always)]
    pub(super) fn skip(&mut self, input: &Ring, range: std::ops::Range<usize>) {
        for at in range {
            self.note(input.load32(at), at);
        }
    }

    /// Records a position, and returns the latest ones with the same three and four bytes.
    #[inline(always)]
    fn note(&mut self, here: u32, at: usize) -> (u16, u16) {
        let h3 = ((here << 8).wrapping_mul(0x9e37_79b1) >> (32 - HASH3_BITS)) as usize;
        let h4 = (here.wrapping_mul(0x9e37_79b1) >> (32 - HASH4_BITS)) as usize;
        let found = (self.latest3[h3], self.latest4[h4]);
        self.latest3[h3] = at as u16;
        self.latest4[h4] = at as u16;
        self.previous[at % WINDOW] = found.1;
        found
    }
}

/// The distance from `at` back to a position modulo 2^16.
#[inline(always)]
fn back(at: usize, position: u16) -> usize {
    usize::from((at as u16).wrapping_sub(position))
}
