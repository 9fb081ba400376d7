//! The server of a worker pod: TLS, bounded connections, and three public pages.
//!
//! The pages hold no secrets and need no authentication. Everything is bounded: connections, the head of a
//! request, the time for each step, and for a whole connection without a certificate (`connections.rs`). Only a
//! [`Site`] that needs it reads the body of a request (`upload/`). An answer is a text, or pieces that a site
//! reads on demand.

use crate::client::common_name;
use crate::connections::{ConnectionSlot, Connections, Kind};
use crate::page::page;
use crate::progress::Progress;
use cdi::{Error, ErrorKind, Result};
use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use transport::{Acceptor, AnswerBody, Http1, probe};

/// The addresses for both families, and for IPv4 only.
const EVERYWHERE: [&str; 2] = ["[::]:8443", "0.0.0.0:8443"];
/// The most bytes of the head of a request, and of a body that are read at once; and the time for a head.
const HTTP: Http1 = Http1 { buffer: 64 << 10, fields: 100, head: Some(Duration::from_secs(30)) };
/// Longest time of a handshake.
const STEP: Duration = Duration::from_secs(5);
/// Longest time of a connection without a certificate.
const LONGEST: Duration = Duration::from_secs(60);
/// Silence of a client before it is probed.
const SILENCE: Duration = Duration::from_secs(15);

pub(crate) type Answer = Response<AnswerBody>;

/// The content of a server.
pub(crate) trait Site: Send + Sync + 'static {
    /// The TLS settings with the present certificate.
    fn tls(&self) -> TlsAcceptor;

    /// True if this client is authenticated, and its connection is not evicted, for as long as an upload
    /// takes.
    fn knows(&self, client: &Client) -> bool;

    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        client: Client,
    ) -> impl Future<Output = Answer> + Send;
}

/// The other end of a connection.
#[derive(Clone)]
pub(crate) struct Client {
    /// The client's certificate, already verified.
    pub(crate) certificate: Option<CertificateDer<'static>>,
    is_gone: Arc<AtomicBool>,
}

impl Client {
    /// True if its certificate has this common name.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.certificate.as_ref().and_then(|certificate| common_name(certificate)) == Some(name)
    }

    /// True if the connection has ended; a body that ended then may be incomplete.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(SeqCst)
    }
}

/// Records the end of the connection when it is dropped.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// The state that the pages show.
pub(crate) struct SharedProgress {
    pub(crate) progress: Mutex<Progress>,
    /// The uid of the PVC, for metrics.
    pub(crate) owner: String,
}

/// A site of the pages only, with a certificate that is made at start.
pub(crate) struct Pages {
    shown: Arc<SharedProgress>,
    acceptor: TlsAcceptor,
}

impl Pages {
    pub(crate) fn new(shown: Arc<SharedProgress>) -> Result<Pages> {
        Ok(Pages { shown, acceptor: TlsAcceptor::from(Arc::new(tls()?)) })
    }
}

impl Site for Pages {
    fn tls(&self) -> TlsAcceptor {
        self.acceptor.clone()
    }

    fn knows(&self, _: &Client) -> bool {
        false
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>, _: Client) -> Answer {
        pages(&self.shown, request.method(), request.uri().path())
            .unwrap_or_else(|| text(StatusCode::NOT_FOUND, "there is nothing here\n"))
    }
}

/// The answer to a request for a page; `None` for any other path.
pub(crate) fn pages(shown: &SharedProgress, method: &Method, path: &str) -> Option<Answer> {
    let progress = shown.progress.lock().unwrap_or_else(PoisonError::into_inner);
    let (kind, content) = page(path, &progress, &shown.owner)?;
    drop(progress);
    if method != Method::GET {
        let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return Some(answer);
    }
    Some(transport::response(StatusCode::OK, kind, AnswerBody::whole(content)))
}

/// An answer of text.
pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Answer {
    transport::response(status, "text/plain; charset=utf-8", AnswerBody::whole(text.into()))
}

