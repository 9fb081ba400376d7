//! Certificates that are shown to clients and to our servers, and their replacement while the program runs.
//!
//! A handshake uses the certificate that is current when it begins; open connections stay as they are. A
//! Secret without a valid certificate and key is logged and ignored: the earlier certificate stays in use.
//! Until the first Secret comes, a program shows a self-signed certificate. That is enough for the kubelet's
//! probes, which verify none.

use super::{Authorities, Tls};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster_client::error::{Error, ErrorKind, Result};
use cluster_model::config::tls::TlsPolicy;
use cluster_model::objects::Certificate;
use jiff::Timestamp;
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ServerConfig, SignatureScheme, SupportedCipherSuite, SupportedProtocolVersion};
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Current certificate; `None` at first.
#[derive(Debug, Default)]
pub struct CurrentCertificate(RwLock<Option<Now>>);

/// Certificate, and the end of its validity if known, as for our own certificates.
#[derive(Clone, Debug)]
struct Now {
    key: Arc<CertifiedKey>,
    until: Option<Timestamp>,
    is_signed: bool,
}

impl CurrentCertificate {
    /// Shows a new self-signed certificate until another is set.
    pub fn own(name: &str) -> Result<CurrentCertificate> {
        let cannot = |e: rcgen::Error| Error::setup("cannot make a self-signed certificate", e);
        let key = rcgen::KeyPair::generate().map_err(cannot)?;
        let params = rcgen::CertificateParams::new(vec![name.to_owned()]).map_err(cannot)?;
        let certificate = params.self_signed(&key).map_err(cannot)?;
        let key = certified(certificate.pem().as_bytes(), key.serialize_pem().as_bytes())?;
        Ok(CurrentCertificate(RwLock::new(Some(Now { key: Arc::new(key), until: None, is_signed: false }))))
    }

    /// Shows the certificate of a Secret of the type `kubernetes.io/tls`.
    pub fn take(&self, secret: &Value) -> Result<()> {
        let file = |name: &str| {
            let text = secret["data"][name].as_str().unwrap_or_default();
            STANDARD.decode(text).map_err(|e| Error::setup(format!("{name} of the Secret is not base64"), e))
        };
        self.take_pem(&file("tls.crt")?, &file("tls.key")?)
    }

    /// Shows this certificate chain with its key, in PEM.
    pub fn take_pem(&self, chain: &[u8], key: &[u8]) -> Result<()> {
        let key = Arc::new(certified(chain, key)?);
        let first = Certificate::from_pem(&String::from_utf8_lossy(chain));
        let until = first.map(|certificate| certificate.until);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Now { key, until, is_signed: true });
        Ok(())
    }

    /// True if the certificate is not self-signed, so that others can trust it.
    pub fn is_signed(&self) -> bool {
        self.now().is_some_and(|now| now.is_signed)
    }

    /// End of the validity, unless self-signed.
    pub fn until(&self) -> Option<Timestamp> {
        self.now()?.until
    }

    fn now(&self) -> Option<Now> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.now()?.key)
    }
}

impl ResolvesClientCert for CurrentCertificate {
    /// A self-signed certificate is not shown to servers, since they refuse such a client.
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.now().filter(|now| now.is_signed).map(|now| now.key)
    }

    fn has_certs(&self) -> bool {
        self.is_signed()
    }
}

/// Certificate chain with its key.
fn certified(chain: &[u8], key: &[u8]) -> Result<CertifiedKey> {
    let bad = |what: &str, e: rustls::pki_types::pem::Error| {
        Error::setup(format!("cannot read the {what} of the Secret"), e)
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain)
        .collect::<std::result::Result<_, _>>()
        .map_err(|e| bad("certificate", e))?;
    if chain.is_empty() {
        return Err(Error::new(ErrorKind::Setup, "the Secret has no certificate"));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| bad("key", e))?;
    let provider = rustls::crypto::ring::default_provider();
    CertifiedKey::from_der(chain, key, &provider)
        .map_err(|e| Error::setup("certificate and key of the Secret do not match", e))
}

