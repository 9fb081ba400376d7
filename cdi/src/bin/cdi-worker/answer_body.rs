//! The body of an answer: a text, or pieces that are read as the client takes them.

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::Receiver;

/// The body of an answer.
pub(crate) enum AnswerBody {
    Text(Full<Bytes>),
    /// Pieces from another thread, and the number of bytes left. An error, or an end before the last byte, ends the
    /// connection.
    Pieces(Receiver<io::Result<Bytes>>, u64),
}

impl From<String> for AnswerBody {
    fn from(text: String) -> AnswerBody {
        AnswerBody::Text(Full::new(Bytes::from(text)))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let (pieces, left) = match self.get_mut() {
            AnswerBody::Text(text) => {
                let frame = ready!(Pin::new(text).poll_frame(context));
                return Poll::Ready(frame.map(|frame| frame.map_err(|never| match never {})));
            }
            AnswerBody::Pieces(pieces, left) => (pieces, left),
        };
        if *left == 0 {
            return Poll::Ready(None);
        }
        let piece = ready!(pieces.poll_recv(context));
        let piece = piece.unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()));
        let taken = piece.and_then(|piece| {
            *left = left.checked_sub(piece.len() as u64).ok_or(io::ErrorKind::InvalidData)?;
            Ok(Frame::data(piece))
        });
        Poll::Ready(Some(taken))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Text(text) => text.is_end_stream(),
            AnswerBody::Pieces(_, left) => *left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Text(text) => text.size_hint(),
            AnswerBody::Pieces(_, left) => SizeHint::with_exact(*left),
        }
    }
}
