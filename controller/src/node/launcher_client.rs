//! Speaks with one launcher: HTTP/1.1 on its unix socket, types of `api::launcher`.
//!
//! ```text
//!  Door ──open──► a connection, to whoever listens in the pod's folder (and who that is: a process)
//!    │
//!    ├─ info, sync, request, stats, guest_info   one connection a question, each within a time
//!    └─ watch ─► States: State, State, …         one connection that stays; its end is the launcher's, or ours to repeat
//! ```
//!
//! It has a twin, `src/vm/client.rs` of `coracle`: that one blocks, opens consoles and shows pictures for one person;
//! this one waits for a hundred machines on two threads, and is not let near a library of the command's (`coracle` may use
//! `controller`, never the other way). What they share are the types.
//!
//! The launcher is a tenant's: what it sends is bounded, and it is given a time for all of it. Whoever takes no connection,
//! says nothing, too little or without an end holds up its own VM alone.

use super::error::{Error, Kind, Result};
use super::pod::Process;
use super::vmi::bounds;
use api::launcher::{Answer, GuestInfo, Info, Refusal, Request, State, Stats, Sync};
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};

/// How long an ordinary answer may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the answer to a new machine may take.
const SYNC: Duration = Duration::from_secs(60);
/// The largest answer.
const LARGEST: usize = 1 << 20;
/// The longest line of a state: what a launcher says of 512 disks, and all else, is shorter. States come many times a second,
/// and each is read whole.
const LONGEST: usize = 64 << 10;

/// Where a launcher listens.
pub trait Door: Send + std::marker::Sync {
    /// A connection to it. Never blocks; goes on for as long as the launcher takes no connection, and may be dropped.
    fn open(&self) -> BoxFuture<'_, Result<Open>>;
}

/// A connection to a launcher.
#[derive(Debug)]
pub struct Open {
    /// The connection.
    pub stream: UnixStream,
    /// Who listens; nobody where the pod's processes are not seen from here.
    pub process: Option<Process>,
}

/// One launcher.
#[derive(Clone)]
pub struct Client {
    name: Arc<str>,
    door: Arc<dyn Door>,
    /// How long an ordinary answer may take, and a state from its first byte to its last.
    patience: Duration,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the launcher of {}", self.name)
    }
}

impl Client {
    /// The launcher of the machine `name`.
    pub fn new(name: &str, door: Arc<dyn Door>) -> Client {
        Client { name: name.into(), door, patience: PATIENCE }
    }

    /// Who it is.
    pub async fn info(&self) -> Result<Info> {
        self.ask::<Info>(Method::GET, "/v1/info", None, self.patience).await
    }

    /// Tells it what should run. It refuses a generation that is older than one it has.
    pub async fn sync(&self, sync: &Sync) -> Result<Answer> {
        self.ask(Method::PUT, "/v1/vm", Some(json(sync)?), SYNC).await.map(bounded)
    }

    /// Asks for something.
    pub async fn request(&self, request: &Request) -> Result<Answer> {
        self.ask(Method::POST, "/v1/requests", Some(json(request)?), self.patience).await.map(bounded)
    }

    /// What the machine has used.
    pub async fn stats(&self) -> Result<Stats> {
        self.ask(Method::GET, "/v1/stats", None, self.patience).await
    }

    /// What the guest's agent says.
    pub async fn guest_info(&self) -> Result<GuestInfo> {
        self.ask(Method::GET, "/v1/guest/info", None, self.patience).await
    }

    /// The states of the machine: the one that it has, and each that comes. Also tells which process listens.
    pub async fn watch(&self) -> Result<(States, Option<Process>)> {
        let path = "/v1/state?watch";
        let (answer, connection, process) = self.exchange(Method::GET, path, None, self.patience).await?;
        if answer.status() != StatusCode::OK {
            return Err(self.refused(path, answer).await);
        }
        let (name, rest) = (self.name.clone(), Vec::new());
        let body = answer.into_body();
        let states = States {
            name,
            body,
            patience: self.patience,
            rest,
            looked: 0,
            since: None,
            _connection: connection,
        };
        Ok((states, process))
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
        patience: Duration,
    ) -> Result<T> {
        let whole = async {
            let (answer, _connection, _) = self.exchange(method, path, body, patience).await?;
            if !answer.status().is_success() {
                return Err(self.refused(path, answer).await);
            }
            let bytes = self.whole(path, answer.into_body()).await?;
            serde_json::from_slice(&bytes).map_err(|e| {
                let what = format!(
                    "{self:?} answers {path} in words that are not known here; it may be of another version"
                );
                Error::failed(what).because(unread(&e))
            })
        };
        timeout(patience, whole).await.map_err(|_| self.late(path, patience))?
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<Bytes>,
        patience: Duration,
    ) -> Result<(Response<Incoming>, Connection, Option<Process>)> {
        let broken = |e: hyper::Error| Error::failed(format!("{self:?} broke off at {path}")).because(e);
        let whole = async {
            let Open { stream, process } = self.door.open().await?;
            let (mut sender, driver) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
            // How the connection ends is told by the answer, or by its body.
            let connection = Connection(tokio::spawn(async move { drop(driver.await) }).abort_handle());
            let request = hyper::Request::builder()
                .method(method)
                .uri(path)
                .header(hyper::header::HOST, "launcher")
                .header(hyper::header::CONTENT_TYPE, "application/json")
                .body(Full::new(body.unwrap_or_default()))
                .map_err(|e| Error::failed(format!("cannot ask for {path}")).because(e))?;
            Ok((sender.send_request(request).await.map_err(broken)?, connection, process))
        };
        timeout(patience, whole).await.map_err(|_| self.late(path, patience))?
    }

