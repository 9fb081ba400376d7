//! A websocket: the bytes of a stream both ways, in binary messages; or datagrams ([`crate::datagrams`]), one
//! per message.
//!
//! The subprotocol `plain.kubevirt.io` is confirmed if it is offered, among others too; without any the
//! stream is the same. A ping is sent every ten seconds, so that proxies do not close an idle console.
//! Clients answer pings automatically. A client without an answer for ten minutes is closed (TCP keepalive
//! finds a dead host earlier).
//!
//! ```text
//!  client ◄─ websocket: messages of at most 64 KiB, one at a time ─► carry ◄─ pieces ────► stream (console, VNC, port)
//!                                                                          ◄─ datagrams ─► a port of UDP
//! ```
//!
//! **Guarantees.** The length of messages is bounded in both directions. A client that does not read blocks
//! only its own stream. An end is signalled with a code and a reason: 1000 if the stream has ended, 1001 if
//! virt-api exits (the client may reconnect), 1009 and 1002 if the client violates the protocol. Only the
//! stream of a console or a screen that was requested in the way of upstream's clients ends without a close
//! frame ([`Farewell`]).

use crate::refusal::{self, Refusal};
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use http::header::{
    SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use serve::transport::{HttpResponse, upgrade_response};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

/// The subprotocol of upstream's clients.
pub(crate) const PLAIN: &str = "plain.kubevirt.io";
/// Maximum length of a client's message.
pub(crate) const MESSAGE: usize = 64 << 10;
/// Buffer size for reads from a client, and for the first read from an idle stream.
const PIECE: usize = (16 << 10) - HEAD;
/// Buffer size for reads from a stream with more data: a message of that size fills four TLS records. One
/// more byte would need another record, here and at the API server, which forwards record by record.
const LARGE: usize = (64 << 10) - HEAD;
/// Length of the frame header of a message of that size.
const HEAD: usize = 4;
/// Interval of pings, and maximum silence of a client.
pub(crate) const PACE: Pace = Pace { ping: Duration::from_secs(10), silent: Duration::from_secs(600) };
/// Time-out of the closing handshake.
const GOODBYE: Duration = Duration::from_secs(5);

/// Signal for the end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// A close frame with the code 1000 and a reason.
    Frame,
    /// The end of the connection, as KubeVirt's virt-handler ends consoles and screens. Upstream's clients
    /// take 1000 for an end that their user requested, and report a console taken over by another client only
    /// on `unexpected EOF`.
    Eof,
}

/// Times of a websocket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    ping: Duration,
    /// Maximum time without an answer to pings, or without progress of a write.
    silent: Duration,
}

/// A valid request to become a websocket.
#[derive(Debug)]
pub(crate) struct UpgradeRequest {
    accept: HeaderValue,
    is_plain: bool,
}

impl UpgradeRequest {
    /// Reads the websocket request in a request head.
    pub(crate) fn of(head: &Parts) -> refusal::Result<UpgradeRequest> {
        let headers = &head.headers;
        if !has(headers, &UPGRADE, "websocket") {
            return Err(Refusal::bad_request(
                "this subresource is a stream: the request must ask for a websocket (Upgrade: websocket)",
            ));
        }
        if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
            return Err(Refusal::bad_request(
                "only version 13 of websockets is supported (Sec-WebSocket-Version)",
            ));
        }
        let key = headers.get(SEC_WEBSOCKET_KEY).filter(|key| key.len() == 24);
        let key =
            key.ok_or_else(|| Refusal::bad_request("Sec-WebSocket-Key is missing, or not of 16 bytes"))?;
        let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()))
            .map_err(|_| Refusal::internal("no answer to Sec-WebSocket-Key can be written"))?;
        Ok(UpgradeRequest { accept, is_plain: has(headers, &SEC_WEBSOCKET_PROTOCOL, PLAIN) })
    }

    /// The response that upgrades the connection to a websocket.
    pub(crate) fn answer(&self) -> HttpResponse {
        let mut response: HttpResponse = upgrade_response("websocket");
        let headers = response.headers_mut();
        headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept.clone());
        if self.is_plain {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PLAIN));
        }
        response
    }
}

