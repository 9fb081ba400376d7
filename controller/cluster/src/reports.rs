//! What worker pods say of their work: each that runs is asked once a second, by its own address.
//!
//! ```text
//!  World: worker pods that run ──follow──► a task each ──GET /v1/report──► pod:8443
//!                                             └──► Told ──► the loop: World::reports
//! ```
//!
//! **Guarantees.** A worker that is silent, or says too much, holds up nobody: each request has a time limit, each answer a size
//! limit, and only that task waits.
//! **Assumptions.** Whoever answers at a pod's address is somebody of the tenant's: the certificate is the worker's own, made
//! when it began, and proves nothing. So nothing is sent that is secret, and what is read becomes words and numbers of the
//! DataVolume alone.

use api::datavolume::Phase;
use api::job::Report;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use kubernetes::objects::{Key, Kind, Mark, Pod, World, owner};
use kubernetes::worker::{CONTAINER, PORT, REPORT};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;

/// Between two questions, and the longest wait for an answer.
const PACE: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest report. A worker's own is a few hundred bytes.
const LARGEST: usize = 8 << 10;
/// The most that is read ahead of a connection.
const AHEAD: usize = 16 << 10;
/// The longest pause after errors.
const LONGEST: Duration = Duration::from_secs(30);
/// Reports that are not looked at yet.
const WAITING: usize = 256;

/// A report of a pod, by its key and its uid.
pub(crate) type Told = (Key, String, Report);

/// The tasks that ask.
pub(crate) struct Reports {
    connector: TlsConnector,
    to: mpsc::Sender<Told>,
    /// By the pods' uids.
    tasks: BTreeMap<String, AbortHandle>,
}

impl Reports {
    /// Nobody is asked yet; the receiver gets what is told.
    pub(crate) fn new() -> Result<(Reports, mpsc::Receiver<Told>), rustls::Error> {
        let (to, told) = mpsc::channel(WAITING);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Whoever(provider)))
            .with_no_client_auth();
        Ok((Reports { connector: TlsConnector::from(Arc::new(config)), to, tasks: BTreeMap::new() }, told))
    }

    /// Asks the workers that run now, and no others.
    pub(crate) fn follow(&mut self, world: &World) {
        let pods = world.marked(&Mark::Worker).filter_map(|key| world.pods.get(&key.namespace, &key.name));
        let running: BTreeMap<String, (Key, SocketAddr)> =
            pods.filter_map(|pod| Some((pod.meta.uid.clone()?, worker(world, pod)?))).collect();
        self.tasks.retain(|uid, task| {
            let stays = running.contains_key(uid);
            if !stays {
                task.abort();
            }
            stays
        });
        for (uid, (key, address)) in running {
            let (connector, to) = (self.connector.clone(), self.to.clone());
            let pod = uid.clone();
            self.tasks
                .entry(uid)
                .or_insert_with(|| tokio::spawn(ask(connector, address, key, pod, to)).abort_handle());
        }
    }
}

/// A worker pod that runs for a DataVolume which is being filled, and where it answers. Nobody else is asked, whatever its labels
/// are.
fn worker(world: &World, pod: &Pod) -> Option<(Key, SocketAddr)> {
    let owner = owner::controller(&pod.meta)?;
    let namespace = pod.meta.namespace.as_deref()?;
    let claim = world.pvcs.get(namespace, &owner.name)?;
    let is_its = world.worker_of(claim).is_some_and(|worker| worker.meta.uid == pod.meta.uid);
    let volume = world.data_volumes.get(namespace, &owner.name)?;
    let phase = volume.status.as_ref()?.phase.clone()?;
    let is_filled = matches!(phase, Phase::ImportScheduled | Phase::ImportInProgress);
    let runs = pod.container(CONTAINER).is_some_and(|container| container.running);
    let address: IpAddr = pod.ip.as_deref()?.parse().ok()?;
    let at = || (kubernetes::objects::key(Kind::Pod, &pod.meta), SocketAddr::new(address, PORT));
    (is_its && is_filled && runs).then(at)
}

/// Asks one pod until nobody wants to know.
async fn ask(connector: TlsConnector, address: SocketAddr, key: Key, uid: String, to: mpsc::Sender<Told>) {
    let mut connection = None;
    let mut pause = PACE;
    loop {
        let began = tokio::time::Instant::now();
        match tokio::time::timeout(PATIENCE, once(&connector, address, &mut connection)).await {
            Ok(Ok(report)) => {
                if to.send((key.clone(), uid.clone(), report)).await.is_err() {
                    return;
                }
                pause = PACE;
            }
            Ok(Err(why)) => {
                tracing::debug!("{key} does not report: {why}");
                (connection, pause) = (None, (pause * 2).min(LONGEST));
            }
            Err(_) => {
                tracing::debug!("{key} has not reported within {} s", PATIENCE.as_secs());
                (connection, pause) = (None, (pause * 2).min(LONGEST));
            }
        }
        tokio::time::sleep_until(began + pause).await;
    }
}

type Connection = SendRequest<Empty<Bytes>>;
type Why = Box<dyn std::error::Error + Send + Sync>;

async fn once(
    connector: &TlsConnector,
    address: SocketAddr,
    connection: &mut Option<Connection>,
) -> Result<Report, Why> {
    let mut sender = match connection.take() {
        Some(sender) => sender,
        None => connect(connector, address).await?,
    };
    sender.ready().await?;
    let request = Request::get(REPORT).header(header::HOST, address.to_string()).body(Empty::new())?;
    let answer = sender.send_request(request).await?;
    if !answer.status().is_success() {
        return Err(format!("it answers with {}", answer.status()).into());
    }
    let body = Limited::new(answer.into_body(), LARGEST).collect().await?.to_bytes();
    *connection = Some(sender);
    Ok(serde_json::from_slice(&body)?)
}

async fn connect(connector: &TlsConnector, address: SocketAddr) -> Result<Connection, Why> {
    let stream = TcpStream::connect(address).await?;
    let stream = connector.connect(ServerName::from(address.ip()), stream).await?;
    let mut builder = http1::Builder::new();
    builder.max_buf_size(AHEAD);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    // It ends with its sender.
    tokio::spawn(connection);
    Ok(sender)
}

/// Whoever answers: see the assumptions above.
#[derive(Debug)]
struct Whoever(Arc<CryptoProvider>);

impl ServerCertVerifier for Whoever {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
