//! A token server, and the configuration of a docker-registry that believes it.
//!
//! Tokens are JSON Web Tokens signed with ES256; the certificate of the key travels in the token, and the registry
//! knows the authority.

use crate::http::{Authority, Request};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use percent_encoding::percent_decode_str;
use rcgen::{Certificate, KeyPair, SigningKey};
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

/// The one user, the password, and the token that stands for both.
pub const USER: (&str, &str, &str) = ("builder", "pass-word", "identity-token");

/// A running token server. Everybody may pull; only the user may push.
pub struct TokenServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    folder: tempfile::TempDir,
    listener: Option<JoinHandle<()>>,
}

/// A request for a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// `GET` or `POST`.
    pub method: String,
    /// The fields of the query or of the form.
    pub fields: Vec<(String, String)>,
    /// True if it came with the user's name and password, or with the identity token.
    pub known: bool,
}

struct Shared {
    certificate: Certificate,
    key: KeyPair,
    life: AtomicU64,
    asked: Mutex<Vec<Asked>>,
    stop: AtomicBool,
}

impl TokenServer {
    /// Starts it.
    pub fn start() -> TokenServer {
        let authority = Authority::new();
        let (certificate, key) = authority.certificate();
        let folder = tempfile::Builder::new().prefix("token-").tempdir().expect("a temporary folder");
        fs::write(folder.path().join("roots.pem"), authority.pem()).expect("an authority");
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a loopback port");
        let address = listener.local_addr().expect("its address");
        let (asked, stop) = (Mutex::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { certificate, key, life: AtomicU64::new(300), asked, stop });
        let for_thread = Arc::clone(&shared);
        let listener = thread::spawn(move || for_thread.listen(&listener));
        TokenServer { shared, address, folder, listener: Some(listener) }
    }

    /// Where it is asked.
    pub fn realm(&self) -> String {
        format!("http://{}/token", self.address)
    }

    /// The configuration of a registry that trusts this server.
    pub fn config(&self) -> String {
        let roots = self.folder.path().join("roots.pem");
        let (realm, roots) = (self.realm(), roots.display());
        format!(
            "auth:\n  token: {{realm: \"{realm}\", service: disks, issuer: kit, rootcertbundle: {roots}}}\n"
        )
    }

    /// From now on tokens live so many seconds.
    pub fn set_life(&self, seconds: u64) {
        self.shared.life.store(seconds, SeqCst);
    }

    /// The requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Asked {
    /// All values of a field.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|(n, _)| n == name).map(|(_, value)| value.as_str()).collect()
    }
}

impl Drop for TokenServer {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        // Wakes the listener, which then sees that it is to stop.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

impl Shared {
    fn listen(self: &Arc<Self>, listener: &TcpListener) {
        for socket in listener.incoming() {
            if self.stop.load(SeqCst) {
                return;
            }
            let (Ok(socket), shared) = (socket, Arc::clone(self)) else { continue };
            // A client that goes away ends its own connection.
            thread::spawn(move || shared.connection(&socket).unwrap_or(()));
        }
    }

    fn connection(&self, mut socket: &TcpStream) -> io::Result<()> {
        let Some(request) = Request::read(&mut socket, 0)? else { return Ok(()) };
        let length = request.header("content-length").and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        let mut body = String::new();
        socket.take(length.min(1 << 20)).read_to_string(&mut body)?;
        let query = request.path.split_once('?').map_or("", |(_, query)| query);
        let fields = fields(if request.method == "POST" { &body } else { query });
        let basic = format!("Basic {}", STANDARD.encode(format!("{}:{}", USER.0, USER.1)));
        let said = request.header("authorization").map(|value| value == basic);
        let token = fields.iter().find(|(name, _)| name == "refresh_token").map(|(_, value)| value == USER.2);
        let asked = Asked { method: request.method.clone(), fields, known: said.or(token) == Some(true) };
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(asked.clone());
        let (status, answer) = match said.or(token) {
            Some(false) => ("401 Unauthorized", json!({ "details": "wrong" })),
            _ => ("200 OK", self.token(&asked)),
        };
        let text = answer.to_string();
        write!(
            socket,
            "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        )
    }

    fn token(&self, asked: &Asked) -> Value {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let life = self.life.load(SeqCst);
        let scopes = asked.all("scope").into_iter().flat_map(|scopes| scopes.split(' '));
        let access: Vec<Value> = scopes.filter_map(|scope| access(scope, asked.known)).collect();
        let chain = [STANDARD.encode(self.certificate.der())];
        let header = json!({ "typ": "JWT", "alg": "ES256", "x5c": chain });
        let claims = json!({
            "iss": "kit", "sub": USER.0, "aud": "disks", "exp": now + life, "nbf": now - 60, "iat": now,
            "jti": "1", "access": access,
        });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(&claims));
        let signature = self.key.sign(signed.as_bytes()).expect("a signature");
        let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(fixed(&signature)));
        json!({ "token": token, "expires_in": life })
    }
}

/// The part of a scope that is granted.
fn access(scope: &str, known: bool) -> Option<Value> {
    let (resource, actions) = scope.rsplit_once(':')?;
    let (kind, name) = resource.split_once(':')?;
    let actions: Vec<&str> = actions.split(',').filter(|action| known || *action == "pull").collect();
    Some(json!({ "type": kind, "name": name, "actions": actions }))
}

/// A signature as two numbers of 32 bytes, from its ASN.1 form.
fn fixed(der: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    let mut rest = &der[2..];
    for _ in 0..2 {
        let length = usize::from(rest[1]);
        let number = &rest[2..2 + length];
        let number = &number[number.len().saturating_sub(32)..];
        out.extend(std::iter::repeat_n(0, 32 - number.len()).chain(number.iter().copied()));
        rest = &rest[2 + length..];
    }
    out
}

fn fields(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), unescape(value))).collect()
}

fn unescape(text: &str) -> String {
    let text = text.replace('+', " ");
    percent_decode_str(&text).decode_utf8_lossy().into_owned()
}
