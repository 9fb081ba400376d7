//! Reports of worker pods. Each running worker is asked once a second, at its own address. Workers without
//! news for a minute (an upload without a client) and source pods of clones are asked less often.
//!
//! ```text
//!  World: worker pods that run ──follow──► a task each ──GET /v1/report──► pod:8443
//!                                             └──► PodReport ──► the loop: World::reports
//! ```
//!
//! **Guarantees.** A worker that is silent, or sends too much, delays only its own task: each request has a
//! time limit, and each answer a size limit. A worker that was silent for [`SILENT`] is reported as such,
//! with the time.
//! **Assumptions.** The server at a pod's address belongs to the tenant. The certificate of an import is
//! created by the worker itself when it begins, and proves nothing. So no secret is sent, and the report sets
//! only reasons, messages and numbers of the DataVolume or the PVC. An upload is complete when its report
//! says so. Therefore the sender of an upload's report has to present the certificate that was created for
//! its pod, whose key is in the tenant's namespace. Another pod that has got the address meanwhile is not
//! accepted.

use crate::certificates::uploads;
use api::data_volume::Phase;
use api::job::Report;
use cluster_model::objects::{IndexKey, Key, Kind, Pod, Work, World, owner};
use cluster_model::worker::{PORT, REPORT};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::{Request, header};
use jiff::{SignedDuration, Timestamp};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
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
/// Number of equal answers in a row after which a worker is asked less often; and the interval then.
const STILL: u32 = 60;
const SELDOM: Duration = Duration::from_secs(5);
/// The interval for a source pod, whose progress matters within half an hour only.
const OF_SOURCES: Duration = Duration::from_secs(15);
/// The largest report. A worker's own is a few hundred bytes.
const LARGEST: usize = 8 << 10;
/// Bytes that a connection buffers: the limit of an answer's head, and of each piece of its body.
const AHEAD: usize = 16 << 10;
/// The longest pause after errors.
const LONGEST: Duration = Duration::from_secs(30);
/// Time without an answer after which a worker is reported as silent.
const SILENT: Duration = Duration::from_secs(30);
/// Capacity of the channel of reports.
const WAITING: usize = 256;

/// Report about a pod, by its key and its uid.
pub(crate) type PodReport = (Key, String, WorkerState);

/// State of a worker by its reports.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WorkerState {
    Says(Report),
    /// Time since which it has not answered.
    Silent(Timestamp),
}

/// The tasks that ask.
pub(crate) struct Reports {
    /// Connector for imports, which accepts any certificate.
    whoever: TlsConnector,
    provider: Arc<CryptoProvider>,
    to: mpsc::Sender<PodReport>,
    /// By the pods' uids.
    tasks: BTreeMap<String, AbortHandle>,
}

impl Reports {
    /// Reports without tasks. The receiver gets the reports of all workers.
    pub(crate) fn new() -> Result<(Reports, mpsc::Receiver<PodReport>), rustls::Error> {
        let (to, told) = mpsc::channel(WAITING);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(Arc::clone(&provider))))
            .with_no_client_auth();
        let whoever = TlsConnector::from(Arc::new(config));
        Ok((Reports { whoever, provider, to, tasks: BTreeMap::new() }, told))
    }

    /// Asks the workers that run now, and no others.
    pub(crate) fn follow_workers(&mut self, world: &World, now: Timestamp) {
        let pods =
            world.indexed_by(&IndexKey::Worker).filter_map(|key| world.pods.get(&key.namespace, &key.name));
        let running: BTreeMap<String, (Key, SocketAddr, Work)> =
            pods.filter_map(|pod| Some((pod.meta.uid.clone()?, worker(world, pod)?))).collect();
        self.tasks.retain(|uid, task| {
            let stays = running.contains_key(uid);
            if !stays {
                task.abort();
            }
            stays
        });
        for (uid, (key, address, work)) in running {
            if self.tasks.contains_key(&uid) {
                continue;
            }
            let Some(who) = self.expected_server(world, &key, address, work, now) else { continue };
            let task = tokio::spawn(ask(who, (address, pace(work)), key, uid.clone(), self.to.clone()));
            self.tasks.insert(uid, task.abort_handle());
        }
    }

    /// Expected server at this address. `None` while the authority of an upload pod's certificate is unknown.
    fn expected_server(
        &self,
        world: &World,
        key: &Key,
        address: SocketAddr,
        work: Work,
        now: Timestamp,
    ) -> Option<ExpectedServer> {
        if work != Work::Upload {
            return Some(ExpectedServer {
                connector: self.whoever.clone(),
                name: ServerName::from(address.ip()),
            });
        }
        let mut roots = RootCertStore::empty();
        for der in uploads::servers(world, now) {
            // A certificate that cannot be parsed is skipped, since it verifies nothing.
            let _ = roots.add(der);
        }
        if roots.is_empty() {
            return None;
        }
        let config = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .ok()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(format!("{}.{}.svc", key.name, key.namespace)).ok()?;
        Some(ExpectedServer { connector: TlsConnector::from(Arc::new(config)), name })
    }
}

