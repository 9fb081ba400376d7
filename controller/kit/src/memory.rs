//! API server in memory that lists and watches its objects, and fails on demand: watches that stall, answers
//! of 500, an etcd restored from a snapshot. No socket is opened: it is the service below a `kube::Client`.
//!
//! ```text
//!  request ─► fails? ─► list, get, create, patch, delete ─► objects ─► log ─► watches, while they do not stall
//!                                                              └── snapshot … restore: the objects and the version of then;
//!                                                                  each watch breaks off
//! ```
//!
//! Like the real one, it accepts a watch from a version that it has not reached yet, and sends nothing until
//! then.

use super::place;
use cluster_model::objects::Kind;
use cluster_model::plan::merge;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tower_service::Service;

/// Far more time than any step takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// API server in memory. Clones share their state.
#[derive(Clone)]
pub struct ApiServer {
    state: Arc<Mutex<State>>,
    /// Signal to watches that something changed.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    stored: Stored,
    /// Events since the last restore.
    log: Vec<Happened>,
    /// Versions before this one are no longer known.
    compacted: u64,
    /// Number of times that all watches were broken off.
    restores: usize,
    fails: Option<StatusCode>,
    stalls: bool,
    /// Methods and paths of all requests except `get`.
    asked: Vec<(&'static str, String)>,
}

/// Contents of etcd.
#[derive(Clone, Default)]
pub struct Stored {
    version: u64,
    objects: BTreeMap<String, Value>,
}

struct Happened {
    version: u64,
    kind: Kind,
    word: &'static str,
    object: Value,
}

/// Selection of objects of a list or a watch.
struct Selection {
    kind: Kind,
    namespace: Option<String>,
    labels: Vec<(String, String)>,
    fields: Vec<(String, String)>,
}

impl Default for ApiServer {
    fn default() -> Self {
        ApiServer { state: Arc::default(), changes: watch::Sender::new(0) }
    }
}

impl ApiServer {
    /// Returns a client of this server.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// Creates or replaces an object.
    pub fn has(&self, kind: Kind, object: Value) {
        let meta = &object["metadata"];
        let path = format!(
            "{}/{}",
            kind.collection(meta["namespace"].as_str().unwrap_or_default()),
            meta["name"].as_str().unwrap()
        );
        self.state.lock().unwrap().put(&path, kind, object);
        self.tell();
    }

    /// Deletes an object regardless of its finalizers.
    pub fn loses(&self, path: &str) {
        self.state.lock().unwrap().remove(path);
        self.tell();
    }

    /// Returns the object at a path.
    pub fn object(&self, path: &str) -> Option<Value> {
        self.state.lock().unwrap().stored.objects.get(path).cloned()
    }

    /// Verbs and paths of the requests since the last call.
    pub fn asked(&self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut self.state.lock().unwrap().asked)
    }

    /// Answers every request with this status from now on; `None` ends that.
    pub fn fails(&self, status: Option<StatusCode>) {
        let mut state = self.state.lock().unwrap();
        state.fails = status;
        if status.is_some() {
            state.restores += 1;
        }
        drop(state);
        self.tell();
    }

    /// Stalls all watches, or lets them continue.
    pub fn stalls(&self, stalls: bool) {
        self.state.lock().unwrap().stalls = stalls;
        self.tell();
    }

    /// Snapshot of etcd.
    pub fn snapshot(&self) -> Stored {
        self.state.lock().unwrap().stored.clone()
    }

    /// Restores etcd from a snapshot. `bump`: number of versions that are skipped, so that no version is used
    /// twice.
    pub fn restore(&self, snapshot: &Stored, bump: u64) {
        let mut state = self.state.lock().unwrap();
        state.stored = snapshot.clone();
        state.stored.version += bump;
        // Same as `--mark-compacted`.
        state.compacted = if bump > 0 { state.stored.version } else { 0 };
        state.log.clear();
        state.restores += 1;
        drop(state);
        self.tell();
    }

    /// Breaks off all watches.
    pub fn breaks(&self) {
        self.state.lock().unwrap().restores += 1;
        self.tell();
    }

    /// Waits until `is_so` returns true.
    pub async fn until(&self, what: &str, is_so: impl Fn(&ApiServer) -> bool) {
        let mut changes = self.changes.subscribe();
        let wait = async { while !is_so(self) && changes.changed().await.is_ok() {} };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        assert!(waited.is_ok(), "it never comes to this: {what}; asked was {:?}", self.asked());
    }

