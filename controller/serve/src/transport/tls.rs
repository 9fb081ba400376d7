//! The certificate that is shown to clients, and to servers of ours, and how another takes its place while the program runs.
//!
//! A handshake takes the certificate that is there when it begins; connections that are open stay as they are. A secret
//! that holds no certificate with its key is told and left: the one before it is shown on. Until the first secret comes, a
//! program shows one that it has made itself and nobody has signed: enough for the kubelet's probes, which verify none.

use super::Authorities;
use api_server::error::{Error, ErrorKind, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kubernetes::objects::Certificate;
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ServerConfig, SignatureScheme};
use serde_json::Value;
use std::sync::{Arc, PoisonError, RwLock};

/// The certificate that is shown now; none at first.
#[derive(Debug, Default)]
pub struct Shown(RwLock<Option<Now>>);

/// A certificate, and until when it holds, where it says so as ours do.
#[derive(Clone, Debug)]
struct Now {
    key: Arc<CertifiedKey>,
    until: Option<Timestamp>,
    is_signed: bool,
}

impl Shown {
    /// Shows one that is made now and that nobody has signed, until there is another.
    pub fn own(name: &str) -> Result<Shown> {
        let cannot = |e: rcgen::Error| Error::setup("a certificate for the time being cannot be made", e);
        let key = rcgen::KeyPair::generate().map_err(cannot)?;
        let params = rcgen::CertificateParams::new(vec![name.to_owned()]).map_err(cannot)?;
        let certificate = params.self_signed(&key).map_err(cannot)?;
        let key = certified(certificate.pem().as_bytes(), key.serialize_pem().as_bytes())?;
        Ok(Shown(RwLock::new(Some(Now { key: Arc::new(key), until: None, is_signed: false }))))
    }

    /// Shows what a secret of the type `kubernetes.io/tls` holds.
    pub fn take(&self, secret: &Value) -> Result<()> {
        let file = |name: &str| {
            let text = secret["data"][name].as_str().unwrap_or_default();
            STANDARD.decode(text).map_err(|e| Error::setup(format!("{name} of the secret is no base64"), e))
        };
        self.take_pem(&file("tls.crt")?, &file("tls.key")?)
    }

    /// Shows this certificate, with its chain, and its key, in PEM.
    pub fn take_pem(&self, chain: &[u8], key: &[u8]) -> Result<()> {
        let key = Arc::new(certified(chain, key)?);
        let first = Certificate::first(&String::from_utf8_lossy(chain));
        let until = first.map(|certificate| certificate.until);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Now { key, until, is_signed: true });
        Ok(())
    }

    /// It is one that others trust.
    pub fn is_signed(&self) -> bool {
        self.now().is_some_and(|now| now.is_signed)
    }

    /// Until when it holds, if others trust it.
    pub fn until(&self) -> Option<Timestamp> {
        self.now()?.until
    }

    fn now(&self) -> Option<Now> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.now()?.key)
    }
}

impl ResolvesClientCert for Shown {
    /// Shows no certificate that nobody has signed: whoever shows one is turned away.
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.now().filter(|now| now.is_signed).map(|now| now.key)
    }

    fn has_certs(&self) -> bool {
        self.is_signed()
    }
}

/// A certificate with its chain and its key.
fn certified(chain: &[u8], key: &[u8]) -> Result<CertifiedKey> {
    let bad = |what: &str, e: rustls::pki_types::pem::Error| {
        Error::setup(format!("the secret's {what} cannot be read"), e)
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
        .collect::<std::result::Result<_, _>>()
        .map_err(|e| bad("certificate", e))?;
    if chain.is_empty() {
        return Err(Error::new(ErrorKind::Setup, "the secret holds no certificate"));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| bad("key", e))?;
    let provider = rustls::crypto::ring::default_provider();
    CertifiedKey::from_der(chain, key, &provider)
        .map_err(|e| Error::setup("the secret's certificate and key do not fit", e))
}

/// How TLS is spoken: 1.2 and 1.3, HTTP/2 where the client can. With authorities, clients are asked for a certificate.
pub fn config(shown: Arc<Shown>, clients: Option<Arc<Authorities>>) -> Result<Arc<ServerConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::setup("TLS cannot be set up", e))?;
    let mut config = match clients {
        None => builder.with_no_client_auth().with_cert_resolver(shown),
        Some(authorities) => {
            let mut config = builder.with_client_cert_verifier(authorities).with_cert_resolver(shown);
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
            config
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// TLS of a program of ours that asks another: 1.2 and 1.3, HTTP/1.1 alone, and a certificate shown where one is
/// asked for. Only servers are believed that these authorities have signed, as they are known now: whoever keeps what this
/// returns makes it anew when they change.
pub fn client_config(shown: Arc<Shown>, authorities: &Authorities) -> Result<Arc<ClientConfig>> {
    let roots = authorities.roots();
    let roots =
        roots.ok_or_else(|| Error::new(ErrorKind::Unreachable, "the authorities are not known yet"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::setup("TLS cannot be set up", e))?
        .with_root_certificates(roots)
        .with_client_cert_resolver(shown);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn secret(key_of_another: bool) -> Value {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["a".into()]).unwrap().self_signed(&key).unwrap();
        let key = if key_of_another { rcgen::KeyPair::generate().unwrap() } else { key };
        json!({"data": {
            "tls.crt": STANDARD.encode(certificate.pem()), "tls.key": STANDARD.encode(key.serialize_pem()),
        }})
    }

    #[test]
    fn what_is_no_certificate_with_its_key_is_not_shown() {
        let shown = Shown::default();
        for wrong in [
            json!({}),
            json!({"data": {"tls.crt": "?", "tls.key": ""}}),
            json!({"data": {"tls.crt": "", "tls.key": ""}}),
            secret(true),
        ] {
            assert!(shown.take(&wrong).is_err(), "{wrong}");
        }
        assert!(!shown.is_signed());
        assert_eq!(shown.until(), None);
        shown.take(&secret(false)).unwrap();
        assert!(shown.until().is_some_and(|until| until > Timestamp::UNIX_EPOCH));
        assert!(shown.is_signed() && shown.take(&secret(true)).is_err() && shown.is_signed());
    }

    #[test]
    fn a_certificate_of_its_own_is_for_the_time_being() {
        let shown = Shown::own("virt-handler").unwrap();
        assert!(shown.now().is_some() && !shown.is_signed() && shown.until().is_none());
        assert!(shown.take(&json!({})).is_err() && shown.now().is_some());
        shown.take(&secret(false)).unwrap();
        assert!(shown.is_signed());
    }
}
