//! Serial consoles and screens: a WebSocket of the page, joined to one of virt-api.
//!
//! The page's WebSocket is accepted at once, since a browser does not show the error of one that is refused.
//! Its first message is text: `{"state": "open"}`, or `{"error": "a sentence", "code": 409}` before the
//! close. All others are bytes of the guest, in both directions. The close frame has the code and reason of
//! the other side, or [`REFUSED`] if no stream was opened.

use super::answer::{Body, Refusal};
use super::authentication::SUBPROTOCOL;
use super::route::{Mode, VmName};
use crate::error::Error;
use crate::virt::client::Cluster;
use crate::virt::failure::Failure;
use crate::virt::websocket::{End, Input, Output, Stream};
use cluster_model::objects::Kind;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{self, HeaderValue};
use http::{Request, Response, StatusCode};
use hyper::body::{Bytes, Incoming};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig};
use transport::{upgrade, wants_upgrade};

/// Interval of pings to both sides.
const PING: Duration = Duration::from_secs(15);
/// Timeout of the closing handshake.
const CLOSING: Duration = Duration::from_secs(1);
/// Maximum size of a message of the page: a pasted text.
const LARGEST: usize = 1 << 20;
/// Maximum size of a message to virt-api, which accepts 64 KiB.
const PIECE: usize = 32 << 10;
/// Close code if no stream was opened.
const REFUSED: u16 = 4000;
/// Maximum length of a close frame's reason in bytes.
const REASON: usize = 123;

type Socket = WebSocketStream<TokioIo<Upgraded>>;
type Page = SplitSink<Socket, Message>;

/// A stream of virt-api to be opened.
#[derive(Debug)]
pub(super) struct Target {
    path: String,
    /// Beginning of the error message.
    doing: String,
}

impl Target {
    /// The serial console of a VMI.
    pub(super) fn console(place: &VmName, mode: Mode) -> Target {
        let part = format!("console?mode={}", mode.word());
        Target::of(place, &part, "serial console")
    }

    /// The screen of a VMI.
    pub(super) fn screen(place: &VmName, mode: Mode) -> Target {
        let part = format!("vnc?mode={}", mode.word());
        Target::of(place, &part, "screen")
    }

    fn of(place: &VmName, part: &str, what: &str) -> Target {
        let VmName { namespace, name } = place;
        Target {
            path: Kind::VirtualMachineInstance.part(namespace, name, part),
            doing: format!("cannot open the {what} of VMI {name} in namespace {namespace}"),
        }
    }
}

/// Accepts the page's WebSocket, and joins it to a stream of virt-api until one of the two ends. The permit
/// is held until then.
pub(super) fn open(
    request: Request<Incoming>,
    cluster: Cluster,
    target: Target,
    permit: OwnedSemaphorePermit,
) -> Result<Response<Body>, Refusal> {
    let says = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let is_websocket = wants_upgrade(request.headers(), "websocket");
    let (true, Some("13"), Some(key)) =
        (is_websocket, says(header::SEC_WEBSOCKET_VERSION), says(header::SEC_WEBSOCKET_KEY))
    else {
        return Err(Refusal::new(StatusCode::UPGRADE_REQUIRED, "this is a WebSocket, which a page opens"));
    };
    let accept = derive_accept_key(key.as_bytes());
    let protocols = request.headers().contains_key(header::SEC_WEBSOCKET_PROTOCOL);
    let mut response: Response<Body> = upgrade(request, "websocket", async move |io| {
        let _permit = permit;
        let config = WebSocketConfig::default().max_message_size(Some(LARGEST)).max_frame_size(Some(LARGEST));
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        join(socket, &cluster, &target).await;
    });
    let headers = response.headers_mut();
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    // A browser closes the connection unless one of its subprotocols is chosen.
    if protocols {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    }
    Ok(response)
}

async fn join(socket: Socket, cluster: &Cluster, target: &Target) {
    let (mut page, mut keys) = socket.split();
    let opened = tokio::select! {
        opened = Stream::open(cluster, &target.path) => opened,
        // Keys that are typed before the stream is open are dropped.
        () = ended(&mut keys) => return,
    };
    let stream = match opened {
        Ok(stream) => stream,
        Err(failure) => return refuse(page, failure, &target.doing).await,
    };
    if tell(&mut page, &json!({"state": "open"})).await.is_err() {
        return;
    }
    let (mut input, mut output) = stream.split();
    let end = tokio::select! {
        end = to_guest(&mut keys, &mut input) => end,
        end = to_page(&mut output, &mut page) => end,
    };
    input.close().await;
    let (code, reason) = last_words(&end);
    let frame = CloseFrame { code: CloseCode::from(code), reason: reason.into() };
    let _ = timeout(CLOSING, page.send(Message::Close(Some(frame)))).await;
}

