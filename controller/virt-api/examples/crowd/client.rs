//! A minimal HTTP/1.1 client over TLS.

use super::{Result, serve};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) struct Client {
    address: SocketAddr,
    config: Arc<ClientConfig>,
    review: Arc<Vec<u8>>,
}

pub(crate) struct Connection {
    stream: TlsStream<TcpStream>,
    review: Arc<Vec<u8>>,
}

impl Client {
    pub(crate) fn of(server: &serve::Child) -> Result<Client> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(server.certificate.as_bytes())?)?;
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "1", "operation": "CREATE", "name": "web", "namespace": "n", "userInfo": {"username": "somebody"},
                "kind": {"group": "kubevirt.io", "version": "v1", "kind": "VirtualMachine"},
                "object": {
                    "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
                    "metadata": {"name": "web", "namespace": "n", "annotations": {"note": "x".repeat(2000)}},
                    "spec": {"runStrategy": "Always", "template": {"spec": {
                        "domain": {
                            "resources": {"requests": {"memory": "1Gi"}},
                            "devices": {
                                "disks": [{"name": "root", "disk": {"bus": "virtio"}}],
                                "interfaces": [{"name": "default", "masquerade": {}}],
                            },
                        },
                        "networks": [{"name": "default", "pod": {}}],
                        "volumes": [{"name": "root", "containerDisk": {"image": "registry.example/os:1"}}],
                    }}},
                },
            },
        });
        let review = Arc::new(review.to_string().into_bytes());
        Ok(Client { address: server.address, config: Arc::new(config), review })
    }

    pub(crate) async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("virt-api")?;
        let stream = TlsConnector::from(Arc::clone(&self.config)).connect(name, stream).await?;
        Ok(Connection { stream, review: Arc::clone(&self.review) })
    }

    /// A connection after its first request.
    pub(crate) async fn connected(&self) -> Result<Connection> {
        let mut connection = self.connect().await?;
        connection.send(b"GET /healthz HTTP/1.1\r\nhost: virt-api\r\n\r\n").await?;
        connection.answered().await?;
        Ok(connection)
    }
}

impl Connection {
    pub(crate) async fn review(&mut self) -> Result<()> {
        let review = Arc::clone(&self.review);
        self.announce(review.len()).await?;
        self.send(&review).await?;
        let answer = self.answered().await?;
        if !answer.contains(r#""allowed":true"#) {
            return Err(format!("the review was not allowed: {answer}").into());
        }
        Ok(())
    }

    pub(crate) async fn announce(&mut self, size: usize) -> Result<()> {
        let head = format!(
            "POST /virtualmachines-validate HTTP/1.1\r\nhost: virt-api\r\ncontent-type: application/json\r\n\
             content-length: {size}\r\n\r\n"
        );
        self.stream.write_all(head.as_bytes()).await?;
        Ok(())
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await?;
        Ok(())
    }

    async fn answered(&mut self) -> Result<String> {
        let mut text = String::new();
        loop {
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let size = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if body.len() >= size.ok_or("no length")?.parse::<usize>()? {
                    return Ok(text);
                }
            }
            let mut piece = [0; 8192];
            match self.stream.read(&mut piece).await? {
                0 => return Err("the server ended the connection".into()),
                size => text.push_str(std::str::from_utf8(&piece[..size])?),
            }
        }
    }
}
