//! The server and its clients over real TLS. No test measures time: the answers, their order, and the
//! server's counters count. (`cargo run --example crowd` measures.)

use super::*;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Answers with the length of the body. `/gate` waits until the gate is opened, and so do `/dropped`, which
/// has freed its head by then, `/hold`, which holds its body, and `/done`, which has freed it.
#[derive(Default)]
pub(super) struct Lengths {
    pub(super) gate: Option<Semaphore>,
    pub(super) inside: AtomicUsize,
    pub(super) most_inside: AtomicUsize,
}

impl Answers for Lengths {
    async fn answer(&self, mut asked: IncomingRequest) -> HttpResponse {
        let path = asked.head.uri.path().to_owned();
        if path == "/dropped" {
            asked.drop_head();
        }
        if path == "/gate" || path == "/dropped" {
            self.pass().await;
        }
        match asked.body.whole(8 << 20).await {
            Ok(body) => {
                if path == "/hold" {
                    self.pass().await;
                }
                let size = body.as_ref().len();
                drop(body);
                if path == "/done" {
                    self.pass().await;
                }
                plain(StatusCode::OK, &size.to_string())
            }
            Err(answer) => answer,
        }
    }

    fn without_memory(&self, path: &str) -> Option<HttpResponse> {
        (path == "/healthz").then(|| plain(StatusCode::OK, "ok"))
    }
}

impl Lengths {
    async fn pass(&self) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_inside.fetch_max(inside, Ordering::SeqCst);
        if let Some(gate) = &self.gate {
            gate.acquire().await.unwrap().forget();
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Running server, and its address.
pub(super) struct Running {
    transport: Arc<Transport>,
    pub(super) answers: Arc<Lengths>,
    address: SocketAddr,
    trusts: Arc<RootCertStore>,
    _ends: watch::Sender<bool>,
}

impl Running {
    async fn begin(limits: Limits) -> Running {
        Running::answering(limits, Lengths::default()).await
    }

    pub(super) async fn answering(limits: Limits, answers: Lengths) -> Running {
        raise().unwrap();
        let (tls, trusts) = certificate();
        let listener = listen().await;
        let address = listener.local_addr().unwrap();
        let transport = Arc::new(Transport::new(limits));
        let (ends, ended) = watch::channel(false);
        let (server, answers) = (Arc::clone(&transport), Arc::new(answers));
        let all = Arc::clone(&answers);
        tokio::spawn(async move { server.serve(listener, tls, all, ended).await });
        Running { transport, answers, address, trusts, _ends: ends }
    }

    /// Connects from a loopback address.
    async fn connect_from(&self, last: u8, protocol: &[u8]) -> std::io::Result<TlsStream<TcpStream>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config =
            config.unwrap().with_root_certificates(Arc::clone(&self.trusts)).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from(([127, 0, 0, last], 0)))?;
        let stream = socket.connect(self.address).await?;
        let name = ServerName::try_from("virt-api").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    pub(super) async fn connect(&self) -> TlsStream<TcpStream> {
        self.connect_from(1, b"http/1.1").await.unwrap()
    }

    /// Waits until the counters match.
    pub(super) async fn until(&self, so: impl Fn(Counts) -> bool) {
        let wait = async {
            while !so(self.transport.counts()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(120), wait).await;
        assert!(waited.is_ok(), "{:?}", self.transport.counts());
    }
}

/// TLS settings that stay.
pub(super) struct Fixed(Arc<ServerConfig>);

impl Tls for Fixed {
    fn now(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.0)
    }
}

/// TLS settings of virt-api, and the roots that trust it.
pub(super) fn certificate() -> (Arc<Fixed>, Arc<RootCertStore>) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["virt-api".into()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let chain = vec![certificate.der().clone()];
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let mut config = config.with_no_client_auth().with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    (Arc::new(Fixed(Arc::new(config))), Arc::new(roots))
}

/// Listener on a free port.
pub(super) async fn listen() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap()
}

