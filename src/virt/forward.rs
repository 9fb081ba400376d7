//! Port forwards to a guest: each connection to a port of this computer, and each peer that sends datagrams,
//! becomes a stream of its own through virt-api.
//!
//! A stream has no half-close. When this side has sent all, it goes on to receive until the guest has been
//! quiet for [`QUIET`], so that a client which sends a request, closes its side and waits for the answer gets
//! it.

use super::client::Cluster;
use super::failure::Failure;
use super::keys::Keys;
use super::target::{Port, Protocol, Target};
use super::websocket::{End, PIECE, PING, Stream};
use crate::error::{Error, Result};
use crate::ui;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout_at};

/// Maximum size of a datagram in bytes.
const DATAGRAM: usize = 64 << 10;
/// Timeout for further output of the guest after this side has sent all.
const QUIET: Duration = Duration::from_secs(5);
/// Timeout after which a silent UDP peer is forgotten.
const IDLE: Duration = Duration::from_secs(60);
/// Maximum number of UDP peers at a time.
const PEERS: usize = 1024;

/// Source of the bytes for the guest.
pub(crate) trait Reads: Send {
    /// The next bytes; `None` at the end. Cancellation-safe: a dropped call has read nothing.
    fn next(&mut self) -> impl Future<Output = Option<Vec<u8>>> + Send;
}

/// Target of the bytes from the guest.
pub(crate) trait Writes: Send {
    /// Writes all of these bytes.
    fn put(&mut self, bytes: &[u8]) -> impl Future<Output = std::io::Result<()>> + Send;
}

impl Reads for OwnedReadHalf {
    async fn next(&mut self) -> Option<Vec<u8>> {
        let mut piece = Vec::with_capacity(PIECE);
        let count = self.read_buf(&mut piece).await.unwrap_or(0);
        (count > 0).then_some(piece)
    }
}

impl Writes for OwnedWriteHalf {
    async fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.write_all(bytes).await
    }
}

impl Reads for Keys {
    async fn next(&mut self) -> Option<Vec<u8>> {
        self.raw().await
    }
}

/// Standard output as target of the guest's bytes.
struct Out;

impl Writes for Out {
    async fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        ui::raw(bytes).map_err(Into::into)
    }
}

/// The datagrams of one peer.
struct Datagrams {
    pieces: mpsc::Receiver<Vec<u8>>,
    last: Instant,
}

impl Reads for Datagrams {
    async fn next(&mut self) -> Option<Vec<u8>> {
        let piece = timeout_at(self.last + IDLE, self.pieces.recv()).await.ok().flatten();
        self.last = Instant::now();
        piece
    }
}

/// A UDP peer, and the socket that it sent to.
struct Peer {
    socket: Arc<UdpSocket>,
    address: SocketAddr,
}

impl Writes for Peer {
    async fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.socket.send_to(bytes, self.address).await.map(drop)
    }
}

/// Passes bytes both ways until one side has ended. Returns the reason.
pub(crate) async fn join(stream: Stream, mut reads: impl Reads, mut writes: impl Writes) -> End {
    let (mut input, mut output) = stream.split();
    let count = AtomicU64::new(0);
    let end = {
        let received = async {
            loop {
                let bytes = match output.next().await {
                    Ok(bytes) => bytes,
                    Err(end) => return end,
                };
                count.fetch_add(1, Relaxed);
                if let Err(e) = writes.put(&bytes).await {
                    return End::Broken(format!("the local side closed the connection: {e}"));
                }
            }
        };
        let sent = async {
            let mut pings = interval_at(Instant::now() + PING, PING);
            pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                let piece = tokio::select! {
                    piece = reads.next() => piece,
                    _ = pings.tick() => {
                        input.ping().await?;
                        continue;
                    }
                };
                match piece {
                    Some(piece) => input.send(piece).await?,
                    None => return Ok::<(), End>(()),
                }
            }
        };
        tokio::pin!(received);
        let over = tokio::select! {
            end = &mut received => Some(end),
            sent = sent => sent.err(),
        };
        match over {
            Some(end) => end,
            None => loop {
                let before = count.load(Relaxed);
                tokio::select! {
                    end = &mut received => break end,
                    () = sleep(QUIET) => {
                        if count.load(Relaxed) == before {
                            break End::Closed { code: 1000, reason: String::new() };
                        }
                    }
                }
            },
        }
    };
    input.close().await;
    end
}

/// Port forwards of one VM or VMI.
pub(crate) struct Forward {
    pub(crate) cluster: Cluster,
    pub(crate) target: Target,
}

impl Forward {
    /// The namespace of the target.
    pub(crate) fn namespace(&self) -> &str {
        self.target.namespace.as_deref().unwrap_or(self.cluster.namespace())
    }

