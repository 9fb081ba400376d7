//! Body of an upload on its way to the pod. No byte is read before the pod wants the body, and the passed
//! bytes are counted. The end of the body is reported, since from then on the pod has a limited time to
//! answer.

use hyper::body::{Body, Bytes, Frame, SizeHint};
use serve::transport::Pieces;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;

/// Future that completes when the pod wants the body.
pub(crate) type GoAhead = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An upload body that is passed on to the pod.
pub(crate) struct Passing {
    pieces: Pieces,
    /// Wait before the first byte is read; `None` once the pod wants the body.
    waits: Option<GoAhead>,
    passed: Arc<AtomicU64>,
    /// Dropped together with this body. The HTTP client drops a body after its last byte.
    _end: oneshot::Sender<()>,
}

/// Completes (with a closed-channel error) when the body was sent completely or dropped.
pub(crate) type Passed = oneshot::Receiver<()>;

impl Passing {
    /// Passes `pieces` on after `waits`. `passed` counts the bytes.
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
            // Trailers have no meaning to an upload server.
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
