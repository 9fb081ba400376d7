//! Verification of client certificates by real handshakes: authority, purpose and name count.

use super::super::tls::{self, CurrentCertificate};
use super::super::{Answers, HttpResponse, IncomingRequest, Limits, Transport, listen, plain};
use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::ClientConfig;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;

const VIRT_API: &str = "virt-api.kubevirt.svc";

/// Answers whether the client is virt-api.
struct Doors;

impl Answers for Doors {
    async fn answer(&self, asked: IncomingRequest) -> HttpResponse {
        let said = match &asked.client {
            None => "nobody",
            Some(client) if client.is_called(VIRT_API) => "virt-api",
            Some(_) => "a stranger",
        };
        plain(StatusCode::OK, said)
    }
}

/// Authority, and the certificates that it signs.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// Certificate and key.
    fn sign(&self, name: &str, purpose: ExtendedKeyUsagePurpose) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![purpose];
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// Server that requests client certificates, and its address.
struct Running {
    authorities: Arc<Authorities>,
    address: SocketAddr,
    roots: RootCertStore,
    _ends: watch::Sender<bool>,
}

impl Running {
    async fn begin(authority: &Authority) -> Running {
        let (certificate, key) = authority.sign("virt-handler", ExtendedKeyUsagePurpose::ServerAuth);
        let shown = CurrentCertificate::default();
        let secret =
            json!({"data": {"tls.crt": STANDARD.encode(certificate), "tls.key": STANDARD.encode(key)}});
        shown.take(&secret).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
        let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let address = listener.local_addr().unwrap();
        let authorities = Arc::<Authorities>::default();
        let config = tls::config(Arc::new(shown), Some(Arc::clone(&authorities)), Arc::default()).unwrap();
        let (ends, ended) = watch::channel(false);
        tokio::spawn(async move {
            Transport::new(Limits::of_program()).serve(listener, config, Arc::new(Doors), ended).await;
        });
        Running { authorities, address, roots, _ends: ends }
    }

    /// Answer of the server to a client with this certificate; `None` if the client is refused.
    async fn ask(&self, shows: Option<&(String, String)>) -> Option<String> {
        let provider = Arc::new(ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(self.roots.clone());
        let config = match shows {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                config
                    .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
                    .unwrap()
            }
        };
        self.says(Arc::new(config)).await
    }

    /// Same as `ask`, with these TLS versions.
    async fn says(&self, config: Arc<ClientConfig>) -> Option<String> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("virt-handler").unwrap();
        let mut stream = TlsConnector::from(config).connect(name, stream).await.ok()?;
        stream.write_all(b"GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").await.ok()?;
        let mut said = String::new();
        // In TLS 1.3, a server refuses a client after the client's handshake has ended.
        stream.read_to_string(&mut said).await.ok()?;
        said.split_once("\r\n\r\n").map(|(_, body)| body.trim().to_owned())
    }
}

#[tokio::test]
async fn a_client_is_who_its_certificate_says_if_an_authority_of_ours_signed_it_for_clients() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let server = Running::begin(&ours).await;
    let api = ours.sign(VIRT_API, ExtendedKeyUsagePurpose::ClientAuth);
    assert_eq!(server.ask(Some(&api)).await, None, "no authority is known yet");
    assert_eq!(server.ask(None).await.as_deref(), Some("nobody"));
    server.authorities.take(&ours.pem).unwrap();
    assert_eq!(server.ask(Some(&api)).await.as_deref(), Some("virt-api"));
    assert_eq!(server.ask(None).await.as_deref(), Some("nobody"), "the kubelet has none");
    // The certificate of a virt-handler, if stolen from a node, is valid for servers only.
    let handler = ours.sign(VIRT_API, ExtendedKeyUsagePurpose::ServerAuth);
    assert_eq!(server.ask(Some(&handler)).await, None);
    let other = ours.sign("virt-controller.kubevirt.svc", ExtendedKeyUsagePurpose::ClientAuth);
    assert_eq!(server.ask(Some(&other)).await.as_deref(), Some("a stranger"));
    let forged = theirs.sign(VIRT_API, ExtendedKeyUsagePurpose::ClientAuth);
    assert_eq!(server.ask(Some(&forged)).await, None);
}

#[tokio::test]
async fn an_authority_that_has_left_the_bundle_opens_no_door_any_more() {
    let (old, new) = (Authority::new(), Authority::new());
    let server = Running::begin(&old).await;
    let api = old.sign(VIRT_API, ExtendedKeyUsagePurpose::ClientAuth);
    let renewed = new.sign(VIRT_API, ExtendedKeyUsagePurpose::ClientAuth);
    server.authorities.take(&format!("{}{}", new.pem, old.pem)).unwrap();
    assert_eq!(server.ask(Some(&api)).await.as_deref(), Some("virt-api"));
    assert_eq!(server.ask(Some(&renewed)).await.as_deref(), Some("virt-api"));
    server.authorities.take(&new.pem).unwrap();
    assert_eq!(server.ask(Some(&api)).await, None);
    assert_eq!(server.ask(Some(&renewed)).await.as_deref(), Some("virt-api"));
    for nothing in ["", "no certificate", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"] {
        assert!(server.authorities.take(nothing).is_err(), "{nothing}");
    }
    assert_eq!(
        server.ask(Some(&renewed)).await.as_deref(),
        Some("virt-api"),
        "what was believed is believed on"
    );
}

fn secret((certificate, key): &(String, String)) -> serde_json::Value {
    json!({"data": {"tls.crt": STANDARD.encode(certificate), "tls.key": STANDARD.encode(key)}})
}

#[tokio::test]
async fn a_program_of_ours_reaches_another_of_ours_and_no_strangers() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let (server, stranger) = (Running::begin(&ours).await, Running::begin(&theirs).await);
    server.authorities.take(&ours.pem).unwrap();
    let (shown, known) = (Arc::new(CurrentCertificate::own("virt-api").unwrap()), Authorities::default());
    let early = tls::client_config(Arc::clone(&shown), &known).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::Unreachable);
    known.take(&ours.pem).unwrap();
    let config = tls::client_config(Arc::clone(&shown), &known).unwrap();
    let own = server.says(Arc::clone(&config)).await;
    assert_eq!(own.as_deref(), Some("nobody"), "what nobody has signed is not shown");
    shown.take(&secret(&ours.sign(VIRT_API, ExtendedKeyUsagePurpose::ClientAuth))).unwrap();
    assert_eq!(server.says(Arc::clone(&config)).await.as_deref(), Some("virt-api"));
    assert_eq!(stranger.says(config).await, None, "its certificate is of another authority");
}