    async fn open(&self, port: Port) -> Result<Stream, Failure> {
        let part = format!("portforward/{}/{}", port.remote, port.protocol);
        let path = self.target.kind.part(self.namespace(), &self.target.name, &part);
        Stream::open(&self.cluster, &path).await
    }

    fn doing(&self, port: Port) -> String {
        let (target, namespace) = (&self.target, self.namespace());
        format!("cannot forward to port {} of {target} in namespace {namespace}", port.remote)
    }

    /// Joins standard input and output to a port of the guest.
    pub(crate) async fn stdio(&self, port: Port) -> Result<()> {
        let stream = self.open(port).await.map_err(|e| e.into_error(&self.doing(port)))?;
        match join(stream, Keys::of_stdin(), Out).await {
            end if end.is_normal() => Ok(()),
            end => Err(Error::failed(format!("{}: {end}", self.doing(port)))),
        }
    }

    /// Listens on a port of this computer, and serves it in the background until the program ends. Returns
    /// the address.
    pub(crate) async fn listen(self: &Arc<Self>, address: IpAddr, port: Port) -> Result<SocketAddr> {
        let at = SocketAddr::new(address, port.local);
        let cannot = |e| Error::io(format!("cannot listen on {} {at}", port.protocol), e);
        match port.protocol {
            Protocol::Tcp => {
                let listener = TcpListener::bind(at).await.map_err(cannot)?;
                let at = listener.local_addr().map_err(cannot)?;
                let port = Port { local: at.port(), ..port };
                tokio::spawn(Arc::clone(self).connections(listener, port));
                Ok(at)
            }
            Protocol::Udp => {
                let socket = UdpSocket::bind(at).await.map_err(cannot)?;
                let at = socket.local_addr().map_err(cannot)?;
                let port = Port { local: at.port(), ..port };
                tokio::spawn(Arc::clone(self).datagrams(Arc::new(socket), port));
                Ok(at)
            }
        }
    }

    async fn connections(self: Arc<Self>, listener: TcpListener, port: Port) {
        loop {
            match listener.accept().await {
                Ok((local, _)) => drop(tokio::spawn(Arc::clone(&self).connection(local, port))),
                Err(e) => {
                    ui::say(&format!("coracle: cannot accept a connection: {e}"));
                    // The usual cause is the limit of open files.
                    sleep(Duration::from_millis(200)).await;
                }
            }
        }
    }

    async fn connection(self: Arc<Self>, local: TcpStream, port: Port) {
        ui::say(&format!("Handling connection for {}", port.local));
        let _ = local.set_nodelay(true);
        match self.open(port).await {
            Ok(stream) => {
                let (reads, writes) = local.into_split();
                self.ended(port, &join(stream, reads, writes).await);
            }
            Err(e) => ui::failure(&e.into_error(&self.doing(port))),
        }
    }

    async fn datagrams(self: Arc<Self>, socket: Arc<UdpSocket>, port: Port) {
        let mut peers: HashMap<SocketAddr, mpsc::Sender<Vec<u8>>> = HashMap::new();
        let mut buffer = vec![0; DATAGRAM];
        loop {
            let (count, address) = match socket.recv_from(&mut buffer).await {
                Ok(came) => came,
                // The error belongs to an earlier datagram: its peer has closed the port.
                Err(e) => {
                    tracing::debug!("udp port {}: {e}", port.local);
                    sleep(Duration::from_millis(10)).await;
                    continue;
                }
            };
            peers.retain(|_, peer| !peer.is_closed());
            if !peers.contains_key(&address) {
                if peers.len() >= PEERS {
                    tracing::warn!("{PEERS} peers already send to udp port {}", port.local);
                    continue;
                }
                let (sender, pieces) = mpsc::channel(64);
                peers.insert(address, sender);
                let peer = Peer { socket: Arc::clone(&socket), address };
                tokio::spawn(Arc::clone(&self).peer(peer, pieces, port));
            }
            if let Some(peer) = peers.get(&address) {
                // A datagram is dropped if the queue is full.
                let _ = peer.try_send(buffer[..count].to_vec());
            }
        }
    }

    async fn peer(self: Arc<Self>, peer: Peer, pieces: mpsc::Receiver<Vec<u8>>, port: Port) {
        ui::say(&format!("Handling datagrams of {} for {}", peer.address, port.local));
        match self.open(port).await {
            Ok(stream) => {
                let reads = Datagrams { pieces, last: Instant::now() };
                self.ended(port, &join(stream, reads, peer).await);
            }
            Err(e) => ui::failure(&e.into_error(&self.doing(port))),
        }
    }

    fn ended(&self, port: Port, end: &End) {
        match end.is_normal() {
            true => tracing::info!("port {} of {}: {end}", port.remote, self.target),
            false => ui::say(&format!("coracle: {}: {end}", self.doing(port))),
        }
    }
}
