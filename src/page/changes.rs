//! The list of VMs and its changes as server-sent events: one watch of VMs and one of VMIs for each open
//! page.
//!
//! ```text
//!  list both kinds ─► event `list` ─► watch both from there ─► event `changes`: rows that have changed
//!     ▲                                   │
//!     ├─ the watch has expired (410) ─────┤
//!     └─ a while later ◄─ event `trouble` ┘ the API server does not answer
//! ```
//!
//! **Guarantees.** All changes of a row within [`TOGETHER`] are sent as one. A page that reads slowly holds
//! up its own watch alone; a page that is closed ends it.

use super::answer::Body;
use super::list::{Change, List};
use super::server::Scope;
use crate::error::Error;
use crate::virt::client::Cluster;
use crate::virt::failure::Failure;
use cluster_model::answer::BoundedObject;
use cluster_model::objects::{Kind, escaped};
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use kube::client::Body as Stream;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::{Instant, interval, sleep, sleep_until};

/// Time for which changes are collected: a node that comes back changes hundreds of rows at once.
const TOGETHER: Duration = Duration::from_millis(150);
/// Interval of keep-alive comments.
const BEAT: Duration = Duration::from_secs(15);
/// Query of a watch. It ends after this time, and a new one continues from there.
const WATCH: &str = "timeoutSeconds=290&allowWatchBookmarks=true";
/// Pause before the watch that follows one which ended.
const AGAIN: Duration = Duration::from_secs(1);
/// First and longest pause after a failure.
const LATER: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(30));
/// Maximum size of an object in bytes. The API server's own limit is 3 MiB.
const LONGEST: usize = 16 << 20;

const KINDS: [Kind; 2] = [Kind::VirtualMachine, Kind::VirtualMachineInstance];

/// Reason for the end of following.
#[derive(Debug)]
enum Over {
    /// The page was closed.
    Left,
    /// The watch has expired at the API server.
    Stale,
}

/// Lists all VMs and VMIs.
pub(super) async fn list(cluster: &Cluster, scope: &Scope) -> Result<List, Error> {
    let mut all = List::default();
    for kind in KINDS {
        fill(&mut all, cluster, scope, kind).await?;
    }
    Ok(all)
}

/// The list as JSON for the page.
pub(super) fn shown(all: &List, cluster: &Cluster, scope: &Scope) -> Value {
    json!({
        "rows": all.rows(), "server": cluster.address(), "namespace": scope.namespace(),
        "uploads": !matches!(scope, Scope::One { .. }),
    })
}

/// Sends all rows, and each change of them, until the page is closed.
pub(super) fn stream(cluster: Cluster, scope: Scope) -> Response<Body> {
    let (sender, receiver) = channel(16);
    tokio::spawn(tell(cluster, scope, sender));
    transport::response(StatusCode::OK, "text/event-stream", Body::Pieces(receiver, None))
}

async fn tell(cluster: Cluster, scope: Scope, sender: Sender<io::Result<Bytes>>) {
    let mut wait = LATER.0;
    loop {
        let begun = Instant::now();
        match follow(&cluster, &scope, &sender).await {
            Ok(Over::Left) => return,
            Ok(Over::Stale) => sleep(AGAIN).await,
            Err(e) => {
                tracing::info!("the list is not followed: {e}");
                if send(&sender, "trouble", &json!({"error": e.chain()})).await.is_err() {
                    return;
                }
                // After a long success the first pause is short again.
                wait = if begun.elapsed() > LATER.1 { LATER.0 } else { wait };
                tokio::select! {
                    () = sleep(wait) => {}
                    () = sender.closed() => return,
                }
                wait = (wait * 2).min(LATER.1);
            }
        }
    }
}

/// Sends all rows, and follows their changes.
async fn follow(cluster: &Cluster, scope: &Scope, sender: &Sender<io::Result<Bytes>>) -> Result<Over, Error> {
    let mut all = List::default();
    let mut versions = [String::new(), String::new()];
    for (kind, version) in KINDS.into_iter().zip(&mut versions) {
        *version = fill(&mut all, cluster, scope, kind).await?;
    }
    if send(sender, "list", &shown(&all, cluster, scope)).await.is_err() {
        return Ok(Over::Left);
    }
    let mut watches = [None, None];
    let mut beat = interval(BEAT);
    let mut waiting: BTreeMap<(String, String), Change> = BTreeMap::new();
    let mut due: Option<Instant> = None;
    loop {
        for ((kind, watch), version) in KINDS.into_iter().zip(&mut watches).zip(&versions) {
            if watch.is_none() {
                match open(cluster, scope, kind, version).await {
                    Ok(body) => *watch = Some(Lines { body, held: Vec::new() }),
                    Err(failure) if failure.code() == 410 => return Ok(Over::Stale),
                    Err(failure) => return Err(failure.into_error(&doing("watch", kind, scope))),
                }
            }
        }
        let [vms, vmis] = &mut watches;
        let (at, line) = tokio::select! {
            line = next(vms) => (0, line),
            line = next(vmis) => (1, line),
            () = until(due) => {
                let changes: Vec<Value> = waiting.values().map(Change::value).collect();
                (due, waiting) = (None, BTreeMap::new());
                if send(sender, "changes", &json!(changes)).await.is_err() {
                    return Ok(Over::Left);
                }
                continue;
            }
            _ = beat.tick() => match sender.send(Ok(Bytes::from_static(b": here\n\n"))).await {
                Ok(()) => continue,
                Err(_) => return Ok(Over::Left),
            },
            () = sender.closed() => return Ok(Over::Left),
        };
        let Some(event) = line else {
            watches[at] = None;
            sleep(AGAIN).await;
            continue;
        };
        let Event { r#type, object: BoundedObject(object) } = event;
        let changed = match r#type.as_str() {
            "ADDED" | "MODIFIED" => all.put(KINDS[at], &object),
            "DELETED" => all.remove(KINDS[at], &object),
            "BOOKMARK" => None,
            // Any other type is an error, mostly an expired watch.
            _ => return Ok(Over::Stale),
        };
        if let Some(version) = object.pointer("/metadata/resourceVersion").and_then(Value::as_str) {
            version.clone_into(&mut versions[at]);
        }
        if let Some(change) = changed {
            waiting.insert(change.key(), change);
            due = due.or(Some(Instant::now() + TOGETHER));
        }
    }
}

