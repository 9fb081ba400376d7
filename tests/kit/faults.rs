//! A proxy in front of a real server, which causes one kind of fault after the other.
//!
//! ```text
//!   client ──► request ──► the first fault for this request, if any ──► server
//!                              │                                        │
//!                              └── an answer of the proxy               ▼
//!          ◄── cut, stalled, throttled, with a wrong byte ◄────────── answer
//! ```
//!
//! Each request has its own connection to the server. Positions are bytes of the file, even if only a range
//! is requested, so a fault in the middle of a blob occurs however the blob is fetched.

use crate::http::Request;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

/// A fault for some requests.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Method of the affected requests. Empty for all.
    pub method: &'static str,
    /// Text in the paths of the affected requests.
    pub path: String,
    /// Number of such requests that succeed before.
    pub skip: u32,
    /// Number of requests with the fault.
    pub times: u32,
    pub what: What,
}

/// Kind of a fault.
#[derive(Debug, Clone)]
pub enum What {
    /// Closes the connection without an answer.
    Close,
    /// Never answers.
    Mute,
    /// Ends the body before this byte.
    Cut(u64),
    /// Sends nothing from this byte on, and keeps the connection open.
    Stall(u64),
    /// Changes this byte.
    Corrupt(u64),
    /// Limits the rate in bytes per second.
    Throttle(u64),
    /// Passes only this number of bytes of the request's body on, then closes both connections.
    CutRequest(u64),
    /// Like `CutRequest`, but ends the passed bytes properly, so that the server has them and has returned
    /// the next location of the upload. A client that uses the old location is redirected, as by a server
    /// that accepts any part.
    EndRequest(u64),
    /// Sends another answer: status, further headers (each with its line end), body.
    Answer(u16, String, Vec<u8>),
    /// Sends this status before the body of the request is read. The body is never read.
    Deaf(u16),
    /// Removes the range from the request.
    NoRanges,
    /// Adds a header to the answer, with its line end.
    Header(String),
    /// Answers when this number of such requests has come, and so only a client that sends them concurrently.
    Together(usize),
}

impl Fault {
    /// A fault of all requests for blobs.
    pub fn blobs(what: What) -> Fault {
        Fault { method: "GET", path: "/blobs/".into(), skip: 0, times: u32::MAX, what }
    }

    /// A fault of all requests.
    pub fn always(what: What) -> Fault {
        Fault { method: "", path: String::new(), skip: 0, times: u32::MAX, what }
    }

    /// Limits the fault to one method.
    pub fn method(self, method: &'static str) -> Fault {
        Fault { method, ..self }
    }

    /// Limits the fault to paths with this text.
    pub fn path(self, path: &str) -> Fault {
        Fault { path: path.into(), ..self }
    }

    /// Limits the number of faults.
    pub fn times(self, times: u32) -> Fault {
        Fault { times, ..self }
    }

    /// Lets this number of requests succeed first.
    pub fn skip(self, skip: u32) -> Fault {
        Fault { skip, ..self }
    }
}

/// A running proxy.
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
    listener: Option<JoinHandle<()>>,
}