/// Begins a request that announces a body.
async fn announce(stream: &mut TlsStream<TcpStream>, size: usize) {
    announce_to(stream, "/", size).await;
}

async fn announce_to(stream: &mut TlsStream<TcpStream>, path: &str, size: usize) {
    let head = format!("POST {path} HTTP/1.1\r\nhost: virt-api\r\ncontent-length: {size}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
}

/// Status and text of an answer.
pub(super) async fn answer(stream: &mut TlsStream<TcpStream>) -> std::io::Result<(u16, String)> {
    let mut text = Vec::new();
    loop {
        let whole = String::from_utf8_lossy(&text).into_owned();
        if let Some((head, body)) = whole.split_once("\r\n\r\n") {
            let size = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() >= size.parse::<usize>().unwrap() {
                return Ok((head[9..12].parse().unwrap(), body.to_owned()));
            }
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            size => text.extend_from_slice(&piece[..size]),
        }
    }
}

async fn asks(stream: &mut TlsStream<TcpStream>, body: &[u8]) -> (u16, String) {
    announce(stream, body.len()).await;
    stream.write_all(body).await.unwrap();
    stream.flush().await.unwrap();
    answer(stream).await.unwrap()
}

fn length(size: usize) -> (u16, String) {
    (200, format!("{size}\n"))
}

/// Waits until the server has closed this connection.
async fn is_ended(stream: &mut TlsStream<TcpStream>) -> bool {
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read(&mut [0; 1])).await;
    !matches!(read.expect("it stays open"), Ok(1..))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_idle_connections_keep_nobody_out() {
    // Both ends of each connection are in this process, beside other tests.
    raise().unwrap();
    let idle = (files::spare().saturating_sub(2000) / 2).clamp(100, 2000);
    let limits = Limits { connections: idle + 1, handshake: Duration::from_secs(600), ..patient() };
    let server = Running::begin(limits).await;
    // An API server has sent one request; then a crowd of connections comes, from the same address and from
    // another.
    let mut honest = server.connect().await;
    assert_eq!(asks(&mut honest, b"review").await, length(6));
    let mut crowd = Vec::new();
    while crowd.len() < idle {
        let some =
            (0..50.min(idle - crowd.len())).map(|at| server.connect_from(1 + at as u8 % 2, b"http/1.1"));
        for stream in futures_util::future::join_all(some).await {
            crowd.push(stream.unwrap());
        }
    }
    let counts = server.transport.counts();
    assert_eq!((counts.open, counts.closed), (idle + 1, 0), "every place is taken");
    eprintln!("{idle} idle connections");
    // They have been unproven for a second, and more of them come.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for _ in 0..100 {
        crowd.push(server.connect().await);
    }
    let counts = server.transport.counts();
    assert_eq!((counts.open, counts.closed, counts.turned_away), (idle + 1, 100, 0));
    // A new client is answered, and so is the first, which is the oldest of all.
    let mut new = server.connect().await;
    assert_eq!(asks(&mut new, b"another").await, length(7));
    assert_eq!(asks(&mut honest, b"the third").await, length(9));
    // The oldest ones of the address that has most were closed.
    for at in [0, 2] {
        assert!(is_ended(&mut crowd[at]).await);
    }
    let last = crowd.last_mut().unwrap();
    assert_eq!(asks(last, b"now it asks").await, length(11));
}