/// Lists all objects of a kind. Returns the resourceVersion of the list.
async fn fill(all: &mut List, cluster: &Cluster, scope: &Scope, kind: Kind) -> Result<String, Error> {
    let put = |objects: Vec<Value>| {
        for object in &objects {
            all.put(kind, object);
        }
    };
    cluster.pages(&scope.path(kind, ""), put).await.map_err(|failure| {
        let is_less = failure.is_of_too_many() && *scope == Scope::All;
        let error = failure.into_error(&doing("list", kind, scope));
        if is_less { error.with_hint("show one namespace: 'coracle ui -n NAMESPACE'") } else { error }
    })
}

async fn open(cluster: &Cluster, scope: &Scope, kind: Kind, version: &str) -> Result<Stream, Failure> {
    let query = format!("watch=true&resourceVersion={}&{WATCH}", escaped(version));
    cluster.watch(&scope.path(kind, &query)).await
}

fn doing(verb: &str, kind: Kind, scope: &Scope) -> String {
    format!("cannot {verb} {kind}s of {scope}")
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Sends one event to the page.
async fn send(sender: &Sender<io::Result<Bytes>>, name: &str, data: &Value) -> Result<(), ()> {
    // serde_json writes JSON without line breaks.
    sender.send(Ok(format!("event: {name}\ndata: {data}\n\n").into())).await.map_err(drop)
}

/// Event of a watch.
#[derive(Debug, PartialEq, serde::Deserialize)]
struct Event {
    r#type: String,
    object: BoundedObject,
}

/// Lines of a watch's response.
struct Lines {
    body: Stream,
    held: Vec<u8>,
}

async fn next(lines: &mut Option<Lines>) -> Option<Event> {
    match lines {
        Some(lines) => lines.next().await,
        None => None,
    }
}

impl Lines {
    /// The next event; `None` when the watch has ended for any reason: the caller opens a new one.
    /// Cancellation-safe.
    async fn next(&mut self) -> Option<Event> {
        let mut looked = 0;
        loop {
            if let Some(end) = self.held[looked..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.held.drain(..=looked + end).collect();
                return serde_json::from_str(&String::from_utf8_lossy(&line)).ok();
            }
            looked = self.held.len();
            if looked > LONGEST {
                return None;
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(bytes) = frame.into_data() {
                self.held.extend_from_slice(&bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_of_a_watch_are_events() {
        let added = r#"{"type":"ADDED","object":{"a":1}}"#;
        let deep = format!("{}0{}", "[".repeat(200), "]".repeat(200));
        let deep = format!(r#"{{"type":"MODIFIED","object":{{"metadata":{{"name":"b"}},"spec":{deep}}}}}"#);
        let body = Stream::from(format!("{added}\n{deep}\n{{\"cut").into_bytes());
        let mut lines = Some(Lines { body, held: Vec::new() });
        let event = |r#type: &str, object: Value| {
            Some(Event { r#type: r#type.to_owned(), object: BoundedObject(object) })
        };
        assert_eq!(next(&mut lines).await, event("ADDED", json!({"a": 1})));
        let named = json!({"metadata": {"name": "b"}, "metadataAlone": true});
        assert_eq!(next(&mut lines).await, event("MODIFIED", named));
        assert_eq!(next(&mut lines).await, None);
    }

    #[tokio::test]
    async fn an_event_is_told_in_one_piece() {
        let (sender, mut receiver) = channel(1);
        send(&sender, "changes", &json!(["a\nb"])).await.unwrap();
        assert_eq!(receiver.recv().await.unwrap().unwrap(), "event: changes\ndata: [\"a\\nb\"]\n\n");
        drop(receiver);
        assert!(send(&sender, "changes", &json!([])).await.is_err());
    }
}
