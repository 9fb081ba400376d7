//! From input to tokens: takes each match at once, or waits for a better one that begins a little later.

use super::matcher::{Effort, Match, Matcher};
use super::ring::Ring;
use super::tables::MAX_MATCH;
use super::token::Parse;

/// Parameters for the choice of matches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    pub effort: Effort,
    /// Number of positions (0, 1 or 2) to look ahead for a better match.
    pub patience: u32,
}

/// Number of last bytes of a segment at which no match begins.
const TAIL: usize = 3;

/// Number of bytes without a match (as a power of two) after which the search skips positions.
const LONELY: u32 = 8;
/// Maximum step. It also limits the number of literals after incompressible data.
const MAX_STEP: usize = 12;

/// Parses `input[from..to]`. Matches may reach back before `from`, but do not cross `to`.
pub(super) fn parse(
    matcher: &mut Matcher,
    choice: Choice,
    ring: &Ring,
    input: &[u8],
    from: usize,
    to: usize,
    parse: &mut Parse,
) {
    match choice.patience {
        0 => with_patience::<0>(matcher, choice.effort, ring, input, from, to, parse),
        1 => with_patience::<1>(matcher, choice.effort, ring, input, from, to, parse),
        _ => with_patience::<2>(matcher, choice.effort, ring, input, from, to, parse),
    }
}

fn with_patience<const PATIENCE: u32>(
    matcher: &mut Matcher,
    effort: Effort,
    ring: &Ring,
    input: &[u8],
    from: usize,
    to: usize,
    parse: &mut Parse,
) {
    let mut at = from;
    let searchable = to.saturating_sub(TAIL);
    // Number of bytes without a match so far.
    let mut lonely = 0;
    while at < to {
        let mut best = Match { len: 0, distance: 0 };
        if at < searchable {
            best = matcher.find(ring, at, 0, MAX_MATCH.min(to - at), effort);
        }
        if best.distance == 0 {
            lonely += 1;
            // After many bytes without a match the search checks only every second byte, every third, and so
            // on.
            let step = (1 + (lonely >> LONELY)).min(MAX_STEP).min(to - at);
            input[at..at + step].iter().for_each(|&byte| parse.literal(byte));
            at += step;
            parse.reached(at);
            continue;
        }
        lonely = 0;
        // Positions before `noted` are recorded in the matcher.
        let mut noted = at + 1;
        'better: while PATIENCE > 0 && best.len < effort.nice {
            for wait in 1..=PATIENCE as usize {
                let later = at + wait;
                if later >= searchable || wait >= best.len {
                    break 'better;
                }
                if later < noted {
                    continue;
                }
                noted = later + 1;
                let less = Effort { depth: effort.depth >> wait, ..effort };
                let next = matcher.find(ring, later, best.len - 1, MAX_MATCH.min(to - later), less);
                if next.distance != 0 && gain(best, next) > if wait == 1 { 2 } else { 6 } {
                    input[at..later].iter().for_each(|&byte| parse.literal(byte));
                    at = later;
                    best = next;
                    continue 'better;
                }
            }
            break;
        }
        parse.copy(best.len, best.distance);
        let end = at + best.len;
        matcher.skip(ring, noted..end.min(searchable));
        at = end;
        parse.reached(at);
    }
    parse.end(to);
}

/// The advantage of the second match over the first, in quarters of a literal.
#[inline(always)]
fn gain(first: Match, second: Match) -> i32 {
    let worth = |m: Match| 4 * m.len as i32 - m.distance.max(1).ilog2() as i32;
    worth(second) - worth(first)
}
