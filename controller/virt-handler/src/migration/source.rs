//! The source's end: four sockets in its pod, and a connection to the target node for each of theirs.

use super::certificate::{Certificate, Fingerprint};
use super::ports::{Channel, MigrationPorts, SocketNames};
use super::relay::{read_answer, relay};
use super::session::{Findings, Session, StreamBytes};
use super::{Limits, MOST, peer_silence, tls};
use crate::error::{Error, ErrorKind, Result};
use crate::pod::{PodFolder, PodListener};
use rustls::pki_types::ServerName;
use serve::transport::Acceptor;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::{TlsConnector, TlsStream};

/// Attempts to connect to the target. It may have closed a connection in favour of another one.
const ATTEMPTS: u32 = 3;
/// Pause before another attempt.
const PAUSE: Duration = Duration::from_millis(500);

/// Sockets of a migration's source. Dropping it closes all streams, and removes the sockets.
#[derive(Debug)]
pub struct SourceSockets {
    source: Arc<Source>,
    _tasks: JoinSet<()>,
}

/// State that the streams share.
struct Source {
    session: Session,
    place: Arc<PodFolder>,
    limits: Limits,
    address: IpAddr,
    ports: MigrationPorts,
    tls: TlsConnector,
    streams: Arc<Semaphore>,
}

impl SourceSockets {
    /// Listens in the source pod `place`, for the migration with this UID to the target at `address` that has
    /// the certificate `fingerprint` (`targetCertificate`).
    pub async fn open(
        place: Arc<PodFolder>,
        uid: &str,
        address: IpAddr,
        ports: MigrationPorts,
        certificate: &Certificate,
        fingerprint: &str,
    ) -> Result<SourceSockets> {
        let tls = tls::connector(certificate, Fingerprint::parse(fingerprint)?)?;
        SourceSockets::open_with(Limits::default(), place, uid, address, ports, tls).await
    }

    pub(super) async fn open_with(
        limits: Limits,
        place: Arc<PodFolder>,
        uid: &str,
        address: IpAddr,
        ports: MigrationPorts,
        tls: TlsConnector,
    ) -> Result<SourceSockets> {
        let names = SocketNames::new(uid)?;
        let listen = |channel| place.listen_beside(names.of(channel));
        let [libvirt, memory, disks, release] = Channel::ALL.map(listen);
        let listeners = [libvirt.await?, memory.await?, disks.await?, release.await?];
        let at = format!("sockets of the pod {}, for {address}", place.layout().uid);
        let session = Session::begin(format!("migration {uid}, source"), &at);
        let streams = Arc::new(Semaphore::new(MOST));
        let source = Arc::new(Source { session, place, limits, address, ports, tls, streams });
        let mut tasks = JoinSet::new();
        for (channel, listener) in Channel::ALL.into_iter().zip(listeners) {
            tasks.spawn(Arc::clone(&source).accept(channel, listener));
        }
        Ok(SourceSockets { source, _tasks: tasks })
    }

    /// Bytes of all streams. The counters may be kept longer than the sockets.
    pub fn bytes(&self) -> &Arc<StreamBytes> {
        self.source.session.bytes()
    }

    /// Findings about streams of the pod, each when it is made. Connections of others are only logged.
    pub fn findings(&self) -> watch::Receiver<Findings> {
        self.source.session.findings()
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.session.fmt(f)
    }
}

impl Source {
    /// Accepts the connections of one socket for ever. Its streams end with it.
    async fn accept(self: Arc<Source>, channel: Channel, listener: PodListener) {
        let (mut acceptor, mut streams) = (Acceptor::default(), JoinSet::new());
        loop {
            let (pod, _) = tokio::select! {
                accepted = acceptor.next(|| listener.accept(), || ()) => accepted,
                Some(_) = streams.join_next() => continue,
            };
            let Ok(place) = Arc::clone(&self.streams).try_acquire_owned() else {
                self.session.fail(&Error::failed(format!("the migration has {MOST} streams already")));
                continue;
            };
            let source = Arc::clone(&self);
            streams.spawn(async move {
                source.stream(channel, pod).await;
                drop(place);
            });
        }
    }

    async fn stream(&self, channel: Channel, pod: UnixStream) {
        let pod = match self.place.check_client(pod).await {
            Ok(pod) => pod,
            Err(e) => return self.session.refuse(&e.chain()),
        };
        let done = match self.target(channel).await {
            Ok(node) => relay(channel, pod, node, &self.session, self.limits.silence).await,
            Err(e) => Err(e),
        };
        if let Err(e) = done {
            self.session.fail(&e);
        }
    }

    /// A connection to the target pod.
    async fn target(&self, channel: Channel) -> Result<TlsStream<TcpStream>> {
        let mut attempt = 1;
        loop {
            match self.connect(SocketAddr::new(self.address, self.ports.of(channel))).await {
                Err(e) if e.kind() != ErrorKind::Refused && attempt < ATTEMPTS => attempt += 1,
                done => return done,
            }
            sleep(PAUSE).await;
        }
    }

    async fn connect(&self, address: SocketAddr) -> Result<TlsStream<TcpStream>> {
        let Limits { handshake, answer, silence } = self.limits;
        let connect = async {
            let tcp = TcpStream::connect(address).await?;
            peer_silence::prepare(&tcp, silence);
            self.tls.connect(ServerName::IpAddress(address.ip().into()), tcp).await
        };
        let late = |what: &str, limit: Duration| {
            Error::failed(format!("the target node {address} {what} within {} s", limit.as_secs()))
        };
        let node = timeout(handshake, connect).await.map_err(|_| late("made no TLS handshake", handshake))?;
        let mut node = TlsStream::from(node.map_err(|e| connect_error(address, e))?);
        let refusal = timeout(answer, read_answer(&mut node)).await;
        let refusal = refusal.map_err(|_| late("did not connect its pod", answer))?;
        match refusal.map_err(|e| connect_error(address, e))? {
            None => Ok(node),
            Some(why) => Err(Error::refused(format!("the target node {address} refused a stream: {why}"))),
        }
    }
}

/// Error of a connection. Another attempt helps unless TLS itself has failed.
fn connect_error(address: SocketAddr, e: std::io::Error) -> Error {
    use rustls::Error::{AlertReceived, InvalidCertificate};
    let tls = e.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(InvalidCertificate(_)) => Error::refused(format!(
            "the target node {address} has another certificate than the VMI's targetCertificate"
        )),
        Some(AlertReceived(_)) => Error::refused(format!(
            "the target node {address} refused the TLS handshake: it may expect another sourceCertificate"
        ))
        .because(e),
        Some(_) => {
            Error::refused(format!("the target node {address} does not speak TLS as agreed")).because(e)
        }
        None => Error::io(format!("cannot connect to the target node {address}"), e),
    }
}