/// Start of an HTTP/2 client: its preface, and empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Clients that begin well, and then answer nothing: neither the ping before the end, nor the end itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_clients_that_are_closed_keep_nobody_out() {
    let limits = Limits { connections: 50, farewell: Duration::from_secs(3600), ..patient() };
    let server = Running::begin(limits).await;
    let mut silent = Vec::new();
    for _ in 0..400 {
        let taken = tokio::time::timeout(Duration::from_secs(60), server.connect_from(1, b"h2")).await;
        let mut stream = taken.expect("it is not taken").unwrap();
        stream.write_all(PREFACE).await.unwrap();
        stream.flush().await.unwrap();
        silent.push(stream);
    }
    let mut honest = server.connect().await;
    assert_eq!(asks(&mut honest, b"review").await, length(6));
    server.until(|counts| counts.taken == 401).await;
    let counts = server.transport.counts();
    assert_eq!((counts.open, counts.closed, counts.turned_away), (50, 351, 0));
    // No more of them than permitted take their time to close: the others are dropped.
    let dropped = Arc::new(AtomicUsize::new(0));
    for mut stream in silent.drain(..350) {
        let dropped = Arc::clone(&dropped);
        tokio::spawn(async move {
            while !matches!(stream.read(&mut [0; 512]).await, Ok(0) | Err(_)) {}
            dropped.fetch_add(1, Ordering::SeqCst);
        });
    }
    server.until(|_| dropped.load(Ordering::SeqCst) >= 350 - 128).await;
}

#[tokio::test]
async fn a_program_that_only_monitors_ask_has_few_connections() {
    let server = Running::begin(Limits { handshake: Duration::from_secs(600), ..patient() }).await;
    let mut crowd = Vec::new();
    for _ in 0..300 {
        crowd.push(server.connect().await);
    }
    let counts = server.transport.counts();
    assert_eq!((counts.open, counts.closed, counts.turned_away), (256, 44, 0));
}

#[tokio::test]
async fn a_client_that_does_not_say_that_it_is_there_is_closed() {
    let short = Duration::from_millis(100);
    let server = Running::begin(Limits { ping: (short, short), ..patient() }).await;
    let mut gone = server.connect_from(1, b"h2").await.unwrap();
    gone.write_all(PREFACE).await.unwrap();
    gone.flush().await.unwrap();
    let ended = async { while !matches!(gone.read(&mut [0; 512]).await, Ok(0) | Err(_)) {} };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("it stays open");
}

/// Time limits that no client exceeds.
pub(super) fn patient() -> Limits {
    let hour = Duration::from_secs(3600);
    let patience = Patience { first: hour, idle: hour, taking: hour };
    Limits { body: hour, patience, ping: (hour, hour), ..Limits::of_program() }
}

#[tokio::test]
async fn a_body_that_is_announced_holds_nothing() {
    let server = Running::begin(patient()).await;
    let mut slow = Vec::new();
    for _ in 0..100 {
        let mut stream = server.connect().await;
        announce(&mut stream, 8 << 20).await;
        stream.write_all(b"{").await.unwrap();
        stream.flush().await.unwrap();
        slow.push(stream);
    }
    server.until(|counts| counts.held >= 100 * memory_budget::BASE).await;
    assert!(server.transport.counts().held < 2 << 20, "{:?}", server.transport.counts());
    let mut honest = server.connect().await;
    let review = vec![b' '; 3 << 20];
    assert_eq!(asks(&mut honest, &review).await, length(3 << 20));
    assert_eq!(server.transport.counts().cut, 0);
}

#[tokio::test]
async fn a_slow_body_that_holds_room_is_cut_when_another_needs_it() {
    let server = Running::begin(Limits { room: 3300 << 10, ..patient() }).await;
    let mut slow = Vec::new();
    for _ in 0..6 {
        let mut stream = server.connect().await;
        announce(&mut stream, 8 << 20).await;
        stream.write_all(&vec![b' '; 500 << 10]).await.unwrap();
        stream.flush().await.unwrap();
        slow.push(stream);
    }
    server.until(|counts| counts.held > 3000 << 10).await;
    let mut honest = server.connect().await;
    assert_eq!(asks(&mut honest, &vec![b' '; 400 << 10]).await, length(400 << 10));
    // The request that has held its bytes longest is cut, and its client is told.
    assert_eq!(server.transport.counts().cut, 1);
    assert_eq!(
        answer(&mut slow[0]).await.unwrap(),
        (503, "the server has no memory for further requests; try again\n".to_owned())
    );
    // All memory is released in the end.
    drop((slow, honest));
    server.until(|counts| counts.held == 0 && counts.open == 0).await;
}