/// TLS settings of the cluster. Until they are known, only TLS 1.3 is spoken, since the cluster may require
/// it.
#[derive(Debug)]
pub struct Terms(RwLock<TlsPolicy>);

impl Default for Terms {
    fn default() -> Self {
        Terms(RwLock::new(TlsPolicy { only_13: true, suites: None }))
    }
}

impl Terms {
    /// Sets the settings for connections from now on.
    pub fn set(&self, wanted: TlsPolicy) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = wanted;
    }

    pub fn now(&self) -> TlsPolicy {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// TLS configuration of a server: each connection uses the settings that are current when it begins.
#[derive(Debug)]
pub struct Offer {
    shown: Arc<CurrentCertificate>,
    clients: Option<Arc<Authorities>>,
    terms: Arc<Terms>,
    made: Mutex<(TlsPolicy, Arc<ServerConfig>)>,
}

impl Tls for Offer {
    fn now(&self) -> Arc<ServerConfig> {
        let wanted = self.terms.now();
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.0 != wanted {
            match made_for(&wanted, &self.shown, self.clients.as_ref()) {
                Ok(config) => made.1 = config,
                Err(error) => tracing::warn!(
                    "cannot apply the TLS settings, keeping the earlier ones: {}",
                    error.chain()
                ),
            }
            made.0 = wanted;
        }
        Arc::clone(&made.1)
    }
}

/// TLS configuration of a server: 1.2 and 1.3 as far as the settings permit, HTTP/2 if the client supports
/// it. With authorities, clients are asked for a certificate.
pub fn config(
    shown: Arc<CurrentCertificate>,
    clients: Option<Arc<Authorities>>,
    terms: Arc<Terms>,
) -> Result<Arc<Offer>> {
    let wanted = terms.now();
    let config = made_for(&wanted, &shown, clients.as_ref())?;
    Ok(Arc::new(Offer { shown, clients, terms, made: Mutex::new((wanted, config)) }))
}

fn made_for(
    wanted: &TlsPolicy,
    shown: &Arc<CurrentCertificate>,
    clients: Option<&Arc<Authorities>>,
) -> Result<Arc<ServerConfig>> {
    let mut provider = rustls::crypto::ring::default_provider();
    let is_12 = |suite: &SupportedCipherSuite| suite.tls13().is_none();
    if let Some(names) = &wanted.suites {
        let is_named =
            |suite: &SupportedCipherSuite| suite.suite().as_str().is_some_and(|name| names.contains(&name));
        provider.cipher_suites.retain(|suite| !is_12(suite) || is_named(suite));
    }
    let speaks_12 = !wanted.only_13 && provider.cipher_suites.iter().any(is_12);
    let versions: &[&SupportedProtocolVersion] = if speaks_12 { &[&TLS13, &TLS12] } else { &[&TLS13] };
    let builder = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)
        .map_err(|e| Error::setup("TLS cannot be set up", e))?;
    let shown = Arc::clone(shown);
    let mut config = match clients {
        None => builder.with_no_client_auth().with_cert_resolver(shown),
        Some(authorities) => {
            let authorities = Arc::clone(authorities);
            let mut config = builder.with_client_cert_verifier(authorities).with_cert_resolver(shown);
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
            config
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// TLS configuration of a client between our programs: 1.2 and 1.3, HTTP/1.1 only, and a certificate if the
/// server asks for one. Only servers with a certificate of these authorities are trusted. The configuration
/// is a snapshot: make it anew when the authorities change.
pub fn client_config(shown: Arc<CurrentCertificate>, authorities: &Authorities) -> Result<Arc<ClientConfig>> {
    let roots = authorities.roots();
    let roots = roots
        .ok_or_else(|| Error::new(ErrorKind::Unreachable, "the certificate authorities are not known yet"))?;
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
    use cluster_model::config::tls::suites;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConnection, ProtocolVersion, RootCertStore, ServerConnection};
    use serde_json::json;

    /// Certificate of virt-api, and the roots that trust it.
    fn certificate() -> Result<(CurrentCertificate, Arc<RootCertStore>)> {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["virt-api".into()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let shown = CurrentCertificate::default();
        shown.take(&json!({"data": {
            "tls.crt": STANDARD.encode(certificate.pem()), "tls.key": STANDARD.encode(key.serialize_pem()),
        }}))?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        Ok((shown, Arc::new(roots)))
    }

    /// Version and protocol that this server and a client with these versions agree on; `None` if they do
    /// not.
    fn agreed(
        offer: &Offer,
        trusts: &Arc<RootCertStore>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Option<(ProtocolVersion, &'static str)> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        let config = config.with_root_certificates(Arc::clone(trusts)).with_no_client_auth();
        let name = ServerName::try_from("virt-api").unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut server = ServerConnection::new(offer.now()).unwrap();
        for _ in 0..8 {
            let (mut there, mut back) = (Vec::new(), Vec::new());
            while client.wants_write() {
                client.write_tls(&mut there).unwrap();
            }
            let mut there = there.as_slice();
            while !there.is_empty() {
                server.read_tls(&mut there).unwrap();
            }
            server.process_new_packets().ok()?;
            while server.wants_write() {
                server.write_tls(&mut back).unwrap();
            }
            let mut back = back.as_slice();
            while !back.is_empty() {
                client.read_tls(&mut back).unwrap();
            }
            client.process_new_packets().ok()?;
        }
        let suite = server.negotiated_cipher_suite()?.suite().as_str()?;
        (!server.is_handshaking()).then_some((server.protocol_version()?, suite))
    }

    #[test]
    fn a_connection_keeps_to_what_the_cluster_asks_when_it_begins() {
        let (shown, trusts) = certificate().unwrap();
        let terms = Arc::<Terms>::default();
        let offer = config(Arc::new(shown), None, Arc::clone(&terms)).unwrap();
        let version = |versions| agreed(&offer, &trusts, versions).map(|(version, _)| version);
        let (old, new) = (&[&TLS12][..], &[&TLS13][..]);
        assert_eq!(
            (version(old), version(new)),
            (None, Some(ProtocolVersion::TLSv1_3)),
            "nothing is known yet"
        );
        terms.set(TlsPolicy::default());
        assert_eq!(version(old), Some(ProtocolVersion::TLSv1_2));
        assert_eq!(version(new), Some(ProtocolVersion::TLSv1_3));
        terms.set(TlsPolicy { only_13: true, suites: None });
        assert_eq!((version(old), version(new)), (None, Some(ProtocolVersion::TLSv1_3)));
        for name in suites().filter(|name| name.contains("ECDSA")) {
            terms.set(TlsPolicy { only_13: false, suites: Some(vec![name]) });
            assert_eq!(agreed(&offer, &trusts, old), Some((ProtocolVersion::TLSv1_2, name)));
            assert_eq!(version(new), Some(ProtocolVersion::TLSv1_3), "its suites are fixed");
        }
        terms.set(TlsPolicy { only_13: false, suites: Some(Vec::new()) });
        assert_eq!((version(old), version(new)), (None, Some(ProtocolVersion::TLSv1_3)));
        terms.set(TlsPolicy::default());
        assert_eq!(version(old), Some(ProtocolVersion::TLSv1_2));
    }

    #[test]
    fn the_table_of_suites_is_that_of_the_provider() {
        let provider = rustls::crypto::ring::default_provider();
        let old = provider.cipher_suites.iter().filter(|suite| suite.tls13().is_none());
        let mut old: Vec<_> = old.filter_map(|suite| suite.suite().as_str()).collect();
        let mut table: Vec<_> = suites().collect();
        old.sort_unstable();
        table.sort_unstable();
        assert_eq!(old, table);
    }

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
        let shown = CurrentCertificate::default();
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
        let shown = CurrentCertificate::own("virt-handler").unwrap();
        assert!(shown.now().is_some() && !shown.is_signed() && shown.until().is_none());
        assert!(shown.take(&json!({})).is_err() && shown.now().is_some());
        shown.take(&secret(false)).unwrap();
        assert!(shown.is_signed());
    }
}
