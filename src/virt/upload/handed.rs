//! Upload of a file that a browser has: it sends the bytes by HTTP requests that each begin at an offset.
//!
//! ```text
//!  hand(offset, bytes) ──► the channel of one body ──► the request to the upload proxy
//!        ▲ Elsewhere(offset): continue from there              │ broke: another body, at the offset that the server has
//!        └─────────────────────────────────────────────────────┘
//! ```
//!
//! **Guarantees.** One browser request at a time: a later one cuts the earlier, whose connection may be dead
//! without notice. No more than [`PIECES`] pieces wait in memory. A byte is taken once, at its offset, or not
//! at all.

use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes};
use std::io;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;
use tokio::time::timeout;

/// Maximum number of pieces that wait for the upload proxy.
const PIECES: usize = 4;
/// Timeout until the upload proxy takes bytes, and for the next piece of the browser's request.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) type Piece = io::Result<Bytes>;

/// A file whose bytes come from a browser.
pub(crate) struct Handed {
    name: String,
    size: u64,
    state: watch::Sender<State>,
}

#[derive(Default)]
struct State {
    /// Offset of the next byte.
    at: u64,
    /// Channel to the request to the upload proxy; `None` before the first one.
    to: Option<Sender<Piece>>,
    /// Number of the latest browser request.
    hand: u64,
    /// True while that request sends bytes.
    is_held: bool,
    /// True if that request ended by itself before the last byte.
    is_left: bool,
}

impl State {
    fn takes(&self) -> bool {
        self.to.as_ref().is_some_and(|to| !to.is_closed())
    }
}

/// Reason for the end of a browser request before its last byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The upload continues at this offset.
    Elsewhere(u64),
    /// No request to the upload proxy takes bytes at the moment.
    NotNow,
    /// A later browser request has replaced this one.
    Other,
    /// The browser's request failed, for this reason.
    Left(String),
}

impl Handed {
    /// A file of this size. The name is for messages.
    pub(crate) fn new(name: String, size: u64) -> Handed {
        Handed { name, size, state: watch::Sender::default() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Offset of the next byte.
    pub(crate) fn at(&self) -> u64 {
        self.state.borrow().at
    }

    /// True while a browser request sends bytes.
    pub(crate) fn is_held(&self) -> bool {
        self.state.borrow().is_held
    }

    /// True if the last browser request ended early, and no other is active.
    pub(super) fn is_left(&self) -> bool {
        let state = self.state.borrow();
        state.is_left && !state.is_held
    }

    /// Waits for a browser request, unless all bytes were received.
    pub(super) async fn held(&self) {
        // The channel cannot be closed: `self` holds its sender.
        let _ = self.state.subscribe().wait_for(|state| state.is_held || state.at >= self.size).await;
    }

    /// The pieces from this offset on, for a new request to the upload proxy. The channel of the previous one
    /// is closed.
    pub(super) fn pieces(&self, from: u64) -> Receiver<Piece> {
        let (to, pieces) = channel(PIECES);
        self.state.send_modify(|state| (state.at, state.to) = (from, Some(to)));
        pieces
    }

    /// Passes on the body of a browser request that begins at offset `at`. Returns the next offset. `first`
    /// is called once, after the first piece.
    pub(crate) async fn hand<B>(&self, at: u64, mut body: B, first: impl FnOnce()) -> Result<u64, Cut>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let hand = self.take();
        let mut state = self.state.subscribe();
        let (to, stands) = {
            let here = timeout(PATIENCE, state.wait_for(|state| state.hand != hand.number || state.takes()));
            let Ok(Ok(here)) = here.await else { return Err(Cut::NotNow) };
            if here.hand != hand.number {
                return Err(Cut::Other);
            }
            (here.to.clone().ok_or(Cut::NotNow)?, here.at)
        };
        if stands != at {
            return Err(Cut::Elsewhere(stands));
        }
        let mut first = Some(first);
        loop {
            let next = tokio::select! {
                biased;
                _ = state.wait_for(|state| state.hand != hand.number) => return Err(Cut::Other),
                next = timeout(PATIENCE, body.frame()) => next,
            };
            let piece = match next {
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                Ok(Some(Err(e))) => return Err(Cut::Left(format!("the connection broke off: {e}"))),
                Ok(None) => return Ok(self.at()),
                Err(_) => return Err(Cut::Left(format!("no byte came within {} s", PATIENCE.as_secs()))),
            };
            if piece.is_empty() {
                continue;
            }
            let length = piece.len() as u64;
            if length > self.size.saturating_sub(self.at()) {
                return Err(Cut::Left(format!("more bytes came than the {} of the file", self.size)));
            }
            tokio::select! {
                biased;
                _ = state.wait_for(|state| state.hand != hand.number) => return Err(Cut::Other),
                sent = to.send(Ok(piece)) => if sent.is_err() {
                    return Err(Cut::Elsewhere(self.at()));
                },
            }
            self.state.send_modify(|state| {
                // The upload proxy may have been asked for another offset meanwhile.
                if state.to.as_ref().is_some_and(|now| now.same_channel(&to)) {
                    state.at = state.at.saturating_add(length);
                }
            });
            if let Some(first) = first.take() {
                first();
            }
        }
    }

    fn take(&self) -> Hand<'_> {
        let mut number = 0;
        self.state.send_modify(|state| {
            state.hand += 1;
            (state.is_held, state.is_left) = (true, false);
            number = state.hand;
        });
        Hand { of: self, number }
    }
}

