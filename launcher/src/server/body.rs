//! Bodies: those of requests are read completely and bounded, those of answers are complete or sent line by
//! line.

use crate::error::{Error, Result};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// The largest body that is read: a manifest with its seeds is far smaller.
const LARGEST: usize = 4 << 20;

/// Reads a body as JSON.
pub(super) async fn read<T: DeserializeOwned>(body: Incoming) -> Result<T> {
    parse(&read_body(body).await?)
}

/// Reads a body as JSON; a missing body gives the default.
pub(super) async fn read_or_default<T: DeserializeOwned + Default>(body: Incoming) -> Result<T> {
    let bytes = read_body(body).await?;
    if bytes.is_empty() { Ok(T::default()) } else { parse(&bytes) }
}

async fn read_body(mut body: Incoming) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|e| Error::refused("the body of the request broke off").because(e))?;
        if let Some(data) = frame.data_ref() {
            if bytes.len() + data.len() > LARGEST {
                return Err(Error::refused("the body of the request is larger than 4 MiB"));
            }
            bytes.extend_from_slice(data);
        }
    }
    Ok(bytes)
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes)
        .map_err(|e| Error::refused(format!("the body of the request is not understood: {e}")))
}

/// The body of an answer.
pub(super) enum Out {
    /// A complete body, sent at once.
    Whole(Option<Bytes>),
    /// A body that is sent line by line.
    Lines(mpsc::Receiver<Bytes>),
}

impl Out {
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Out {
        Out::Whole(Some(bytes.into()))
    }
}

impl Body for Out {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Out::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Out::Lines(lines) => lines.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(line)))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Out::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Out::Lines(_) => SizeHint::default(),
        }
    }
}
