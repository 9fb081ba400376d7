//! The body of an answer: complete, or pieces that are read as the client takes them.

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::Receiver;

/// The body of an answer. The default is empty.
#[derive(Debug)]
pub enum AnswerBody {
    /// A complete body.
    Whole(Full<Bytes>),
    /// Pieces of a task or a thread, and the number of bytes left, if it is known. An error, or an end before the
    /// last byte, ends the connection.
    Pieces(Receiver<io::Result<Bytes>>, Option<u64>),
}

impl AnswerBody {
    /// A complete body.
    pub fn whole(bytes: impl Into<Bytes>) -> AnswerBody {
        AnswerBody::Whole(Full::new(bytes.into()))
    }
}

impl Default for AnswerBody {
    fn default() -> AnswerBody {
        AnswerBody::whole(Bytes::new())
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let (pieces, left) = match self.get_mut() {
            AnswerBody::Whole(bytes) => {
                let frame = ready!(Pin::new(bytes).poll_frame(context));
                return Poll::Ready(frame.map(|frame| frame.map_err(|never| match never {})));
            }
            AnswerBody::Pieces(pieces, left) => (pieces, left),
        };
        if *left == Some(0) {
            return Poll::Ready(None);
        }
        let piece = match (ready!(pieces.poll_recv(context)), &left) {
            (Some(piece), _) => piece,
            (None, None) => return Poll::Ready(None),
            (None, Some(_)) => Err(io::ErrorKind::UnexpectedEof.into()),
        };
        let taken = piece.and_then(|piece| {
            if let Some(left) = left {
                *left = left.checked_sub(piece.len() as u64).ok_or(io::ErrorKind::InvalidData)?;
            }
            Ok(Frame::data(piece))
        });
        Poll::Ready(Some(taken))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Whole(bytes) => bytes.is_end_stream(),
            AnswerBody::Pieces(_, left) => *left == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Whole(bytes) => bytes.size_hint(),
            AnswerBody::Pieces(_, left) => left.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;
    use tokio::sync::mpsc::channel;

    /// Reads a body of the pieces `ab` and `c`.
    async fn read(left: Option<u64>) -> Result<Bytes, io::ErrorKind> {
        let (sender, pieces) = channel(2);
        for piece in ["ab", "c"] {
            sender.try_send(Ok(Bytes::from(piece))).unwrap();
        }
        drop(sender);
        let body = AnswerBody::Pieces(pieces, left);
        assert_eq!(body.size_hint().exact(), left);
        body.collect().await.map(|body| body.to_bytes()).map_err(|e| e.kind())
    }

    #[tokio::test]
    async fn pieces_are_as_many_bytes_as_were_announced() {
        assert_eq!(read(None).await.unwrap(), "abc");
        assert_eq!(read(Some(3)).await.unwrap(), "abc");
        assert_eq!(read(Some(4)).await, Err(io::ErrorKind::UnexpectedEof));
        assert_eq!(read(Some(2)).await.unwrap(), "ab");
        assert_eq!(read(Some(1)).await, Err(io::ErrorKind::InvalidData));
    }

    #[tokio::test]
    async fn a_whole_body_has_a_length() {
        let body = AnswerBody::whole("abc");
        assert_eq!(body.size_hint().exact(), Some(3));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "abc");
        assert!(AnswerBody::default().is_end_stream());
    }
}
