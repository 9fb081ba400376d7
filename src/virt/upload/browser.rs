//! Upload of a file that a browser has: it sends the bytes by HTTP requests that each begin at an offset.
//!
//! ```text
//!  receive(offset, bytes) ──► the channel of one body ──► the request to the upload proxy
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
pub(crate) struct BrowserUpload {
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
    request: u64,
    /// True while that request sends bytes.
    is_active: bool,
    /// True if that request ended by itself before the last byte.
    has_left: bool,
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

impl BrowserUpload {
    /// A file of this size. The name is for messages.
    pub(crate) fn new(name: String, size: u64) -> BrowserUpload {
        BrowserUpload { name, size, state: watch::Sender::default() }
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
    pub(crate) fn is_active(&self) -> bool {
        self.state.borrow().is_active
    }

    /// True if the last browser request ended early, and no other is active.
    pub(super) fn has_left(&self) -> bool {
        let state = self.state.borrow();
        state.has_left && !state.is_active
    }

    /// Waits for a browser request, unless all bytes were received.
    pub(super) async fn wait_for_request(&self) {
        // The channel cannot be closed: `self` holds its sender.
        let _ = self.state.subscribe().wait_for(|state| state.is_active || state.at >= self.size).await;
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
    pub(crate) async fn receive<B>(&self, at: u64, mut body: B, first: impl FnOnce()) -> Result<u64, Cut>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let request = self.take();
        let mut state = self.state.subscribe();
        let (to, stands) = {
            let here =
                timeout(PATIENCE, state.wait_for(|state| state.request != request.number || state.takes()));
            let Ok(Ok(here)) = here.await else { return Err(Cut::NotNow) };
            if here.request != request.number {
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
                _ = state.wait_for(|state| state.request != request.number) => return Err(Cut::Other),
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
                _ = state.wait_for(|state| state.request != request.number) => return Err(Cut::Other),
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

    fn take(&self) -> ActiveRequest<'_> {
        let mut number = 0;
        self.state.send_modify(|state| {
            state.request += 1;
            (state.is_active, state.has_left) = (true, false);
            number = state.request;
        });
        ActiveRequest { of: self, number }
    }
}

/// The active browser request, until this is dropped.
struct ActiveRequest<'a> {
    of: &'a BrowserUpload,
    number: u64,
}

impl Drop for ActiveRequest<'_> {
    fn drop(&mut self) {
        self.of.state.send_modify(|state| {
            if state.request == self.number {
                state.is_active = false;
                // The browser did not leave if the request to the upload proxy broke, or if all bytes were
                // received.
                state.has_left = state.takes() && state.at < self.of.size;
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
        let browser = BrowserUpload::new("d.img".to_owned(), 10);
        let mut pieces = browser.pieces(0);
        assert_eq!(browser.receive(0, bytes("01234"), || ()).await, Ok(5));
        assert_eq!((browser.at(), browser.is_active(), browser.has_left()), (5, false, true));
        assert_eq!(browser.receive(0, bytes("01234"), || ()).await, Err(Cut::Elsewhere(5)));
        assert!(
            matches!(browser.receive(5, bytes("567890"), || ()).await, Err(Cut::Left(_))),
            "one too many"
        );
        assert_eq!(browser.receive(5, bytes("56789"), || ()).await, Ok(10));
        assert_eq!(next(&mut pieces).await.unwrap(), "01234");
        assert_eq!(next(&mut pieces).await.unwrap(), "56789");
    }

    #[tokio::test]
    async fn a_request_that_broke_is_followed_by_one_that_stands_elsewhere() {
        let browser = BrowserUpload::new("d.img".to_owned(), 10);
        let pieces = browser.pieces(0);
        drop(pieces);
        // No byte is taken: the browser's request waits for the next request to the proxy, at another offset.
        let hand = browser.receive(0, bytes("0123456789"), || ());
        let request = async {
            browser.wait_for_request().await;
            browser.pieces(7)
        };
        let (cut, mut pieces) = tokio::join!(hand, request);
        assert_eq!(cut, Err(Cut::Elsewhere(7)));
        let mut is_first = false;
        assert_eq!(browser.receive(7, bytes("789"), || is_first = true).await, Ok(10));
        assert!(is_first);
        assert_eq!(next(&mut pieces).await.unwrap(), "789");
        assert!(!browser.has_left(), "it has all bytes");
        // The next request asks for bytes that the server has lost, without waiting for the browser.
        browser.wait_for_request().await;
        drop((pieces, browser.pieces(4)));
        assert_eq!(browser.at(), 4);
    }

    #[tokio::test]
    async fn a_later_hand_cuts_an_earlier_one() {
        let browser = Arc::new(BrowserUpload::new("d.img".to_owned(), 10));
        let mut pieces = browser.pieces(0);
        let first = vec![Ok::<_, io::Error>(Frame::data(Bytes::from_static(b"012")))];
        let silent = futures_util::StreamExt::chain(
            futures_util::stream::iter(first),
            futures_util::stream::pending(),
        );
        let earlier = tokio::spawn({
            let browser = Arc::clone(&browser);
            async move { browser.receive(0, StreamBody::new(silent), || ()).await }
        });
        assert_eq!(next(&mut pieces).await.unwrap(), "012");
        // Bytes are counted a moment after the server has taken them.
        while browser.at() < 3 {
            tokio::task::yield_now().await;
        }
        assert_eq!(browser.receive(3, bytes("3456789"), || ()).await, Ok(10));
        assert_eq!(earlier.await.unwrap(), Err(Cut::Other));
    }
}
