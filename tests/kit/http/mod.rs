//! A small HTTP server that does what a test tells it to: behave, or misbehave in one of the ways servers do.
//!
//! ```text
//!   Server::start(bytes, Behaviour { drop_after: …, ..Behaviour::default() })
//!      └─ a thread per connection: request ─► record ─► respond.rs ─► head + body, spoiled as told
//! ```
//!
//! Everything is plain threads over `std::net`; TLS is added by [`Server::start_tls`]. What was asked is in
//! [`Server::requests`]. The server stops, and cuts its connections, on drop.

mod request;
mod respond;
mod tls;

pub use request::Request;
pub use tls::Authority;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The behaviour of a server. The default is a good one, with a strong ETag and ranges.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// The `ETag` header, quotes included.
    pub etag: Option<String>,
    /// The `Last-Modified` header.
    pub last_modified: Option<String>,
    /// The `Date` header. By default it is later than `Last-Modified`, which is strong behind it.
    pub date: Option<String>,
    /// The `Content-Type` header.
    pub content_type: String,
    /// True if ranges are answered with 206.
    pub ranges: bool,
    /// Before this request (the first is 0) ranges are answered with 200 and the whole file.
    pub ranges_from: u32,
    /// Answer a range although `If-Range` names another version.
    pub ignore_if_range: bool,
    /// From this request on (the first is 0) ranges are answered with 200 and the whole file.
    pub no_ranges_from: Option<u32>,
    /// Chunked, without a `Content-Length`.
    pub chunked: bool,
    /// Neither length nor chunks: the end of the connection is the end of the body.
    pub until_close: bool,
    /// Send the file compressed with gzip, whatever was asked.
    pub gzip: bool,
    /// A `Content-Encoding` that is only claimed, from this request on (the first is 0).
    pub claimed_encoding: Option<(u32, String)>,
    /// Time before each answer.
    pub latency: Duration,
    /// Bytes per second on each connection.
    pub rate: Option<u64>,
    /// Cut the connection after so many bytes of a body.
    pub drop_after: Option<Spoil>,
    /// Send nothing more after so many bytes of a body, and keep the connection open.
    pub stall_after: Option<Spoil>,
    /// Take this many requests without ever answering.
    pub mute: u32,
    /// User and password that each request must bring.
    pub basic: Option<(String, String)>,
    /// A header that each request must bring.
    pub wanted_header: Option<(String, String)>,
    /// Answers instead of the file.
    pub fail: Option<Fail>,
    /// Paths (with their queries) that have bytes of their own, under the same version.
    pub files: Vec<(String, Vec<u8>)>,
    /// Paths that lead elsewhere: path, status, `Location`.
    pub redirects: Vec<(String, u16, String)>,
    /// Another version of the file, later.
    pub change: Option<Change>,
    /// Added to the true `Content-Length`; the body is sent as it is.
    pub length_lie: i64,
    /// Added to both ends of the true `Content-Range`.
    pub range_lie: i64,
    /// The total in `Content-Range`, instead of the true one.
    pub total_lie: Option<u64>,
    /// A `Content-Range` to say instead of the true one, from this request on (the first is 0).
    pub claimed_range: Option<(u32, String)>,
    /// The most bytes sent for one range.
    pub longest_range: Option<u64>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Behaviour {
            etag: Some("\"v1\"".into()),
            last_modified: Some("Sun, 06 Nov 1994 08:49:37 GMT".into()),
            date: Some("Tue, 08 Nov 1994 08:49:37 GMT".into()),
            content_type: "application/octet-stream".into(),
            ranges: true,
            ranges_from: 0,
            ignore_if_range: false,
            no_ranges_from: None,
            chunked: false,
            until_close: false,
            gzip: false,
            claimed_encoding: None,
            latency: Duration::ZERO,
            rate: None,
            drop_after: None,
            stall_after: None,
            mute: 0,
            basic: None,
            wanted_header: None,
            fail: None,
            files: vec![],
            redirects: vec![],
            change: None,
            length_lie: 0,
            range_lie: 0,
            total_lie: None,
            claimed_range: None,
            longest_range: None,
        }
    }
}

/// Trouble in the middle of a body.
#[derive(Debug, Clone, Copy)]
pub struct Spoil {
    /// After so many bytes of the body.
    pub bytes: u64,
    /// Responses that are spoiled before the server behaves; `u32::MAX` for all.
    pub times: u32,
    /// Good responses before that.
    pub skip: u32,
}

impl Spoil {
    /// Every response, after `bytes` bytes.
    pub fn always(bytes: u64) -> Option<Spoil> {
        Spoil::some(bytes, u32::MAX)
    }

    /// The first `times` responses, after `bytes` bytes.
    pub fn some(bytes: u64, times: u32) -> Option<Spoil> {
        Some(Spoil { bytes, times, skip: 0 })
    }
}

/// Answers without the file.
#[derive(Debug, Clone)]
pub struct Fail {
    /// Their status.
    pub status: u16,
    /// Requests that get one; `u32::MAX` for all.
    pub times: u32,
    /// Requests that are answered well before that.
    pub skip: u32,
    /// Their `Retry-After`.
    pub retry_after: Option<String>,
}

/// The file is replaced.
#[derive(Debug, Clone)]
pub struct Change {
    /// So many requests see the first version.
    pub after_requests: u32,
    /// The new bytes.
    pub bytes: Vec<u8>,
    /// The new `ETag`.
    pub etag: Option<String>,
    /// The new `Last-Modified`.
    pub last_modified: Option<String>,
}

/// A running server.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    scheme: &'static str,
    listener: Option<JoinHandle<()>>,
}

