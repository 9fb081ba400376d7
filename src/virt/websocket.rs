//! Streams through virt-api: a console, a screen, a port of the guest.
//!
//! ```text
//!  request with Upgrade ──kube's client (TLS, login, proxy)──► 101 ──► frames ──► Input, Output
//!                                                          └─► anything else: the server's words
//! ```
//!
//! kube's own client of WebSockets insists on the subprotocols of `kubectl exec`; so only the frames are taken from a
//! library. Bytes go as binary messages, whose borders mean nothing; virt-api takes up to 64 KiB in one. A ping each [`PING`] keeps what stands between from
//! closing an idle stream; once the other side has answered one, its silence for [`SILENCE`] is an end.

use super::client::{Cluster, Failure};
use cdi::ErrorKind;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use http::{Request, Response, StatusCode, header};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use std::fmt;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Bytes;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{Message, Role, WebSocketConfig};

/// The subprotocol of bytes without framing.
pub(crate) const PLAIN: &str = "plain.kubevirt.io";
/// How often the other side is asked whether it is there.
pub(super) const PING: Duration = Duration::from_secs(15);
/// How long an other side that answers pings may say nothing.
const SILENCE: Duration = Duration::from_secs(60);
/// How long a stream may take to open: virt-api asks virt-handler, which asks the launcher.
const OPENING: Duration = Duration::from_secs(30);
/// How long the last word may take.
const CLOSING: Duration = Duration::from_secs(1);
/// What is read at once: a record of TLS, which is what there is at once. The library fills all that it has room for with
/// zeros before each read.
const READ: usize = 16 << 10;
/// The largest message that is sent, which fills four records of TLS: eight bytes stand before it.
pub(super) const PIECE: usize = (64 << 10) - 8;
/// The largest message that is taken. QEMU, a screen and a port of a guest write much smaller ones.
const LARGEST: usize = 16 << 20;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// A stream that is open.
pub(crate) struct Stream(Socket);

/// The direction to the guest.
pub(crate) struct Input(SplitSink<Socket, Message>);

/// The direction from the guest.
pub(crate) struct Output {
    stream: SplitStream<Socket>,
    /// The other side answers pings.
    answers: bool,
    heard: Instant,
}

/// How a stream ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The other side closed it, and gave a code and maybe a reason.
    Closed { code: u16, reason: String },
    /// It broke.
    Broken(String),
}

impl End {
    /// The other side is done, and a new stream would be another one: nothing broke, nobody restarts.
    pub(crate) fn is_final(&self) -> bool {
        // 1001 is said by who goes away, 1006 by nobody, 1011 to 1014 by who is in trouble.
        matches!(self, End::Closed { code, .. } if !matches!(code, 1001 | 1006 | 1011..=1014))
    }

    /// It ended as streams should.
    pub(crate) fn is_normal(&self) -> bool {
        matches!(self, End::Closed { code: 1000 | 1001 | 1005, .. })
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Closed { code, reason } if reason.is_empty() => {
                write!(f, "the other side closed it (code {code})")
            }
            End::Closed { reason, .. } => f.write_str(reason),
            End::Broken(why) => f.write_str(why),
        }
    }
}

impl Stream {
    /// Opens the stream at this path.
    pub(crate) async fn open(cluster: &Cluster, path: &str) -> Result<Stream, Failure> {
        let key = generate_key();
        let request = Request::get(path)
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_KEY, &key)
            .header(header::SEC_WEBSOCKET_PROTOCOL, PLAIN)
            .body(Body::empty());
        let opened = async {
            let response = cluster.send(request).await?;
            if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                let status = response.status();
                let body = cluster.read(response).await?;
                return Err(cluster.refusal(status, &body));
            }
            check(&response, &key)?;
            let upgraded =
                hyper::upgrade::on(response).await.map_err(|e| odd("broke off", Some(e.into())))?;
            let config = WebSocketConfig::default()
                .max_message_size(Some(LARGEST))
                .max_frame_size(Some(LARGEST))
                .read_buffer_size(READ);
            Ok(Stream(
                WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, Some(config)).await,
            ))
        };
        timeout(OPENING, opened).await.unwrap_or_else(|_| Err(odd("did not open within 30 s", None)))
    }

    /// Its two directions, for two tasks.
    pub(crate) fn split(self) -> (Input, Output) {
        let (sink, stream) = self.0.split();
        (Input(sink), Output { stream, answers: false, heard: Instant::now() })
    }
}