async fn refuse(mut page: Page, failure: Failure, doing: &str) {
    let code = failure.code();
    let error: Error = failure.into_error(doing);
    tracing::info!("{error}");
    let frame = CloseFrame { code: CloseCode::from(REFUSED), reason: short(&error.to_string()).into() };
    let told = async {
        tell(&mut page, &json!({"error": error.chain(), "code": code})).await?;
        page.send(Message::Close(Some(frame))).await.map_err(drop)
    };
    // The page may have closed the connection.
    let _ = timeout(CLOSING, told).await;
}

async fn tell(page: &mut Page, value: &Value) -> Result<(), ()> {
    page.send(Message::Text(value.to_string().into())).await.map_err(drop)
}

/// Waits until the page closes the connection.
async fn ended(keys: &mut SplitStream<Socket>) {
    while let Some(Ok(message)) = keys.next().await {
        if message.is_close() {
            return;
        }
    }
}

async fn to_guest(keys: &mut SplitStream<Socket>, input: &mut Input) -> Option<End> {
    let mut pings = interval_at(Instant::now() + PING, PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            message = keys.next() => message,
            _ = pings.tick() => match input.ping().await {
                Ok(()) => continue,
                Err(end) => return Some(end),
            },
        };
        match message {
            Some(Ok(Message::Binary(bytes))) => {
                for piece in bytes.chunks(PIECE) {
                    if let Err(end) = input.send(bytes.slice_ref(piece)).await {
                        return Some(end);
                    }
                }
            }
            Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
            // The library answers pings.
            Some(Ok(_)) => {}
        }
    }
}

async fn to_page(output: &mut Output, page: &mut Page) -> Option<End> {
    let mut pings = interval_at(Instant::now() + PING, PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            bytes = output.next() => match bytes {
                Ok(bytes) => Message::Binary(bytes),
                Err(end) => return Some(end),
            },
            _ = pings.tick() => Message::Ping(Bytes::new()),
        };
        if page.send(message).await.is_err() {
            return None;
        }
    }
}

/// Code and reason of the close frame.
fn last_words(end: &Option<End>) -> (u16, String) {
    match end {
        None => (1000, String::new()),
        Some(end @ End::Closed { code, .. }) => {
            // These codes stand for a missing close frame, and must not be sent in one.
            let code = if matches!(code, 1005 | 1006 | 1015) || *code < 1000 { 1011 } else { *code };
            (code, short(&end.to_string()))
        }
        Some(end @ End::Broken(_)) => (1011, short(&end.to_string())),
    }
}

/// A sentence cut to the size of a close frame's reason.
fn short(sentence: &str) -> String {
    if sentence.len() <= REASON {
        return sentence.to_owned();
    }
    let end = (0..=REASON - '…'.len_utf8()).rev().find(|end| sentence.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &sentence[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_virt_api() {
        let place = VmName { namespace: "blue".to_owned(), name: "web".to_owned() };
        let vmi = "/apis/subresources.kubevirt.io/v1/namespaces/blue/virtualmachineinstances/web";
        assert_eq!(Target::console(&place, Mode::Write).path, format!("{vmi}/console?mode=write"));
        assert_eq!(Target::screen(&place, Mode::Read).path, format!("{vmi}/vnc?mode=read"));
    }

    #[test]
    fn an_end_is_told_in_what_a_close_frame_takes() {
        let closed = |code, reason: &str| Some(End::Closed { code, reason: reason.to_owned() });
        for (end, wanted) in [
            (None, (1000, "")),
            (closed(1001, "virt-api ends"), (1001, "virt-api ends")),
            (closed(1005, "x"), (1011, "x")),
            (closed(4001, "x"), (4001, "x")),
            (Some(End::Broken("reset".to_owned())), (1011, "reset")),
        ] {
            let (code, reason) = last_words(&end);
            assert_eq!((code, reason.as_str()), wanted);
        }
        let long = short(&"é".repeat(100));
        assert!(long.len() <= REASON && long.ends_with("é…"), "{long}");
        assert_eq!(short("whole"), "whole");
    }
}
