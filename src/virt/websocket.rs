//! Streams through virt-api: a console, a screen, a port of the guest.
//!
//! ```text
//!  request with Upgrade ──kube's client (TLS, login, proxy)──► 101 ──► frames ──► Input, Output
//!                                                          └─► any other answer: an error with the server's message
//! ```
//!
//! kube's own WebSocket client requires the subprotocols of `kubectl exec`, so a library is used for the
//! frames alone. Bytes are sent as binary messages, whose boundaries have no meaning; virt-api takes up to 64
//! KiB in one. A ping each [`PING`] keeps proxies from closing an idle stream. Once the other side has
//! answered a ping, its silence for [`SILENCE`] ends the stream.

use super::client::Cluster;
use super::failure::Failure;
use crate::error::ErrorKind;
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

/// Subprotocol of bytes without framing.
pub(crate) const PLAIN: &str = "plain.kubevirt.io";
/// Interval between two pings.
pub(super) const PING: Duration = Duration::from_secs(15);
/// Timeout for another message of a peer that answers pings.
const SILENCE: Duration = Duration::from_secs(60);
/// Timeout of opening a stream: virt-api asks virt-handler, which asks the launcher.
const OPENING: Duration = Duration::from_secs(30);
/// Timeout of the closing handshake.
const CLOSING: Duration = Duration::from_secs(1);
/// Size of the read buffer: one TLS record, since more is rarely available at once. The library zeroes the whole
/// buffer before each read.
const READ: usize = 16 << 10;
/// Maximum size of a sent message, which with its header of eight bytes fills four TLS records.
pub(super) const PIECE: usize = (64 << 10) - 8;
/// Maximum size of a received message. QEMU, a screen and a port of a guest send much smaller ones.
const LARGEST: usize = 16 << 20;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// An open stream through virt-api.
pub(crate) struct Stream(Socket);

/// Sending half of a stream.
pub(crate) struct Input(SplitSink<Socket, Message>);

/// Receiving half of a stream.
pub(crate) struct Output {
    stream: SplitStream<Socket>,
    /// True once the other side has answered a ping.
    answers: bool,
    heard: Instant,
}

/// Reason for the end of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The other side closed it, with a code and maybe a reason.
    Closed { code: u16, reason: String },
    /// The connection failed, for this reason.
    Broken(String),
}

impl End {
    /// True if the other side ended the stream on purpose, and does not restart: a new stream would be a new
    /// session.
    pub(crate) fn is_final(&self) -> bool {
        // 1001: the server goes away; 1006: no close message was received; 1011 to 1014: server errors.
        matches!(self, End::Closed { code, .. } if !matches!(code, 1001 | 1006 | 1011..=1014))
    }

    /// True for a normal end.
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
            let upgraded = hyper::upgrade::on(response).await.map_err(|e| odd("broke off").because(e))?;
            let config = WebSocketConfig::default()
                .max_message_size(Some(LARGEST))
                .max_frame_size(Some(LARGEST))
                .read_buffer_size(READ);
            Ok(Stream(
                WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, Some(config)).await,
            ))
        };
        timeout(OPENING, opened).await.unwrap_or_else(|_| Err(odd("did not open within 30 s")))
    }

    /// The two halves, for two tasks.
    pub(crate) fn split(self) -> (Input, Output) {
        let (sink, stream) = self.0.split();
        (Input(sink), Output { stream, answers: false, heard: Instant::now() })
    }
}

/// Failure of opening a stream.
fn odd(what: &str) -> Failure {
    Failure::new(ErrorKind::Failed, format!("the stream {what}"))
}

/// Checks that the upgrade answers this request with plain bytes. A response without any subprotocol is
/// accepted too.
fn check<B>(response: &Response<B>, key: &str) -> Result<(), Failure> {
    let says = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let is_websocket = says(header::UPGRADE).is_some_and(|word| word.eq_ignore_ascii_case("websocket"));
    let is_ours = says(header::SEC_WEBSOCKET_ACCEPT) == Some(derive_accept_key(key.as_bytes()).as_str());
    let is_plain = says(header::SEC_WEBSOCKET_PROTOCOL).is_none_or(|protocol| protocol == PLAIN);
    match is_websocket && is_ours && is_plain {
        true => Ok(()),
        false => Err(odd("was not accepted as a WebSocket of plain bytes; is a proxy in between?")),
    }
}

impl Input {
    /// Sends bytes to the guest.
    pub(crate) async fn send(&mut self, bytes: impl Into<Bytes>) -> Result<(), End> {
        self.say(Message::Binary(bytes.into())).await
    }

    /// Sends a ping, which keeps the stream open.
    pub(crate) async fn ping(&mut self) -> Result<(), End> {
        self.say(Message::Ping(Bytes::new())).await
    }

    async fn say(&mut self, message: Message) -> Result<(), End> {
        self.0.send(message).await.map_err(|e| End::Broken(e.to_string()))
    }

    /// Closes the stream with a close frame.
    pub(crate) async fn close(mut self) {
        // The error of a broken connection does not matter any more.
        let _ = timeout(CLOSING, self.0.close()).await;
    }
}

impl Output {
    /// Receives the next bytes of the guest.
    pub(crate) async fn next(&mut self) -> Result<Bytes, End> {
        loop {
            let next = self.stream.next();
            let message = if self.answers {
                let left = SILENCE.saturating_sub(self.heard.elapsed());
                let silent = || End::Broken(format!("no message was received for {} s", SILENCE.as_secs()));
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
                // The library answers pings; text messages carry no bytes of the stream.
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
