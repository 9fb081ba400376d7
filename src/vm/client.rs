//! Speaks with one launcher: HTTP/1.1 on its unix socket, one connection a question.
//!
//! ```text
//!  get, put, post ──► one answer, within a time
//!  watch ───────────► State, State, …            lines of a body without an end
//!  upgrade ─────────► bytes both ways            after 101
//! ```
//!
//! Our own few lines and no HTTP library: there is one peer, it is ours, and every call is to block. What it sends is
//! bounded all the same.

use api::launcher::{Answer, Info, Refusal, Request, STREAM, State};
use cdi::{Error, Kind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an ordinary answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest head of an answer.
const HEAD_MAX: u64 = 32 << 10;
/// The largest answer: a screenshot of a large screen.
const BODY_MAX: u64 = 64 << 20;

/// The launcher of one machine.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    machine: String,
    socket: PathBuf,
}

impl Client {
    /// The launcher of this machine, which listens (or not) on this socket.
    pub(crate) fn new(machine: &str, socket: PathBuf) -> Client {
        Client { machine: machine.to_owned(), socket }
    }

    /// Its socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Whether somebody listens.
    pub(crate) fn is_there(&self) -> bool {
        UnixStream::connect(&self.socket).is_ok()
    }

    /// Who it is.
    pub(crate) fn info(&self) -> Result<Info> {
        self.get("/v1/info")
    }

    /// How it is with the machine.
    pub(crate) fn state(&self) -> Result<State> {
        self.get("/v1/state")
    }

    /// Asks for something.
    pub(crate) fn request(&self, request: &Request) -> Result<Answer> {
        self.send("POST", "/v1/requests", request, PATIENCE)
    }

    /// Reads something.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.parsed(path, &self.exchange("GET", path, None, PATIENCE)?)
    }

    /// Reads something that is not JSON.
    pub(crate) fn bytes(&self, path: &str) -> Result<Vec<u8>> {
        self.exchange("GET", path, None, PATIENCE)
    }

    /// Sends something, and reads the answer.
    pub(crate) fn send<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: &impl Serialize,
        patience: Duration,
    ) -> Result<T> {
        let body = serde_json::to_vec(body).map_err(|e| Error::failed("cannot write JSON").because(e))?;
        self.parsed(path, &self.exchange(method, path, Some(&body), patience)?)
    }

    /// The states of the machine: the one that it has, and each that comes.
    pub(crate) fn watch(&self) -> Result<States> {
        let (head, reader) = self.ask("GET", "/v1/state?watch", None, Some(PATIENCE), "close")?;
        if head.status != 200 {
            return Err(self.refused("/v1/state?watch", &head, reader));
        }
        let body = Body::of(&head, reader);
        Ok(States { machine: self.machine.clone(), body: BufReader::new(body) })
    }

    /// Leaves HTTP: bytes both ways from here on.
    pub(crate) fn upgrade(&self, path: &str) -> Result<Stream> {
        let connection = format!("Upgrade\r\nUpgrade: {STREAM}");
        let (head, reader) = self.ask("GET", path, None, Some(PATIENCE), &connection)?;
        if head.status != 101 {
            return Err(self.refused(path, &head, reader));
        }
        let first = reader.buffer().to_vec();
        let socket = reader.into_inner();
        socket
            .set_read_timeout(None)
            .map_err(|e| Error::io(format!("cannot use the stream of {}", self.machine), e))?;
        Ok(Stream { first, socket })
    }

    fn exchange(&self, method: &str, path: &str, body: Option<&[u8]>, patience: Duration) -> Result<Vec<u8>> {
        let (head, reader) = self.ask(method, path, body, Some(patience), "close")?;
        if !(200..300).contains(&head.status) {
            return Err(self.refused(path, &head, reader));
        }
        let mut bytes = vec![];
        let read = Body::of(&head, reader).take(BODY_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|e| self.broken(path, patience, e))?;
        if bytes.len() as u64 > BODY_MAX {
            return Err(Error::failed(format!("the launcher of {} answers without an end", self.machine)));
        }
        Ok(bytes)
    }

    fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
        patience: Option<Duration>,
        connection: &str,
    ) -> Result<(Head, BufReader<UnixStream>)> {
        let mut socket = UnixStream::connect(&self.socket).map_err(|e| self.absent(e))?;
        let wait = patience.unwrap_or(PATIENCE);
        let broken = |e| self.broken(path, wait, e);
        socket.set_read_timeout(patience).map_err(broken)?;
        socket.set_write_timeout(Some(PATIENCE)).map_err(broken)?;
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: launcher\r\nConnection: {connection}\r\n");
        if let Some(body) = body {
            text += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        let mut bytes = (text + "\r\n").into_bytes();
        bytes.extend_from_slice(body.unwrap_or_default());
        socket.write_all(&bytes).map_err(broken)?;
        let mut reader = BufReader::new(socket);
        let head = Head::read(&mut reader).map_err(broken)?;
        Ok((head, reader))
    }

    fn parsed<T: DeserializeOwned>(&self, path: &str, bytes: &[u8]) -> Result<T> {
        serde_json::from_slice(bytes).map_err(|e| {
            let what = format!(
                "the launcher of {} answers {path} in words that are not known here; it may be of another version",
                self.machine
            );
            Error::failed(what).because(e)
        })
    }

    fn absent(&self, e: std::io::Error) -> Error {
        let what = format!("the launcher of {} does not run", self.machine);
        match e.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => {
                Error::new(Kind::NotFound, what)
            }
            _ => Error::failed(format!("cannot reach {}", self.socket.display())).because(e),
        }
    }

    fn broken(&self, path: &str, patience: Duration, e: std::io::Error) -> Error {
        use std::io::ErrorKind::{TimedOut, WouldBlock};
        let machine = &self.machine;
        match e.kind() {
            WouldBlock | TimedOut => Error::failed(format!(
                "the launcher of {machine} did not answer {path} within {} s",
                patience.as_secs()
            )),
            _ => Error::failed(format!("the launcher of {machine} broke off while it answered {path}"))
                .because(e),
        }
    }

    fn refused(&self, path: &str, head: &Head, reader: BufReader<UnixStream>) -> Error {
        let mut bytes = vec![];
        // What cannot be read of an excuse does not matter.
        let _ = Body::of(head, reader).take(BODY_MAX).read_to_end(&mut bytes);
        let kind = match head.status {
            404 => Kind::NotFound,
            400 | 422 => Kind::Refused,
            _ => Kind::Failed,
        };
        let Ok(refusal) = serde_json::from_slice::<Refusal>(&bytes) else {
            let what = format!("the launcher of {} answers {path} with {}", self.machine, head.status);
            return Error::new(kind, what);
        };
        let mut what = refusal.error;
        for fault in &refusal.faults {
            what += &format!("\n  {fault}");
        }
        let error = Error::new(kind, what);
        refusal.hint.iter().fold(error, |error, hint| error.with_hint(hint))
    }
}