/// True if the list in a header contains this word.
fn has(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case(wanted))
}

/// The side whose data is sent to the client.
pub(crate) trait MessageSource: Send {
    /// The next message, or the close frame at the end. Cancellation loses nothing.
    fn hear(&mut self) -> impl Future<Output = Result<Bytes, CloseFrame>> + Send;
}

/// The side that receives the client's data.
pub(crate) trait MessageSink: Send {
    /// Takes a message. The error is the close frame if it takes no more.
    fn speak(&mut self, message: &[u8]) -> impl Future<Output = Result<(), CloseFrame>> + Send;
}

/// The bytes of a stream: small pieces for an idle one, large ones for a busy one.
struct Pieces<R> {
    stream: R,
    /// Buffer of the last message, reused after it was sent.
    room: BytesMut,
    /// The stream had more than one piece since its last wait.
    has_more: bool,
}

impl<R> Pieces<R> {
    fn of(stream: R) -> Pieces<R> {
        Pieces { stream, room: BytesMut::new(), has_more: false }
    }
}

impl<R: AsyncRead + Unpin + Send> MessageSource for Pieces<R> {
    async fn hear(&mut self) -> Result<Bytes, CloseFrame> {
        let mut count = None;
        if self.has_more {
            count = read(&mut self.stream, &mut self.room, LARGE).now_or_never();
        }
        if count.is_none() && std::mem::take(&mut self.has_more) {
            // A wait may take days, so it keeps only a small buffer.
            self.room = BytesMut::new();
        }
        let count = match count {
            Some(count) => count,
            None => read(&mut self.stream, &mut self.room, PIECE).await,
        };
        match count {
            Ok(count @ 1..) => {
                self.has_more |= count >= PIECE;
                Ok(self.room.split().freeze())
            }
            Ok(0) | Err(_) => Err(ended()),
        }
    }
}

/// Reads the available bytes, up to a maximum.
async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    room: &mut BytesMut,
    most: usize,
) -> std::io::Result<usize> {
    room.reserve(most);
    stream.read_buf(&mut room.limit(most)).await
}

impl<W: AsyncWrite + Unpin + Send> MessageSink for W {
    async fn speak(&mut self, message: &[u8]) -> Result<(), CloseFrame> {
        let spoken = async {
            self.write_all(message).await?;
            self.flush().await
        };
        spoken.await.map_err(|_| ended())
    }
}

fn ended() -> CloseFrame {
    close(CloseCode::Normal, "the stream has ended".to_owned())
}

/// Carries bytes between a client and a stream until one of them or the program ends.
pub(crate) async fn carry(
    client: impl AsyncRead + AsyncWrite + Unpin + Send,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    ends: impl Future<Output = ()> + Send,
    farewell: Farewell,
) {
    let (hears, speaks) = tokio::io::split(stream);
    carry_at(PACE, client, Pieces::of(hears), speaks, ends, farewell).await;
}

/// Carries messages between a client and two sides until one of them or the program ends.
pub(crate) async fn carry_at(
    pace: Pace,
    client: impl AsyncRead + AsyncWrite + Unpin + Send,
    hears: impl MessageSource,
    speaks: impl MessageSink,
    ends: impl Future<Output = ()> + Send,
    farewell: Farewell,
) {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE))
        .max_frame_size(Some(MESSAGE))
        .read_buffer_size(PIECE)
        .write_buffer_size(0)
        .max_write_buffer_size(4 * MESSAGE);
    let mut socket = WebSocketStream::from_raw_socket(client, Role::Server, Some(config)).await;
    let ended = between(pace, &mut socket, hears, speaks, ends).await;
    if let Some(frame) = ended {
        // An absent client misses nothing.
        let _ = tokio::time::timeout(GOODBYE, async {
            if farewell == Farewell::Eof && frame.code == CloseCode::Normal {
                // The client's data is read until its end: closing earlier could discard what it has not
                // received yet.
                socket.get_mut().shutdown().await?;
            } else {
                socket.close(Some(frame)).await?;
            }
            while let Some(Ok(_)) = socket.next().await {}
            Ok::<_, tungstenite::Error>(())
        })
        .await;
    }
}

