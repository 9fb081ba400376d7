//! Streams over real TLS: their bytes, their number, and their end.

use super::super::tests::{certificate, listen};
use super::super::{Answers, IncomingRequest, Limits, Transport};
use super::*;
use http::{HeaderValue, Response};
use hyper::body::Bytes;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Far more time than any step takes.
const LONG: Duration = Duration::from_secs(60);

/// Echoes the bytes of a stream, and writes when the program ends. `/no` takes the connection, and then
/// answers without 101. The fate of each stream is reported.
struct Echo(mpsc::UnboundedSender<io::Result<()>>);

impl Answers for Echo {
    async fn answer(&self, mut asked: IncomingRequest) -> HttpResponse {
        let upgrade = match asked.upgrade() {
            Ok(upgrade) => upgrade,
            Err(answer) => return answer,
        };
        let told = self.0.clone();
        tokio::spawn(async move {
            let done = match upgrade.begin().await {
                Ok(stream) => {
                    echo(stream).await;
                    Ok(())
                }
                Err(e) => Err(e),
            };
            drop(told.send(done));
        });
        if asked.head.uri.path() == "/no" {
            return plain(StatusCode::OK, "no");
        }
        let mut answer = Response::new(Bytes::new());
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        answer.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("echo"));
        answer
    }
}

async fn echo(mut stream: Upgraded) {
    let ends = stream.ends();
    tokio::pin!(ends);
    let mut piece = [0; 4096];
    loop {
        let (last, said) = tokio::select! {
            read = stream.read(&mut piece) => match read {
                Ok(0) => (true, b"that was all".to_vec()),
                Ok(size) => (false, piece[..size].to_vec()),
                // The client is gone.
                Err(_) => return,
            },
            () = &mut ends => (true, b"the program ends".to_vec()),
        };
        stream.write_all(&said).await.unwrap();
        if last {
            return stream.shutdown().await.unwrap();
        }
        stream.flush().await.unwrap();
    }
}

struct Running {
    transport: Arc<Transport>,
    address: SocketAddr,
    trusts: Arc<RootCertStore>,
    told: mpsc::UnboundedReceiver<io::Result<()>>,
    ends: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

async fn begin(streams: usize) -> Running {
    let (tls, trusts) = certificate();
    let listener = listen().await;
    let address = listener.local_addr().unwrap();
    let limits = Limits { streams, linger: Duration::from_millis(50), ..Limits::of_program() };
    let transport = Arc::new(Transport::new(limits));
    let (ends, ended) = watch::channel(false);
    let (tell, told) = mpsc::unbounded_channel();
    let server = Arc::clone(&transport);
    let serving = tokio::spawn(async move { server.serve(listener, tls, Arc::new(Echo(tell)), ended).await });
    Running { transport, address, trusts, told, ends, serving }
}

impl Running {
    async fn connect(&self, protocol: &[u8]) -> TlsStream<TcpStream> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config =
            config.unwrap().with_root_certificates(Arc::clone(&self.trusts)).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("virt-api").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    /// Sends a head and the bytes after it. Returns the head of the answer, and the connection after it.
    async fn ask(&self, text: &str) -> (String, TlsStream<TcpStream>) {
        let mut stream = self.connect(b"http/1.1").await;
        stream.write_all(text.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        (String::from_utf8(head).unwrap(), stream)
    }

    /// Waits until this many streams are open.
    async fn until(&self, streams: usize) {
        let wait = async {
            while self.transport.counts().streams != streams {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(timeout(LONG, wait).await.is_ok(), "{:?}", self.transport.counts());
    }
}

const UPGRADE: &str = "GET /a HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n";

#[tokio::test]
async fn a_stream_goes_both_ways_and_ends_one_way_first() {
    let mut server = begin(9).await;
    // Bytes that are sent together with the request are not lost.
    let (head, mut stream) = server.ask(&format!("{UPGRADE}early")).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let mut said = [0; 5];
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"early");
    for _ in 0..100 {
        stream.write_all(b"again").await.unwrap();
        stream.flush().await.unwrap();
        stream.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"again");
    }
    let counts = server.transport.counts();
    assert_eq!((counts.open, counts.held, counts.streams), (0, 0, 1), "it is no connection and no request");
    stream.shutdown().await.unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "that was all");
    server.told.recv().await.unwrap().unwrap();
    server.until(0).await;
}

#[tokio::test]
async fn one_stream_too_many_is_refused_until_another_ends() {
    let server = begin(1).await;
    let (_, first) = server.ask(UPGRADE).await;
    let (head, _) = server.ask(UPGRADE).await;
    assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("retry-after: 1\r\n"), "{head}");
    drop(first);
    server.until(0).await;
    let (head, _second) = server.ask(UPGRADE).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
}

#[tokio::test]
async fn a_stream_hears_that_the_program_ends_and_has_the_last_word() {
    let server = begin(9).await;
    let (_, mut stream) = server.ask(UPGRADE).await;
    server.ends.send(true).unwrap();
    let mut said = String::new();
    timeout(LONG, stream.read_to_string(&mut said)).await.expect("it stays open").unwrap();
    assert_eq!(said, "the program ends");
    timeout(LONG, server.serving).await.expect("the program stays").unwrap();
}

#[tokio::test]
async fn what_asks_for_no_stream_has_none() {
    let server = begin(9).await;
    for head in [
        "GET /a HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /a HTTP/1.0\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n",
        "CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n",
    ] {
        let (said, _) = server.ask(head).await;
        assert!(said.split(' ').nth(1) == Some("400"), "{head}: {said}");
    }
    let stream = server.connect(b"h2").await;
    let client = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (mut sender, connection) =
        client.handshake::<_, http_body_util::Empty<Bytes>>(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get("https://virt-api/a").body(http_body_util::Empty::new()).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), StatusCode::BAD_REQUEST);
    assert_eq!(server.transport.counts().streams, 0);
}

#[tokio::test]
async fn a_stream_that_is_answered_otherwise_does_not_begin() {
    let mut server = begin(9).await;
    let text = "GET /no HTTP/1.1\r\nhost: a\r\nconnection: Upgrade, close\r\nupgrade: echo\r\n\r\n";
    let (head, _stream) = server.ask(text).await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let why = timeout(LONG, server.told.recv()).await.expect("it waits").unwrap().unwrap_err();
    assert!(why.to_string().contains("was not 101"), "{why}");
    server.until(0).await;
}
