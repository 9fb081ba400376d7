//! A client of a worker that serves: TLS, and requests byte by byte.

use super::PATIENCE;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::Arc;

/// The name in the certificates of the upload proxy.
pub(super) const NAME: &str = "client.upload-server.cdi.kubevirt.io";

/// An authority that signs servers and clients.
pub(super) struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
pub(super) struct Identity {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Authority {
    pub(super) fn new() -> Authority {
        let key = KeyPair::generate().expect("it can be made");
        let mut params = CertificateParams::new(vec![]).expect("it can be made");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "uploads");
        Authority {
            certificate: params.self_signed(&key).expect("it can be made"),
            issuer: Issuer::new(params, key),
        }
    }

    pub(super) fn sign(&self, name: &str) -> Identity {
        let key = KeyPair::generate().expect("it can be made");
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("it can be made");
        params.distinguished_name.push(DnType::CommonName, name);
        Identity { certificate: params.signed_by(&key, &self.issuer).expect("it can be made"), key }
    }

    /// The files of a Secret, in a folder.
    pub(super) fn mount(&self, server: &Identity, folder: &Path) {
        let files = [
            ("tls.key", server.key.serialize_pem()),
            ("tls.crt", server.certificate.pem()),
            ("ca.crt", self.certificate.pem()),
        ];
        for (name, text) in files {
            let new = folder.join(format!("..{name}"));
            std::fs::write(&new, text).expect("it can be made");
            std::fs::rename(new, folder.join(name)).expect("it can be made");
        }
    }

    pub(super) fn connect(&self, at: &str, identity: Option<&Identity>) -> io::Result<Connection> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).expect("it can be made");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("it can be made")
            .with_root_certificates(roots);
        let config = match identity {
            None => config.with_no_client_auth(),
            Some(Identity { certificate, key }) => {
                let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
                config.with_client_auth_cert(vec![certificate.der().clone()], key).expect("it can be made")
            }
        };
        let name = ServerName::try_from("127.0.0.1").expect("it can be made");
        let tls = ClientConnection::new(Arc::new(config), name).expect("it can be made");
        let stream = TcpStream::connect(at)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut stream = StreamOwned::new(tls, stream);
        stream.conn.complete_io(&mut stream.sock)?;
        Ok(Connection { stream })
    }
}

impl Identity {
    pub(super) fn is_of(&self, certificate: &CertificateDer<'_>) -> bool {
        self.certificate.der() == certificate
    }
}

pub(super) struct Connection {
    stream: StreamOwned<ClientConnection, TcpStream>,
}

/// The answer to a request.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

impl Answer {
    #[track_caller]
    pub(super) fn is(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    #[track_caller]
    pub(super) fn says(self, text: &str) -> Answer {
        assert!(self.body.contains(text), "{self:?}");
        self
    }

    #[track_caller]
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name}: {self:?}"))
    }
}

impl Connection {
    /// The certificate that the server shows.
    pub(super) fn server(&self) -> &CertificateDer<'static> {
        &self.stream.conn.peer_certificates().expect("TLS has one")[0]
    }

    /// The head of a request.
    pub(super) fn head(&mut self, request: &str, headers: &[(&str, &str)]) {
        let mut text = format!("{request} HTTP/1.1\r\nHost: upload\r\n");
        for (name, value) in headers {
            text = text + name + ": " + value + "\r\n";
        }
        self.send(text.as_bytes()).expect("the server takes a head");
        self.send(b"\r\n").expect("the server takes a head");
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// A whole request, whose body the server may not want.
    pub(super) fn ask(&mut self, request: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let length = body.len().to_string();
        self.head(request, &[headers, &[("Content-Length", &length)]].concat());
        // The server may have answered and closed the connection.
        let _ = self.send(body);
        let has_body = !request.starts_with("HEAD");
        self.answer(has_body)
    }

    pub(super) fn post(&mut self, path: &str, body: &[u8]) -> Answer {
        self.ask(&format!("POST {path}"), &[("Content-Type", "application/octet-stream")], body)
    }

    /// True if any byte comes.
    pub(super) fn read_byte(&mut self) -> io::Result<()> {
        self.stream.read_exact(&mut [0])
    }

    pub(super) fn answer(&mut self, has_body: bool) -> Answer {
        let mut head = vec![];
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap_or_else(|e| {
                panic!("no answer: {e}, behind {:?}", String::from_utf8_lossy(&head));
            });
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).expect("text");
        let mut lines = head.split("\r\n");
        let status = lines.next().expect("a line")["HTTP/1.1 ".len()..][..3].parse().expect("a status");
        let headers: BTreeMap<String, String> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let length = headers.get("content-length").map_or(0, |length| length.parse().expect("a number"));
        let mut body = vec![0; if has_body { length } else { 0 }];
        self.stream.read_exact(&mut body).expect("the body of an answer");
        Answer { status, headers, body: String::from_utf8(body).expect("text") }
    }

    /// The number of bytes before the connection ends.
    pub(super) fn read_to_end(&mut self) -> u64 {
        let mut piece = vec![0; 64 << 10];
        let mut count = 0;
        while let Ok(n) = self.stream.read(&mut piece) {
            if n == 0 {
                break;
            }
            count += n as u64;
        }
        count
    }

    /// The status of an answer; nothing where the connection ends.
    pub(super) fn status(&mut self) -> Option<u16> {
        let mut line = [0; 12];
        self.stream.read_exact(&mut line).ok()?;
        std::str::from_utf8(&line[9..]).ok()?.parse().ok()
    }

    /// Reads over an answer whose body is bytes.
    pub(super) fn skip_answer(&mut self, body: usize) {
        let mut head = vec![];
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).expect("the head of an answer");
            head.push(byte[0]);
        }
        self.stream.read_exact(&mut vec![0; body]).expect("the body of an answer");
    }

    /// Closes the connection as a killed client does.
    pub(super) fn breaks(self) {
        let _ = self.stream.sock.shutdown(Shutdown::Both);
    }
}