/// Carries messages both ways. Returns the close frame for the client.
async fn between<S: AsyncRead + AsyncWrite + Unpin + Send>(
    pace: Pace,
    socket: &mut WebSocketStream<S>,
    mut hears: impl MessageSource,
    mut speaks: impl MessageSink,
    ends: impl Future<Output = ()> + Send,
) -> Option<CloseFrame> {
    let (mut to_client, mut of_client) = socket.split();
    let (heard, heard_now) = tokio::sync::watch::channel(Instant::now());
    let receives = async {
        loop {
            let message = match of_client.next().await {
                None => return None,
                Some(Err(tungstenite::Error::Capacity(_))) => {
                    return Some(close(CloseCode::Size, format!("a message is longer than {MESSAGE} bytes")));
                }
                Some(Err(tungstenite::Error::Protocol(error))) => {
                    return Some(close(CloseCode::Protocol, error.to_string()));
                }
                Some(Err(_)) => return None,
                Some(Ok(message)) => message,
            };
            let _ = heard.send(Instant::now());
            let bytes = match message {
                Message::Binary(bytes) => bytes,
                Message::Close(_) => return None,
                // Text messages are not key presses, and are ignored.
                _ => continue,
            };
            if let Err(last_words) = speaks.speak(&bytes).await {
                return Some(last_words);
            }
        }
    };
    let sends = async {
        let mut ping = tokio::time::interval_at(Instant::now() + pace.ping, pace.ping);
        loop {
            let message = tokio::select! {
                message = hears.hear() => message,
                _ = ping.tick() => {
                    if heard_now.borrow().elapsed() > pace.silent {
                        return None;
                    }
                    to_client.send(Message::Ping(Bytes::new())).await.ok()?;
                    continue;
                }
            };
            match message {
                Err(last_words) => return Some(last_words),
                Ok(bytes) => {
                    // A client that takes nothing for so long holds a place that others need.
                    let sent =
                        tokio::time::timeout(pace.silent, to_client.send(Message::Binary(bytes))).await;
                    sent.ok()?.ok()?;
                }
            }
        }
    };
    tokio::select! {
        frame = receives => frame,
        frame = sends => frame,
        () = ends => Some(close(CloseCode::Away, "virt-api is shutting down; connect again".to_owned())),
    }
}