/// Starts the server; returns its address and its connections.
pub(crate) fn start<S: Site>(listener: TcpListener, site: Arc<S>) -> Result<(SocketAddr, Connections)> {
    let cannot = |e| Error::io("cannot listen", e);
    let at = listener.local_addr().map_err(cannot)?;
    listener.set_nonblocking(true).map_err(cannot)?;
    let runtime = fetch::runtime()?;
    let _inside = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener).map_err(cannot)?;
    let connections = Connections::default();
    runtime.spawn(serve(listener, site, connections.clone()));
    Ok((at, connections))
}

/// Listens at an address, or at the port of a worker pod.
pub(crate) fn bind(address: Option<&str>) -> Result<TcpListener> {
    if let Some(address) = address {
        return TcpListener::bind(address).map_err(|e| Error::io(format!("cannot listen on {address}"), e));
    }
    let [both, one] = EVERYWHERE;
    TcpListener::bind(both)
        .or_else(|_| TcpListener::bind(one))
        .map_err(|e| Error::io(format!("cannot listen on {both} or {one}"), e))
}

/// TLS 1.3 only: no cluster setting is stricter.
fn tls() -> Result<rustls::ServerConfig> {
    let cannot = |e: Box<dyn std::error::Error + Send + Sync>| {
        Error::new(ErrorKind::Failed, "cannot make a certificate for TLS").because(e)
    };
    let key = rcgen::KeyPair::generate().map_err(|e| cannot(e.into()))?;
    let params =
        rcgen::CertificateParams::new(vec!["cdi-worker".to_owned()]).map_err(|e| cannot(e.into()))?;
    let certificate = params.self_signed(&key).map_err(|e| cannot(e.into()))?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|e| cannot(e.into()))?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key);
    config.map_err(|e| cannot(e.into()))
}

async fn serve<S: Site>(listener: tokio::net::TcpListener, site: Arc<S>, connections: Connections) {
    let mut acceptor = Acceptor::default();
    loop {
        let (stream, _) = acceptor.next(|| listener.accept(), || ()).await;
        let site = Arc::clone(&site);
        let (slot, evicted) = connections.enter();
        tokio::spawn(async move {
            tokio::select! {
                () = connection(stream, site, slot) => {}
                _ = evicted => tracing::debug!("a connection was evicted by a new one"),
            }
        });
    }
}

/// Serves one connection; an error of the client ends this connection only.
async fn connection<S: Site>(stream: TcpStream, site: Arc<S>, mut slot: ConnectionSlot) {
    probe(&stream, SILENCE);
    let stream = match timeout(STEP, site.tls().accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(e)) => return tracing::debug!("a client: {e}"),
        Err(_) => return tracing::debug!("a client: no handshake within {} s", STEP.as_secs()),
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first().cloned());
    let client = Client { certificate: certificate.map(CertificateDer::into_owned), is_gone: Arc::default() };
    let is_known = site.knows(&client);
    if !slot.becomes(if is_known { Kind::Authenticated } else { Kind::Anonymous }) {
        return tracing::warn!("a connection was closed: there are too many");
    }
    let is_gone = Arc::clone(&client.is_gone);
    let service = service_fn(move |request| {
        let (site, client) = (Arc::clone(&site), client.clone());
        async move { Ok::<_, Infallible>(site.answer(request, client).await) }
    });
    let mut served = std::pin::pin!(HTTP.builder().serve_connection(TokioIo::new(stream), service));
    // Dropped before the service, also if the connection is cut from outside.
    let gone = Gone(is_gone);
    let ended = match is_known {
        true => Ok(served.as_mut().await),
        false => timeout(LONGEST, served.as_mut()).await,
    };
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(e)) => tracing::debug!("a client: {e}"),
        Err(_) => tracing::debug!("a connection was cut after {} s", LONGEST.as_secs()),
    }
    drop(gone);
}
