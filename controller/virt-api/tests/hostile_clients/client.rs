//! A client that sends exactly the bytes of a test.

use crate::authority::Identity;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Time-out that no step reaches.
pub(crate) const LONG: Duration = Duration::from_secs(300);
/// DNS name in virt-api's certificate.
pub(crate) const VIRT_API: &str = "virt-api.kubevirt.svc";

pub(crate) type Connection = TlsStream<TcpStream>;

/// A client of virt-api.
#[derive(Clone)]
pub(crate) struct Client {
    connector: TlsConnector,
    to: SocketAddr,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Client {
    /// A client that trusts these CAs, with a certificate or without.
    pub(crate) fn new(to: SocketAddr, trusts: Arc<RootCertStore>, shows: Option<&Identity>) -> Client {
        Client::speaking(b"http/1.1", to, trusts, shows)
    }

    pub(crate) fn speaking(
        protocol: &[u8],
        to: SocketAddr,
        trusts: Arc<RootCertStore>,
        shows: Option<&Identity>,
    ) -> Client {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_root_certificates(trusts);
        let mut config = match shows {
            Some(identity) => config.with_client_auth_cert(identity.chain(), identity.key()).unwrap(),
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        Client { connector: TlsConnector::from(Arc::new(config)), to }
    }

    pub(crate) async fn try_connect(&self) -> io::Result<Connection> {
        self.connect_by(TcpSocket::new_v4()?).await
    }

    /// A client with a small receive buffer, for tests that do not read.
    pub(crate) async fn connect_narrow(&self) -> Connection {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(8 << 10).unwrap();
        timeout(LONG, self.connect_by(socket)).await.expect("no connection is taken").unwrap()
    }

    async fn connect_by(&self, socket: TcpSocket) -> io::Result<Connection> {
        let stream = socket.connect(self.to).await?;
        stream.set_nodelay(true)?;
        self.connector.connect(ServerName::try_from(VIRT_API).unwrap(), stream).await
    }

    pub(crate) async fn connect(&self) -> Connection {
        timeout(LONG, self.try_connect()).await.expect("no connection is taken").unwrap()
    }

    /// Sends this on a new connection, and returns the response and the connection.
    pub(crate) async fn says(&self, text: &str) -> (Answer, Connection) {
        let mut connection = self.connect().await;
        say(&mut connection, text.as_bytes()).await.unwrap();
        let answer = answer(&mut connection).await.unwrap();
        (answer, connection)
    }
}

/// The head of a request without a body, for a user. `more` contains further headers, each with its line end.
pub(crate) fn head(method: &str, path: &str, user: &str, more: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: virt-api\r\nx-remote-user: {user}\r\n{more}\r\n")
}

pub(crate) async fn say(connection: &mut Connection, bytes: &[u8]) -> io::Result<()> {
    connection.write_all(bytes).await?;
    connection.flush().await
}

/// Reads a response whose body has a length.
pub(crate) async fn answer(connection: &mut Connection) -> io::Result<Answer> {
    timeout(LONG, read(connection)).await.expect("there is no answer")
}

async fn read(connection: &mut Connection) -> io::Result<Answer> {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        text.push(connection.read_u8().await?);
    }
    let head = String::from_utf8(text).unwrap().to_ascii_lowercase();
    let status = head[9..12].parse().unwrap();
    let size = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; size.map_or(0, |size| size.parse().unwrap())];
    connection.read_exact(&mut body).await?;
    Ok(Answer { status, head, body: String::from_utf8(body).unwrap() })
}

/// Waits until the server has closed the connection. Returns the bytes received until then.
pub(crate) async fn ended(connection: &mut Connection) -> Vec<u8> {
    let mut said = Vec::new();
    // A reset is an end, too.
    let _ = timeout(LONG, connection.read_to_end(&mut said)).await.expect("it stays open");
    said
}
