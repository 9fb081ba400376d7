//! An upload proxy with an upload pod behind it, as a client sees them: `upload-async`, `upload`, and tus 1.0. It cuts
//! connections at a byte, refuses, and loses what it had, as a test tells it to.
//!
//! ```text
//!   UploadProxy::start(Manners { tus: true, ..Manners::default() })
//!      └─ a thread per connection: request ─► noted ─► an answer told before ─► else the upload
//! ```

use crate::http::{Authority, Request};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// What it can do.
#[derive(Debug, Clone, Default)]
pub struct Manners {
    /// It speaks tus.
    pub tus: bool,
    /// It has `upload-async`.
    pub early: bool,
    /// The only token that it takes; any where none is said.
    pub token: Option<String>,
}

/// A running upload proxy.
pub struct UploadProxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    scheme: &'static str,
    listener: Option<JoinHandle<()>>,
}

/// What is answered to a request in place of an upload.
struct Told {
    request: String,
    status: u16,
    text: String,
    /// The word of a server of ours that will refuse the same bytes again.
    refused: Option<String>,
    /// Before the body is read.
    at_once: bool,
}

#[derive(Default)]
struct Shared {
    manners: Mutex<Manners>,
    told: Mutex<VecDeque<Told>>,
    cuts: Mutex<VecDeque<u64>>,
    /// Behind so many bytes of all bodies none is read.
    held: Mutex<Option<u64>>,
    goes_on: Condvar,
    asked: Mutex<Vec<String>>,
    /// Of the upload that tus knows: its length, and what is here.
    upload: Mutex<Option<(u64, Vec<u8>)>>,
    whole: Mutex<Vec<Vec<u8>>>,
    when_whole: Mutex<Option<Box<dyn Fn() + Send>>>,
    when_cut: Mutex<Option<Box<dyn Fn() + Send>>>,
    taken: AtomicU64,
    stop: AtomicBool,
}

/// The place of the one upload that tus knows.
const PLACE: &str = "/v1beta1/upload-tus/0123.abc";

impl UploadProxy {
    /// Starts one.
    pub fn start(manners: Manners) -> UploadProxy {
        UploadProxy::run(manners, None)
    }

    /// The same over TLS.
    pub fn start_tls(manners: Manners, authority: &Authority) -> UploadProxy {
        UploadProxy::run(manners, Some(authority.server_config()))
    }

    fn run(manners: Manners, tls: Option<Arc<rustls::ServerConfig>>) -> UploadProxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let scheme = if tls.is_some() { "https" } else { "http" };
        let shared = Arc::new(Shared { manners: Mutex::new(manners), ..Shared::default() });
        let for_thread = Arc::clone(&shared);
        let listener = thread::spawn(move || for_thread.listen(&listener, tls.as_ref()));
        UploadProxy { shared, address, scheme, listener: Some(listener) }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// From now on it takes this token alone.
    pub fn takes(&self, token: &str) {
        lock(&self.shared.manners).token = Some(token.to_owned());
    }

    /// The next request that begins so, `POST /v1beta1/upload`, is answered with this, after its body was read.
    pub fn answers(&self, request: &str, status: u16, text: &str) {
        self.tell(request, status, text, false);
    }

    /// The same before its body is read, which is then thrown away.
    pub fn answers_at_once(&self, request: &str, status: u16, text: &str) {
        self.tell(request, status, text, true);
    }

    fn tell(&self, request: &str, status: u16, text: &str, at_once: bool) {
        let (request, text) = (request.to_owned(), text.to_owned());
        lock(&self.shared.told).push_back(Told { request, status, text, refused: None, at_once });
    }

    /// As [`UploadProxy::answers`], by a server of ours that will refuse the same bytes again, for this reason in a word.
    pub fn refuses(&self, request: &str, status: u16, text: &str, reason: &str) {
        let (request, text, refused) = (request.to_owned(), text.to_owned(), Some(reason.to_owned()));
        lock(&self.shared.told).push_back(Told { request, status, text, refused, at_once: false });
    }

    /// The next bodies are cut after so many bytes, one after the other.
    pub fn cuts(&self, after: &[u64]) {
        lock(&self.shared.cuts).extend(after);
    }

    /// Reads no byte of a body behind so many of all bodies, until that is said to be over by [`UploadProxy::goes_on`].
    pub fn holds(&self, behind: u64) {
        *lock(&self.shared.held) = Some(behind);
    }

    /// Reads on.
    pub fn goes_on(&self) {
        *lock(&self.shared.held) = None;
        self.shared.goes_on.notify_all();
    }