/// Work and address of a running worker pod of a DataVolume, or of a PVC without one, that is being filled.
/// Other pods are not asked, regardless of their labels.
fn worker(world: &World, pod: &Pod) -> Option<(Key, SocketAddr, Work)> {
    let owner = owner::controller(&pod.meta)?;
    let namespace = pod.meta.namespace.as_deref()?;
    let claim = world.pvcs.get(namespace, &owner.name)?;
    let work = Work::from_pod(&pod.meta)?;
    let is_its = match work {
        Work::Serve => world.serves_clone_of(pod, claim),
        _ => world.worker_for(claim, work).is_some_and(|worker| worker.meta.uid == pod.meta.uid),
    };
    let of_volume = || world.data_volumes.get(namespace, &owner.name)?.status.as_ref()?.phase.clone();
    let is_filled = match claim.is_upload_target() || claim.target().is_some() {
        _ if matches!(work, Work::Export | Work::Serve) => true,
        true => !claim.is_filled(),
        false => of_volume().is_some_and(|phase| {
            use Phase::{
                CloneInProgress, CloneScheduled, ImportInProgress, ImportScheduled, UploadReady,
                UploadScheduled,
            };
            matches!(
                phase,
                ImportScheduled
                    | ImportInProgress
                    | CloneScheduled
                    | CloneInProgress
                    | UploadScheduled
                    | UploadReady
            )
        }),
    };
    let runs = pod.container(work.container()).is_some_and(|container| container.running);
    let address: IpAddr = pod.ip.as_deref()?.parse().ok()?;
    let at = || (cluster_model::objects::key(Kind::Pod, &pod.meta), SocketAddr::new(address, PORT), work);
    (is_its && is_filled && runs).then(at)
}

/// Server to expect: TLS settings and name.
struct ExpectedServer {
    connector: TlsConnector,
    name: ServerName<'static>,
}

/// Interval of requests to a pod that reports news each time.
fn pace(work: Work) -> Duration {
    if work == Work::Serve { OF_SOURCES } else { PACE }
}

/// Asks one pod until the receiver is closed.
async fn ask(
    who: ExpectedServer,
    (address, pace): (SocketAddr, Duration),
    key: Key,
    uid: String,
    to: mpsc::Sender<PodReport>,
) {
    let mut connection = None;
    let (mut heard, mut is_told) = (tokio::time::Instant::now(), false);
    let mut pause = pace;
    let (mut last, mut same) = (None, 0_u32);
    loop {
        let began = tokio::time::Instant::now();
        match tokio::time::timeout(PATIENCE, request_report(&who, address, &mut connection)).await {
            Ok(Ok(report)) => {
                same = if last.as_ref() == Some(&report) { same.saturating_add(1) } else { 0 };
                last = Some(report.clone());
                (heard, is_told) = (tokio::time::Instant::now(), false);
                if to.send((key.clone(), uid.clone(), WorkerState::Says(report))).await.is_err() {
                    return;
                }
                pause = if same < STILL { pace } else { SELDOM.max(pace) };
            }
            Ok(Err(why)) => {
                tracing::debug!("the worker of {key} does not report: {why}");
                (connection, pause) = (None, (pause * 2).min(LONGEST));
            }
            Err(_) => {
                tracing::debug!("{key} has not reported within {} s", PATIENCE.as_secs());
                (connection, pause) = (None, (pause * 2).min(LONGEST));
            }
        }
        if !is_told && heard.elapsed() >= SILENT {
            is_told = true;
            let since = SignedDuration::try_from(heard.elapsed()).unwrap_or_default();
            let since = Timestamp::now().checked_sub(since).unwrap_or_else(|_| Timestamp::now());
            if to.send((key.clone(), uid.clone(), WorkerState::Silent(since))).await.is_err() {
                return;
            }
        }
        tokio::time::sleep_until(began + pause).await;
    }
}

