//! A client of a console: a websocket to a guest.

use crate::api_server::ANN;
use crate::client::{Client, Connection, LONG, head};
use crate::scene::SUBRESOURCES;
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

/// So many of them, ten at a time: no more of one VMI are opened at once.
pub(crate) async fn all<T>(count: usize, open: impl AsyncFn() -> T) -> Vec<T> {
    let mut opened = Vec::with_capacity(count);
    while opened.len() < count {
        opened.extend(join_all((0..10.min(count - opened.len())).map(|_| open())).await);
    }
    opened
}

/// A console, as bytes of a websocket.
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

    /// Bytes of the guest, whatever else comes before them.
    pub(crate) async fn bytes(&mut self) -> Vec<u8> {
        loop {
            match timeout(LONG, self.0.next()).await.expect("nothing comes").unwrap().unwrap() {
                Message::Binary(bytes) => return bytes.to_vec(),
                Message::Ping(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Waits until the guest has said this, and nothing else.
    pub(crate) async fn says(&mut self, text: &str) {
        let mut said = Vec::new();
        while said.len() < text.len() {
            said.extend(self.bytes().await);
        }
        assert_eq!(String::from_utf8_lossy(&said), text);
    }

    /// What is typed is repeated.
    pub(crate) async fn repeats(&mut self, text: &str) {
        self.types(text).await;
        self.says(text).await;
    }

    /// Waits for the end: its words, where the server has any.
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