    /// Does this when an upload is whole, before it is answered.
    pub fn when_whole(&self, does: impl Fn() + Send + 'static) {
        *lock(&self.shared.when_whole) = Some(Box::new(does));
    }

    /// Does this when a body was cut, before its connection is.
    pub fn when_cut(&self, does: impl Fn() + Send + 'static) {
        *lock(&self.shared.when_cut) = Some(Box::new(does));
    }

    /// What was asked until now, and forgets it. A PATCH says its offset: `PATCH /path @7`.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.shared.asked))
    }

    /// The uploads that are whole.
    pub fn uploads(&self) -> Vec<Vec<u8>> {
        lock(&self.shared.whole).clone()
    }

    /// Bytes of bodies that came so far.
    pub fn taken(&self) -> u64 {
        self.shared.taken()
    }
}

impl Drop for UploadProxy {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        self.goes_on();
        // Wakes the listener, which then sees that it is to stop.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// The body of a request, and whether it came to its end.
struct Body {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Shared {
    fn listen(self: &Arc<Self>, listener: &TcpListener, tls: Option<&Arc<rustls::ServerConfig>>) {
        for socket in listener.incoming() {
            if self.stop.load(SeqCst) {
                return;
            }
            let (Ok(socket), shared, tls) = (socket, Arc::clone(self), tls.cloned()) else { continue };
            thread::spawn(move || {
                // A client that goes away ends its own connection.
                let _ = shared.connection(&socket, tls);
                let _ = socket.shutdown(Shutdown::Both);
            });
        }
    }

