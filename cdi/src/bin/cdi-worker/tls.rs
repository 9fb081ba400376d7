//! TLS with certificates in files, which are read again when they change: the kubelet renews mounted Secrets.
//!
//! TLS 1.3 only: all clients are programs of this project, and no cluster setting is stricter.
//!
//! A client may connect without a certificate; one that it presents must be valid. Its name decides the
//! client's rights.

use crate::pod;
use cdi::{Error, ErrorKind, Result};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio_rustls::TlsAcceptor;

/// Time between two checks of the files.
const PERIOD: Duration = Duration::from_secs(1);
/// The most bytes of a file; an API server accepts a Secret of 1 MiB.
const LARGEST: u64 = 1 << 20;

/// The present certificate, its key and the authority of clients.
pub(crate) struct Tls(Arc<RwLock<TlsAcceptor>>);

impl Tls {
    /// Reads the files that the environment names, and watches them.
    pub(crate) fn open() -> Result<Tls> {
        Tls::watch(Files::named()?)
    }

    /// The folders of these files, which the kubelet replaces.
    pub(crate) fn folders() -> Result<Vec<PathBuf>> {
        let Files { chain, key, clients } = Files::named()?;
        let folder = |file: PathBuf| file.parent().map_or_else(|| PathBuf::from("."), Path::to_owned);
        Ok([chain, key, clients].map(folder).into())
    }

    fn watch(files: Files) -> Result<Tls> {
        let mut known = files.read()?;
        let current = Arc::new(RwLock::new(known.acceptor()?));
        let shared = Arc::downgrade(&current);
        let look = move || {
            while let Some(current) = shared.upgrade() {
                // Files that are just being replaced are checked again.
                match files.read() {
                    Ok(now) if now != known => match now.acceptor() {
                        Ok(acceptor) => {
                            tracing::info!("the certificates were renewed");
                            *current.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
                            known = now;
                        }
                        Err(e) => tracing::warn!("the old certificates stay: {}", e.chain()),
                    },
                    Ok(_) => {}
                    Err(e) => tracing::warn!("the old certificates stay: {}", e.chain()),
                }
                drop(current);
                std::thread::sleep(PERIOD);
            }
        };
        let thread = std::thread::Builder::new().name("certificates".to_owned()).spawn(look);
        thread.map_err(|e| Error::io("cannot start a thread", e))?;
        Ok(Tls(current))
    }

    /// The settings for the next connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Files {
    chain: PathBuf,
    key: PathBuf,
    clients: PathBuf,
}

#[derive(PartialEq, Eq)]
struct Contents {
    chain: Vec<u8>,
    key: Vec<u8>,
    clients: Vec<u8>,
}

impl Files {
    /// The files that the environment names.
    fn named() -> Result<Files> {
        let path = |name| pod::setting(name).map(PathBuf::from);
        Ok(Files {
            chain: path("TLS_CERT_FILE")?,
            key: path("TLS_KEY_FILE")?,
            clients: path("CLIENT_CERT_FILE")?,
        })
    }

    fn read(&self) -> Result<Contents> {
        Ok(Contents { chain: read(&self.chain)?, key: read(&self.key)?, clients: read(&self.clients)? })
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let cannot = |e| Error::io(format!("cannot read {}", path.display()), e);
    let mut bytes = vec![];
    std::fs::File::open(path).map_err(cannot)?.take(LARGEST).read_to_end(&mut bytes).map_err(cannot)?;
    Ok(bytes)
}

impl Contents {
    fn acceptor(&self) -> Result<TlsAcceptor> {
        let bad = |what: &str, e: Box<dyn std::error::Error + Send + Sync>| {
            Error::new(ErrorKind::Refused, format!("cannot use {what}")).because(e)
        };
        let certificates = |pem: &[u8]| {
            CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<CertificateDer<'static>>, _>>()
        };
        let chain =
            certificates(&self.chain).map_err(|e| bad("the certificate of TLS_CERT_FILE", e.into()))?;
        let key =
            PrivateKeyDer::from_pem_slice(&self.key).map_err(|e| bad("the key of TLS_KEY_FILE", e.into()))?;
        let clients = "the authority of CLIENT_CERT_FILE";
        let mut roots = RootCertStore::empty();
        for authority in certificates(&self.clients).map_err(|e| bad(clients, e.into()))? {
            roots.add(authority).map_err(|e| bad(clients, e.into()))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(|e| bad(clients, e.into()))?;
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| bad("TLS", e.into()))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(|e| bad("the certificate of TLS_CERT_FILE with the key of TLS_KEY_FILE", e.into()))?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}
