//! Watches, and bodies that are streamed.

use super::ApiServer;
use super::request::Selection;
use http::{Response, StatusCode};
use hyper::body::{Body, Bytes, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

impl ApiServer {
    /// Events behind a version, until watches are broken off or the reader is gone.
    pub(super) fn watched(self, selection: Selection, from: u64) -> Response<Lines> {
        let (to, lines) = mpsc::channel(1024);
        let (breaks, mut changes) = (self.state().etcd.breaks, self.changes.subscribe());
        tokio::spawn(async move {
            let mut position = 0;
            loop {
                changes.borrow_and_update();
                let mut new = Vec::new();
                {
                    let state = self.state();
                    let etcd = &state.etcd;
                    if etcd.breaks != breaks {
                        return;
                    }
                    if !etcd.stalls {
                        new = etcd.lines(&selection, from, position);
                        position = etcd.events();
                    }
                }
                for line in new {
                    if to.send(Bytes::from(line)).await.is_err() {
                        return;
                    }
                }
                tokio::select! {
                    changed = changes.changed() => if changed.is_err() { return },
                    () = to.closed() => return,
                }
            }
        });
        response(StatusCode::OK, lines)
    }
}

/// A response with a whole body.
pub(super) fn whole(status: StatusCode, text: String) -> Response<Lines> {
    let (to, lines) = mpsc::channel(1);
    to.try_send(Bytes::from(text)).unwrap();
    response(status, lines)
}

fn response(status: StatusCode, lines: mpsc::Receiver<Bytes>) -> Response<Lines> {
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(Lines(lines)).unwrap()
}

/// A body that is streamed.
pub struct Lines(mpsc::Receiver<Bytes>);

impl Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}
