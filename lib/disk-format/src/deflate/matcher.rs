//! Finds earlier occurrences: hash chains over the last 4 KiB.
//!
//! ```text
//!   4 bytes ─hash─► latest4[h] ─► position ─► previous[position mod 4096] ─► position … ever farther back
//!   3 bytes ─hash─► latest3[h] ─► position (the nearest one only)
//! ```
//!
//! Positions are kept modulo 2^16. A stale or wrapped entry names some position within the window all the same, and
//! every candidate's bytes are compared, so it can cost time but never a wrong match. The tables take 48 KiB.

use super::ring::Ring;

/// How far back a match may reach: the window of qcow2's readers.
pub(super) const WINDOW: usize = 4096;

const HASH3_BITS: u32 = 12;
const HASH4_BITS: u32 = 14;
/// A match of three bytes farther back than this costs more than three literals.
const NEAR: usize = 1 << 9;
/// No position in sight: at position 0 all of these are out of the window, later ones are overwritten or compared.
const NOWHERE: u16 = 0x8000;

/// How hard to look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Candidates to compare.
    pub depth: u32,
    /// A match of this length ends the search.
    pub nice: usize,
}

pub(super) struct Matcher {
    latest3: Box<[u16; 1 << HASH3_BITS]>,
    latest4: Box<[u16; 1 << HASH4_BITS]>,
    previous: Box<[u16; WINDOW]>,
}

/// `len` bytes from `distance` back; a distance of 0 means that nothing was found.
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

    /// Forgets all positions.
    pub(super) fn reset(&mut self) {
        self.latest3.fill(NOWHERE);
        self.latest4.fill(NOWHERE);
        self.previous.fill(NOWHERE);
    }

    /// Notes `at` and finds the longest earlier match longer than `beat`, of at most `max` bytes. `at` must lie behind
    /// every position noted before, with at least four bytes left.
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
            // The byte that would make it longer, with the three before it; then the beginning.
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

    /// Notes the positions of a range; four bytes must be left at each.
    #[inline(always)]
    pub(super) fn skip(&mut self, input: &Ring, range: std::ops::Range<usize>) {
        for at in range {
            self.note(input.load32(at), at);
        }
    }

    /// Notes a position; returns the latest ones with the same three and four bytes.
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

/// The distance from `at` back to a position that is kept modulo 2^16.
#[inline(always)]
fn back(at: usize, position: u16) -> usize {
    usize::from((at as u16).wrapping_sub(position))
}
