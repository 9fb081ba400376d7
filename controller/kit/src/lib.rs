//! Test tools for the packages of `controller/`: a small API server on loopback that records the rights that
//! each request takes, to compare a program with its role; a process of one of our programs (`running`); and
//! an API server in memory that lists, watches and fails on demand (`memory`).
//!
//! The first server keeps objects by path, lists none of them, and never answers a watch.
//!
//! **May be used** in the tests of every package of `controller/` above `cluster-model`. **Absent:** servers
//! other than the API server, and other shared parts of tests: see the package `tests`.

// Tests should fail at once and loudly.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr)]

mod memory;
mod running;

pub use memory::{ApiServer, Stored};
pub use running::{Running, free_address, mount};

use cluster_model::objects::rights::{Right, permits_name};
use cluster_model::objects::{Kind, Program, owner};
use cluster_model::plan::merge;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use transport::{Http1, LocalServer};

/// More than a test needs.
const SERVER: LocalServer =
    LocalServer { connections: 1000, http: Http1 { buffer: 1 << 20, fields: 100, head: None } };

/// API server that records the requests of its client.
pub struct Asked {
    /// Client of this server.
    pub client: kube::Client,
    state: Arc<State>,
}

struct State {
    rights: watch::Sender<BTreeSet<Right>>,
    /// Names of objects in requests other than `create`, by kind; `None` for requests about a whole kind.
    names: Mutex<BTreeSet<(Kind, Option<String>)>>,
    objects: Mutex<BTreeMap<String, Value>>,
    count: AtomicUsize,
    lists: Lists,
}

/// Duration of a list, lists that are running, and the most that ran at once.
#[derive(Default)]
struct Lists {
    take: Mutex<Duration>,
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Asked {
    /// Starts on a free port, for the duration of the test.
    pub async fn begin() -> Asked {
        // Another test may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let config = kube::Config::new(format!("http://{address}").parse().unwrap());
        let state = Arc::new(State {
            rights: watch::channel(BTreeSet::new()).0,
            names: Mutex::default(),
            objects: Mutex::default(),
            count: AtomicUsize::new(0),
            lists: Lists::default(),
        });
        let server = Arc::clone(&state);
        tokio::spawn(async move {
            let handler = move |request| {
                let state = Arc::clone(&server);
                async move { state.answer(request).await }
            };
            SERVER.serve(|| listener.accept(), |_| Ok(()), handler).await;
        });
        Asked { client: kube::Client::try_from(config).unwrap(), state }
    }

    /// Adds an object at a path.
    pub fn has(&self, path: &str, object: Value) {
        self.state.objects.lock().unwrap().insert(path.to_owned(), object);
    }

    /// Rights that the requests so far took.
    pub fn rights(&self) -> BTreeSet<Right> {
        self.state.rights.borrow().clone()
    }

    /// Asserts that requests about kinds with restricted names were about permitted names only.
    pub fn kept_to(&self, program: Program) {
        for (kind, name) in self.state.names.lock().unwrap().iter() {
            let name = name.as_deref().unwrap_or("(all)");
            assert!(permits_name(program, *kind, name), "asked was {} {name}", kind.plural());
        }
    }

    /// Number of requests so far.
    pub fn count(&self) -> usize {
        self.state.count.load(Ordering::SeqCst)
    }

    /// Sets the duration of each list from now on.
    pub fn lists_take(&self, time: Duration) {
        *self.state.lists.take.lock().unwrap() = time;
    }

    /// The most lists that ran at once.
    pub fn most_lists(&self) -> usize {
        self.state.lists.most.load(Ordering::SeqCst)
    }

    /// Waits until all of these rights were used.
    pub async fn until(&self, all: &BTreeSet<Right>) {
        let mut rights = self.state.rights.subscribe();
        let wait = rights.wait_for(|rights| rights.is_superset(all));
        let waited = tokio::time::timeout(Duration::from_secs(60), wait).await;
        assert!(waited.is_ok(), "asked was {:?}, not {all:?}", self.rights());
    }
}

impl State {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        self.count.fetch_add(1, Ordering::SeqCst);
        let (head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        let query = head.uri.query().unwrap_or_default();
        let watches = query.contains("watch=true");
        let (kind, name, part) = place(&path);
        let verb = match head.method {
            Method::GET if name.is_some() => "get",
            Method::GET if watches => "watch",
            Method::GET => "list",
            Method::POST => "create",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            other => panic!("nobody should {other} {path}"),
        };
        if verb != "create" {
            let selected =
                query.split('&').find_map(|part| part.strip_prefix("fieldSelector=metadata.name%3D"));
            let name = name.or(selected).map(str::to_owned);
            self.names.lock().unwrap().insert((kind, name));
        }
        let body = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        self.rights.send_modify(|rights| {
            rights.insert((kind, part, verb));
            rights.extend(owner::rights(&body));
        });
        let whole = part.map_or(path.as_str(), |part| path.trim_end_matches(part).trim_end_matches('/'));
        let (status, answer) = match verb {
            "watch" => std::future::pending().await,
            "list" => {
                let Lists { take, now, most } = &self.lists;
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let take = *take.lock().unwrap();
                tokio::time::sleep(take).await;
                now.fetch_sub(1, Ordering::SeqCst);
                let listed = self.objects.lock().unwrap().get(&path).cloned();
                let nothing = || json!({"metadata": {"resourceVersion": "1"}, "items": []});
                let of_metadata = head.headers.get("accept").is_some_and(|form| form != "application/json");
                (StatusCode::OK, page(listed.unwrap_or_else(nothing), query, of_metadata))
            }
            verb => self.keep(verb, whole, body),
        };
        let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
        *response.status_mut() = status;
        response
    }