/// A stream that did not become one.
fn odd(what: &str, cause: Option<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    Failure::Unreachable { kind: ErrorKind::Failed, words: format!("the stream {what}"), cause }
}

/// The server means this request, and speaks of bytes: an upgrade without any subprotocol is one of them, too.
fn check<B>(response: &Response<B>, key: &str) -> Result<(), Failure> {
    let says = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let is_websocket = says(header::UPGRADE).is_some_and(|word| word.eq_ignore_ascii_case("websocket"));
    let is_ours = says(header::SEC_WEBSOCKET_ACCEPT) == Some(derive_accept_key(key.as_bytes()).as_str());
    let is_plain = says(header::SEC_WEBSOCKET_PROTOCOL).is_none_or(|protocol| protocol == PLAIN);
    match is_websocket && is_ours && is_plain {
        true => Ok(()),
        false => Err(odd("is no WebSocket of plain bytes; is there a proxy in between?", None)),
    }
}

impl Input {
    /// Sends bytes to the guest.
    pub(crate) async fn send(&mut self, bytes: impl Into<Bytes>) -> Result<(), End> {
        self.say(Message::Binary(bytes.into())).await
    }

    /// Asks whether the other side is there.
    pub(crate) async fn ping(&mut self) -> Result<(), End> {
        self.say(Message::Ping(Bytes::new())).await
    }

    async fn say(&mut self, message: Message) -> Result<(), End> {
        self.0.send(message).await.map_err(|e| End::Broken(e.to_string()))
    }

    /// Says that nothing more comes.
    pub(crate) async fn close(mut self) {
        // Who is gone need not be told.
        let _ = timeout(CLOSING, self.0.close()).await;
    }
}

impl Output {
    /// The next bytes of the guest.
    pub(crate) async fn next(&mut self) -> Result<Bytes, End> {
        loop {
            let next = self.stream.next();
            let message = if self.answers {
                let left = SILENCE.saturating_sub(self.heard.elapsed());
                let silent = || End::Broken(format!("nothing was heard for {} s", SILENCE.as_secs()));
                timeout(left, next).await.map_err(|_| silent())?
            } else {
                next.await
            };
            self.heard = Instant::now();
            match message {
                Some(Ok(Message::Binary(bytes))) if !bytes.is_empty() => return Ok(bytes),
                Some(Ok(Message::Pong(_))) => self.answers = true,
                Some(Ok(Message::Close(frame))) => {
                    let (code, reason) = frame.map_or((CloseCode::Status, String::new()), |frame| {
                        (frame.code, printable::line(frame.reason.as_str()))
                    });
                    return Err(End::Closed { code: code.into(), reason });
                }
                // A ping is answered by the library; a text is nobody's bytes.
                Some(Ok(_)) => {}
                Some(Err(e)) => return Err(End::Broken(printable::line(&e.to_string()))),
                None => return Err(End::Broken("the connection ended".to_owned())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_says_whether_to_come_again() {
        let closed = |code| End::Closed { code, reason: String::new() };
        for code in [1000, 1003, 1005, 1008, 4000] {
            assert!(closed(code).is_final(), "{code}");
        }
        for end in [closed(1001), closed(1006), closed(1011), closed(1012), End::Broken("reset".to_owned())] {
            assert!(!end.is_final(), "{end}");
        }
        assert!(closed(1000).is_normal() && !closed(1008).is_normal());
        assert!(!End::Broken("x".to_owned()).is_normal());
        let told = End::Closed { code: 1008, reason: "taken over".to_owned() };
        assert_eq!(told.to_string(), "taken over");
    }

    #[test]
    fn an_answer_to_somebody_else_is_no_stream() {
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        let answer = |upgrade: &str, accept: &str, protocol: Option<&str>| {
            let mut response = Response::builder()
                .header(header::UPGRADE, upgrade)
                .header(header::SEC_WEBSOCKET_ACCEPT, accept);
            if let Some(protocol) = protocol {
                response = response.header(header::SEC_WEBSOCKET_PROTOCOL, protocol);
            }
            response.body(()).unwrap()
        };
        // The example of RFC 6455.
        let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
        assert!(check(&answer("WebSocket", accept, Some(PLAIN)), key).is_ok());
        assert!(check(&answer("websocket", accept, None), key).is_ok());
        assert!(check(&answer("websocket", accept, Some("v5.channel.k8s.io")), key).is_err());
        assert!(check(&answer("websocket", "another", Some(PLAIN)), key).is_err());
        assert!(check(&answer("h2c", accept, Some(PLAIN)), key).is_err());
    }
}
