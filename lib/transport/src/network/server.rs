//! The server: accepts connections, hands each request to the handler, and ends without losing requests.

use super::body::{Body, ResponseBody, Shared, Turn};
use super::client::Client;
use super::connections::{Admitted, Connections};
use super::head_memory::{CountingStream, Heads};
use super::memory_budget::MemoryBudget;
use super::streams::Exit;
use super::{Answers, IncomingRequest, Limits, Peer};
use crate::{Acceptor, Http1, SILENCE, probe};
use http::{HeaderName, HeaderValue, Request};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// Connections that may take their time to close ([`Limits::farewell`]). One more is dropped at once: an
/// HTTP/2 client that never answers would otherwise keep its connection, and many of them would use up all
/// file descriptors.
const FAREWELLS: usize = 128;
/// Concurrent requests on one HTTP/2 connection.
const STREAMS: u32 = 100;
/// Largest head of a request. A token has some KiB.
const HEAD: usize = 32 << 10;
/// Most headers of an HTTP/1.1 request. The API server sends one for each group of a user, and a directory
/// may have many groups. By HTTP/2 only the size counts.
const HEADERS: usize = 1100;
/// Memory overhead of each header in a map.
const HEADER: usize = 104;
/// Requests that a client may cancel before we have read them, or that we may refuse. More are a flood
/// (CVE-2023-44487, CVE-2025-8671).
const RESETS: usize = 32;
/// HTTP/2 flow control windows: bytes that a client may send on a connection, and of one request, before we
/// have read them.
const WINDOWS: (u32, u32) = (1 << 20, 256 << 10);
/// Bytes that a connection buffers before sending.
const UNSENT: usize = 64 << 10;

/// TLS settings of a server.
pub trait Tls: Send + Sync + 'static {
    /// Settings of a new connection.
    fn now(&self) -> Arc<ServerConfig>;
}

/// Server of a program, with its counters.
#[derive(Debug)]
pub struct Transport {
    limits: Limits,
    shared: Arc<Shared>,
}

/// Counters of connections and requests.
#[derive(Debug, Default)]
pub(super) struct Counters {
    taken: AtomicU64,
    closed: AtomicU64,
    expired: AtomicU64,
    turned_away: AtomicU64,
    cut: AtomicU64,
}

/// Counters of a server, and its current use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Open connections.
    pub open: usize,
    /// Bytes that requests hold.
    pub held: usize,
    /// Open streams: connections that have left HTTP. They are not counted in `open`.
    pub streams: usize,
    /// Number of connections that were accepted so far.
    pub taken: u64,
    /// Connections that were closed in favour of others.
    pub closed: u64,
    /// Connections that were closed because their client exceeded a time limit.
    pub expired: u64,
    /// Connections that were refused because all others were working.
    pub turned_away: u64,
    /// Requests that were cut because others needed the memory.
    pub cut: u64,
}

impl Counters {
    pub(super) fn cut(&self, requests: usize) {
        self.cut.fetch_add(requests as u64, Ordering::Relaxed);
    }
}

impl Transport {
    /// A server with these limits.
    pub fn new(limits: Limits) -> Transport {
        let shared = Shared {
            connections: Mutex::new(Connections::new(limits.connections)),
            room: Mutex::new(MemoryBudget::new(limits.room)),
            large: Arc::new(Semaphore::new(1)),
            streams: Arc::new(Semaphore::new(limits.streams)),
            farewells: Semaphore::new(FAREWELLS),
            counters: Counters::default(),
        };
        Transport { limits, shared: Arc::new(shared) }
    }

    /// Counters and use at present.
    pub fn counts(&self) -> Counts {
        let (open, held) = (self.shared.connections().len(), self.shared.room().held());
        let streams = self.limits.streams.saturating_sub(self.shared.streams.available_permits());
        let is = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { taken, closed, expired, turned_away, cut } = &self.shared.counters;
        Counts {
            open,
            held,
            streams,
            taken: is(taken),
            closed: is(closed),
            expired: is(expired),
            turned_away: is(turned_away),
            cut: is(cut),
        }
    }

    /// Serves requests until `ends` becomes true, and for [`Limits::linger`] longer.
    pub async fn serve<A: Answers>(
        &self,
        listener: TcpListener,
        tls: Arc<impl Tls>,
        answers: Arc<A>,
        mut ends: watch::Receiver<bool>,
    ) {
        let (leave, left) = watch::channel(false);
        let linger = self.limits.linger;
        let end = async {
            // An error means that the sender is gone: the server ends as well.
            let _ = ends.wait_for(|ends| *ends).await;
            tokio::time::sleep(linger).await;
        };
        let accept = async {
            // This loop waits for new connections only, so that the kubelet's probe is not delayed by the
            // work on others.
            let mut acceptor = Acceptor::default();
            loop {
                let relieve = || {
                    self.shared.connections().close_one(Instant::now());
                };
                let (stream, from) = acceptor.next(|| listener.accept(), relieve).await;
                let peer = Peer::of(from.ip());
                let Some(admitted) = self.connection(peer) else { continue };
                let connection = Connection {
                    shared: Arc::clone(&self.shared),
                    limits: self.limits,
                    admitted,
                    peer,
                    left: left.clone(),
                };
                let (acceptor, answers) = (TlsAcceptor::from(tls.now()), Arc::clone(&answers));
                tokio::spawn(connection.run(stream, acceptor, answers));
            }
        };
        tokio::select! {
            () = end => {}
            () = accept => {}
        }
        drop((listener, left));
        let _ = leave.send(true);
        // Each connection and each stream holds a receiver until it has ended.
        let _ = tokio::time::timeout(self.limits.goodbye, leave.closed()).await;
    }

