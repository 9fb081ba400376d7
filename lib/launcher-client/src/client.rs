//! Requests to a launcher, each with a time limit and a size limit for its answer.

use crate::connect::{AtPath, Cause, Connector, Open};
use crate::connection::{Connection, Socket, ask};
use crate::error::{Error, ErrorKind, Result, unread};
use crate::sanitize;
use crate::states::States;
use crate::stream::Stream;
use api::launcher::{
    Answer, Domain, Exec, Executed, Freeze, GuestFile, GuestFileAnswer, GuestFilesystem, GuestInfo,
    GuestUser, Info, MonitorCommand, Refusal, Request, STREAM, State, Stats, Sync as Vm,
};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, UPGRADE};
use hyper::{Method, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io::ErrorKind::{ConnectionRefused, FileTooLarge, NotFound};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// Size limit of an answer in bytes, unless the request has its own.
pub const LARGEST: usize = 1 << 20;
/// Size limit of an answer about a program in the guest. The launcher keeps 1 MiB of each of its two outputs,
/// and JSON may write six bytes for one.
const OUTPUT: usize = 16 << 20;
/// Size limit of a screenshot in bytes.
const PICTURE: usize = 64 << 20;
/// Path of a screenshot after the screen was woken up.
const AWAKE: &str = "/v1/screenshot?wake";
/// Time that a launcher gives the guest agent to freeze or thaw file systems.
const FREEZE: Duration = Duration::from_secs(30);

/// Time limits of a launcher's answers.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Limit of an ordinary answer, the connection included.
    pub answer: Duration,
    /// Time limit of the answer to [`Client::sync`], which gives the launcher a new or a changed VM.
    pub sync: Duration,
    /// Limit of a state, from its first byte to its last, and of a screenshot once it has room.
    pub state: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        let seconds = Duration::from_secs;
        Timeouts { answer: seconds(20), sync: seconds(60), state: seconds(20) }
    }
}

/// Access of a client to the serial console or the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Receive output, send nothing.
    Read,
    /// Send input, unless another client already does.
    Write,
    /// Send input. A client that already does loses the keyboard, and continues read-only.
    Take,
    /// Send input, and disconnect all other clients that do.
    Alone,
}

impl Access {
    /// Query part of the stream's path.
    fn query(self) -> &'static str {
        match self {
            Access::Read => "",
            Access::Write => "?write",
            Access::Take => "?take",
            // A launcher that does not support `alone` falls back to `take`.
            Access::Alone => "?take&alone",
        }
    }
}

/// The path of a VMI's launcher at the virt-handler of its node: the launcher's own paths come
/// [below](Client::below) it.
pub fn vmi_path(namespace: &str, name: &str, uid: &str) -> String {
    format!("/v1/namespaces/{namespace}/virtualmachineinstances/{name}/{uid}")
}

/// Client of one launcher. `P` is the connector's knowledge of the process that listens.
pub struct Client<P = ()> {
    who: Arc<str>,
    connector: Arc<dyn Connector<P>>,
    /// Prefix of all paths.
    prefix: Arc<str>,
    patience: Timeouts,
}

impl<P> Clone for Client<P> {
    fn clone(&self) -> Client<P> {
        let Client { who, connector, prefix, patience } = self;
        Client { who: who.clone(), connector: connector.clone(), prefix: prefix.clone(), patience: *patience }
    }
}

impl<P> fmt::Debug for Client<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.who)
    }
}

/// A request before it is sent, with its limits.
struct Call<'a> {
    method: Method,
    path: &'a str,
    body: Option<Bytes>,
    within: Duration,
    most: usize,
}

impl Client {
    /// A client for the launcher that listens at a path; see [`AtPath`].
    pub fn at(who: impl Into<Arc<str>>, path: impl Into<PathBuf>) -> Client {
        Client::new(who, Arc::new(AtPath(path.into())))
    }
}

impl<P> Client<P> {
    /// A client with this connector. Error messages begin with `who`: "the launcher of web".
    pub fn new(who: impl Into<Arc<str>>, connector: Arc<dyn Connector<P>>) -> Client<P> {
        Client { who: who.into(), connector, prefix: "".into(), patience: Timeouts::default() }
    }