struct Shared {
    bytes: Vec<u8>,
    behaviour: Mutex<Arc<Behaviour>>,
    stop: AtomicBool,
    hurry: AtomicBool,
    requests: Mutex<Vec<Request>>,
    sockets: Mutex<Vec<TcpStream>>,
    served: AtomicU32,
    spoiled: AtomicU32,
    failed: AtomicU32,
    in_flight: AtomicUsize,
    peak: AtomicUsize,
    connections: AtomicU32,
    sent: AtomicU64,
}

impl Server {
    /// Serves `bytes` under every path.
    pub fn start(bytes: impl Into<Vec<u8>>, behaviour: Behaviour) -> Server {
        Server::run(Ipv4Addr::LOCALHOST, bytes.into(), behaviour, None)
    }

    /// The same at an address of this host that others reach, as pods of a cluster do.
    pub fn start_at(address: Ipv4Addr, bytes: impl Into<Vec<u8>>, behaviour: Behaviour) -> Server {
        Server::run(address, bytes.into(), behaviour, None)
    }

    /// The same over TLS, with a certificate for `localhost` from `authority`.
    pub fn start_tls(bytes: impl Into<Vec<u8>>, behaviour: Behaviour, authority: &Authority) -> Server {
        Server::run(Ipv4Addr::LOCALHOST, bytes.into(), behaviour, Some(authority.server_config()))
    }

    fn run(
        at: Ipv4Addr,
        bytes: Vec<u8>,
        behaviour: Behaviour,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Server {
        let listener = TcpListener::bind((at, 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        let scheme = if tls.is_some() { "https" } else { "http" };
        let shared = Arc::new(Shared::new(bytes, behaviour));
        let for_thread = Arc::clone(&shared);
        let listener = std::thread::spawn(move || for_thread.listen(&listener, tls.as_ref()));
        Server { shared, address, scheme, listener: Some(listener) }
    }

    /// From the next request on it does this, and counts anew what it spoils and fails; its address stays.
    pub fn set(&self, behaviour: Behaviour) {
        *lock(&self.shared.behaviour) = Arc::new(behaviour);
        for count in [&self.shared.served, &self.shared.spoiled, &self.shared.failed] {
            count.store(0, SeqCst);
        }
    }

    /// From now on all bodies go out without a rate, those that have begun too.
    pub fn hurry(&self) {
        self.shared.hurry.store(true, SeqCst);
    }

    /// Bytes of bodies that were sent so far.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(SeqCst)
    }

    /// The URL of a path that begins with a slash.
    pub fn url(&self, path: &str) -> String {
        let host = self.address.ip().to_string();
        let host = if self.scheme == "https" { "localhost" } else { &host };
        format!("{}://{host}:{}{path}", self.scheme, self.address.port())
    }

    /// The URL with a user and a password in it.
    pub fn url_with_user(&self, user_info: &str, path: &str) -> String {
        self.url(path).replacen("://", &format!("://{user_info}@"), 1)
    }

    /// The requests so far, in order.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared.requests).clone()
    }

    /// The most requests that were being answered at one moment.
    pub fn peak(&self) -> usize {
        self.shared.peak.load(SeqCst)
    }

    /// The number of requests that are being answered now.
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight.load(SeqCst)
    }

    /// The number of connections so far.
    pub fn connections(&self) -> u32 {
        self.shared.connections.load(SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        for socket in lock(&self.shared.sockets).drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
        // Wakes the listener, which then sees that it is to stop.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

impl Shared {
    fn new(bytes: Vec<u8>, behaviour: Behaviour) -> Shared {
        Shared {
            bytes,
            behaviour: Mutex::new(Arc::new(behaviour)),
            stop: AtomicBool::new(false),
            hurry: AtomicBool::new(false),
            requests: Mutex::default(),
            sockets: Mutex::default(),
            served: AtomicU32::new(0),
            spoiled: AtomicU32::new(0),
            failed: AtomicU32::new(0),
            in_flight: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            connections: AtomicU32::new(0),
            sent: AtomicU64::new(0),
        }
    }

    fn listen(self: &Arc<Self>, listener: &TcpListener, tls: Option<&Arc<rustls::ServerConfig>>) {
        for socket in listener.incoming() {
            if self.stop.load(SeqCst) {
                return;
            }
            let Ok(socket) = socket else { continue };
            let Ok(ours) = socket.try_clone() else { continue };
            lock(&self.sockets).push(ours);
            let number = self.connections.fetch_add(1, SeqCst);
            let shared = Arc::clone(self);
            let tls = tls.cloned();
            std::thread::spawn(move || {
                // The client may go away at any time; that ends the connection and nothing else.
                let _ = shared.connection(&socket, number, tls);
                let _ = socket.shutdown(Shutdown::Both);
            });
        }
    }

    fn connection(
        &self,
        socket: &TcpStream,
        number: u32,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let mut stream: Box<dyn Stream> = match tls {
            None => Box::new(socket.try_clone()?),
            Some(config) => {
                let session = rustls::ServerConnection::new(config).map_err(io::Error::other)?;
                Box::new(rustls::StreamOwned::new(session, socket.try_clone()?))
            }
        };
        while let Some(request) = Request::read(&mut stream, number)? {
            if !respond::respond(self, &mut stream, &request)? {
                break;
            }
        }
        Ok(())
    }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that differ everywhere, so that a misplaced piece shows.
pub fn pattern(len: usize) -> Vec<u8> {
    let words = (0..len.div_ceil(8) as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31));
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    bytes.truncate(len);
    bytes
}
