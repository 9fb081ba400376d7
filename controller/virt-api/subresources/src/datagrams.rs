//! UDP port forwarding: each binary message of the websocket is one datagram, and each datagram of the guest
//! one message, as upstream's clients have it. A client opens a stream for each address that it forwards.
//!
//! UDP has no end of a connection, so a stream ends after [`IDLE`] without datagrams. A closed port of the
//! guest is reported by ICMP, which ends the stream too. Datagrams that do not fit into buffers are lost.

use crate::websocket::{self, Farewell, MESSAGE, MessageSink, MessageSource, PACE, Pace, close};
use hyper::body::Bytes;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

/// Time without datagrams after which a stream ends.
const IDLE: Duration = Duration::from_secs(300);

/// The longest datagram of UDP over IPv4.
const LONGEST: usize = 65_507;

/// Carries datagrams between a client and the guest until the client ends the stream, it is idle, or the
/// program ends.
pub(crate) async fn carry(
    client: impl AsyncRead + AsyncWrite + Unpin + Send,
    guest: UdpSocket,
    ends: impl Future<Output = ()> + Send,
) {
    carry_at(PACE, IDLE, client, guest, ends).await;
}

async fn carry_at(
    pace: Pace,
    idle: Duration,
    client: impl AsyncRead + AsyncWrite + Unpin + Send,
    guest: UdpSocket,
    ends: impl Future<Output = ()> + Send,
) {
    let (guest, last) = (Arc::new(guest), Arc::new(watch::Sender::new(Instant::now())));
    let hears = Datagrams { guest, last, idle };
    let speaks = hears.clone();
    websocket::carry_at(pace, client, ReceivedDatagrams(hears), Spoken(speaks), ends, Farewell::Frame).await;
}

/// The UDP socket of the guest's port, as a stream of messages.
#[derive(Clone, Debug)]
struct Datagrams {
    guest: Arc<UdpSocket>,
    /// Time of the last datagram in either direction.
    last: Arc<watch::Sender<Instant>>,
    idle: Duration,
}

struct ReceivedDatagrams(Datagrams);
struct Spoken(Datagrams);

impl MessageSource for ReceivedDatagrams {
    async fn hear(&mut self) -> Result<Bytes, CloseFrame> {
        let ReceivedDatagrams(Datagrams { guest, last, idle }) = self;
        loop {
            let until = *last.borrow() + *idle;
            // Only the used part of the buffer becomes resident memory.
            let mut room = Vec::with_capacity(MESSAGE);
            let came = guest.recv_buf(&mut room);
            match timeout_at(until, came).await {
                Ok(Ok(_)) => {
                    last.send_replace(Instant::now());
                    return Ok(Bytes::copy_from_slice(&room));
                }
                Ok(Err(error)) => return Err(lost(&error)),
                // A datagram was sent meanwhile.
                Err(_) if *last.borrow() + *idle > Instant::now() => {}
                Err(_) => {
                    let seconds = idle.as_secs();
                    let why = format!("no datagram went either way for {seconds} s; open the port again");
                    return Err(close(CloseCode::Normal, why));
                }
            }
        }
    }
}

impl MessageSink for Spoken {
    async fn speak(&mut self, message: &[u8]) -> Result<(), CloseFrame> {
        let Spoken(Datagrams { guest, last, .. }) = self;
        last.send_replace(Instant::now());
        if message.len() > LONGEST {
            let why = format!("{} bytes are more than a datagram of UDP may have", message.len());
            return Err(close(CloseCode::Size, why));
        }
        guest.send(message).await.map(drop).map_err(|error| lost(&error))
    }
}

/// Close frame for a guest that cannot be reached.
fn lost(error: &io::Error) -> CloseFrame {
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "this UDP port of the guest is closed".to_owned(),
        _ => format!("the guest cannot be reached by UDP: {error}"),
    };
    close(CloseCode::Error, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket::tests::said;
    use futures_util::SinkExt as _;
    use std::future::pending;
    use std::net::Ipv4Addr;
    use tokio::io::{DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio_tungstenite::WebSocketStream;
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::tungstenite::protocol::Role;

    /// More than these tests take.
    const LONG: Duration = Duration::from_secs(600);

    /// A client, the guest's socket, and the task between them.
    async fn carried(idle: Duration) -> (WebSocketStream<DuplexStream>, UdpSocket, JoinHandle<()>) {
        let guest = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = guest.local_addr().unwrap();
        let ours = crate::ports::dial_udp(address.ip(), address.port()).await.unwrap();
        let (client, server) = duplex(1 << 20);
        let task = tokio::spawn(carry_at(PACE, idle, server, ours, pending()));
        (WebSocketStream::from_raw_socket(client, Role::Client, None).await, guest, task)
    }

    async fn last_words(
        mut client: WebSocketStream<DuplexStream>,
        task: JoinHandle<()>,
    ) -> (CloseCode, String) {
        let Message::Close(Some(frame)) = said(&mut client).await else { panic!("no last words") };
        drop(client);
        task.await.unwrap();
        (frame.code, frame.reason.as_str().to_owned())
    }

    fn binary(bytes: &[u8]) -> Message {
        Message::Binary(bytes.to_vec().into())
    }

    #[tokio::test]
    async fn a_message_is_a_datagram_both_ways() {
        let (mut client, guest, task) = carried(LONG).await;
        let mut buffer = vec![0; MESSAGE];
        // Empty datagrams and the longest ones are carried too.
        let long = vec![b'x'; 65_507];
        for wanted in [&b"one"[..], b"", &long, b"two"] {
            client.send(binary(wanted)).await.unwrap();
            let (size, from) = guest.recv_from(&mut buffer).await.unwrap();
            assert_eq!(&buffer[..size], wanted);
            guest.send_to(wanted, from).await.unwrap();
            assert_eq!(said(&mut client).await.into_data(), wanted);
        }
        drop(client);
        task.await.unwrap();
    }

    #[tokio::test]
    async fn only_the_guest_is_heard() {
        let (mut client, guest, task) = carried(LONG).await;
        client.send(binary(b"hello")).await.unwrap();
        let (_, from) = guest.recv_from(&mut [0; 9]).await.unwrap();
        let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        other.send_to(b"not the guest", from).await.unwrap();
        guest.send_to(b"the guest", from).await.unwrap();
        assert_eq!(said(&mut client).await.into_data().as_ref(), b"the guest");
        drop(client);
        task.await.unwrap();
    }

    #[tokio::test]
    async fn a_stream_that_carries_nothing_ends_and_says_so() {
        let (client, _guest, task) = carried(Duration::from_millis(1)).await;
        let (code, reason) = last_words(client, task).await;
        assert_eq!(code, CloseCode::Normal);
        assert!(reason.starts_with("no datagram went either way for 0 s"), "{reason}");
    }

    #[tokio::test]
    async fn a_port_that_nobody_listens_on_and_a_datagram_that_is_too_long_are_told() {
        let (mut client, guest, task) = carried(LONG).await;
        drop(guest);
        client.send(binary(b"hello")).await.unwrap();
        let (code, reason) = last_words(client, task).await;
        assert_eq!((code, reason.as_str()), (CloseCode::Error, "this UDP port of the guest is closed"));
        let (mut client, _guest, task) = carried(LONG).await;
        client.send(binary(&vec![0; 65_508])).await.unwrap();
        let (code, reason) = last_words(client, task).await;
        assert_eq!((code, reason.starts_with("65508 bytes are more")), (CloseCode::Size, true), "{reason}");
    }
}