    fn keep(&self, verb: &str, path: &str, body: Value) -> (StatusCode, Value) {
        if let Some(answered) = reviewed(&body) {
            return (StatusCode::CREATED, answered);
        }
        let mut objects = self.objects.lock().unwrap();
        if verb == "create" {
            let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
            if objects.contains_key(&path) {
                return failure(StatusCode::CONFLICT, "AlreadyExists");
            }
            objects.insert(path, body.clone());
            return (StatusCode::CREATED, body);
        }
        let Some(object) = objects.get_mut(path) else { return failure(StatusCode::NOT_FOUND, "NotFound") };
        match verb {
            // A JSON patch (a list of changes) is not applied here.
            "patch" if body.is_object() => merge(object, &body),
            "delete" => return (StatusCode::OK, objects.remove(path).unwrap_or_default()),
            _ => {}
        }
        (StatusCode::OK, object.clone())
    }
}

/// One page of a list: at most `limit` objects, from `continue` on. With `of_metadata`, each object is
/// reduced to its metadata.
fn page(mut list: Value, query: &str, of_metadata: bool) -> Value {
    let asked = |name: &str| {
        query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')?.parse::<usize>().ok())
    };
    let (from, most) = (asked("continue").unwrap_or(0), asked("limit").unwrap_or(usize::MAX));
    let Some(items) = list.get_mut("items").and_then(Value::as_array_mut) else { return list };
    let all = items.len();
    *items = std::mem::take(items).into_iter().skip(from).take(most).collect();
    let end = from + items.len();
    for object in items.iter_mut().filter(|_| of_metadata) {
        *object = json!({"metadata": object["metadata"]});
    }
    if end < all {
        list["metadata"]["continue"] = json!(end.to_string());
    }
    list
}

/// Answers a review. A token belongs to the user whose name is its prefix, and the user `monitor` may read
/// `/metrics`.
fn reviewed(body: &Value) -> Option<Value> {
    let spec = &body["spec"];
    let status = match body["kind"].as_str()? {
        "TokenReview" => {
            let token = spec["token"].as_str().unwrap();
            let user =
                json!({"username": token.split('-').next().unwrap(), "groups": ["system:authenticated"]});
            match token.starts_with("nobody") {
                true => json!({"user": {}}),
                false => json!({"authenticated": true, "user": user}),
            }
        }
        "SubjectAccessReview" => {
            assert_eq!(spec["groups"], json!(["system:authenticated"]));
            let reads = spec["nonResourceAttributes"] == json!({"path": "/metrics", "verb": "get"});
            json!({"allowed": reads && spec["user"] == "monitor"})
        }
        _ => return None,
    };
    let mut answered = body.clone();
    answered["status"] = status;
    Some(answered)
}

/// Head of a metrics request of a monitor. Answering it takes the rights of a TokenReview and a
/// SubjectAccessReview.
pub fn monitors_request() -> http::request::Parts {
    let request = Request::get("/metrics").header("authorization", "Bearer monitor-1").body(());
    request.unwrap().into_parts().0
}

/// Applies a merge patch that is guarded by a resource version; `None` if the object has another version by
/// now.
pub fn patched(mut object: Value, change: &Value, version: Option<&str>) -> Option<Value> {
    if version.is_some_and(|version| object["metadata"]["resourceVersion"] != version) {
        return None;
    }
    merge(&mut object, change);
    Some(object)
}

fn failure(status: StatusCode, reason: &str) -> (StatusCode, Value) {
    let code = status.as_u16();
    let said = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": reason, "reason": reason,
        "code": code,
    });
    (status, said)
}

/// Kind, name and subresource of a path.
fn place(path: &str) -> (Kind, Option<&str>, Option<&'static str>) {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ((*version).to_owned(), rest),
        ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
        _ => panic!("{path} is no path of objects"),
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] => rest,
        rest => rest,
    };
    let kind =
        Kind::ALL.iter().copied().find(|kind| kind.api_version() == version && kind.plural() == rest[0]);
    let kind = kind.unwrap_or_else(|| panic!("{path} is of no kind that is known here"));
    let part = match rest.get(2) {
        None => None,
        Some(&"status") => Some("status"),
        Some(&"eviction") => Some("eviction"),
        Some(other) => panic!("{path}: {other} is no part that is known here"),
    };
    (kind, rest.get(1).copied(), part)
}