struct Shared {
    server: String,
    faults: Mutex<Vec<Fault>>,
    requests: Mutex<Vec<Request>>,
    /// Next locations of uploads whose requests were ended.
    moved: Mutex<HashMap<String, String>>,
    /// Requests that wait for one another.
    together: AtomicUsize,
    stop: AtomicBool,
    sockets: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Starts a proxy in front of `server` (`host:port`, plain HTTP).
    pub fn start(server: &str, faults: Vec<Fault>) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a loopback port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            server: server.to_owned(),
            faults: Mutex::new(faults),
            requests: Mutex::default(),
            moved: Mutex::default(),
            together: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            sockets: Mutex::default(),
        });
        let for_thread = Arc::clone(&shared);
        let listener = thread::spawn(move || for_thread.listen(&listener));
        Proxy { shared, address, listener: Some(listener) }
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Replaces all faults by this one.
    pub fn set(&self, faults: Vec<Fault>) {
        self.shared.together.store(0, SeqCst);
        *lock(&self.shared.faults) = faults;
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared.requests).clone()
    }

    /// Number of requests with this method to a path that contains this text.
    pub fn count(&self, method: &str, path: &str) -> usize {
        self.requests().iter().filter(|r| r.method == method && r.path.contains(path)).count()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        for socket in lock(&self.shared.sockets).drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
        // Wakes the listener, which then notices the stop.
        let _ = TcpStream::connect(self.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

impl Shared {
    fn listen(self: &Arc<Self>, listener: &TcpListener) {
        for (number, socket) in (0..).zip(listener.incoming()) {
            if self.stop.load(SeqCst) {
                return;
            }
            let Ok(socket) = socket else { continue };
            let Ok(ours) = socket.try_clone() else { continue };
            lock(&self.sockets).push(ours);
            let shared = Arc::clone(self);
            thread::spawn(move || {
                // Either side may close at any time. That ends only this connection.
                let _ = shared.connection(&socket, number);
                let _ = socket.shutdown(Shutdown::Both);
            });
        }
    }

    fn connection(&self, mut client: &TcpStream, number: u32) -> io::Result<()> {
        let Some(request) = Request::read(&mut client, number)? else { return Ok(()) };
        lock(&self.requests).push(request.clone());
        let fault = self.fault_for(&request);
        match &fault {
            Some(What::Close) => return Ok(()),
            Some(What::Mute) => return self.wait(),
            Some(What::Deaf(status)) => {
                write!(client, "HTTP/1.1 {status} Told\r\nContent-Length: 0\r\n\r\n")?;
                return self.wait();
            }
            Some(What::Together(number)) => {
                self.together.fetch_add(1, SeqCst);
                while self.together.load(SeqCst) < *number && !self.stop.load(SeqCst) {
                    sleep(Duration::from_millis(1));
                }
            }
            Some(What::Answer(status, headers, body)) => {
                let head = format!("HTTP/1.1 {status} Told\r\nConnection: close\r\n{headers}");
                write!(client, "{head}Content-Length: {}\r\n\r\n", body.len())?;
                if request.method != "HEAD" {
                    client.write_all(body)?;
                }
                client.shutdown(Shutdown::Write)?;
                // Reads the remaining request, so that a reset does not discard the answer.
                return io::copy(&mut client, &mut io::sink()).map(drop);
            }
            _ => {}
        }
        let mut request = request;
        if let Some(path) = lock(&self.moved).get(&request.path) {
            request.path.clone_from(path);
        }
        let server = TcpStream::connect(&self.server)?;
        lock(&self.sockets).push(server.try_clone()?);
        (&server).write_all(head(&request, matches!(fault, Some(What::NoRanges))).as_bytes())?;
        let most = match fault {
            Some(What::CutRequest(most) | What::EndRequest(most)) => most,
            _ => u64::MAX,
        };
        if matches!(fault, Some(What::EndRequest(_))) {
            pass_body(client, &server, &request, most)?;
            (&server).write_all(b"0\r\n\r\n")?;
            let answer = read_head(&mut &server)?.map(|(head, _)| head).unwrap_or_default();
            let location = answer.lines().find_map(|line| line.strip_prefix("Location: "));
            let path = location
                .and_then(|to| to.split_once("://")?.1.split_once('/'))
                .map(|(_, path)| format!("/{path}"));
            lock(&self.moved).extend(path.map(|path| (request.path, path)));
            return Ok(());
        }
        let (from, to, asked) = (client.try_clone()?, server.try_clone()?, request.clone());
        let body = thread::spawn(move || {
            let whole = pass_body(&from, &to, &asked, most);
            if !whole.as_ref().is_ok_and(|whole| *whole) {
                let _ = to.shutdown(Shutdown::Both);
                let _ = from.shutdown(Shutdown::Both);
            }
        });
        let done = self.answer(&server, client, &request, fault.as_ref());
        let _ = server.shutdown(Shutdown::Both);
        let _ = client.shutdown(Shutdown::Both);
        let _ = body.join();
        done
    }

    fn fault_for(&self, request: &Request) -> Option<What> {
        let mut faults = lock(&self.faults);
        for fault in faults.iter_mut() {
            let method = fault.method.is_empty() || fault.method == request.method;
            if !method || !request.path.contains(&fault.path) {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if fault.times > 0 {
                fault.times = if fault.times == u32::MAX { u32::MAX } else { fault.times - 1 };
                return Some(fault.what.clone());
            }
        }
        None
    }

    fn answer(
        &self,
        mut server: &TcpStream,
        mut client: &TcpStream,
        request: &Request,
        fault: Option<&What>,
    ) -> io::Result<()> {
        let Some((mut head, more)) = read_head(&mut server)? else { return Ok(()) };
        if let Some(What::Header(line)) = fault {
            head.insert_str(head.len() - 2, line);
        }
        client.write_all(head.replacen("\r\n", "\r\nConnection: close\r\n", 1).as_bytes())?;
        let mut at = request.range(u64::MAX).map_or(0, |range| range.start);
        let since = Instant::now();
        let (mut sent, mut piece) = (0u64, more);
        let mut buf = [0; 16 << 10];
        loop {
            let end = at + piece.len() as u64;
            let inside = |place: u64| (at..end).contains(&place).then(|| (place - at) as usize);
            match fault {
                Some(What::Cut(place)) if inside(*place).is_some() => {
                    return client.write_all(&piece[..inside(*place).unwrap_or(0)]);
                }
                Some(What::Stall(place)) if inside(*place).is_some() => {
                    client.write_all(&piece[..inside(*place).unwrap_or(0)])?;
                    return self.wait();
                }
                Some(What::Corrupt(place)) => {
                    if let Some(byte) = inside(*place).and_then(|place| piece.get_mut(place)) {
                        *byte ^= 1;
                    }
                }
                Some(What::Throttle(rate)) => {
                    let due = Duration::from_secs_f64(sent as f64 / *rate as f64);
                    sleep(due.saturating_sub(since.elapsed()));
                }
                _ => {}
            }
            client.write_all(&piece)?;
            (at, sent) = (end, sent + piece.len() as u64);
            let most = if let Some(What::Throttle(rate)) = fault {
                (*rate as usize / 20).clamp(1, buf.len())
            } else {
                buf.len()
            };
            let n = server.read(&mut buf[..most])?;
            if n == 0 || self.stop.load(SeqCst) {
                return Ok(());
            }
            piece = buf[..n].to_vec();
        }
    }

    /// Waits until the proxy is stopped.
    fn wait(&self) -> io::Result<()> {
        while !self.stop.load(SeqCst) {
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// The request for the server, which must close the connection after it.
fn head(request: &Request, no_ranges: bool) -> String {
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
    for (name, value) in &request.headers {
        if name != "connection" && !(no_ranges && name == "range") {
            head += &format!("{name}: {value}\r\n");
        }
    }
    head + "connection: close\r\n\r\n"
}

/// Passes the body of a request on as it comes. True if all of it was passed on.
fn pass_body(mut from: &TcpStream, mut to: &TcpStream, request: &Request, most: u64) -> io::Result<bool> {
    if let Some(length) = request.header("content-length").and_then(|length| length.parse::<u64>().ok()) {
        io::copy(&mut from.take(length.min(most)), &mut to)?;
        return Ok(length <= most);
    }
    if request.header("transfer-encoding").is_none() {
        return Ok(true);
    }
    let mut passed = 0;
    loop {
        let line = read_line(&mut from)?;
        let size = u64::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        if passed + size > most {
            return Ok(false);
        }
        write!(to, "{size:x}\r\n")?;
        io::copy(&mut from.take(size), &mut to)?;
        read_line(&mut from)?;
        to.write_all(b"\r\n")?;
        passed += size;
        if size == 0 {
            return Ok(true);
        }
    }
}

fn read_line(from: &mut impl Read) -> io::Result<String> {
    let mut line = vec![];
    let mut byte = [0];
    while !line.ends_with(b"\n") {
        if from.read(&mut byte)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// The head of an answer with its empty line, and any bytes after it.
fn read_head(from: &mut impl Read) -> io::Result<Option<(String, Vec<u8>)>> {
    let mut all = vec![];
    let mut buf = [0; 16 << 10];
    loop {
        if let Some(end) = all.windows(4).position(|four| four == b"\r\n\r\n") {
            let more = all.split_off(end + 4);
            return Ok(Some((String::from_utf8_lossy(&all).into_owned(), more)));
        }
        match from.read(&mut buf)? {
            0 => return Ok(None),
            n => all.extend_from_slice(&buf[..n]),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