    /// Sets a prefix for all paths, for a launcher behind another server.
    #[must_use]
    pub fn below(mut self, prefix: impl Into<Arc<str>>) -> Client<P> {
        self.prefix = prefix.into();
        self
    }

    /// Sets the time limits.
    #[must_use]
    pub fn with(mut self, patience: Timeouts) -> Client<P> {
        self.patience = patience;
        self
    }

    /// Version, process ID and folder of the launcher.
    pub async fn info(&self) -> Result<Info> {
        self.ask(self.get("/v1/info")).await
    }

    /// Current state of the VM.
    pub async fn state(&self) -> Result<State> {
        self.ask(self.get("/v1/state")).await
    }

    /// Gives a VM to the launcher, which refuses a generation older than its own.
    pub async fn sync(&self, vm: &Vm) -> Result<Answer> {
        let call = self.with_body(Method::PUT, "/v1/vm", vm, self.patience.sync)?;
        self.ask(call).await.map(sanitize::answer)
    }

    /// Sends a request to the VM: start, shut down, pause, …
    pub async fn request(&self, request: &Request) -> Result<Answer> {
        let call = self.with_body(Method::POST, "/v1/requests", request, self.patience.answer)?;
        self.ask(call).await.map(sanitize::answer)
    }

    /// Usage statistics of the VM.
    pub async fn stats(&self) -> Result<Stats> {
        self.ask(self.get("/v1/stats")).await
    }

    /// Domain XML and names, as libvirt has them.
    pub async fn domain(&self) -> Result<Domain> {
        self.ask(Call { most: OUTPUT, ..self.get("/v1/domain") }).await
    }

    /// All statistics of the domain, by libvirt's names.
    pub async fn domain_stats(&self) -> Result<Vec<(String, String)>> {
        self.ask(self.get("/v1/domain/stats")).await
    }

    /// Sends a command to QEMU's monitor, and returns its answer.
    pub async fn monitor(&self, command: &MonitorCommand) -> Result<String> {
        let call = self.with_body(Method::POST, "/v1/domain/monitor", command, self.patience.answer)?;
        self.ask(Call { most: OUTPUT, ..call }).await
    }

    /// Screenshot of the guest's display, as PNG.
    pub async fn screenshot(&self) -> Result<Vec<u8>> {
        self.bytes(Call { most: PICTURE, ..self.get("/v1/screenshot") }).await
    }

    /// Screenshot as PNG, after a move of the guest's pointer has woken up a sleeping screen.
    pub async fn screenshot_awake(&self) -> Result<Vec<u8>> {
        self.bytes(Call { most: PICTURE, ..self.get(AWAKE) }).await
    }

    /// Screenshot as PNG of at most `most` bytes, together with the output of `room`. The picture is read
    /// once `room` is ready, however long that takes, and then within the time limit of a state: a launcher
    /// that does not answer takes no room. `wake` moves the pointer first.
    pub async fn screenshot_in<R>(
        &self,
        wake: bool,
        most: usize,
        room: impl Future<Output = R>,
    ) -> Result<(Vec<u8>, R)> {
        let path = if wake { AWAKE } else { "/v1/screenshot" };
        let reached = AtomicBool::new(false);
        let begun = async {
            let (answer, connection, _) = self.exchange(self.get(path), false, &reached).await?;
            Ok::<_, Error>((answer, connection))
        };
        let (answer, mut connection) = self.within(path, self.patience.answer, &reached, begun).await?;
        let room = room.await;
        let rest = self.rest(path, answer, &mut connection, most);
        let picture = self.within(path, self.patience.state, &reached, rest).await?;
        Ok((picture, room))
    }

    /// Information from the guest agent.
    pub async fn guest_info(&self) -> Result<GuestInfo> {
        self.ask(self.get("/v1/guest/info")).await
    }

    /// Users that are logged in, from the guest agent.
    pub async fn users(&self) -> Result<Vec<GuestUser>> {
        self.ask(self.get("/v1/guest/users")).await
    }

    /// File systems that the guest has mounted, from the guest agent.
    pub async fn filesystems(&self) -> Result<Vec<GuestFilesystem>> {
        self.ask(self.get("/v1/guest/filesystems")).await
    }

    /// Asks the guest agent to flush and freeze the guest's file systems.
    pub async fn freeze(&self, freeze: &Freeze) -> Result<()> {
        self.freezes("/v1/guest/freeze", freeze).await
    }

