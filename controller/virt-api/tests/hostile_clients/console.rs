//! A console client: a websocket to a guest.

use crate::client::{Client, Connection, LONG, head};
use crate::scene::{ANN, SUBRESOURCES};
use futures_util::future::join_all;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};
use tokio_tungstenite::tungstenite::{Error, Message};

pub(crate) struct Console(pub(crate) WebSocketStream<Connection>);

/// The request for a console.
pub(crate) fn upgrade(vmi: &str) -> String {
    let more = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
        sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: plain.kubevirt.io\r\n";
    head("GET", &format!("{SUBRESOURCES}/virtualmachineinstances/{vmi}/console"), ANN, more)
}

/// Opens so many consoles, ten at a time: the number that may be opening for a VMI is limited.
pub(crate) async fn all<T>(count: usize, open: impl AsyncFn() -> T) -> Vec<T> {
    let mut opened = Vec::with_capacity(count);
    while opened.len() < count {
        opened.extend(join_all((0..10.min(count - opened.len())).map(|_| open())).await);
    }
    opened
}

/// A console, as the bytes of a websocket.
pub(crate) async fn raw(client: &Client, vmi: &str) -> Connection {
    let (answer, connection) = client.says(&upgrade(vmi)).await;
    assert_eq!(answer.status, 101, "{answer:?}");
    assert!(answer.head.contains("sec-websocket-protocol: plain.kubevirt.io"), "{answer:?}");
    connection
}

impl Console {
    pub(crate) async fn open(client: &Client, vmi: &str) -> Console {
        let connection = raw(client, vmi).await;
        Console(WebSocketStream::from_raw_socket(connection, Role::Client, None).await)
    }

    pub(crate) async fn types(&mut self, text: &str) {
        self.0.send(Message::Binary(text.as_bytes().to_vec().into())).await.unwrap();
    }

    /// The next bytes of the guest, without other frames.
    pub(crate) async fn bytes(&mut self) -> Vec<u8> {
        loop {
            match timeout(LONG, self.0.next()).await.expect("nothing comes").unwrap().unwrap() {
                Message::Binary(bytes) => return bytes.to_vec(),
                Message::Ping(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Waits until the guest has sent exactly this.
    pub(crate) async fn says(&mut self, text: &str) {
        let mut said = Vec::new();
        while said.len() < text.len() {
            said.extend(self.bytes().await);
        }
        assert_eq!(String::from_utf8_lossy(&said), text);
    }

    /// Types a text, which the guest repeats.
    pub(crate) async fn repeats(&mut self, text: &str) {
        self.types(text).await;
        self.says(text).await;
    }

    /// Waits for the end. Returns the close reason, if there is one.
    pub(crate) async fn ends(&mut self) -> Option<CloseFrame> {
        let last = async {
            loop {
                match self.0.next().await {
                    Some(Ok(Message::Close(frame))) => return frame,
                    Some(Ok(_)) => {}
                    Some(Err(Error::Protocol(_) | Error::Io(_))) | None => return None,
                    Some(Err(other)) => panic!("{other}"),
                }
            }
        };
        timeout(LONG, last).await.expect("it does not end")
    }
}
