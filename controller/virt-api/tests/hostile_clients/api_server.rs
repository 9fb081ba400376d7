//! A small API server: objects by path, lists and watches, merge patches, and recorded access reviews. The
//! user `ann` has all rights, other users none.

use cluster_model::plan::merge;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The user with all rights.
pub(crate) const ANN: &str = "ann";

pub(crate) struct ApiServer {
    pub(crate) address: String,
    state: Arc<State>,
}

struct State {
    objects: Mutex<BTreeMap<String, Value>>,
    /// Changes by version: path and object.
    changes: Mutex<Vec<(String, Value)>>,
    version: watch::Sender<usize>,
    reviews: Mutex<Vec<Value>>,
    written: Mutex<Vec<String>>,
}

impl ApiServer {
    pub(crate) async fn begin() -> ApiServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State {
            objects: Mutex::default(),
            changes: Mutex::default(),
            version: watch::channel(1).0,
            reviews: Mutex::default(),
            written: Mutex::default(),
        });
        let server = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&server);
                tokio::spawn(async move { drop(state.serve(stream).await) });
            }
        });
        ApiServer { address, state }
    }

    /// Creates or replaces an object, and notifies the watches.
    pub(crate) fn has(&self, path: &str, mut object: Value) {
        let segments: Vec<&str> = path.split('/').collect();
        object["metadata"]["name"] = json!(segments.last());
        if let Some(at) = segments.iter().position(|one| *one == "namespaces") {
            object["metadata"]["namespace"] = json!(segments[at + 1]);
        }
        self.state.put(path, object);
    }

    pub(crate) fn object(&self, path: &str) -> Value {
        self.state.objects.lock().unwrap().get(path).cloned().unwrap_or_default()
    }

    /// The specs of the SubjectAccessReviews since the last call.
    pub(crate) fn reviews(&self) -> Vec<Value> {
        std::mem::take(&mut self.state.reviews.lock().unwrap())
    }

    /// The objects that were changed since the last call.
    pub(crate) fn written(&self) -> Vec<String> {
        std::mem::take(&mut self.state.written.lock().unwrap())
    }
}

impl State {
    fn put(&self, path: &str, mut object: Value) {
        let mut changes = self.changes.lock().unwrap();
        let version = changes.len() + 2;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        self.objects.lock().unwrap().insert(path.to_owned(), object.clone());
        changes.push((path.to_owned(), object));
        drop(changes);
        self.version.send_replace(version);
    }

    async fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let mut words = line.split(' ').map(str::to_owned);
            let (method, target) = (words.next().unwrap(), words.next().unwrap_or_default());
            let mut size = 0;
            loop {
                let mut header = String::new();
                stream.read_line(&mut header).await?;
                let header = header.trim_end().to_ascii_lowercase();
                if header.is_empty() {
                    break;
                }
                if let Some(said) = header.strip_prefix("content-length:") {
                    size = said.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; size];
            stream.read_exact(&mut body).await?;
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let (status, answer) = self.answer(&method, &target, body).await;
            let head = format!(
                "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                answer.len()
            );
            stream.write_all((head + &answer).as_bytes()).await?;
        }
    }

    async fn answer(&self, method: &str, target: &str, body: Value) -> (u16, String) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let selected = query.split('&').find_map(|part| part.strip_prefix("fieldSelector=metadata.name%3D"));
        match method {
            "POST" => (201, self.review(body).to_string()),
            "PATCH" => self.patch(path, &body),
            "GET" if query.contains("watch=true") => {
                let from = query.split('&').find_map(|part| part.strip_prefix("resourceVersion=")).unwrap();
                (200, self.watch(path, selected, from.parse().unwrap()).await)
            }
            _ if is_of_one(path) => match self.objects.lock().unwrap().get(path) {
                Some(object) => (200, object.to_string()),
                None => not_found(),
            },
            _ => (200, self.list(path, selected)),
        }
    }

    fn review(&self, mut review: Value) -> Value {
        let spec = &review["spec"];
        review["status"] = match review["kind"].as_str() {
            Some("SubjectAccessReview") => {
                self.reviews.lock().unwrap().push(spec.clone());
                json!({"allowed": spec["user"] == ANN})
            }
            _ => json!({"authenticated": true, "user": {"username": spec["token"], "groups": []}}),
        };
        review
    }

    fn patch(&self, path: &str, change: &Value) -> (u16, String) {
        let whole = path.strip_suffix("/status").unwrap_or(path);
        let Some(mut object) = self.objects.lock().unwrap().get(whole).cloned() else { return not_found() };
        self.written.lock().unwrap().push(path.to_owned());
        merge(&mut object, change);
        self.put(whole, object);
        (200, self.objects.lock().unwrap()[whole].to_string())
    }

    fn list(&self, path: &str, selected: Option<&str>) -> String {
        let objects = self.objects.lock().unwrap();
        let items: Vec<&Value> =
            objects.iter().filter(|(at, _)| is_in(at, path, selected)).map(|(_, object)| object).collect();
        let version = self.version.borrow().to_string();
        json!({"metadata": {"resourceVersion": version}, "items": items}).to_string()
    }

    /// Sends the changes since a version as soon as there are any. The watch then ends, and the client
    /// restarts it.
    async fn watch(&self, path: &str, selected: Option<&str>, from: usize) -> String {
        let mut version = self.version.subscribe();
        loop {
            version.borrow_and_update();
            let changes = self.changes.lock().unwrap().clone();
            let lines: Vec<String> = changes
                .iter()
                .enumerate()
                .filter(|(at, (of, _))| at + 2 > from && is_in(of, path, selected))
                .map(|(_, (_, object))| format!("{}\n", json!({"type": "MODIFIED", "object": object})))
                .collect();
            if !lines.is_empty() {
                return lines.concat();
            }
            // A waiting watch must not delay the end of the test.
            if tokio::time::timeout(Duration::from_secs(3600), version.changed()).await.is_err() {
                return String::new();
            }
        }
    }
}

fn not_found() -> (u16, String) {
    let said = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "no",
        "reason": "NotFound", "code": 404});
    (404, said.to_string())
}

/// True for the path of an object, not of a list.
fn is_of_one(path: &str) -> bool {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let rest = if parts[0] == "api" { &parts[2..] } else { &parts[3..] };
    if rest[0] == "namespaces" { rest.len() > 3 } else { rest.len() > 1 }
}

/// True if an object belongs to a list.
fn is_in(object: &str, list: &str, selected: Option<&str>) -> bool {
    let name = object.strip_prefix(list).and_then(|rest| rest.strip_prefix('/'));
    name.is_some_and(|name| !name.contains('/') && selected.is_none_or(|selected| name == selected))
}
