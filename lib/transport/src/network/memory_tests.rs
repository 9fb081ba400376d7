//! Tests of the memory of requests that wait for others, and of the answers without memory.

use super::memory_budget::BASE;
use super::tests::{Lengths, Running, answer, patient};
use super::*;
use std::sync::atomic::Ordering;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Semaphore;

/// Size of each header of a large head.
const HEADERS: usize = 25;

async fn fat(server: &Running, path: &str) -> tokio_rustls::client::TlsStream<tokio::net::TcpStream> {
    let mut stream = server.connect().await;
    let more = format!("x-remote-group: {}\r\n", "g".repeat(1000)).repeat(HEADERS);
    stream.write_all(format!("POST {path} HTTP/1.1\r\nhost: a\r\n{more}\r\n").as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    stream
}

#[tokio::test]
async fn a_request_that_waits_for_others_keeps_no_head() {
    let gated = Lengths { gate: Some(Semaphore::new(0)), ..Lengths::default() };
    let server = Running::answering(Limits { room: 200 << 10, ..patient() }, gated).await;
    // Ten times the memory for heads.
    let mut waiting = Vec::new();
    for at in 1..=40 {
        waiting.push(fat(&server, "/dropped").await);
        server.until(|counts| counts.held == at * BASE).await;
    }
    server.answers.gate.as_ref().unwrap().add_permits(40);
    for mut stream in waiting {
        assert_eq!(answer(&mut stream).await.unwrap(), (200, "0\n".to_owned()));
    }
    server.until(|counts| counts.held == 0).await;
}

#[tokio::test]
async fn a_probe_is_answered_while_nobody_else_can_be() {
    let gated = Lengths { gate: Some(Semaphore::new(0)), ..Lengths::default() };
    let server = Running::answering(Limits { room: 100 << 10, ..patient() }, gated).await;
    let mut waiting = Vec::new();
    for at in 1..=3 {
        waiting.push(fat(&server, "/gate").await);
        server.until(|_| server.answers.inside.load(Ordering::SeqCst) == at).await;
    }
    for (path, said) in [
        ("/any", (503, "the server has no memory for further requests; try again\n")),
        ("/healthz", (200, "ok\n")),
    ] {
        let mut stream = fat(&server, path).await;
        let (status, text) = answer(&mut stream).await.unwrap();
        assert_eq!((status, text.as_str()), said, "{path}");
    }
    server.answers.gate.as_ref().unwrap().add_permits(3);
    for mut stream in waiting {
        assert_eq!(answer(&mut stream).await.unwrap().0, 200);
    }
}

#[tokio::test]
async fn a_request_that_waits_for_others_keeps_no_body() {
    let gated = Lengths { gate: Some(Semaphore::new(0)), ..Lengths::default() };
    let server = Running::answering(Limits { room: 200 << 10, ..patient() }, gated).await;
    let (size, mut waiting) = (100 << 10, Vec::new());
    for at in 1..=10 {
        let mut stream = server.connect().await;
        let head = format!("POST /done HTTP/1.1\r\nhost: a\r\ncontent-length: {size}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![b'x'; size]).await.unwrap();
        stream.flush().await.unwrap();
        server.until(|_| server.answers.inside.load(Ordering::SeqCst) == at).await;
        server.until(|counts| counts.held == at * BASE).await;
        waiting.push(stream);
    }
    server.answers.gate.as_ref().unwrap().add_permits(10);
    for mut stream in waiting {
        assert_eq!(answer(&mut stream).await.unwrap(), (200, format!("{size}\n")));
    }
    server.until(|counts| counts.held == 0).await;
}