    fn connection(&self, socket: &TcpStream, tls: Option<Arc<rustls::ServerConfig>>) -> io::Result<()> {
        let mut stream: Box<dyn Stream> = match tls {
            None => Box::new(socket.try_clone()?),
            Some(config) => {
                let session = rustls::ServerConnection::new(config).map_err(io::Error::other)?;
                Box::new(rustls::StreamOwned::new(session, socket.try_clone()?))
            }
        };
        while let Some(request) = Request::read(&mut stream, 0)? {
            let asked = format!("{} {}", request.method, request.path);
            let offset = request.header("upload-offset").map(|at| format!(" @{at}")).unwrap_or_default();
            lock(&self.asked).push(format!("{asked}{offset}"));
            if let Some(told) = self.next_told(&asked, true) {
                answer(&mut stream, told.status, &[], &told.text)?;
                self.throw_away(&mut stream, &request)?;
                return Ok(());
            }
            let told = self.next_told(&asked, false);
            let body = self.body(&mut stream, &request, told.is_none())?;
            if let Some(told) = told {
                let refused: Vec<_> = told.refused.into_iter().map(|word| ("Upload-Refused", word)).collect();
                answer(&mut stream, told.status, &refused, &told.text)?;
                continue;
            }
            if !self.respond(&mut stream, &request, body)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn next_told(&self, asked: &str, at_once: bool) -> Option<Told> {
        let mut told = lock(&self.told);
        let at = told.iter().position(|told| told.at_once == at_once && asked.starts_with(&told.request))?;
        told.remove(at)
    }

    /// Answers; false where the connection is cut instead.
    fn respond(&self, stream: &mut dyn Stream, request: &Request, body: Body) -> io::Result<bool> {
        let manners = lock(&self.manners).clone();
        let bearer = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        if bearer.is_none() || manners.token.as_deref().is_some_and(|token| bearer != Some(token)) {
            answer(stream, 401, &[], "the token is not valid")?;
            return Ok(true);
        }
        let tus = request.header("tus-resumable") == Some("1.0.0") && manners.tus;
        match (request.method.as_str(), request.path.as_str()) {
            ("HEAD", "/v1beta1/upload-async") if manners.early => answer(stream, 200, &[], "")?,
            ("POST", "/v1beta1/upload-async") if manners.early => return self.plain(stream, body),
            ("POST", "/v1beta1/upload") => return self.plain(stream, body),
            ("POST", "/v1beta1/upload-tus") if tus => {
                let length = request.header("upload-length").and_then(|n| n.parse().ok()).unwrap_or(0);
                *lock(&self.upload) = Some((length, Vec::new()));
                answer(stream, 201, &[("Location", PLACE.to_owned())], "")?;
            }
            ("HEAD", PLACE) if tus => match &*lock(&self.upload) {
                Some((_, here)) => answer(stream, 200, &[("Upload-Offset", here.len().to_string())], "")?,
                None => answer(stream, 404, &[], "")?,
            },
            ("PATCH", PLACE) if tus => return self.patch(stream, request, &body),
            ("HEAD", _) => answer(stream, 404, &[], "")?,
            _ => answer(stream, 404, &[], "404 page not found")?,
        }
        Ok(true)
    }

    fn plain(&self, stream: &mut dyn Stream, body: Body) -> io::Result<bool> {
        if !body.is_cut {
            self.is_whole(body.bytes);
            answer(stream, 200, &[], "")?;
            return Ok(true);
        }
        Ok(false)
    }

    fn patch(&self, stream: &mut dyn Stream, request: &Request, body: &Body) -> io::Result<bool> {
        let mut upload = lock(&self.upload);
        let Some((length, here)) = upload.as_mut() else {
            answer(stream, 404, &[], "there is no such upload")?;
            return Ok(true);
        };
        let offset = request.header("upload-offset").and_then(|n| n.parse().ok()).unwrap_or(usize::MAX);
        if offset != here.len() {
            answer(stream, 409, &[("Upload-Offset", here.len().to_string())], "")?;
            return Ok(true);
        }
        here.extend_from_slice(&body.bytes);
        if body.is_cut {
            if let Some(does) = &*lock(&self.when_cut) {
                does();
            }
            return Ok(false);
        }
        let at = here.len();
        let whole = (at as u64 == *length).then(|| here.clone());
        drop(upload);
        whole.into_iter().for_each(|bytes| self.is_whole(bytes));
        answer(stream, 204, &[("Upload-Offset", at.to_string())], "")?;
        Ok(true)
    }

    fn is_whole(&self, bytes: Vec<u8>) {
        lock(&self.whole).push(bytes);
        if let Some(does) = &*lock(&self.when_whole) {
            does();
        }
    }

    /// The body, by its length or in chunks, up to where it is to be cut.
    fn body(&self, stream: &mut dyn Stream, request: &Request, may_cut: bool) -> io::Result<Body> {
        let chunked = request.header("transfer-encoding") == Some("chunked");
        let length = request.header("content-length").and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        let cut = if may_cut && (chunked || length > 0) { lock(&self.cuts).pop_front() } else { None };
        let mut bytes = Vec::new();
        if chunked {
            loop {
                let size = line(stream)?;
                let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
                let mut chunk = vec![0; size];
                stream.read_exact(&mut chunk)?;
                line(stream)?;
                if size == 0 {
                    break;
                }
                bytes.extend(chunk);
                if cut.is_some_and(|cut| bytes.len() as u64 >= cut) {
                    break;
                }
            }
        } else {
            self.sized(stream, cut.unwrap_or(length).min(length), &mut bytes)?;
            let is_cut = cut.is_some() || (bytes.len() as u64) < length;
            return Ok(Body { bytes, is_cut });
        }
        self.taken.fetch_add(bytes.len() as u64, SeqCst);
        Ok(Body { bytes, is_cut: cut.is_some() })
    }

    /// So many bytes, or fewer where the client goes.
    fn sized(&self, stream: &mut dyn Stream, length: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            let held = lock(&self.held);
            let is_held = |held: &mut Option<u64>| held.is_some_and(|behind| self.taken() >= behind);
            let held = self.goes_on.wait_while(held, is_held).unwrap_or_else(PoisonError::into_inner);
            let most = held.map_or(u64::MAX, |behind| behind - self.taken()).min(left).min(256 << 10);
            drop(held);
            let got = (&mut *stream).take(most).read_to_end(bytes)? as u64;
            self.taken.fetch_add(got, SeqCst);
            left -= got;
            if got < most {
                break;
            }
        }
        Ok(())
    }

    fn taken(&self) -> u64 {
        self.taken.load(SeqCst)
    }

    /// Reads until the client goes, so that it hears the answer.
    fn throw_away(&self, stream: &mut dyn Stream, request: &Request) -> io::Result<()> {
        let length = request.header("content-length").and_then(|n| n.parse::<u64>().ok()).unwrap_or(u64::MAX);
        let (mut left, mut piece) = (length, vec![0; 64 << 10]);
        while left > 0 {
            let most = left.min(piece.len() as u64) as usize;
            match stream.read(&mut piece[..most])? {
                0 => break,
                count => {
                    left -= count as u64;
                    self.taken.fetch_add(count as u64, SeqCst);
                }
            }
        }
        Ok(())
    }
}

fn line(stream: &mut dyn Stream) -> io::Result<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"\r\n") {
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn answer(stream: &mut dyn Stream, status: u16, headers: &[(&str, String)], text: &str) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} Answer\r\n");
    if !headers.is_empty() {
        head += "Tus-Resumable: 1.0.0\r\n";
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if status != 204 {
        head += &format!("Content-Length: {}\r\n", text.len());
    }
    stream.write_all(format!("{head}\r\n{text}").as_bytes())?;
    stream.flush()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