pub(crate) fn close(code: CloseCode, reason: String) -> CloseFrame {
    CloseFrame { code, reason: reason.into() }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::future::pending;
    use tokio::io::{DuplexStream, duplex};
    use tokio::task::JoinHandle;

    /// A client, the other end of the stream, and the task between them.
    async fn carried(
        pace: Pace,
        ends: impl Future<Output = ()> + Send + 'static,
    ) -> (WebSocketStream<DuplexStream>, DuplexStream, JoinHandle<()>) {
        carried_until(pace, ends, Farewell::Frame).await
    }

    async fn carried_until(
        pace: Pace,
        ends: impl Future<Output = ()> + Send + 'static,
        farewell: Farewell,
    ) -> (WebSocketStream<DuplexStream>, DuplexStream, JoinHandle<()>) {
        let ((client, server), (stream, guest)) = (duplex(1 << 20), duplex(4 << 10));
        let (hears, speaks) = tokio::io::split(stream);
        let task = tokio::spawn(carry_at(pace, server, Pieces::of(hears), speaks, ends, farewell));
        (WebSocketStream::from_raw_socket(client, Role::Client, None).await, guest, task)
    }

    /// The client's next message other than pings.
    pub(crate) async fn said(client: &mut WebSocketStream<DuplexStream>) -> Message {
        loop {
            match client.next().await.unwrap().unwrap() {
                Message::Ping(_) => {}
                other => return other,
            }
        }
    }

    fn code(message: &Message) -> Option<CloseCode> {
        let Message::Close(Some(frame)) = message else { return None };
        Some(frame.code)
    }

    #[tokio::test]
    async fn bytes_go_both_ways_and_the_end_has_a_reason() {
        let (mut client, mut guest, task) = carried(PACE, pending()).await;
        client.send(Message::Text("not a key".into())).await.unwrap();
        client.send(Message::Binary(b"ls\n".as_slice().into())).await.unwrap();
        let mut typed = [0; 3];
        guest.read_exact(&mut typed).await.unwrap();
        assert_eq!(&typed, b"ls\n");
        guest.write_all(b"bin etc").await.unwrap();
        assert_eq!(said(&mut client).await.into_data().as_ref(), b"bin etc");
        drop(guest);
        assert_eq!(code(&said(&mut client).await), Some(CloseCode::Normal));
        drop(client);
        task.await.unwrap();
    }

    /// KubeVirt's conformance suite requires an error with "EOF" for the first of two consoles. Its client
    /// reports one only without a close frame. All earlier output of the guest is received.
    #[tokio::test]
    async fn a_client_of_upstream_hears_the_end_of_its_stream_as_eof() {
        let (mut client, mut guest, task) = carried_until(PACE, pending(), Farewell::Eof).await;
        client.send(Message::Binary(b"ls\n".as_slice().into())).await.unwrap();
        guest.read_exact(&mut [0; 3]).await.unwrap();
        guest.write_all(b"another client has opened this console").await.unwrap();
        drop(guest);
        assert_eq!(said(&mut client).await.into_data().as_ref(), b"another client has opened this console");
        let eof = loop {
            match client.next().await {
                Some(Ok(Message::Ping(_))) => {}
                other => break other,
            }
        };
        use tungstenite::error::ProtocolError::ResetWithoutClosingHandshake;
        let is_eof = matches!(eof, Some(Err(tungstenite::Error::Protocol(ResetWithoutClosingHandshake))));
        assert!(is_eof, "{eof:?}");
        drop(client);
        task.await.unwrap();
        // Other ends are still signalled.
        let (mut client, _guest, _task) = carried_until(PACE, async {}, Farewell::Eof).await;
        assert_eq!(code(&said(&mut client).await), Some(CloseCode::Away));
    }

    #[tokio::test]
    async fn a_stream_that_has_much_is_sent_in_messages_that_fill_records_of_tls_and_waited_for_with_little()
    {
        let much = PIECE + 2 * LARGE + 5;
        let (mut guest, stream) = duplex(2 * much);
        let mut pieces = Pieces::of(stream);
        for round in 0..2 {
            guest.write_all(&vec![7; much]).await.unwrap();
            let mut sizes = Vec::new();
            for _ in 0..4 {
                sizes.push(pieces.hear().await.unwrap().len());
            }
            assert_eq!(sizes, [PIECE, LARGE, LARGE, 5], "round {round}");
            assert_eq!((PIECE + HEAD) % (16 << 10) + (LARGE + HEAD) % (16 << 10), 0);
            assert!(pieces.hear().now_or_never().is_none(), "nothing is left");
            assert!(pieces.room.capacity() < LARGE / 2, "{} bytes wait", pieces.room.capacity());
        }
        drop(guest);
        assert!(pieces.hear().await.is_err());
    }

    #[tokio::test]
    async fn a_program_that_ends_says_so_and_a_long_message_is_refused() {
        let (mut client, _guest, task) = carried(PACE, async {}).await;
        assert_eq!(code(&said(&mut client).await), Some(CloseCode::Away));
        drop(client);
        task.await.unwrap();
        let (mut client, _guest, task) = carried(PACE, pending()).await;
        client.send(Message::Binary(vec![0; MESSAGE + 1].into())).await.unwrap();
        assert_eq!(code(&said(&mut client).await), Some(CloseCode::Size));
        drop(client);
        task.await.unwrap();
    }

    #[tokio::test]
    async fn an_idle_client_is_pinged_and_one_that_never_answers_is_let_go() {
        let pace = Pace { ping: Duration::from_millis(1), silent: Duration::from_secs(5) };
        let (mut client, _guest, task) = carried(pace, pending()).await;
        // The client answers pings as long as it reads.
        for _ in 0..100 {
            assert!(matches!(client.next().await, Some(Ok(Message::Ping(_)))));
        }
        task.await.unwrap();
        drop(client);
    }

    /// Forwards bytes, and cuts a connection that is silent for a hundred ticks of its clock. The ticks are
    /// published.
    async fn cuts_silence(
        mut client: DuplexStream,
        mut server: DuplexStream,
        turns: tokio::sync::watch::Sender<usize>,
    ) {
        let (mut of_client, mut of_server) = ([0; 512], [0; 512]);
        let mut clock = tokio::time::interval(Duration::from_millis(2));
        // If this task is late, the pings had the same delay.
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut silent = 0;
        while silent < 100 {
            tokio::select! {
                read = client.read(&mut of_client) => match read {
                    // The other side may have ended meanwhile.
                    Ok(size @ 1..) if server.write_all(&of_client[..size]).await.is_ok() => {}
                    _ => return,
                },
                read = server.read(&mut of_server) => match read {
                    Ok(size @ 1..) if client.write_all(&of_server[..size]).await.is_ok() => {}
                    _ => return,
                },
                _ = clock.tick() => {
                    turns.send_modify(|turns| *turns += 1);
                    silent += 1;
                    continue;
                }
            }
            silent = 0;
        }
    }

    #[tokio::test]
    async fn pings_keep_an_idle_console_behind_a_proxy_that_cuts_silence() {
        for (ping, stays) in [(Duration::from_millis(5), true), (Duration::from_secs(3600), false)] {
            let pace = Pace { ping, silent: Duration::from_secs(3600) };
            let ((client, of_client), (of_server, server)) = (duplex(1 << 10), duplex(1 << 10));
            let (stream, mut guest) = duplex(1 << 10);
            let (hears, speaks) = tokio::io::split(stream);
            let carries = carry_at(pace, server, Pieces::of(hears), speaks, pending(), Farewell::Frame);
            let task = tokio::spawn(carries);
            let (tell, mut turns) = tokio::sync::watch::channel(0);
            let proxy = tokio::spawn(cuts_silence(of_client, of_server, tell));
            let mut client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
            // An error means that the proxy has cut the connection.
            let open = turns.wait_for(|turns| *turns >= 500).await.is_ok();
            assert_eq!(open, stays, "a ping each {ping:?}");
            if stays {
                guest.write_all(b"still here").await.unwrap();
                assert_eq!(said(&mut client).await.into_data().as_ref(), b"still here");
            }
            drop((client, guest));
            proxy.await.unwrap();
            task.await.unwrap();
        }
    }

    #[test]
    fn the_subprotocol_is_confirmed_where_it_is_offered() {
        let wanted = |protocol: Option<&str>, version: &str| {
            let mut request = http::Request::get("/")
                .header(UPGRADE, "WebSocket")
                .header(SEC_WEBSOCKET_VERSION, version)
                .header(SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ==");
            if let Some(protocol) = protocol {
                request = request.header(SEC_WEBSOCKET_PROTOCOL, protocol);
            }
            UpgradeRequest::of(&request.body(()).unwrap().into_parts().0).map(|wanted| wanted.answer())
        };
        let answer = wanted(Some("base64.binary.k8s.io, plain.kubevirt.io"), "13").unwrap();
        assert_eq!(answer.status(), 101);
        assert_eq!(answer.headers()[SEC_WEBSOCKET_PROTOCOL], PLAIN);
        assert_eq!(answer.headers()[SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        for protocol in [None, Some("binary")] {
            assert!(!wanted(protocol, "13").unwrap().headers().contains_key(SEC_WEBSOCKET_PROTOCOL));
        }
        assert_eq!(wanted(None, "8").unwrap_err().status, 400);
    }
}