    /// Asks the guest agent to thaw the guest's file systems.
    pub async fn thaw(&self) -> Result<()> {
        self.freezes("/v1/guest/thaw", &serde_json::json!({})).await
    }

    /// Checks that the guest agent answers within a time.
    pub async fn ping(&self, within: Duration) -> Result<()> {
        let call = self.with_body(Method::POST, "/v1/guest/ping", &serde_json::json!({}), within)?;
        self.bytes(call).await.map(drop)
    }

    /// Runs a program in the guest, within a time that is longer than the program's own.
    pub async fn exec(&self, exec: &Exec, within: Duration) -> Result<Executed> {
        let call = self.with_body(Method::POST, "/v1/guest/exec", exec, within)?;
        self.ask(Call { most: OUTPUT, ..call }).await
    }

    /// Carries out a request about a file of the guest.
    pub async fn guest_file(&self, request: &GuestFile, within: Duration) -> Result<GuestFileAnswer> {
        self.ask(self.with_body(Method::POST, "/v1/guest/file", request, within)?).await
    }

    /// Stream of the VM's states: the current one and each change, with the connector's knowledge of the
    /// process that listens.
    pub async fn watch(&self) -> Result<(States, P)> {
        let call = self.get("/v1/state?watch");
        let (path, within) = (call.path, call.within);
        let reached = AtomicBool::new(false);
        let watched = async {
            let (answer, mut connection, peer) = self.exchange(call, false, &reached).await?;
            if answer.status() != StatusCode::OK {
                return Err(self.refused(path, answer, &mut connection).await);
            }
            let states = States::new(self.who.clone(), answer.into_body(), connection, self.patience.state);
            Ok((states, peer))
        };
        self.within(path, within, &reached, watched).await
    }

    /// The VM's serial console: its last screen, and then everything that the guest writes.
    pub async fn console(&self, how: Access) -> Result<Stream> {
        self.stream(&format!("/v1/console{}", how.query())).await
    }

    /// The VM's screen as an RFB stream. Input of a read-only viewer is dropped.
    pub async fn vnc(&self, how: Access) -> Result<Stream> {
        self.stream(&format!("/v1/vnc{}", how.query())).await
    }

    /// A usbredir stream, by which the guest uses a USB device of the client.
    pub async fn usbredir(&self) -> Result<Stream> {
        self.stream("/v1/usbredir").await
    }

    // ---- Requests ----

