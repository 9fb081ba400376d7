//! A request body that a plain thread writes while the request is sent.
//!
//! The body ends cleanly only if the writer ends it. Dropping the writer fails the request, so that a
//! registry does not accept an incomplete blob.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Number of blocks that wait for the socket.
const BLOCKS: usize = 8;

/// A body, and the sender that fills it. A known `size` is sent as the content length, and the body ends
/// after its last byte. Otherwise the sender ends the body with `None`.
pub(super) fn feed(size: Option<u64>) -> (Sender<Option<Bytes>>, Feed) {
    let (tx, rx) = channel(BLOCKS);
    (tx, Feed { rx, left: size, ended: false })
}

pub(super) struct Feed {
    rx: Receiver<Option<Bytes>>,
    left: Option<u64>,
    ended: bool,
}

impl Body for Feed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.is_end_stream() {
            return Poll::Ready(None);
        }
        self.rx.poll_recv(cx).map(|item| match item {
            Some(Some(bytes)) => {
                self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
                Some(Ok(Frame::data(bytes)))
            }
            Some(None) => {
                self.ended = true;
                None
            }
            None => Some(Err(io::Error::other("the upload was cancelled"))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
