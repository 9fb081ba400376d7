//! Number and size of the pieces in which a large blob is fetched ahead of its reader.
//!
//! The first pieces are small, since many readers only need the beginning of a blob. Two requests run at
//! first. Once pieces have their full size, one more is added whenever the reader has to wait for the next
//! one, up to four. All readers of the process share the requests beyond two, so that many readers together
//! need little memory.

use fetch::ordered::Window;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

const PIECE: u64 = 2 << 20;
const FIRST_PIECE: u64 = 128 << 10;
const FEW_PIECES: usize = 2;

/// Permits for requests beyond two per reader.
static MORE_PIECES: Semaphore = Semaphore::const_new(2);

/// The requests of one reader.
pub(super) struct Pieces {
    /// Size of the next piece in bytes. Doubles up to [`PIECE`].
    piece: u64,
    /// The first piece has returned bytes, so the server supports ranges.
    knows_ranges: bool,
    /// Permits for requests beyond two.
    more: Vec<SemaphorePermit<'static>>,
    /// The rest comes in one response.
    closed: bool,
}

impl Pieces {
    pub(super) fn new() -> Pieces {
        Pieces { piece: FIRST_PIECE, knows_ranges: false, more: vec![], closed: false }
    }
}

impl Window for Pieces {
    fn next(&mut self, under_way: usize, _: u64) -> Option<u64> {
        // The first piece shows whether the server supports ranges. The second is requested only after that.
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
        // Other tests may hold the permits beyond two.
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
