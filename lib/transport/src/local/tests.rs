//! The server and its clients on loopback.

use super::*;
use crate::client::Connection;
use crate::{AnswerBody, response, upgrade, wants_upgrade};
use http_body_util::Full;
use hyper::StatusCode;
use hyper::body::Bytes;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Far more time than any step takes.
const LONG: Duration = Duration::from_secs(60);
const HTTP: Http1 = Http1 { buffer: 64 << 10, fields: 3, head: Some(LONG) };

/// Answers with the path, or echoes the bytes after an upgrade.
async fn echo(request: Request<Incoming>) -> Response<AnswerBody> {
    if wants_upgrade(request.headers(), "echo") {
        return upgrade(request, "echo", async |stream| {
            let (mut from, mut to) = tokio::io::split(stream);
            tokio::io::copy(&mut from, &mut to).await.unwrap();
            to.shutdown().await.unwrap();
        });
    }
    response(StatusCode::OK, "text/plain", AnswerBody::whole(request.uri().path().to_owned()))
}

async fn begin(server: LocalServer, admits: bool) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let admit = move |_: &TcpStream| if admits { Ok(()) } else { Err("a stranger".to_owned()) };
    tokio::spawn(async move { server.serve(|| listener.accept(), admit, echo).await });
    address
}

async fn connect(address: SocketAddr) -> Connection<Full<Bytes>> {
    Connection::begin(TcpStream::connect(address).await.unwrap(), 64 << 10).await.unwrap()
}

fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(path).header("host", "h").body(Full::default()).unwrap()
}

async fn ask(connection: &mut Connection<Full<Bytes>>, path: &str) -> Vec<u8> {
    let answer = connection.send(get(path)).await.unwrap();
    connection.whole(answer.into_body(), 100).await.unwrap()
}

#[tokio::test]
async fn one_connection_too_many_waits_until_another_has_ended() {
    let address = begin(LocalServer { connections: 1, http: HTTP }, true).await;
    let mut first = connect(address).await;
    assert_eq!(ask(&mut first, "/first").await, b"/first");
    let mut second = connect(address).await;
    assert!(timeout(Duration::from_millis(100), second.send(get("/second"))).await.is_err());
    first.ready().await.unwrap();
    assert_eq!(ask(&mut first, "/again").await, b"/again");
    drop((first, second));
    assert_eq!(timeout(LONG, ask(&mut connect(address).await, "/third")).await.unwrap(), b"/third");
}

#[tokio::test]
async fn a_client_that_is_not_admitted_gets_no_answer() {
    let address = begin(LocalServer { connections: 1, http: HTTP }, false).await;
    for _ in 0..3 {
        assert!(timeout(LONG, connect(address).await.send(get("/"))).await.unwrap().is_err());
    }
}

#[tokio::test]
async fn a_connection_that_has_left_http_takes_no_place() {
    let address = begin(LocalServer { connections: 1, http: HTTP }, true).await;
    let mut connection = connect(address).await;
    let mut request = get("/");
    request.headers_mut().insert("connection", "Upgrade".parse().unwrap());
    request.headers_mut().insert("upgrade", "ECHO".parse().unwrap());
    let answer = connection.send(request).await.unwrap();
    assert_eq!(
        (answer.status(), &answer.headers()["upgrade"]),
        (StatusCode::SWITCHING_PROTOCOLS, &"echo".parse().unwrap())
    );
    let (first, mut stream) = connection.leave::<TcpStream>(answer).await.unwrap();
    assert!(first.is_empty());
    assert_eq!(timeout(LONG, ask(&mut connect(address).await, "/other")).await.unwrap(), b"/other");
    stream.write_all(b"said").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "said");
}

#[tokio::test]
async fn a_head_has_so_many_fields_and_so_much_time() {
    let address = begin(LocalServer { connections: 9, http: HTTP }, true).await;
    let mut request = get("/");
    for name in ["a", "b", "c"] {
        request.headers_mut().insert(name, "x".parse().unwrap());
    }
    let refused = connect(address).await.send(request).await.unwrap();
    assert_eq!(refused.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    let http = Http1 { head: Some(Duration::from_millis(50)), ..HTTP };
    let address = begin(LocalServer { connections: 9, http }, true).await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    silent.write_all(b"GET / HTTP/1.1\r\nhost:").await.unwrap();
    let ended = timeout(LONG, silent.read_to_end(&mut Vec::new())).await;
    assert!(ended.is_ok(), "it stays open");
}

#[tokio::test]
async fn an_answer_is_read_to_a_limit() {
    let address = begin(LocalServer { connections: 9, http: HTTP }, true).await;
    let mut connection = connect(address).await;
    let answer = connection.send(get("/eleven-long")).await.unwrap();
    let error = connection.whole(answer.into_body(), 11).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (io::ErrorKind::FileTooLarge, "it has more than 11 bytes")
    );
}
