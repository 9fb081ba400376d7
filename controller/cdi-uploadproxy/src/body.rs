//! The body of an upload on its way to the pod: nothing of it is asked for before the pod wants it, what went on is counted,
//! and its end is told: from then on the pod has a limited time to answer.

use hyper::body::{Body, Bytes, Frame, SizeHint};
use serve::transport::Pieces;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;

/// What the body waits for.
pub(crate) type GoAhead = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A body that goes on.
pub(crate) struct Passing {
    pieces: Pieces,
    /// Until the pod wants the body.
    waits: Option<GoAhead>,
    passed: Arc<AtomicU64>,
    /// Goes with this: whoever sends a body lets go of it behind its last byte.
    _end: oneshot::Sender<()>,
}

/// Comes to its end, with whatever, when nothing of a body is left to be passed on.
pub(crate) type Passed = oneshot::Receiver<()>;

impl Passing {
    /// Goes on after `waits`; `passed` counts its bytes.
    pub(crate) fn new(pieces: Pieces, waits: GoAhead, passed: Arc<AtomicU64>) -> (Passing, Passed) {
        let (end, is_passed) = oneshot::channel();
        (Passing { pieces, waits: Some(waits), passed, _end: end }, is_passed)
    }
}

impl Body for Passing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        if let Some(waits) = &mut this.waits {
            ready!(waits.as_mut().poll(context));
            this.waits = None;
        }
        loop {
            let frame = ready!(Pin::new(&mut this.pieces).poll_frame(context));
            // Trailers say nothing to an upload server.
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Err(_))) => {}
                Some(Ok(Ok(data))) => {
                    this.passed.fetch_add(data.len() as u64, Ordering::Relaxed);
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.pieces.size_hint()
    }
}
