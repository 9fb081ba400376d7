//! A body that is streamed (an upload): a slow reader slows down the client, and nothing is buffered here.
//!
//! ```text
//!  client ─► connection: 64 KiB at most ─► Pieces ── polled ─► request handler
//!                                            └ dropped before its end: the rest is drained
//! ```
//!
//! A client that waits for `100 Continue` sends nothing before the first piece was read, so nothing of it is
//! drained.

use crate::drain;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{Sleep, sleep};

/// Streamed body of a request.
pub struct Pieces {
    incoming: Option<Incoming>,
    /// True while the client waits for `100 Continue` before it sends.
    is_silent: bool,
    silence: Duration,
    /// Bytes still to come, if the client has announced a length: a broken connection may look like the end.
    left: Option<u64>,
    /// End of the permitted silence, while a piece is waited for.
    due: Option<Pin<Box<Sleep>>>,
}

impl Pieces {
    pub(super) fn new(incoming: Incoming, waits_for_continue: bool, silence: Duration) -> Pieces {
        let left = incoming.size_hint().exact();
        Pieces { incoming: Some(incoming), is_silent: waits_for_continue, silence, left, due: None }
    }

    /// Handles a frame, or the end of the body.
    fn took(&mut self, frame: Option<hyper::Result<Frame<Bytes>>>) -> Option<io::Result<Frame<Bytes>>> {
        if let Some(Ok(frame)) = frame {
            let size = frame.data_ref().map_or(0, |data| data.len() as u64);
            self.left = self.left.map(|left| left.saturating_sub(size));
            return Some(Ok(frame));
        }
        self.incoming = None;
        match (frame, self.left) {
            (Some(Err(error)), _) => Some(Err(io::Error::other(error))),
            (_, Some(1..)) => Some(Err(io::ErrorKind::UnexpectedEof.into())),
            _ => None,
        }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        let Some(incoming) = &mut this.incoming else { return Poll::Ready(None) };
        this.is_silent = false;
        if let Poll::Ready(frame) = Pin::new(incoming).poll_frame(context) {
            this.due = None;
            return Poll::Ready(this.took(frame));
        }
        let due = this.due.get_or_insert_with(|| Box::pin(sleep(this.silence)));
        ready!(due.as_mut().poll(context));
        let silence = this.silence.as_secs();
        this.incoming = None;
        let why = format!("the client sent nothing for {silence} s");
        Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, why))))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        let rest = self.incoming.take().filter(|rest| !self.is_silent && !rest.is_end_stream());
        if let (Some(rest), Ok(runtime)) = (rest, Handle::try_current()) {
            runtime.spawn(drain(rest));
        }
    }
}
