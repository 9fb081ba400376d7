//! Fake upload pod: TLS that requires the proxy's certificate, and HTTP/1.1 parsed by hand, so that a test
//! sees every byte that arrives.

use crate::authority::{Authority, Identity};
use crate::client::LONG;
use cluster_model::uploads::CLIENT_NAME;
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The names of the upload pods of namespace `n`.
pub(crate) const PODS: &str = "*.n.svc";

/// Behaviour of the pod for a request.
#[derive(Clone, Debug)]
pub(crate) enum Manner {
    /// Wants the body, reads it completely, and answers with this text.
    Takes(String),
    /// Answers at once with this text.
    Refuses(String),
    /// Wants the body, and closes the connection after this many bytes.
    Breaks(usize),
    /// Wants the body, reads this many bytes, and the rest after `go`. Then answers like `Take`.
    Waits(usize),
    /// Wants the body, reads it completely, and answers after `go`.
    Thinks,
}

/// Observations of the pod so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The heads of all requests.
    pub(crate) heads: Vec<String>,
    /// Bytes of bodies.
    pub(crate) bytes: usize,
    /// Complete bodies.
    pub(crate) whole: usize,
    /// Connections that ended in the middle of a body.
    pub(crate) broken: usize,
    /// Bytes after a request, where a second request would be.
    pub(crate) behind: usize,
    /// The last complete body: the payload of its chunks.
    pub(crate) last: Vec<u8>,
}

pub(crate) struct Pod {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

struct State {
    manner: Mutex<Manner>,
    seen: watch::Sender<Seen>,
    /// Lets one waiting request continue.
    gate: Semaphore,
    keeps: bool,
}

/// 200 with an empty body: the disk is complete, as an upload server reports it.
pub(crate) fn ok() -> String {
    "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned()
}

/// Answer with another status.
pub(crate) fn says(status: &str, more: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{more}content-length: {}\r\n\r\n{body}", body.len())
}

impl Pod {
    /// Starts with this certificate; clients need a certificate of `clients`. Bodies are kept only for tests
    /// that check them.
    pub(crate) async fn begin(shows: &Identity, clients: &Authority, keeps: bool) -> Pod {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(clients.roots(), Arc::clone(&provider)).build();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.unwrap())
            .with_single_cert(shows.chain(), shows.key())
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (manner, gate) = (Mutex::new(Manner::Takes(ok())), Semaphore::new(0));
        let state = Arc::new(State { manner, seen: watch::channel(Seen::default()).0, gate, keeps });
        let (acceptor, server) = (TlsAcceptor::from(Arc::new(config)), Arc::clone(&state));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (state, acceptor) = (Arc::clone(&server), acceptor.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    assert!(stream.get_ref().1.peer_certificates().is_some(), "{CLIENT_NAME} shows itself");
                    // Some tests break the connection.
                    let _ = state.serve(BufReader::new(stream)).await;
                });
            }
        });
        Pod { address, state }
    }

    pub(crate) fn does(&self, manner: Manner) {
        *self.state.manner.lock().unwrap() = manner;
    }

    /// Lets this many waiting requests continue.
    pub(crate) fn lets(&self, many: usize) {
        self.state.gate.add_permits(many);
    }

    pub(crate) fn seen(&self) -> Seen {
        self.state.seen.borrow().clone()
    }

    /// Waits until the observations match.
    pub(crate) async fn until(&self, so: impl Fn(&Seen) -> bool) -> Seen {
        let mut seen = self.state.seen.subscribe();
        let waited = timeout(LONG, seen.wait_for(|seen| so(seen))).await;
        match waited {
            Ok(seen) => seen.unwrap().clone(),
            Err(_) => panic!("the pod has seen {:?}", Seen { last: Vec::new(), ..self.seen() }),
        }
    }
}

type Stream = BufReader<TlsStream<TcpStream>>;

impl State {
    async fn serve(&self, mut stream: Stream) -> io::Result<()> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let head = head.to_ascii_lowercase();
        let value = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        let is_chunked = value("transfer-encoding: ").is_some();
        let length = value("content-length: ").map_or(0, |size| size.parse().unwrap());
        let wants = head.contains("\r\nexpect: 100-continue\r\n");
        self.seen.send_modify(|seen| seen.heads.push(head));
        let manner = self.manner.lock().unwrap().clone();
        let thinks = matches!(manner, Manner::Thinks);
        let (answer, pauses, most) = match manner {
            Manner::Refuses(answer) => {
                stream.write_all(answer.as_bytes()).await?;
                return stream.flush().await;
            }
            Manner::Takes(answer) => (answer, usize::MAX, usize::MAX),
            Manner::Thinks => (ok(), usize::MAX, usize::MAX),
            Manner::Waits(after) => (ok(), after, usize::MAX),
            Manner::Breaks(after) => (ok(), usize::MAX, after),
        };
        if wants {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            stream.flush().await?;
        }
        let mut taken = Taken { state: self, bytes: 0, pauses, most, kept: Vec::new() };
        let came = match is_chunked {
            true => taken.chunks(&mut stream).await,
            false => taken.pieces(&mut stream, length).await,
        };
        let kept = taken.kept;
        match came {
            Ok(()) => self.seen.send_modify(|seen| {
                seen.whole += 1;
                seen.last = kept;
            }),
            Err(error) => {
                self.seen.send_modify(|seen| seen.broken += 1);
                return Err(error);
            }
        }
        if thinks {
            tokio::select! {
                let_go = self.gate.acquire() => let_go.unwrap().forget(),
                // The connection has ended.
                _ = stream.read_u8() => {
                    self.seen.send_modify(|seen| seen.broken += 1);
                    return Ok(());
                }
            }
        }
        stream.write_all(answer.as_bytes()).await?;
        stream.flush().await?;
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        self.seen.send_modify(|seen| seen.behind += rest.len());
        Ok(())
    }
}

/// Reader of a body.
struct Taken<'a> {
    state: &'a State,
    bytes: usize,
    pauses: usize,
    most: usize,
    kept: Vec<u8>,
}

impl Taken<'_> {
    async fn pieces(&mut self, stream: &mut Stream, mut left: usize) -> io::Result<()> {
        let mut piece = vec![0; 64 << 10];
        while left > 0 {
            if self.bytes >= self.pauses {
                self.pauses = usize::MAX;
                self.state.gate.acquire().await.unwrap().forget();
            }
            let size = piece.len().min(left);
            let came = stream.read(&mut piece[..size]).await?;
            if came == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= came;
            self.bytes += came;
            if self.state.keeps {
                self.kept.extend_from_slice(&piece[..came]);
            }
            self.state.seen.send_modify(|seen| seen.bytes += came);
            if self.bytes >= self.most {
                return Err(io::Error::other("as it is to do"));
            }
        }
        Ok(())
    }

    async fn chunks(&mut self, stream: &mut Stream) -> io::Result<()> {
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            let Ok(size) = usize::from_str_radix(line.trim(), 16) else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            self.pieces(stream, size).await?;
            stream.read_exact(&mut [0; 2]).await?;
            if size == 0 {
                return Ok(());
            }
        }
    }
}
