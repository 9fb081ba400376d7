//! Test environment: virt-handler on a local port, fake launchers behind it, and clients with certificates.

mod launcher;

use super::ForVirtApi;
use crate::filesystems::Filesystems;
use crate::launchers::{Launchers, Registration};
use api::meta::ObjectMeta;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use launcher_client::{Cause, Client, Connector, Open, vmi_path};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::json;
use serve::transport::tls::{self, CurrentCertificate};
use serve::transport::{Authorities, Limits, Transport, listen};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

const HANDLER: &str = "virt-handler.kubevirt.svc";
pub(super) const VIRT_API: &str = "virt-api.kubevirt.svc";

/// virt-handler, and the authority that signs the certificates of its clients.
pub(super) struct Scene {
    place: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    address: SocketAddr,
    launchers: Launchers,
    listed: Vec<Registration>,
    _ends: watch::Sender<bool>,
}

impl Scene {
    pub(super) async fn begin() -> Scene {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let pem = params.self_signed(&key).unwrap().pem();
        let (launchers, (ends, ended)) = (Launchers::default(), watch::channel(false));
        let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
        let scene = Scene {
            place: tempfile::tempdir().unwrap(),
            issuer: Issuer::new(params, key),
            pem,
            address: listener.local_addr().unwrap(),
            launchers: launchers.clone(),
            listed: Vec::new(),
            _ends: ends,
        };
        let shown = scene.shown(HANDLER, ExtendedKeyUsagePurpose::ServerAuth);
        let config = tls::config(shown, Some(scene.authorities()), Arc::default()).unwrap();
        let answers = Arc::new(ForVirtApi::new(launchers, "kubevirt"));
        tokio::spawn(async move {
            Transport::new(Limits::of_program()).serve(listener, config, answers, ended).await;
        });
        scene
    }

    fn authorities(&self) -> Arc<Authorities> {
        let authorities = Authorities::default();
        authorities.take(&self.pem).unwrap();
        Arc::new(authorities)
    }

    /// A certificate with this name and purpose.
    fn shown(&self, name: &str, purpose: ExtendedKeyUsagePurpose) -> Arc<CurrentCertificate> {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![purpose];
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        let key = key.serialize_pem();
        let shown = CurrentCertificate::default();
        let data = json!({"tls.crt": STANDARD.encode(certificate), "tls.key": STANDARD.encode(key)});
        shown.take(&json!({"data": data})).unwrap();
        Arc::new(shown)
    }

    /// Lists a fake launcher of the VMI `n/NAME`, whose UID is its name. A `silent` one accepts connections
    /// and does not answer. Returns the number of accepted connections.
    pub(super) fn launcher(&mut self, name: &str, silent: bool) -> Arc<AtomicUsize> {
        let (client, taken) = launcher::play(name, self.place.path().join(name), silent);
        self.list(name, &client);
        taken
    }

    /// Lists fake launchers whose screenshots never end. Returns the number of them that are being read.
    pub(super) fn trickles(&mut self, names: &[&str]) -> Arc<AtomicUsize> {
        let read = Arc::new(AtomicUsize::new(0));
        for name in names {
            let client = launcher::trickle(name, self.place.path().join(name), &read);
            self.list(name, &client);
        }
        read
    }

    fn list(&mut self, name: &str, client: &crate::launcher_client::Client) {
        let meta = ObjectMeta {
            namespace: Some("n".into()),
            name: Some(name.into()),
            uid: Some(name.into()),
            ..ObjectMeta::default()
        };
        self.listed.push(self.launchers.list(&meta, client, &Filesystems::default()));
    }

    /// Client of the launcher of the VMI `n/NAME` with this UID, which shows a certificate of this name, or
    /// none.
    pub(super) fn ask(&self, shows: Option<&str>, name: &str, uid: &str) -> Client {
        let shown = match shows {
            Some(name) => self.shown(name, ExtendedKeyUsagePurpose::ClientAuth),
            None => Arc::default(),
        };
        let config = tls::client_config(shown, &self.authorities()).unwrap();
        let who = format!("the launcher of n/{name}");
        Client::new(who, Arc::new(Dial(self.address, config))).below(vmi_path("n", name, uid))
    }

    /// Client with the certificate of virt-api.
    pub(super) fn virt_api(&self, name: &str) -> Client {
        self.ask(Some(VIRT_API), name, name)
    }
}

/// Connector to the server of virt-handler, with the certificate of a client.
struct Dial(SocketAddr, Arc<ClientConfig>);

impl Connector for Dial {
    fn open(&self) -> BoxFuture<'_, Result<Open, Cause>> {
        Box::pin(async {
            let stream = TcpStream::connect(self.0).await?;
            let name = ServerName::try_from(HANDLER)?;
            let stream = TlsConnector::from(Arc::clone(&self.1)).connect(name, stream).await?;
            Ok(Open { stream: Box::new(stream).into(), peer: () })
        })
    }
}