    async fn whole(&self, path: &str, mut body: Incoming) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|e| Error::failed(format!("{self:?} broke off at {path}")).because(e))?;
            bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
            if bytes.len() > LARGEST {
                return Err(Error::refused(format!(
                    "{self:?} answers {path} with more than {LARGEST} bytes"
                )));
            }
        }
        Ok(bytes)
    }

    async fn refused(&self, path: &str, answer: Response<Incoming>) -> Error {
        let status = answer.status();
        let kind = match status {
            StatusCode::NOT_FOUND => Kind::NotFound,
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => Kind::Refused,
            _ => Kind::Failed,
        };
        let said = timeout(self.patience, self.whole(path, answer.into_body())).await;
        let refusal = said.ok().and_then(Result::ok).and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let Some(Refusal { error, faults, hint }) = refusal else {
            return Error::new(kind, format!("{self:?} answers {path} with {status}"));
        };
        let mut what = error;
        if faults.len() > 1 {
            what = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        }
        if let Some(hint) = hint {
            what = format!("{what} ({hint})");
        }
        Error::new(kind, line(&what))
    }

    fn late(&self, path: &str, patience: Duration) -> Error {
        Error::failed(format!("{self:?} did not answer {path} within {} s", patience.as_secs()))
    }
}

/// The states of a machine, as they come.
pub struct States {
    name: Arc<str>,
    body: Incoming,
    patience: Duration,
    /// What was read behind the last line.
    rest: Vec<u8>,
    /// How much of it has no end of a line: what comes byte by byte is not looked through again with each.
    looked: usize,
    /// When its first byte came.
    since: Option<Instant>,
    _connection: Connection,
}

impl States {
    /// The next one; `None` when the launcher says no more. May be dropped between, nothing is lost.
    pub async fn next(&mut self) -> Result<Option<State>> {
        loop {
            let new = self.rest.get(self.looked..).unwrap_or_default();
            if let Some(end) = new.iter().position(|byte| *byte == b'\n') {
                if self.looked + end > LONGEST {
                    return Err(self.endless());
                }
                let line: Vec<u8> = self.rest.drain(..=self.looked + end).collect();
                (self.looked, self.since) = (0, (!self.rest.is_empty()).then(Instant::now));
                let what = || format!("the launcher of {} tells a state that is none", self.name);
                return (serde_json::from_slice(&line).map(Some))
                    .map_err(|e| Error::failed(what()).because(unread(&e)));
            }
            self.looked = self.rest.len();
            if self.rest.len() > LONGEST {
                return Err(self.endless());
            }
            // A launcher may say nothing for days; a state that has begun must come to its end.
            let frame = match self.since {
                None => self.body.frame().await,
                Some(since) => timeout_at(since + self.patience, self.body.frame()).await.map_err(|_| {
                    let seconds = self.patience.as_secs();
                    let what =
                        format!("the launcher of {} told no whole state within {seconds} s", self.name);
                    Error::failed(what)
                })?,
            };
            match frame {
                Some(Ok(frame)) => {
                    self.since = self.since.or_else(|| Some(Instant::now()));
                    self.rest.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
                }
                // A launcher that was killed breaks off; that is an end like another.
                Some(Err(_)) | None => return Ok(None),
            }
        }
    }

    fn endless(&self) -> Error {
        Error::refused(format!("the launcher of {} tells a state of more than {LONGEST} bytes", self.name))
    }
}

/// What a launcher said, as one line that is not long: it ends in our log, and a launcher is a tenant's.
fn line(said: &str) -> String {
    bounds::text(said, bounds::SENTENCE)
}

fn bounded(answer: Answer) -> Answer {
    match answer {
        Answer::Queued => Answer::Queued,
        Answer::Ignored { reason } => Answer::Ignored { reason: line(&reason) },
        Answer::Denied { reason } => Answer::Denied { reason: line(&reason) },
    }
}

/// Why a launcher's words could not be read; it repeats some of them.
fn unread(e: &serde_json::Error) -> String {
    line(&e.to_string())
}

/// A connection, which ends with this value.
struct Connection(AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn json(what: &impl Serialize) -> Result<Bytes> {
    let text = serde_json::to_vec(what).map_err(|e| Error::failed("cannot write JSON").because(e))?;
    Ok(text.into())
}

#[cfg(test)]
#[path = "launcher_client_tests.rs"]
mod tests;
