//! Uploads by HTTP/2, as curl and browsers send them. The pod receives HTTP/1.1.

use crate::client::Client;
use crate::scene::{Scene, bytes, token};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Bytes, Frame};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A connection, and its socket, which a test uses to break it.
async fn begin<B>(client: &Client) -> (SendRequest<B>, OwnedFd)
where
    B: Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    let stream = client.by_http2().connect().await.stream;
    let socket = rustix::io::fcntl_dupfd_cloexec(stream.get_ref().0, 0).unwrap();
    let settings = http2::Builder::new(TokioExecutor::new());
    let (sender, connection) = settings.handshake(TokioIo::new(stream)).await.unwrap();
    // Some tests break the connection.
    tokio::spawn(async move { drop(connection.await) });
    (sender, socket)
}

fn post<B>(token: &str, body: B) -> Request<B> {
    let request =
        Request::post("https://proxy/v1beta1/upload").header("authorization", format!("Bearer {token}"));
    request.body(body).unwrap()
}

#[tokio::test]
async fn uploads_on_one_connection_come_to_the_pod_whole() {
    let scene = Scene::begin().await;
    let (mut sender, _socket) = begin::<Full<Bytes>>(&scene.client).await;
    for count in 1..=2 {
        let body = bytes(3 << 20);
        let answer = sender.send_request(post(&token("disk"), Full::new(body.clone().into()))).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let seen = scene.pod.until(|seen| seen.whole == count).await;
        assert!(seen.last == body, "the pod has other bytes");
        assert!(seen.heads[count - 1].starts_with("post /v1beta1/upload http/1.1\r\n"), "{:?}", seen.heads);
    }
    // A refusal ends one request, not the connection.
    let refused = sender.send_request(post("a.b.c", Full::new(bytes(1 << 20).into()))).await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    let answer = sender.send_request(post(&token("disk"), Full::new(Bytes::new()))).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "");
}

/// A body that never ends: one piece, then nothing.
struct Begins(Option<Bytes>);

impl Body for Begins {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |piece| Poll::Ready(Some(Ok(Frame::data(piece)))))
    }
}

/// Without a length, only the end of the stream marks a complete body.
#[tokio::test]
async fn a_stream_that_breaks_off_is_no_end_of_a_body() {
    let scene = Scene::begin().await;
    for (count, takes_back) in [(1, true), (2, false)] {
        let (mut sender, socket) = begin(&scene.client).await;
        let body = Begins(Some(bytes(100_000).into()));
        let asked =
            tokio::spawn(async move { sender.send_request(post(&token("disk"), body)).await.is_ok() });
        scene.pod.until(|seen| seen.bytes == count * 100_000).await;
        match takes_back {
            // Reset of the request (RST_STREAM), or of the connection.
            true => asked.abort(),
            false => rustix::net::shutdown(&socket, rustix::net::Shutdown::Both).unwrap(),
        }
        let seen = scene.pod.until(|seen| seen.broken == count).await;
        assert_eq!(seen.whole, 0, "a part was taken for the whole");
    }
}
