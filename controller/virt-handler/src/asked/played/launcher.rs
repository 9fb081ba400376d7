//! Fake launchers that answer, or stay silent.

use crate::launcher_client::Client;
use crate::pod::Process;
use crate::pod::folder::Open;
use api::launcher::Freeze;
use futures_util::future::BoxFuture;
use launcher_client::{Cause, Connector};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

/// Starts a fake launcher of the VMI `n/NAME` on a socket. Returns its client, and the number of connections
/// that it has accepted.
pub(super) fn play(name: &str, socket: PathBuf, silent: bool) -> (Client, Arc<AtomicUsize>) {
    let listener = UnixListener::bind(&socket).unwrap();
    let taken = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&taken);
    tokio::spawn(async move {
        let mut kept = Vec::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            counts.fetch_add(1, Ordering::SeqCst);
            match silent {
                true => kept.push(stream),
                // The client closes the connection after the answer.
                false => drop(tokio::spawn(async move { drop(answer(stream).await) })),
            }
        }
    });
    (Client::new(&format!("n/{name}"), Arc::new(At(socket))), taken)
}

/// Starts a fake launcher whose screenshots begin and never end. Counts those whose bytes are being read.
pub(super) fn trickle(name: &str, socket: PathBuf, read: &Arc<AtomicUsize>) -> Client {
    let listener = UnixListener::bind(&socket).unwrap();
    let read = Arc::clone(read);
    tokio::spawn(async move {
        loop {
            let mut stream = listener.accept().await.unwrap().0;
            // More bytes than socket buffers hold, so a completed write means that the client reads.
            let begins = [b"HTTP/1.1 200 OK\r\nContent-Length: 16000000\r\n\r\n", &[0; 4 << 20][..]].concat();
            if stream.write_all(&begins).await.is_ok() {
                read.fetch_add(1, Ordering::SeqCst);
                // Until the client closes the connection.
                while stream.read_u8().await.is_ok() {}
                read.fetch_sub(1, Ordering::SeqCst);
            }
        }
    });
    Client::new(&format!("n/{name}"), Arc::new(At(socket)))
}

/// Connector to a fake launcher.
struct At(PathBuf);

impl Connector<Option<Process>> for At {
    fn open(&self) -> BoxFuture<'_, Result<Open, Cause>> {
        Box::pin(async { Ok(Open { stream: UnixStream::connect(&self.0).await?.into(), peer: None }) })
    }
}

/// A launcher that answers. Its console echoes, and writes a last line at the end of its input.
async fn answer(mut stream: UnixStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let (status, body) = match head.split(' ').nth(1).unwrap_or_default() {
        "/v1/state" => {
            let state =
                json!({"number": 7, "generation": 1, "life": "Running", "since": "x", "agent": false});
            ("200 OK", state.to_string())
        }
        "/v1/requests" => ("200 OK", json!({"answer": "queued"}).to_string()),
        "/v1/guest/freeze" => {
            let size = head.to_ascii_lowercase();
            let size = size.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
            let mut body = vec![0; size.and_then(|size| size.parse().ok()).unwrap_or_default()];
            stream.read_exact(&mut body).await?;
            match serde_json::from_slice::<Freeze>(&body) {
                Ok(Freeze { thaw_after_ms: Some(7) }) => ("200 OK", json!({"frozen": 1}).to_string()),
                _ => ("400 Bad Request", json!({"error": "no time is passed on"}).to_string()),
            }
        }
        "/v1/screenshot" => ("200 OK", "a picture".to_owned()),
        "/v1/screenshot?wake" => ("200 OK", "a picture of a screen that is awake".to_owned()),
        "/v1/guest/users" => ("401 Unauthorized", json!({"error": "who are you?"}).to_string()),
        "/v1/console?write" => {
            let switching = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: coracle-stream\r\n\r\nlogin: ";
            stream.write_all(switching).await?;
            let (mut typed, mut shown) = stream.into_split();
            tokio::io::copy(&mut typed, &mut shown).await?;
            return shown.write_all(b"that was all").await;
        }
        _ => ("409 Conflict", json!({"error": "not now", "hint": "wait"}).to_string()),
    };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).await
}