/// The states of a machine, as they come.
pub(crate) struct States {
    machine: String,
    body: BufReader<Body>,
}

impl States {
    /// The next one; `None` when the launcher is gone, or says no more.
    pub(crate) fn next(&mut self, patience: Option<Duration>) -> Result<Option<State>> {
        let socket = self.body.get_ref().socket();
        let broken = |what: &str, e| Error::io(format!("{what} of {}", self.machine), e);
        socket.set_read_timeout(patience).map_err(|e| broken("cannot watch the state", e))?;
        let mut line = vec![];
        match (&mut self.body).take(BODY_MAX).read_until(b'\n', &mut line) {
            Ok(0) => Ok(None),
            Ok(_) => serde_json::from_slice(&line).map(Some).map_err(|e| {
                Error::failed(format!("the launcher of {} tells a state that is none", self.machine))
                    .because(e)
            }),
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => Ok(None),
            Err(e) => Err(broken("cannot watch the state", e)),
        }
    }
}

/// Bytes both ways.
pub(crate) struct Stream {
    /// What came before anybody read the socket.
    pub(crate) first: Vec<u8>,
    /// The rest.
    pub(crate) socket: UnixStream,
}

/// The head of an answer.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    length: Option<u64>,
    chunked: bool,
}

impl Head {
    fn read(reader: &mut impl std::io::BufRead) -> std::io::Result<Head> {
        let mut bounded = reader.take(HEAD_MAX);
        let mut line = String::new();
        bounded.read_line(&mut line)?;
        let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok());
        let mut head = Head { status: status.ok_or_else(|| wrong("no HTTP"))?, length: None, chunked: false };
        loop {
            line.clear();
            if bounded.read_line(&mut line)? == 0 {
                return Err(wrong("a head without an end"));
            }
            let text = line.trim_end();
            if text.is_empty() {
                return Ok(head);
            }
            let (name, value) = text.split_once(':').ok_or_else(|| wrong("a header without a colon"))?;
            match name.to_ascii_lowercase().as_str() {
                "content-length" => {
                    head.length = Some(value.trim().parse().map_err(|_| wrong("a length that is none"))?);
                }
                "transfer-encoding" => head.chunked = value.trim().eq_ignore_ascii_case("chunked"),
                _ => {}
            }
        }
    }
}

/// The body of an answer.
struct Body {
    reader: BufReader<UnixStream>,
    left: Left,
}

enum Left {
    Bytes(u64),
    UntilClosed,
    /// Bytes of the chunk that is being read.
    Chunks(u64),
    Nothing,
}

impl Body {
    fn of(head: &Head, reader: BufReader<UnixStream>) -> Body {
        let left = match (head.chunked, head.length) {
            (true, _) => Left::Chunks(0),
            (false, Some(length)) => Left::Bytes(length),
            (false, None) => Left::UntilClosed,
        };
        Body { reader, left }
    }

    fn socket(&self) -> &UnixStream {
        self.reader.get_ref()
    }

    /// The size of the next chunk.
    fn chunk(&mut self) -> std::io::Result<u64> {
        let mut line = String::new();
        // The end of the chunk before.
        while line.trim().is_empty() {
            line.clear();
            if (&mut self.reader).take(1 << 10).read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        let digits = line.trim().split(';').next().unwrap_or_default();
        u64::from_str_radix(digits, 16).map_err(|_| wrong("a chunk without a size"))
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if let Left::Chunks(0) = self.left {
            self.left = match self.chunk()? {
                0 => Left::Nothing,
                size => Left::Chunks(size),
            };
        }
        let (Left::Bytes(left) | Left::Chunks(left)) = &mut self.left else {
            return match self.left {
                Left::UntilClosed => self.reader.read(buffer),
                _ => Ok(0),
            };
        };
        let most = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.reader.read(&mut buffer[..most])?;
        if read == 0 && most > 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        *left -= read as u64;
        Ok(read)
    }
}

fn wrong(what: &str) -> std::io::Error {
    std::io::Error::other(what.to_owned())
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