    fn tell(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    async fn answer<B>(self, request: Request<B>) -> Response<Lines>
    where
        B: Body + Send + 'static,
        B::Error: std::fmt::Debug,
    {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = head.uri.path().to_owned();
        let query = head.uri.query().unwrap_or_default();
        let (kind, name, part) = place(&path);
        let watches = query.contains("watch=true");
        let verb = match head.method {
            Method::GET if name.is_some() => "get",
            Method::GET if watches => "watch",
            Method::GET => "list",
            Method::POST => "create",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            other => panic!("nobody should {other} {path}"),
        };
        let mut state = self.state.lock().unwrap();
        if verb != "get" {
            state.asked.push((verb, path.clone()));
        }
        if let Some(status) = state.fails {
            drop(state);
            self.tell();
            let (status, answer) = super::failure(status, "InternalError");
            return whole(status, &answer);
        }
        let selection = Selection::of(kind, &path, query);
        let (status, answer) = match verb {
            "watch" => {
                let from =
                    parameter(query, "resourceVersion").and_then(|from| from.parse().ok()).unwrap_or(0);
                let (restores, compacted) = (state.restores, state.compacted);
                drop(state);
                if from < compacted {
                    let (status, answer) = super::failure(StatusCode::GONE, "Expired");
                    return whole(status, &answer);
                }
                return self.watched(selection, from, restores);
            }
            "list" => (StatusCode::OK, state.list(&selection)),
            "create" => state.create(&path, kind, part, body, query),
            _ => state.change(verb, path.trim_end_matches("/status"), kind, &body),
        };
        drop(state);
        self.tell();
        whole(status, &answer)
    }

    /// Events of a watch, until etcd is restored or the reader is gone.
    fn watched(&self, selection: Selection, from: u64, restores: usize) -> Response<Lines> {
        let (to, lines) = mpsc::channel(1024);
        let (server, mut changes) = (self.clone(), self.changes.subscribe());
        tokio::spawn(async move {
            let mut from = from;
            loop {
                changes.borrow_and_update();
                let mut events = Vec::new();
                {
                    let state = server.state.lock().unwrap();
                    if state.restores != restores {
                        return;
                    }
                    if !state.stalls {
                        let new = state.log.iter().filter(|happened| happened.version > from);
                        for happened in
                            new.filter(|happened| selection.takes(happened.kind, &happened.object))
                        {
                            // Fields in the order of the real API server.
                            let event = format!(
                                "{{\"type\":\"{}\",\"object\":{}}}\n",
                                happened.word, happened.object
                            );
                            events.push((happened.version, event));
                        }
                    }
                }
                for (version, event) in events {
                    from = version;
                    if to.send(Bytes::from(event)).await.is_err() {
                        return;
                    }
                }
                tokio::select! {
                    changed = changes.changed() => if changed.is_err() { return },
                    () = to.closed() => return,
                }
            }
        });
        Response::new(Lines(lines))
    }
}

impl State {
    fn put(&mut self, path: &str, kind: Kind, mut object: Value) -> Value {
        self.stored.version += 1;
        let version = self.stored.version;
        let before = self.stored.objects.get(path);
        let meta = &mut object["metadata"];
        if meta["uid"].is_null() {
            let known = before.map(|before| before["metadata"]["uid"].clone());
            meta["uid"] = known.unwrap_or_else(|| json!(format!("uid-{version}")));
        }
        if meta["creationTimestamp"].is_null() {
            meta["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        meta["resourceVersion"] = json!(version.to_string());
        let word = if before.is_some() { "MODIFIED" } else { "ADDED" };
        self.stored.objects.insert(path.to_owned(), object.clone());
        self.log.push(Happened { version, kind, word, object: object.clone() });
        object
    }

    fn remove(&mut self, path: &str) -> Option<Value> {
        let mut object = self.stored.objects.remove(path)?;
        self.stored.version += 1;
        let version = self.stored.version;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let (kind, ..) = place(path);
        self.log.push(Happened { version, kind, word: "DELETED", object: object.clone() });
        Some(object)
    }

    fn list(&self, selection: &Selection) -> Value {
        let of_kind = self.stored.objects.iter().filter(|(path, _)| place(path).0 == selection.kind);
        let items: Vec<&Value> = of_kind
            .map(|(_, object)| object)
            .filter(|object| selection.takes(selection.kind, object))
            .collect();
        json!({"metadata": {"resourceVersion": self.stored.version.to_string()}, "items": items})
    }

    fn create(
        &mut self,
        path: &str,
        kind: Kind,
        part: Option<&str>,
        body: Value,
        query: &str,
    ) -> (StatusCode, Value) {
        if part.is_some() || query.contains("dryRun") {
            return (StatusCode::CREATED, body);
        }
        if let Some(answered) = super::reviewed(&body) {
            return (StatusCode::CREATED, answered);
        }
        let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
        match self.stored.objects.contains_key(&path) {
            true => super::failure(StatusCode::CONFLICT, "AlreadyExists"),
            false => (StatusCode::CREATED, self.put(&path, kind, body)),
        }
    }

    fn change(&mut self, verb: &str, path: &str, kind: Kind, body: &Value) -> (StatusCode, Value) {
        let Some(is) = self.stored.objects.get(path).cloned() else {
            return super::failure(StatusCode::NOT_FOUND, "NotFound");
        };
        let holds = |said: &Value, is: &Value| said.is_null() || said == is;
        let meta = &is["metadata"];
        match verb {
            "patch" if body.is_object() => {
                if !holds(&body["metadata"]["resourceVersion"], &meta["resourceVersion"]) {
                    return super::failure(StatusCode::CONFLICT, "Conflict");
                }
                let mut object = is.clone();
                merge(&mut object, body);
                let is_over = !object["metadata"]["deletionTimestamp"].is_null()
                    && object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
                let object = self.put(path, kind, object);
                if is_over {
                    self.remove(path);
                }
                (StatusCode::OK, object)
            }
            "delete" => {
                if !holds(&body["preconditions"]["uid"], &meta["uid"]) {
                    return super::failure(StatusCode::CONFLICT, "Conflict");
                }
                if meta["finalizers"].as_array().is_none_or(Vec::is_empty) {
                    return (StatusCode::OK, self.remove(path).unwrap_or_default());
                }
                let mut object = is.clone();
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                (StatusCode::OK, self.put(path, kind, object))
            }
            // A JSON patch (a list of changes) is not applied here.
            _ => (StatusCode::OK, is),
        }
    }
}

impl Selection {
    fn of(kind: Kind, path: &str, query: &str) -> Selection {
        let parts: Vec<&str> = path.split('/').collect();
        let namespace = parts.iter().position(|part| *part == "namespaces").filter(|at| parts.len() > at + 2);
        let pairs = |name: &str| {
            let text = parameter(query, name).unwrap_or_default();
            let text = text.replace("%3D", "=").replace("%2C", ",").replace("%2F", "/");
            let pairs = text.split(',').filter_map(|term| term.split_once('='));
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        Selection {
            kind,
            namespace: namespace.map(|at| parts[at + 1].to_owned()),
            labels: pairs("labelSelector"),
            fields: pairs("fieldSelector"),
        }
    }

    fn takes(&self, kind: Kind, object: &Value) -> bool {
        let meta = &object["metadata"];
        let field = |name: &str| object.pointer(&format!("/{}", name.replace('.', "/"))).cloned();
        kind == self.kind
            && self.namespace.as_ref().is_none_or(|namespace| meta["namespace"] == namespace.as_str())
            && self.labels.iter().all(|(name, value)| meta["labels"][name] == value.as_str())
            && self.fields.iter().all(|(name, value)| field(name).is_some_and(|is| is == value.as_str()))
    }
}

fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

fn whole(status: StatusCode, answer: &Value) -> Response<Lines> {
    let (to, lines) = mpsc::channel(1);
    to.try_send(Bytes::from(answer.to_string())).unwrap();
    let mut response = Response::new(Lines(lines));
    *response.status_mut() = status;
    response
}

/// A body that is streamed.
pub struct Lines(mpsc::Receiver<Bytes>);

impl Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}

impl<B> Service<Request<B>> for ApiServer
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: std::fmt::Debug,
{
    type Response = Response<Lines>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Lines>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { Ok(server.answer(request).await) })
    }
}
