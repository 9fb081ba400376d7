//! Client that sends exactly the bytes of a test.

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Far more time than any step takes.
pub(crate) const LONG: Duration = Duration::from_secs(120);
/// The name in the certificate of the proxy.
pub(crate) const PROXY: &str = "cdi-uploadproxy.kubevirt.svc";

/// A client that can reach the proxy.
#[derive(Clone)]
pub(crate) struct Client {
    config: Arc<ClientConfig>,
    to: SocketAddr,
}

/// A connection to the proxy.
pub(crate) struct Connection {
    pub(crate) stream: TlsStream<TcpStream>,
    /// True if the last request was a HEAD, whose answer has no body.
    is_head: bool,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Client {
    pub(crate) fn new(to: SocketAddr, trusts: Arc<RootCertStore>) -> Client {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = config.unwrap().with_root_certificates(trusts).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Client { config: Arc::new(config), to }
    }

    /// Connects by HTTP/2.
    pub(crate) fn by_http2(&self) -> Client {
        let mut config = (*self.config).clone();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Client { config: Arc::new(config), to: self.to }
    }

    pub(crate) async fn try_connect(&self) -> io::Result<Connection> {
        let stream = TcpStream::connect(self.to).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(PROXY).unwrap();
        let stream = TlsConnector::from(Arc::clone(&self.config)).connect(name, stream).await?;
        Ok(Connection { stream, is_head: false })
    }

    pub(crate) async fn connect(&self) -> Connection {
        timeout(LONG, self.try_connect()).await.expect("no connection is taken").unwrap()
    }

    /// Sends these bytes on a new connection.
    pub(crate) async fn says(&self, bytes: &[u8]) -> Answer {
        let mut connection = self.connect().await;
        connection.says(bytes).await;
        connection.answer().await
    }
}

impl Connection {
    pub(crate) async fn says(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_says(bytes.as_ref()).await.unwrap();
    }

    pub(crate) async fn try_says(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.is_head = bytes.starts_with(b"HEAD ");
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    /// Reads the next answer. A status of 100 comes before the final one.
    pub(crate) async fn answer(&mut self) -> Answer {
        self.try_answer().await.unwrap()
    }

    pub(crate) async fn try_answer(&mut self) -> io::Result<Answer> {
        timeout(LONG, self.read()).await.expect("there is no answer")
    }

    async fn read(&mut self) -> io::Result<Answer> {
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\n") {
            text.push(self.stream.read_u8().await?);
        }
        let head = String::from_utf8(text).unwrap().to_ascii_lowercase();
        let status = head[9..12].parse().unwrap();
        let size = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let has_body = !self.is_head && status >= 200 && status != 204;
        let size = size.filter(|_| has_body).map_or(0, |size| size.parse().unwrap());
        let mut body = vec![0; size];
        self.stream.read_exact(&mut body).await?;
        Ok(Answer { status, head, body: String::from_utf8(body).unwrap() })
    }
}

/// The head of a request with a token; `more` are further headers, each with its end of line.
pub(crate) fn head(method: &str, path: &str, token: &str, more: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: proxy\r\nauthorization: Bearer {token}\r\n{more}\r\n")
}
