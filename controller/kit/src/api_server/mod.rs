//! API server in memory: lists, watches and writes as the real one, recorded requests, and faults that a test asks
//! for.
//!
//! ```text
//!  client(), listen() ─► record ─► faults ─► prepared answers ─► reviews ─► etcd: objects, log ─► watches, while they
//!                                                                             │                    do not stall
//!                                                                             └── snapshot … restore: the objects and
//!                                                                                 the version of then; watches break off
//! ```
//!
//! A client of `client()` opens no socket: the server is the service below it. Programs use the address of `listen()`.
//!
//! Like the real one, the server accepts a watch from a version that it has not reached yet, and sends nothing until
//! then. It updates no object by PUT, since no program of ours does.

mod answer;
mod data_source;
mod dispatch;
mod etcd;
mod faults;
mod json_patch;
mod record;
mod request;
mod review;
mod watch;

pub use answer::failure;
pub use data_source::store_data_source;
pub use etcd::Stored;
pub use json_patch::json_patch;
pub use request::Request;

use cluster_model::objects::rights::Right;
use cluster_model::objects::{Kind, Program};
use etcd::Etcd;
use faults::{Faults, Prepared};
use http::{Response, StatusCode};
use hyper::body::Body;
use record::Record;
use review::Reviews;
use serde_json::Value;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch as signal;
use tower_service::Service;
use transport::{Http1, LocalServer};
use watch::Lines;

/// Far more time than any step takes.
const PATIENCE: Duration = Duration::from_secs(120);
/// Limits beyond those of any test.
const SERVER: LocalServer =
    LocalServer { connections: 1000, http: Http1 { buffer: 1 << 20, fields: 100, head: None } };

/// API server in memory. Clones share their state.
#[derive(Clone)]
pub struct ApiServer {
    state: Arc<Mutex<State>>,
    /// Signal to watches and tests that something changed.
    changes: signal::Sender<u64>,
}

#[derive(Default)]
struct State {
    etcd: Etcd,
    record: Record,
    faults: Faults,
    prepared: Prepared,
    reviews: Reviews,
    admission: Option<Admission>,
}

/// Webhooks for an object to be created: the object as it is stored, or why it is refused.
type Admission = Box<dyn Fn(Kind, Value) -> Result<Value, String> + Send>;

impl Default for ApiServer {
    fn default() -> Self {
        // Another test may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        ApiServer { state: Arc::default(), changes: signal::Sender::new(0) }
    }
}

/// Clients.
impl ApiServer {
    /// Returns a client of this server.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// Serves on a free port of loopback, for the duration of the test. Returns the URL.
    pub async fn listen(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = self.clone();
        tokio::spawn(async move {
            SERVER
                .serve(|| listener.accept(), |_| Ok(()), move |request| server.clone().answer(request))
                .await;
        });
        url
    }
}

/// Objects.
impl ApiServer {
    /// Creates or replaces the object at a path. A new one keeps the uid and the resourceVersion that it has.
    pub fn put(&self, path: &str, object: Value) {
        self.state().etcd.put(path, object);
        self.tell();
    }

    /// Creates or replaces an object at the path of its kind and name.
    pub fn put_object(&self, kind: Kind, object: Value) {
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
        let path = kind.object(text("namespace"), text("name"));
        self.put(&path, object);
    }

    /// Deletes an object regardless of its finalizers.
    pub fn loses(&self, path: &str) {
        self.state().etcd.remove(path);
        self.tell();
    }

    /// Returns the object at a path.
    pub fn object(&self, path: &str) -> Option<Value> {
        self.state().etcd.get(path).cloned()
    }

    /// Returns all objects with their kinds.
    pub fn objects(&self) -> Vec<(Kind, Value)> {
        self.state().etcd.all()
    }

    /// Resource version of the last change.
    pub fn version(&self) -> u64 {
        self.state().etcd.version()
    }

    /// Sets the webhooks for objects that clients create.
    pub fn admits(&self, admits: impl Fn(Kind, Value) -> Result<Value, String> + Send + 'static) {
        self.state().admission = Some(Box::new(admits));
    }

    /// Sets the SubjectAccessReviews that are permitted, by their specs. Unset: the user `monitor` may read
    /// `/metrics`.
    pub fn permits(&self, permits: impl Fn(&Value) -> bool + Send + 'static) {
        self.state().reviews = Reviews::by(permits);
    }
}

