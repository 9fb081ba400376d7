//! The target's end: four ports of the node, for one source.

use super::certificate::{Certificate, Fingerprint};
use super::ports::{Channel, MigrationPorts, SocketNames};
use super::relay::{answer, relay};
use super::session::{Findings, Session, StreamBytes};
use super::{Limits, MOST, MOST_UNPROVEN, peer_silence, tls};
use crate::error::{Error, Result};
use crate::pod::PodFolder;
use futures_util::future::join_all;
use serve::transport::{Acceptor, Handshake, Handshakes};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsStream};

/// Open ports of a migration's target. Dropping it closes them, and all streams.
#[derive(Debug)]
pub struct TargetPorts {
    target: Arc<Target>,
    ports: MigrationPorts,
    certificate: Certificate,
    _tasks: JoinSet<()>,
}

/// State that the streams share.
struct Target {
    session: Session,
    place: Arc<PodFolder>,
    names: SocketNames,
    limits: Limits,
    /// TLS for the source; `None` before its certificate is known.
    tls: Mutex<Option<TlsAcceptor>>,
    handshakes: Arc<Handshakes>,
    streams: Arc<Semaphore>,
    /// True once a stream of the source has begun.
    begun: watch::Sender<bool>,
}

impl TargetPorts {
    /// Opens four free ports of an address for the migration with this UID, whose target pod is `place`. Until
    /// [`expect`](TargetPorts::expect) is called every connection is refused. If no stream of the source has begun
    /// after `deadline`, the ports are closed. A stream that has begun has no time limit: a migration may last for days.
    pub async fn open(
        address: IpAddr,
        certificate: &Certificate,
        place: Arc<PodFolder>,
        uid: &str,
        deadline: Duration,
    ) -> Result<TargetPorts> {
        TargetPorts::open_with(Limits::default(), address, certificate, place, uid, deadline).await
    }

    pub(super) async fn open_with(
        limits: Limits,
        address: IpAddr,
        certificate: &Certificate,
        place: Arc<PodFolder>,
        uid: &str,
        deadline: Duration,
    ) -> Result<TargetPorts> {
        let names = SocketNames::new(uid)?;
        let cannot = |e| Error::io(format!("cannot open a port of {address} for the migration {uid}"), e);
        let listen = async || {
            let listener = TcpListener::bind((address, 0)).await.map_err(cannot)?;
            let port = listener.local_addr().map_err(cannot)?.port();
            Ok::<_, Error>((listener, port))
        };
        let (mut listeners, mut numbers) = (Vec::new(), Channel::ALL.map(|_| 0));
        for number in &mut numbers {
            let (listener, port) = listen().await?;
            listeners.push(listener);
            *number = port;
        }
        let ports = MigrationPorts::new(numbers);
        let at = format!("{address}, ports {ports}");
        let target = Arc::new(Target {
            session: Session::begin(format!("migration {uid}, target"), &at),
            place,
            names,
            limits,
            tls: Mutex::default(),
            handshakes: Handshakes::new(MOST_UNPROVEN),
            streams: Arc::new(Semaphore::new(MOST)),
            begun: watch::Sender::new(false),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&target).serve(listeners, deadline));
        Ok(TargetPorts { target, ports, certificate: certificate.clone(), _tasks: tasks })
    }

    /// Ports of the connections.
    pub fn ports(&self) -> MigrationPorts {
        self.ports
    }

    /// Accepts the source with this certificate (`sourceCertificate`), and no other one any more.
    pub fn expect(&self, fingerprint: &str) -> Result<()> {
        let acceptor = tls::acceptor(&self.certificate, Fingerprint::parse(fingerprint)?)?;
        *self.target.tls.lock().unwrap_or_else(PoisonError::into_inner) = Some(acceptor);
        Ok(())
    }

    /// Bytes of all streams. The counters may be kept longer than the ports.
    pub fn bytes(&self) -> &Arc<StreamBytes> {
        self.target.session.bytes()
    }

    /// Findings about the source, each when it is made: its first stream that failed, or that it did not come in time, after which
    /// the ports are closed. Connections of others are only logged.
    pub fn findings(&self) -> watch::Receiver<Findings> {
        self.target.session.findings()
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.session.fmt(f)
    }
}