    fn get<'a>(&self, path: &'a str) -> Call<'a> {
        Call { method: Method::GET, path, body: None, within: self.patience.answer, most: LARGEST }
    }

    async fn freezes(&self, path: &str, body: &impl Serialize) -> Result<()> {
        let within = self.patience.answer + FREEZE;
        let call = self.with_body(Method::POST, path, body, within)?;
        self.bytes(call).await.map(drop)
    }

    fn with_body<'a>(
        &self,
        method: Method,
        path: &'a str,
        body: &impl Serialize,
        within: Duration,
    ) -> Result<Call<'a>> {
        let text = serde_json::to_vec(body).map_err(|e| Error::failed("cannot write JSON").because(e))?;
        Ok(Call { method, body: Some(text.into()), within, ..self.get(path) })
    }

    async fn ask<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T> {
        let path = call.path;
        let bytes = self.bytes(call).await?;
        serde_json::from_slice(&bytes).map_err(|e| {
            let what = format!(
                "{self:?} sent an answer to {path} that is not understood; it may be of another version"
            );
            Error::failed(what).because(unread(&e))
        })
    }

    async fn bytes(&self, call: Call<'_>) -> Result<Vec<u8>> {
        let (path, within, most) = (call.path, call.within, call.most);
        let reached = AtomicBool::new(false);
        let answered = async {
            let (answer, mut connection, _) = self.exchange(call, false, &reached).await?;
            self.rest(path, answer, &mut connection, most).await
        };
        self.within(path, within, &reached, answered).await
    }

    /// The body of an answer, or the error of a refusal.
    async fn rest(
        &self,
        path: &str,
        answer: Response<Incoming>,
        connection: &mut Connection,
        most: usize,
    ) -> Result<Vec<u8>> {
        if !answer.status().is_success() {
            return Err(self.refused(path, answer, connection).await);
        }
        connection.whole(answer.into_body(), most).await.map_err(|e| match e.kind() {
            FileTooLarge => {
                let what = format!("{self:?} answers {path} with more than {most} bytes");
                Error::new(ErrorKind::TooLarge, what)
            }
            _ => self.broken(path, e),
        })
    }

    async fn stream(&self, path: &str) -> Result<Stream> {
        let call = self.get(path);
        let (within, reached) = (call.within, AtomicBool::new(false));
        let left = async {
            let (answer, mut connection, _) = self.exchange(call, true, &reached).await?;
            if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
                return Err(self.refused(path, answer, &mut connection).await);
            }
            let left = connection.leave::<Socket>(answer).await;
            left.map(|(first, rest)| Stream::new(first, rest.stream)).map_err(|e| self.broken(path, e))
        };
        self.within(path, within, &reached, left).await
    }

    /// Connects, sends the request, and receives the header of the answer.
    async fn exchange(
        &self,
        call: Call<'_>,
        leaves: bool,
        reached: &AtomicBool,
    ) -> Result<(Response<Incoming>, Connection, P)> {
        let Call { method, path, body, .. } = call;
        let Open { stream, peer } = self.connector.open().await.map_err(|e| self.unreachable(e))?;
        reached.store(true, Ordering::Relaxed);
        let uri = format!("{}{path}", self.prefix);
        let mut request = hyper::Request::builder().method(method).uri(uri).header(HOST, "launcher");
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if leaves {
            request = request.header(CONNECTION, "Upgrade").header(UPGRADE, STREAM);
        }
        let request = request.body(Full::new(body.unwrap_or_default()));
        let request =
            request.map_err(|e| Error::failed(format!("cannot build the request for {path}")).because(e))?;
        let (answer, connection) = ask(stream, request).await.map_err(|e| {
            let what = format!("{self:?} broke off before it answered {path}, or is not a launcher");
            Error::failed(what).because(e)
        })?;
        Ok((answer, connection, peer))
    }

    async fn within<T>(
        &self,
        path: &str,
        within: Duration,
        reached: &AtomicBool,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        timeout(within, work).await.map_err(|_| {
            let seconds = within.as_secs();
            let what = match reached.load(Ordering::Relaxed) {
                true => format!("{self:?} did not answer {path} within {seconds} s"),
                false => {
                    format!("{self:?} accepted no connection within {seconds} s, so {path} was not requested")
                }
            };
            Error::new(ErrorKind::TimedOut, what)
        })?
    }

    // ---- What goes wrong ----

    fn unreachable(&self, cause: Cause) -> Error {
        let is_absent = |e: &std::io::Error| [NotFound, ConnectionRefused].contains(&e.kind());
        match cause.downcast_ref() {
            Some(e) if is_absent(e) => Error::new(ErrorKind::NotListening, format!("{self:?} does not run")),
            _ => Error::new(ErrorKind::Unreachable, format!("cannot reach {self:?}")),
        }
        .because(cause)
    }

    fn broken(&self, path: &str, cause: impl Into<Cause>) -> Error {
        Error::failed(format!("{self:?} broke off while it answered {path}")).because(cause)
    }

    async fn refused(&self, path: &str, answer: Response<Incoming>, connection: &mut Connection) -> Error {
        let status = answer.status();
        // A refusal whose text cannot be read is still a refusal.
        let said = connection.whole(answer.into_body(), LARGEST).await.unwrap_or_default();
        let refusal = serde_json::from_slice::<Refusal>(&said).ok();
        let has_faults = refusal.as_ref().is_some_and(|refusal| !refusal.faults.is_empty());
        let kind = match status {
            StatusCode::NOT_FOUND => ErrorKind::NotFound,
            // Older launchers use this status for every failure, also for a full disk: only faults of a VM
            // are final.
            StatusCode::UNPROCESSABLE_ENTITY if !has_faults => ErrorKind::Failed,
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => ErrorKind::Refused,
            _ => ErrorKind::Failed,
        };
        let error = match refusal {
            Some(refusal) => Error::refused(kind, refusal),
            None => Error::new(kind, format!("{self:?} answers {path} with {status}")),
        };
        error.of_status(status.as_u16())
    }
}
