//! How far ahead of its reader a large blob is fetched.
//!
//! It is fetched in pieces, small ones at first, since many a reader only wants to know what the blob begins with. Two
//! are under way at first; once they have their full size, one more whenever the reader has to wait for the front one, up
//! to four. All readers of the process share those beyond two, so that many at once need little memory.

use fetch::ordered::Window;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

const PIECE: u64 = 2 << 20;
const FIRST_PIECE: u64 = 128 << 10;
const FEW_PIECES: usize = 2;

/// The pieces that some readers have beyond their two.
static MORE_PIECES: Semaphore = Semaphore::const_new(2);

/// What one reader has under way.
pub(super) struct Pieces {
    /// Bytes of the next piece; doubles up to [`PIECE`].
    piece: u64,
    /// The first piece has given something.
    knows_ranges: bool,
    /// Leave for pieces beyond two.
    more: Vec<SemaphorePermit<'static>>,
    /// The rest comes in one answer.
    closed: bool,
}

impl Pieces {
    pub(super) fn new() -> Pieces {
        Pieces { piece: FIRST_PIECE, knows_ranges: false, more: vec![], closed: false }
    }
}

impl Window for Pieces {
    fn next(&mut self, under_way: usize, _: u64) -> Option<u64> {
        // The first piece shows whether the server knows ranges; only then is the second asked for.
        let most = if self.knows_ranges { self.width() } else { 1 };
        if under_way >= most {
            return None;
        }
        let piece = self.piece;
        self.piece = (2 * piece).min(PIECE);
        Some(piece)
    }

    fn width(&self) -> usize {
        FEW_PIECES + self.more.len()
    }

    fn waited(&mut self, _: Duration, first: bool) {
        self.knows_ranges = true;
        if first && !self.closed && self.piece == PIECE {
            self.more.extend(MORE_PIECES.try_acquire());
        }
    }

    fn close(&mut self) {
        self.more.clear();
        self.closed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_grow_and_the_second_waits_for_what_the_first_shows() {
        let mut pieces = Pieces::new();
        let wait = Duration::from_millis(1);
        assert_eq!(pieces.next(0, 0), Some(FIRST_PIECE));
        assert_eq!(pieces.next(1, 0), None, "nobody knows yet whether ranges are served");
        pieces.waited(wait, true);
        let grown = [256 << 10, 512 << 10, 1 << 20, PIECE, PIECE];
        assert_eq!(grown.map(|_| pieces.next(1, 0)), grown.map(Some));
        assert_eq!(pieces.next(FEW_PIECES, 0), None);
        // Other tests may hold what is beyond two.
        pieces.waited(wait, false);
        assert_eq!(pieces.width(), FEW_PIECES, "a piece is waited for once");
        pieces.waited(wait, true);
        assert!(pieces.width() <= FEW_PIECES + 1);
        pieces.close();
        assert_eq!(pieces.width(), FEW_PIECES);
        pieces.waited(wait, true);
        assert_eq!(pieces.width(), FEW_PIECES, "one answer needs no leave that another reader may want");
    }
}