impl Target {
    async fn serve(self: Arc<Target>, listeners: Vec<TcpListener>, deadline: Duration) {
        let channels = Channel::ALL.into_iter().zip(listeners);
        let accept = join_all(channels.map(|(channel, listener)| self.accept(channel, listener)));
        let mut begun = self.begun.subscribe();
        let late = async {
            if timeout(deadline, begun.wait_for(|begun| *begun)).await.is_ok() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            _ = accept => {}
            () = late => {
                let (seconds, refused) = (deadline.as_secs(), self.session.refused());
                self.session.close(format!("the source did not connect within {seconds} s{refused}"));
            }
        }
    }

    /// Accepts the connections of one port for ever. Its streams end with it.
    async fn accept(self: &Arc<Target>, channel: Channel, listener: TcpListener) {
        let (mut acceptor, mut streams) = (Acceptor::default(), JoinSet::new());
        loop {
            let (tcp, from) = tokio::select! {
                accepted = acceptor.next(|| listener.accept(), || ()) => accepted,
                Some(_) = streams.join_next() => continue,
            };
            let tls = self.tls.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let Some(tls) = tls else {
                self.session.refuse(&format!("{from} came before the source's certificate was known"));
                continue;
            };
            let Some(handshake) = self.handshakes.enter(from.ip()) else {
                self.session
                    .refuse(&format!("{from} came while {MOST_UNPROVEN} others made their handshakes"));
                continue;
            };
            streams.spawn(Arc::clone(self).stream(channel, tcp, from, tls, handshake));
        }
    }

    async fn stream(
        self: Arc<Target>,
        channel: Channel,
        tcp: TcpStream,
        from: SocketAddr,
        tls: TlsAcceptor,
        handshake: Handshake,
    ) {
        let accepted = tokio::select! {
            accepted = self.shake_hands(tcp, tls) => accepted,
            () = handshake.evicted() => Err("others wait for their handshakes".to_owned()),
        };
        drop(handshake);
        let node = match accepted {
            Ok(node) => node,
            Err(why) => return self.session.refuse(&format!("{from}: {why}")),
        };
        self.begun.send_replace(true);
        if let Err(e) = self.connected(channel, node).await {
            self.session.fail(&e);
        }
    }

    /// The handshake, after which the client has shown that it has the source's key.
    async fn shake_hands(&self, tcp: TcpStream, tls: TlsAcceptor) -> Result<TlsStream<TcpStream>, String> {
        peer_silence::prepare(&tcp, self.limits.silence);
        let limit = self.limits.handshake;
        match timeout(limit, tls.accept(tcp)).await {
            Ok(Ok(stream)) => Ok(stream.into()),
            Ok(Err(e)) => Err(format!("no TLS handshake with the source's certificate: {e}")),
            Err(_) => Err(format!("no TLS handshake within {} s", limit.as_secs())),
        }
    }

    /// Connects a stream of the source to the pod.
    async fn connected(&self, channel: Channel, mut node: TlsStream<TcpStream>) -> Result<()> {
        let limit = self.limits.handshake;
        let joined = match Arc::clone(&self.streams).try_acquire_owned() {
            Ok(place) => self.pod_socket(channel).await.map(|pod| (pod, place)),
            Err(_) => Err(Error::failed(format!("the migration has {MOST} streams already"))),
        };
        let refusal = joined.as_ref().err().map(Error::chain);
        let answered = timeout(limit, answer(&mut node, refusal.as_deref())).await;
        let (pod, _place) = match joined {
            Ok(joined) => joined,
            Err(e) => {
                // The source reads the sentence before the connection is closed.
                drop(timeout(limit, tokio::io::AsyncWriteExt::shutdown(&mut node)).await);
                return Err(e);
            }
        };
        let late = || Error::failed(format!("the source took no answer within {} s", limit.as_secs()));
        answered.map_err(|_| late())?.map_err(|e| Error::io("the source took no answer", e))?;
        relay(channel, pod, node, &self.session, self.limits.silence).await
    }

    async fn pod_socket(&self, channel: Channel) -> Result<UnixStream> {
        let (name, limit) = (self.names.of(channel), self.limits.handshake);
        let cannot = || Error::failed(format!("cannot connect to the socket {name} of the target pod"));
        match timeout(limit, self.place.connect_beside(name)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(e)) => Err(cannot().because(e)),
            Err(_) => Err(Error::failed(format!("{}: its queue is full", cannot()))),
        }
    }
}