/// Recorded requests.
impl ApiServer {
    /// Requests since the last call.
    pub fn asked(&self) -> Vec<Request> {
        self.state().record.take(|_| true)
    }

    /// Paths of the objects that clients have changed since the last call.
    pub fn patched(&self) -> Vec<String> {
        let patches = self.state().record.take(|request| request.verb == "patch");
        patches.into_iter().map(|request| request.path).collect()
    }

    /// Specs of the SubjectAccessReviews since the last call.
    pub fn reviews(&self) -> Vec<Value> {
        let is_review = |request: &Request| request.body["kind"] == Kind::SubjectAccessReview.name();
        let reviews = self.state().record.take(is_review);
        reviews.into_iter().map(|mut review| review.body["spec"].take()).collect()
    }

    /// Number of requests so far.
    pub fn count(&self) -> usize {
        self.state().record.count()
    }

    /// The most requests other than watches that ran at once.
    pub fn most_at_once(&self) -> usize {
        self.state().faults.most()
    }

    /// Rights that the requests so far took.
    pub fn rights(&self) -> BTreeSet<Right> {
        self.state().record.rights().clone()
    }

    /// Asserts that requests about kinds with restricted names were about permitted names only.
    pub fn kept_to(&self, program: Program) {
        self.state().record.kept_to(program);
    }

    /// Waits until all of these rights were used.
    pub async fn until_used(&self, all: &BTreeSet<Right>) {
        self.until(&format!("{all:?}"), |server| server.rights().is_superset(all)).await;
    }

    /// Waits until `is_so` returns true.
    pub async fn until(&self, what: &str, is_so: impl Fn(&ApiServer) -> bool) {
        let mut changes = self.changes.subscribe();
        let wait = async { while !is_so(self) && changes.changed().await.is_ok() {} };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        let asked = || self.asked().into_iter().map(|request| request.line).collect::<Vec<_>>();
        assert!(waited.is_ok(), "it never comes to this: {what}; asked was {:#?}", asked());
    }
}

/// Faults.
impl ApiServer {
    /// Answers every request with this status from now on, and breaks off all watches; `None` ends that.
    pub fn fails(&self, status: Option<StatusCode>) {
        self.state().faults.fails(status);
        if status.is_some() {
            self.breaks();
        }
    }

    /// Sets the duration of each request from now on, except of watches.
    pub fn delay_by(&self, duration: Duration) {
        self.state().faults.delay_by(duration);
    }

    /// Stalls all watches, or lets them continue.
    pub fn stalls(&self, stalls: bool) {
        self.state().etcd.stalls = stalls;
        self.tell();
    }

    /// Breaks off all watches.
    pub fn breaks(&self) {
        self.state().etcd.breaks += 1;
        self.tell();
    }

    /// Sends a bookmark to all watches.
    pub fn bookmarks(&self) {
        self.state().etcd.bookmark();
        self.tell();
    }

    /// Sets the answer to requests such as `GET /path`, with or without a query.
    pub fn answers(&self, request: &str, status: u16, body: impl Into<String>) {
        self.state().prepared.answers(request, status, body.into());
    }

    /// Sets the answer to the next such request; several answers are given in order.
    pub fn answers_once(&self, request: &str, status: u16, body: impl Into<String>) {
        self.state().prepared.answers_once(request, status, body.into());
    }

    /// Removes the answer to such requests.
    pub fn forgets(&self, request: &str) {
        self.state().prepared.forgets(request);
    }

    /// Snapshot of etcd.
    pub fn snapshot(&self) -> Stored {
        self.state().etcd.snapshot()
    }

    /// Restores etcd from a snapshot. `bump`: number of versions that are skipped, so that no version is used twice.
    pub fn restore(&self, snapshot: &Stored, bump: u64) {
        self.state().etcd.restore(snapshot, bump);
        self.tell();
    }
}

impl ApiServer {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn tell(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

impl<B> Service<http::Request<B>> for ApiServer
where
    B: Body + Send + 'static,
    B::Data: Send,
{
    type Response = Response<Lines>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Lines>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { Ok(server.answer(request).await) })
    }
}