/// The active browser request, until this is dropped.
struct Hand<'a> {
    of: &'a Handed,
    number: u64,
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        self.of.state.send_modify(|state| {
            if state.hand == self.number {
                state.is_held = false;
                // The browser did not leave if the request to the upload proxy broke, or if all bytes were
                // received.
                state.is_left = state.takes() && state.at < self.of.size;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;
    use std::sync::Arc;

    fn bytes(text: &'static str) -> Full<Bytes> {
        Full::new(Bytes::from_static(text.as_bytes()))
    }

    async fn next(pieces: &mut Receiver<Piece>) -> Option<Bytes> {
        pieces.recv().await.map(Result::unwrap)
    }

    #[tokio::test]
    async fn bytes_are_taken_at_their_offset_alone() {
        let handed = Handed::new("d.img".to_owned(), 10);
        let mut pieces = handed.pieces(0);
        assert_eq!(handed.hand(0, bytes("01234"), || ()).await, Ok(5));
        assert_eq!((handed.at(), handed.is_held(), handed.is_left()), (5, false, true));
        assert_eq!(handed.hand(0, bytes("01234"), || ()).await, Err(Cut::Elsewhere(5)));
        assert!(matches!(handed.hand(5, bytes("567890"), || ()).await, Err(Cut::Left(_))), "one too many");
        assert_eq!(handed.hand(5, bytes("56789"), || ()).await, Ok(10));
        assert_eq!(next(&mut pieces).await.unwrap(), "01234");
        assert_eq!(next(&mut pieces).await.unwrap(), "56789");
    }

    #[tokio::test]
    async fn a_request_that_broke_is_followed_by_one_that_stands_elsewhere() {
        let handed = Handed::new("d.img".to_owned(), 10);
        let pieces = handed.pieces(0);
        drop(pieces);
        // Nobody takes a byte: this hand waits for the next request, which wants another.
        let hand = handed.hand(0, bytes("0123456789"), || ());
        let request = async {
            handed.held().await;
            handed.pieces(7)
        };
        let (cut, mut pieces) = tokio::join!(hand, request);
        assert_eq!(cut, Err(Cut::Elsewhere(7)));
        let mut is_first = false;
        assert_eq!(handed.hand(7, bytes("789"), || is_first = true).await, Ok(10));
        assert!(is_first);
        assert_eq!(next(&mut pieces).await.unwrap(), "789");
        assert!(!handed.is_left(), "it has all bytes");
        // What the server lost then is asked for by the next request, and no hand is waited for before.
        handed.held().await;
        drop((pieces, handed.pieces(4)));
        assert_eq!(handed.at(), 4);
    }

    #[tokio::test]
    async fn a_later_hand_cuts_an_earlier_one() {
        let handed = Arc::new(Handed::new("d.img".to_owned(), 10));
        let mut pieces = handed.pieces(0);
        let first = vec![Ok::<_, io::Error>(Frame::data(Bytes::from_static(b"012")))];
        let silent = futures_util::StreamExt::chain(
            futures_util::stream::iter(first),
            futures_util::stream::pending(),
        );
        let earlier = tokio::spawn({
            let handed = Arc::clone(&handed);
            async move { handed.hand(0, StreamBody::new(silent), || ()).await }
        });
        assert_eq!(next(&mut pieces).await.unwrap(), "012");
        // What the server has taken is counted a moment later.
        while handed.at() < 3 {
            tokio::task::yield_now().await;
        }
        assert_eq!(handed.hand(3, bytes("3456789"), || ()).await, Ok(10));
        assert_eq!(earlier.await.unwrap(), Err(Cut::Other));
    }
}
