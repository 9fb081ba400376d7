//! Search parameters of the compression levels.

use super::matcher::Effort;
use super::parse::Choice;

/// The search parameters for a level from 1 (fast) to 9 (small).
pub(super) fn choice(level: u8) -> Choice {
    let choose = |patience, depth, nice| Choice { effort: Effort { depth, nice }, patience };
    match level {
        ..=1 => choose(0, 2, 16),
        2 => choose(0, 6, 24),
        3 => choose(1, 4, 20),
        4 => choose(1, 6, 24),
        5 => choose(1, 8, 32),
        6 => choose(1, 12, 48),
        7 => choose(2, 24, 130),
        8 => choose(2, 64, 258),
        _ => choose(2, 200, 258),
    }
}