    /// Admits a new connection.
    fn connection(&self, peer: Peer) -> Option<Admitted> {
        let counters = &self.shared.counters;
        let entered = self.shared.connections().enter(peer, Instant::now());
        counters.taken.fetch_add(1, Ordering::Relaxed);
        match entered {
            Some((admitted, other_closed)) => {
                counters.closed.fetch_add(u64::from(other_closed), Ordering::Relaxed);
                Some(admitted)
            }
            None => {
                counters.turned_away.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

/// A connection; its place is free again on drop.
struct Connection {
    shared: Arc<Shared>,
    limits: Limits,
    admitted: Admitted,
    peer: Peer,
    left: watch::Receiver<bool>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.connections().left(self.admitted.id);
    }
}

impl Connection {
    async fn run<A: Answers>(mut self, stream: TcpStream, acceptor: TlsAcceptor, answers: Arc<A>) {
        // An answer is small and must not wait for another (Nagle's algorithm).
        let _ = stream.set_nodelay(true);
        probe(&stream, SILENCE);
        let accepted = tokio::select! {
            accepted = tokio::time::timeout(self.limits.handshake, acceptor.accept(stream)) => accepted,
            () = self.admitted.leave.notified() => return,
        };
        let stream = match accepted {
            Ok(Ok(stream)) => stream,
            Ok(Err(_)) => return,
            Err(_) => {
                self.shared.counters.expired.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let client = Client::of(stream.get_ref().1);
        let (shared, admitted, peer) = (Arc::clone(&self.shared), self.admitted.clone(), self.peer);
        let (patience, left) = (self.limits.body, self.left.clone());
        let heads = (!is_http2).then(|| Heads::new(Arc::clone(&shared), admitted.clone(), peer));
        let of_connection = heads.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let turn = Turn::begin(&shared, &admitted, peer, size_of_head(&request), of_connection.clone());
            let (answers, client) = (Arc::clone(&answers), client.clone());
            let (places, left) = (Arc::clone(&shared.streams), left.clone());
            // Boxed: a connection is idle most of the time, and should not reserve space for the work on a
            // request.
            Box::pin(async move {
                let Some(turn) = turn else {
                    return Ok::<_, Infallible>(ResponseBody::without_memory(
                        answers.without_memory(request.uri().path()),
                    ));
                };
                let (mut head, incoming) = request.into_parts();
                let exit = Exit::of(&mut head, places, left, turn.switched());
                let body = Body { incoming, turn: Arc::clone(&turn), patience };
                let answer = answers.answer(IncomingRequest { head, body, peer, client, exit }).await;
                Ok(turn.answers(answer))
            })
        });
        let Some(heads) = heads else {
            let io = TokioIo::new(stream);
            let mut server = http2::Builder::new(TokioExecutor::new());
            server
                .timer(TokioTimer::new())
                .keep_alive_interval(self.limits.ping.0)
                .keep_alive_timeout(self.limits.ping.1);
            server.max_concurrent_streams(STREAMS).max_header_list_size(HEAD as u32);
            server.max_pending_accept_reset_streams(RESETS).max_local_error_reset_streams(RESETS);
            server.initial_connection_window_size(WINDOWS.0).initial_stream_window_size(WINDOWS.1);
            server.max_send_buf_size(UNSENT);
            let connection = Box::pin(server.serve_connection(io, service));
            return self.drive(connection, |connection| connection.graceful_shutdown()).await;
        };
        let io = TokioIo::new(CountingStream::new(stream, heads));
        // The connection's time limits apply to heads as well, for both versions of HTTP.
        let mut server = Http1 { buffer: UNSENT, fields: HEADERS, head: None }.builder();
        let connection = Box::pin(server.max_header_size(HEAD).serve_connection(io, service).with_upgrades());
        self.drive(connection, |connection| connection.graceful_shutdown()).await;
    }

    /// Runs until the client closes the connection, it leaves HTTP, or it must be closed.
    async fn drive<C: Future>(&mut self, mut connection: Pin<Box<C>>, end: impl Fn(Pin<&mut C>)) {
        let (shared, id, patience) = (Arc::clone(&self.shared), self.admitted.id, self.limits.patience);
        // A request that begins meanwhile may be due before the time that was read here.
        let due = || {
            let now = Instant::now();
            let due = shared.connections().due(id, &patience, now);
            due.map(|due| due.min(now + patience.taking))
        };
        let first = due();
        let mut look = pin!(tokio::time::sleep_until(first.unwrap_or_else(Instant::now).into()));
        let program_ends = loop {
            tokio::select! {
                // The client broke off, or the connection has left HTTP and is a stream from now on.
                _ = connection.as_mut() => return,
                () = self.admitted.leave.notified() => break false,
                _ = self.left.changed() => break true,
                () = look.as_mut() => match due() {
                    Some(later) => look.as_mut().reset(later.into()),
                    None => {
                        self.shared.counters.expired.fetch_add(1, Ordering::Relaxed);
                        break false;
                    }
                },
            }
        };
        // Its place is free now, however long the client takes.
        shared.connections().left(id);
        let farewell = shared.farewells.try_acquire().ok();
        let time = match farewell {
            _ if program_ends => self.limits.goodbye,
            Some(_) => self.limits.farewell,
            None => return,
        };
        end(connection.as_mut());
        let _ = tokio::time::timeout(time, connection).await;
    }
}

/// Memory of the head of a request: its texts, and the overhead of the map.
fn size_of_head(request: &Request<Incoming>) -> usize {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    let header = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + HEADER;
    request.headers().iter().map(header).sum::<usize>() + target
}