type Connection = transport::client::Connection<Empty<Bytes>>;
type Cause = Box<dyn std::error::Error + Send + Sync>;

async fn request_report(
    who: &ExpectedServer,
    address: SocketAddr,
    connection: &mut Option<Connection>,
) -> Result<Report, Cause> {
    let mut asked = match connection.take() {
        Some(asked) => asked,
        None => connect(who, address).await?,
    };
    asked.ready().await?;
    let request = Request::get(REPORT).header(header::HOST, address.to_string()).body(Empty::new())?;
    let answer = asked.send(request).await?;
    if !answer.status().is_success() {
        return Err(format!("the HTTP status is {}", answer.status()).into());
    }
    let body = asked.whole(answer.into_body(), LARGEST).await?;
    *connection = Some(asked);
    Ok(serde_json::from_slice(&body)?)
}

async fn connect(who: &ExpectedServer, address: SocketAddr) -> Result<Connection, Cause> {
    let stream = TcpStream::connect(address).await?;
    let stream = who.connector.connect(who.name.clone(), stream).await?;
    Ok(Connection::begin(stream, AHEAD).await?)
}

/// Accepts any certificate: see the assumptions above.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
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

#[cfg(test)]
mod tests {
    use super::*;
    use cluster_model::uploads::{POD_PHASE, TARGET};
    use serde_json::{Value, json};

    /// A PVC with these notes, and its pod of this work, which runs.
    fn world(notes: &Value, owner: &Value, work: Work) -> World {
        let mut world = World::default();
        let now = Timestamp::UNIX_EPOCH;
        let meta = json!({"namespace": "n", "name": "disk", "uid": "1", "resourceVersion": "1", "annotations": notes, "ownerReferences": owner});
        world.put(Kind::PersistentVolumeClaim, json!({"metadata": meta}), now);
        let labels = json!({"kubevirt.io": "cdi-worker", "cdi.kubevirt.io": work.label()});
        let claim = json!([{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "disk", "uid": "1", "controller": true}]);
        let meta = json!({"namespace": "n", "name": work.pod("disk"), "uid": "2", "resourceVersion": "1", "labels": labels, "ownerReferences": claim});
        let runs = json!([{"name": work.container(), "state": {"running": {}}}]);
        let status = json!({"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": runs});
        world.put(Kind::Pod, json!({"metadata": meta, "status": status}), now);
        world
    }

    fn is_asked(world: &World) -> bool {
        let mut pods =
            world.indexed_by(&IndexKey::Worker).filter_map(|key| world.pods.get(&key.namespace, &key.name));
        pods.next().and_then(|pod| worker(world, pod)).is_some()
    }

    #[test]
    fn a_worker_is_asked_while_it_fills_a_disk() {
        let owner = json!([{"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": "disk", "uid": "3", "controller": true}]);
        for (work, phase, asked) in [
            (Work::Import, "ImportInProgress", true),
            (Work::Upload, "UploadScheduled", true),
            (Work::Upload, "UploadReady", true),
            (Work::Upload, "Succeeded", false),
            (Work::Import, "Failed", false),
        ] {
            let mut world = world(&json!({TARGET: ""}), &owner, work);
            assert!(!is_asked(&world), "there is no DataVolume");
            let meta = json!({"namespace": "n", "name": "disk", "uid": "3", "resourceVersion": "1"});
            let volume = json!({"metadata": meta, "spec": {}, "status": {"phase": phase}});
            world.put(Kind::DataVolume, volume, Timestamp::UNIX_EPOCH);
            assert_eq!(is_asked(&world), asked, "{phase}");
        }
    }

    #[test]
    fn a_pvc_without_a_data_volume_is_followed_while_it_takes_an_upload() {
        let asked = |notes| is_asked(&world(&notes, &json!([]), Work::Upload));
        assert!(asked(json!({TARGET: "", POD_PHASE: "Running"})));
        assert!(!asked(json!({TARGET: "", POD_PHASE: "Succeeded"})), "it is whole");
        assert!(!asked(json!({})), "nobody asked for an upload");
    }
}