/// An incomplete head is charged for its bytes, like a body, and not after it is complete.
#[tokio::test]
async fn a_head_that_only_begins_is_charged_and_gives_way() {
    let limits = Limits { room: 200 << 10, farewell: Duration::ZERO, ..patient() };
    let server = Running::begin(limits).await;
    let half = format!("POST / HTTP/1.1\r\nhost: a\r\nx: {}", "a".repeat(30 << 10));
    let mut slow = Vec::new();
    for _ in 0..6 {
        let mut stream = server.connect().await;
        stream.write_all(half.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        slow.push(stream);
    }
    server.until(|counts| counts.held >= 6 * (30 << 10)).await;
    let mut honest = server.connect().await;
    assert_eq!(asks(&mut honest, &vec![b' '; 20 << 10]).await, length(20 << 10));
    let counts = server.transport.counts();
    assert!(counts.cut == 1 && counts.held < 200 << 10, "{counts:?}");
    // The connection that gives way is closed: before it is notified, its head could still be completed.
    let ends = slow.iter_mut().map(|stream| Box::pin(async { stream.read(&mut [0]).await }));
    let (_, given_way, _) = futures_util::future::select_all(ends).await;
    let given_way = slow.remove(given_way);
    server.until(|counts| counts.open == 6).await;
    // The others complete their heads, and are not charged any more.
    for stream in &mut slow {
        stream.write_all(b"\r\ncontent-length: 3\r\n\r\nabc").await.unwrap();
        stream.flush().await.unwrap();
        assert_eq!(answer(stream).await.unwrap(), length(3));
    }
    server.until(|counts| counts.held == 0).await;
    drop((slow, given_way));
    server.until(|counts| counts.held == 0 && counts.open == 1).await;
}

#[tokio::test]
async fn large_bodies_are_worked_on_one_after_the_other_and_small_ones_beside_them() {
    let gated = Lengths { gate: Some(Semaphore::new(0)), ..Lengths::default() };
    let server = Running::answering(patient(), gated).await;
    let mut large = Vec::new();
    for _ in 0..3 {
        let mut stream = server.connect().await;
        announce_to(&mut stream, "/hold", 1 << 20).await;
        stream.write_all(&vec![b' '; 1 << 20]).await.unwrap();
        stream.flush().await.unwrap();
        large.push(stream);
    }
    server.until(|counts| counts.held >= 3 << 20).await;
    let mut small = server.connect().await;
    assert_eq!(asks(&mut small, b"review").await, length(6));
    server.until(|_| server.answers.inside.load(Ordering::SeqCst) == 1).await;
    server.answers.gate.as_ref().unwrap().add_permits(3);
    for stream in &mut large {
        assert_eq!(answer(stream).await.unwrap(), length(1 << 20));
    }
    assert_eq!(server.answers.most_inside.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_body_has_an_end() {
    let server = Running::begin(patient()).await;
    let mut stream = server.connect().await;
    announce(&mut stream, (8 << 20) + 1).await;
    assert_eq!(answer(&mut stream).await.unwrap().0, 413);
    // A body without an announced size is measured.
    let mut stream = server.connect().await;
    stream.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, " ".repeat(1 << 20));
    for _ in 0..8 {
        stream.write_all(chunk.as_bytes()).await.unwrap();
    }
    stream.write_all(b"1\r\n \r\n").await.unwrap();
    stream.flush().await.unwrap();
    assert_eq!(answer(&mut stream).await.unwrap().0, 413);
}

#[tokio::test]
async fn a_client_that_keeps_us_waiting_is_closed() {
    let short = Duration::from_millis(200);
    let patience = Patience { first: short, ..patient().patience };
    let server = Running::begin(Limits { patience, body: short, ..patient() }).await;
    let mut honest = server.connect_from(1, b"http/1.1").await.unwrap();
    assert_eq!(asks(&mut honest, b"review").await, length(6));
    // Clients that send nothing, or half a head, by either version of HTTP.
    let (mut silent, mut half) = (server.connect().await, server.connect().await);
    let mut silent2 = server.connect_from(1, b"h2").await.unwrap();
    half.write_all(b"POST / HTTP/1.1\r\nhost:").await.unwrap();
    half.flush().await.unwrap();
    assert!(is_ended(&mut silent).await && is_ended(&mut half).await);
    // The settings of an HTTP/2 server come before its end.
    let ended = async { while !matches!(silent2.read(&mut [0; 512]).await, Ok(0) | Err(_)) {} };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("it stays open");
    server.until(|counts| counts.expired == 3).await;
    // A client that begins a body and stops. A client that was answered before may be idle meanwhile.
    let mut slow = server.connect().await;
    announce(&mut slow, 10).await;
    assert_eq!(answer(&mut slow).await.unwrap().0, 408);
    assert_eq!(asks(&mut honest, b"again").await, length(5));
}

#[tokio::test]
async fn one_that_is_closed_leaves_its_place_before_it_has_ended() {
    let short = Duration::from_millis(200);
    let patience = Patience { first: short, ..patient().patience };
    let server = Running::begin(Limits { patience, farewell: Duration::from_secs(3600), ..patient() }).await;
    let mut silent = server.connect_from(1, b"h2").await.unwrap();
    silent.write_all(PREFACE).await.unwrap();
    silent.flush().await.unwrap();
    // It answers nothing, so its connection is still open.
    server.until(|counts| counts.expired == 1 && counts.open == 0).await;
}

#[tokio::test]
async fn a_handshake_has_an_end() {
    let server = Running::begin(Limits { handshake: Duration::from_millis(200), ..patient() }).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read(&mut [0; 1])).await;
    assert!(matches!(read.expect("it stays open"), Ok(0) | Err(_)));
    server.until(|counts| counts.expired == 1 && counts.open == 0).await;
}

#[tokio::test]
async fn one_connection_has_so_many_requests_at_once_and_no_head_is_endless() {
    let gated = Lengths { gate: Some(Semaphore::new(0)), ..Lengths::default() };
    let server = Running::answering(patient(), gated).await;
    let stream = server.connect_from(1, b"h2").await.unwrap();
    let client = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (sender, connection) = client.handshake::<_, Full<Bytes>>(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = |path: &str| Request::post(format!("https://virt-api{path}"));
    // Once it knows the server's settings, the client waits by itself.
    let mut first = sender.clone();
    let known = first.send_request(request("/").body(Full::default()).unwrap()).await.unwrap();
    assert_eq!(known.status(), StatusCode::OK);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..250 {
        let (mut sender, request) = (sender.clone(), request("/gate").body(Full::default()).unwrap());
        tasks.spawn(async move { sender.send_request(request).await.unwrap().status() });
    }
    server.until(|_| server.answers.inside.load(Ordering::SeqCst) >= 100).await;
    // One more would have arrived by then.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    server.answers.gate.as_ref().unwrap().add_permits(250);
    assert!(tasks.join_all().await.into_iter().all(|status| status == StatusCode::OK));
    assert_eq!(server.answers.most_inside.load(Ordering::SeqCst), 100);
    // A head that is too large is refused, and the connection stays open.
    let large = request("/").header("x", "y".repeat(40 << 10)).body(Full::default()).unwrap();
    let answer = first.send_request(large).await;
    assert!(answer.map_or(true, |answer| answer.status() == 431), "it was taken");
    let mut after = sender.clone();
    let answer = after.send_request(request("/").body(Full::new(Bytes::from("abc"))).unwrap()).await;
    let body = answer.unwrap().into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "3\n");
}

/// A request costs its client two small frames: the head, and one that cancels it (CVE-2023-44487) or makes
/// us cancel it (CVE-2025-8671). A client that goes on like that is disconnected.
#[tokio::test]
async fn requests_that_end_as_soon_as_they_begin_end_their_connection() {
    // RST_STREAM: cancelled. WINDOW_UPDATE: larger than a window may be.
    for (kind, says) in [(3, [0, 0, 0, 8]), (8, [0x7f, 0xff, 0xff, 0xff])] {
        let server = Running::begin(patient()).await;
        let mut flood = server.connect_from(1, b"h2").await.unwrap();
        let mut frames = PREFACE.to_vec();
        for stream in (1_u32..).step_by(2).take(90) {
            let stream = stream.to_be_bytes();
            // HEADERS, the complete head and no body: GET https:///.
            frames.extend([&[0, 0, 3, 1, 5], &stream[..], &[0x82, 0x87, 0x84]].concat());
            frames.extend([&[0, 0, 4, kind, 0], &stream[..], &says].concat());
        }
        flood.write_all(&frames).await.unwrap();
        flood.flush().await.unwrap();
        let ended = async { while !matches!(flood.read(&mut [0; 512]).await, Ok(0) | Err(_)) {} };
        let waited = tokio::time::timeout(Duration::from_secs(60), ended).await;
        assert!(waited.is_ok(), "after frames of kind {kind} it stays open: {:?}", server.transport.counts());
    }
}

/// A head in frames that never end it (CVE-2024-27316).
#[tokio::test]
async fn a_head_in_frames_without_end_ends_its_connection() {
    let server = Running::begin(patient()).await;
    let mut flood = server.connect_from(1, b"h2").await.unwrap();
    // HEADERS without the end of the head, and CONTINUATION with one literal header each.
    let begins = [&[0, 0, 3, 1, 0, 0, 0, 0, 1][..], &[0x82, 0x87, 0x84]].concat();
    let goes_on = [&[0, 0, 5, 9, 0, 0, 0, 0, 1][..], &[0, 1, b'x', 1, b'y']].concat().repeat(1000);
    flood.write_all(&[PREFACE, &begins].concat()).await.unwrap();
    // 28 MB in all, more than any limit permits.
    let mut taken = 0;
    while taken < 2000 && flood.write_all(&goes_on).await.is_ok() {
        taken += 1;
    }
    assert!(taken < 2000, "it is taken without end: {:?}", server.transport.counts());
    let mut honest = server.connect().await;
    assert_eq!(asks(&mut honest, b"review").await, length(6));
}

/// Server that answers every request with 16 MiB.
async fn with_large_answers(limits: Limits) -> Running {
    struct Large;
    impl Answers for Large {
        async fn answer(&self, _: IncomingRequest) -> HttpResponse {
            Response::new(Bytes::from(vec![b'x'; 16 << 20]))
        }
    }
    let (tls, trusts) = certificate();
    let listener = listen().await;
    let address = listener.local_addr().unwrap();
    let transport = Arc::new(Transport::new(limits));
    let (ends, ended) = watch::channel(false);
    let running = Arc::clone(&transport);
    tokio::spawn(async move { running.serve(listener, tls, Arc::new(Large), ended).await });
    Running { transport, answers: Arc::default(), address, trusts, _ends: ends }
}

#[tokio::test]
async fn an_answer_that_nobody_takes_is_given_up() {
    let patience = Patience { taking: Duration::from_millis(200), ..patient().patience };
    let server = with_large_answers(Limits { patience, ..patient() }).await;
    let mut stream = server.connect().await;
    announce(&mut stream, 0).await;
    server.until(|counts| counts.held > 4 << 20).await;
    // The client never reads.
    server.until(|counts| counts.expired == 1 && counts.held == 0).await;
}

#[tokio::test]
async fn an_answer_that_nobody_takes_makes_room_for_another() {
    let server = with_large_answers(Limits { room: 20 << 20, ..patient() }).await;
    let mut stream = server.connect().await;
    announce(&mut stream, 0).await;
    server.until(|counts| counts.held > 16 << 20).await;
    let mut honest = server.connect().await;
    announce(&mut honest, 0).await;
    let mut begins = [0; 12];
    honest.read_exact(&mut begins).await.unwrap();
    assert_eq!((&begins, server.transport.counts().cut), (b"HTTP/1.1 200", 1));
}
