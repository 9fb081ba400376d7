//! Watch of the objects of a kind: list, then watch, for ever.
//!
//! ```text
//!  list (in pages) ─► Listed(all) ─► watch from there ─► Changed, Gone, …
//!        ▲                                │ ended in order: watch from the last version
//!        └──────── version too old, or ───┘ not sent: watch from the same version
//!                  any other error          ended early, or without events: if the server is behind that version, list
//! ```
//!
//! Every `Listed` is the complete state again, even if events were lost before; it may also be older than the
//! state seen before ([`History`]). A server whose etcd was restored accepts a watch from a version that it
//! has not reached yet, and is silent until it has: so a watch that was silent, or whose connection broke, is
//! not simply restarted.

use super::events::Events;
use super::history::{History, Trail, version_of};
use super::request::{JSON, ask};
use crate::error::{Error, ErrorKind, Result};
use cluster_model::answer::BoundedObject;
use cluster_model::objects::{Key, Kind, METADATA_ALONE, WatchTarget, escaped};
use http::Request;
use kube::core::WatchEvent;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;

/// Maximum number of objects in a page of a list. If a page is too long, the next one has an eighth of them.
/// The number then doubles with each page.
const PAGE: u32 = 500;
/// Content type requested for an object that is too long on its own.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// Time-out of a page of a list.
const LISTING: Duration = Duration::from_secs(60);
/// Time, in seconds, that the server keeps a watch open. Nothing is lost when it ends.
const OPEN: u64 = 290;
/// Time without events after which a watch is given up: the server should have ended it before.
const SILENT: Duration = Duration::from_secs(OPEN + 40);
/// Minimum duration of a watch that the server ended in order. One that ended earlier broke.
const WHOLE: Duration = Duration::from_secs(OPEN - 10);
/// Pause after an error: the first one, and the maximum.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(20));

/// A message of a watch to its receiver.
#[derive(Clone, Debug)]
pub enum WatchMessage {
    /// All objects of a kind; there are no others.
    Listed(Kind, Vec<Value>),
    /// The object that is followed by its name; `None` if it does not exist.
    Only(Key, Option<Value>),
    /// An object is new or changed.
    Changed(Kind, Value),
    /// An object was deleted, with its uid.
    Gone(Key, String),
}

/// The message for a list of these objects.
fn list_message(which: &WatchTarget, objects: Vec<Value>) -> WatchMessage {
    match which.name {
        None => WatchMessage::Listed(which.kind, objects),
        Some(name) => {
            let key = Key::new(which.kind, which.namespace.clone(), name);
            WatchMessage::Only(key, objects.into_iter().find(|object| object["metadata"]["name"] == name))
        }
    }
}

/// Sends the watch's messages until the receiver is dropped.
pub async fn follow(client: kube::Client, which: WatchTarget, to: Sender<WatchMessage>) {
    follow_history(client, which, to, Arc::default()).await;
}

/// The same for one of several followers, which share the detection of a restored etcd.
pub async fn follow_history(
    client: kube::Client,
    which: WatchTarget,
    to: Sender<WatchMessage>,
    history: Arc<History>,
) {
    let mut follower = Follower { client, which, to, history, trail: Trail::default(), is_doubted: false };
    let mut pause = PAUSE.0;
    let mut version: Option<String> = None;
    loop {
        let result = match &version {
            None => follower.list().await,
            Some(from) if follower.is_doubted => follower.check_version(from.clone()).await,
            Some(from) => follower.watch(from.clone()).await,
        };
        match result {
            Ok(Some(next)) => {
                pause = PAUSE.0;
                version = Some(next);
            }
            Ok(None) => return,
            Err(error) => {
                if matches!(error.kind(), ErrorKind::Gone | ErrorKind::Expired) {
                    tracing::debug!("{}", error.chain());
                } else {
                    tracing::warn!("{}", error.chain());
                }
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = follower.to.closed() => return,
                }
                pause = (pause * 2).min(PAUSE.1);
                if !error.is_unsent() {
                    version = None;
                }
            }
        }
    }
}

/// State of a watch.
struct Follower {
    client: kube::Client,
    which: WatchTarget,
    to: Sender<WatchMessage>,
    history: Arc<History>,
    trail: Trail,
    /// The last watch was silent, or its connection broke. The server may be behind the version that it
    /// started at.
    is_doubted: bool,
}

impl Follower {
    /// Lists all objects and sends them. Returns the version to watch from; `None` if the receiver is
    /// dropped.
    async fn list(&mut self) -> Result<Option<String>> {
        let kind = self.which.kind;
        let known = self.history.newest(kind);
        let (version, objects) = match list(&self.client, &self.which).await {
            Ok(Listing::Whole { version, objects }) => (version, objects),
            // There are no objects. The kind may be installed at any time.
            Ok(Listing::NotServed(error)) => {
                if self.to.send(list_message(&self.which, Vec::new())).await.is_err() {
                    return Ok(None);
                }
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        self.is_doubted = false;
        if let Some(why) = self.trail.record_list(kind, &version, &objects, known) {
            tracing::warn!("etcd was restored from a snapshot, or exchanged: {why}");
            self.history.went_back(kind, why);
        }
        self.history.record_version(kind, self.trail.newest());
        let told = self.to.send(list_message(&self.which, objects)).await;
        Ok(told.is_ok().then_some(version))
    }

    /// Checks that the server has reached the version that a watch is to start at. If not, lists all objects.
    async fn check_version(&mut self, from: String) -> Result<Option<String>> {
        let known = self.history.newest(self.which.kind).max(self.trail.newest());
        let path = self.which.path("limit=1");
        let all = Key::new(self.which.kind, self.which.namespace.clone(), "(all)");
        let request = Request::get(&path).header(http::header::ACCEPT, METADATA);
        let answer = ask(&self.client, "list", &all, request, None, LISTING).await?.unwrap_or_default();
        self.is_doubted = false;
        match version_of(&answer).is_some_and(|version| version < known) {
            true => self.list().await,
            false => Ok(Some(from)),
        }
    }
}

/// Result of a list that was not broken off.
enum Listing {
    /// All objects, and the version of the list.
    Whole { version: String, objects: Vec<Value> },
    /// The server does not know the kind (yet).
    NotServed(Error),
}

/// Lists all objects. A list that breaks off behind its first page, for whichever reason, says nothing about any object.
async fn list(client: &kube::Client, which: &WatchTarget) -> Result<Listing> {
    let mut objects = Vec::new();
    let mut next = String::new();
    let (mut page, mut form) = (PAGE, JSON);
    let version = loop {
        let path = which.path(&format!("limit={page}&continue={}", escaped(&next)));
        let all = Key::new(which.kind, which.namespace.clone(), "(all)");
        let request = Request::get(&path).header(http::header::ACCEPT, form);
        let answer = match ask(client, "list", &all, request, None, LISTING).await {
            Err(error) if error.kind() == ErrorKind::Gone && next.is_empty() => {
                return Ok(Listing::NotServed(error));
            }
            answer => answer?,
        };
        let mut answer = match answer {
            Some(answer) => answer,
            None if page > 1 => {
                page = (page / 8).max(1);
                continue;
            }
            None if form == JSON => {
                form = METADATA;
                continue;
            }
            None => {
                return Err(Error::new(
                    ErrorKind::Refused,
                    format!("cannot list {all}: the metadata of one object are too long"),
                ));
            }
        };
        if let Value::Array(items) = answer["items"].take() {
            let mut items = items;
            if form == METADATA {
                // A page of one was requested. The specs of other objects must not be lost.
                if items.len() > 1 {
                    let what = format!(
                        "cannot list {all}: the API server answered with {} objects for one",
                        items.len()
                    );
                    return Err(Error::new(ErrorKind::Refused, what));
                }
                items.iter_mut().for_each(|long| mark(which, long));
            }
            objects.extend(items);
        }
        (page, form) = (page.saturating_mul(2).min(PAGE), JSON);
        let text = |name: &str| answer["metadata"][name].as_str().unwrap_or_default().to_owned();
        next = text("continue");
        if next.is_empty() {
            break text("resourceVersion");
        }
    };
    Ok(Listing::Whole { version, objects })
}

/// Marks an object that was requested as metadata only.
fn mark(which: &WatchTarget, long: &mut Value) {
    let text = |name: &str| long["metadata"][name].as_str().unwrap_or_default();
    let (kind, namespace, name) = (which.kind.name(), text("namespace"), text("name"));
    tracing::warn!("{kind} {namespace}/{name} is too long, only its metadata are used");
    long[METADATA_ALONE] = true.into();
}

impl Follower {
    /// Watches and sends the events. Returns the version to continue from after the server has ended the
    /// watch; `None` if the receiver is dropped.
    async fn watch(&mut self, from: String) -> Result<Option<String>> {
        let which = &self.which;
        let path = which.path(&format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={OPEN}&resourceVersion={}",
            escaped(&from)
        ));
        let began = Instant::now();
        let events = Events::open(&self.client, get(&path)?).await;
        crate::metrics::request("GET", began, Some(events.as_ref()));
        let mut events = events.map_err(|error| watch_error("watch", which, error))?;
        let mut version = from;
        let (opened, mut is_silent) = (tokio::time::Instant::now(), true);
        loop {
            let event = tokio::select! {
                event = tokio::time::timeout(SILENT, events.next()) => event,
                () = self.to.closed() => return Ok(None),
            };
            let event = event
                .map_err(|_| silence_error("watch", which))?
                .map_err(|error| watch_error("watch", which, error))?;
            let Some(event) = event else {
                self.is_doubted = is_silent || opened.elapsed() < WHOLE;
                return Ok(Some(version));
            };
            is_silent = false;
            let mut goes_on = true;
            let mut at = |object: &Value, is_gone: bool| {
                if let Some(next) = object["metadata"]["resourceVersion"].as_str() {
                    next.clone_into(&mut version);
                }
                goes_on = self.trail.record_object(object, is_gone);
            };
            let seen = match event {
                WatchEvent::Added(BoundedObject(object)) | WatchEvent::Modified(BoundedObject(object)) => {
                    at(&object, false);
                    Some(WatchMessage::Changed(which.kind, object))
                }
                WatchEvent::Deleted(BoundedObject(object)) => {
                    at(&object, true);
                    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
                    let key = Key { kind: which.kind, namespace: text("namespace"), name: text("name") };
                    Some(WatchMessage::Gone(key, text("uid")))
                }
                WatchEvent::Bookmark(bookmark) => {
                    version = bookmark.metadata.resource_version;
                    goes_on = version.parse().map_or(true, |version| self.trail.record_version(version));
                    None
                }
                WatchEvent::Error(status) => {
                    return Err(watch_error("watch", which, kube::Error::Api(status)));
                }
            };
            if !goes_on {
                return Err(disordered(which));
            }
            self.history.record_version(which.kind, self.trail.newest());
            if let Some(seen) = seen
                && self.to.send(seen).await.is_err()
            {
                return Ok(None);
            }
        }
    }
}

fn get(path: &str) -> Result<Request<Vec<u8>>> {
    Request::get(path).body(Vec::new()).map_err(|e| Error::setup(format!("{path} is not a valid URL"), e))
}

fn watch_error(doing: &str, which: &WatchTarget, error: kube::Error) -> Error {
    Error::of_client(doing, &Key::new(which.kind, which.namespace.clone(), "(all)"), error)
}

/// Error for a version that goes backwards: the objects must be listed again.
fn disordered(which: &WatchTarget) -> Error {
    let what =
        format!("cannot watch {}: the API server sent an older version after a newer one", which.kind.name());
    Error::new(ErrorKind::Expired, what)
}

fn silence_error(doing: &str, which: &WatchTarget) -> Error {
    let what = format!("cannot {doing} {}: the API server was silent for too long", which.kind.name());
    Error::new(ErrorKind::Unreachable, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::ApiServer;
    use serde_json::json;
    use tokio::sync::mpsc;

    /// A server with these DataSources, and the objects as they are stored.
    fn server_with(objects: impl IntoIterator<Item = Value>) -> (ApiServer, Vec<Value>) {
        let server = ApiServer::default();
        objects.into_iter().for_each(|object| server.put_object(Kind::DataSource, object));
        let stored = server.objects().into_iter().map(|(_, object)| object).collect();
        (server, stored)
    }

    async fn whole_list(server: &ApiServer) -> (String, Vec<Value>) {
        match list(&server.client(), &WatchTarget::all(Kind::DataSource, None)).await.unwrap() {
            Listing::Whole { version, objects } => (version, objects),
            Listing::NotServed(e) => panic!("{}", e.chain()),
        }
    }

    fn object(name: &str, spec: &Value) -> Value {
        json!({"metadata": {"name": name}, "spec": spec})
    }

    /// An object whose metadata alone are listed.
    fn named(object: &Value) -> Value {
        json!({"metadata": object["metadata"], "metadataAlone": true})
    }

    #[tokio::test]
    async fn an_object_that_is_too_deep_leaves_the_list_as_it_is() {
        let deep = (0..200).fold(Value::Null, |within, _| json!({"a": within}));
        let small = json!({"c": 1});
        let (server, all) = server_with([object("a", &small), object("b", &deep), object("c", &small)]);
        let (to, mut seen) = mpsc::channel(1);
        tokio::spawn(follow(server.client(), WatchTarget::all(Kind::DataSource, None), to));
        let told = tokio::time::timeout(LISTING, seen.recv()).await.unwrap();
        let Some(WatchMessage::Listed(Kind::DataSource, listed)) = told else { panic!("it is a list") };
        assert_eq!(listed, [all[0].clone(), named(&all[1]), all[2].clone()]);
        server
            .until_used(&[(Kind::DataSource, None, "list"), (Kind::DataSource, None, "watch")].into())
            .await;
    }

    #[tokio::test]
    async fn of_an_object_that_is_too_long_alone_the_metadata_are_listed() {
        let long = json!("x".repeat(17 << 20));
        let (server, all) =
            server_with([object("a", &Value::Null), object("b", &long), object("c", &Value::Null)]);
        let (version, listed) = whole_list(&server).await;
        assert_eq!(version, "3");
        assert_eq!(listed, [all[0].clone(), named(&all[1]), all[2].clone()]);
        assert_eq!(server.count(), 8, "of 500, 62, 7, 1, 2, 1, of the metadata of 1, and of 2");
    }

    #[tokio::test]
    async fn pages_grow_again_behind_long_objects() {
        let spec = |number| if number < 64 { json!("x".repeat(300 << 10)) } else { Value::Null };
        let (server, _) = server_with((0..504).map(|number| object(&format!("a{number:03}"), &spec(number))));
        let (version, listed) = whole_list(&server).await;
        assert_eq!(version, "504");
        assert_eq!(
            (listed.len(), server.count()),
            (504, 9),
            "of 500, 62, 7, 14, 28, 56, 112, 224, and the rest"
        );
    }

    /// The next message of a follower of VMs.
    async fn next(seen: &mut mpsc::Receiver<WatchMessage>) -> WatchMessage {
        tokio::time::timeout(LISTING, seen.recv()).await.expect("nothing is told").unwrap()
    }

    fn vm(name: &str, strategy: &str) -> Value {
        json!({"metadata": {"namespace": "n", "name": name}, "spec": {"runStrategy": strategy}})
    }

    /// A server with one VM, and a follower that has listed it.
    async fn followed() -> (ApiServer, Arc<History>, mpsc::Receiver<WatchMessage>) {
        let (server, history, (to, mut seen)) = (ApiServer::default(), Arc::default(), mpsc::channel(16));
        server.put_object(Kind::VirtualMachine, vm("a", "Always"));
        let which = WatchTarget::all(Kind::VirtualMachine, None);
        tokio::spawn(follow_history(server.client(), which, to, Arc::clone(&history)));
        assert!(matches!(next(&mut seen).await, WatchMessage::Listed(_, all) if all.len() == 1));
        server
            .until("it watches", |server| server.asked().iter().any(|request| request.verb == "watch"))
            .await;
        (server, history, seen)
    }

    /// The connection breaks, and the next watch starts at a version that the server has not reached yet,
    /// where it would be silent for long.
    #[tokio::test]
    async fn a_restore_of_etcd_is_found_when_the_watch_breaks() {
        let (server, history, mut seen) = followed().await;
        let snapshot = server.snapshot();
        server.put_object(Kind::VirtualMachine, vm("a", "Halted"));
        assert!(
            matches!(next(&mut seen).await, WatchMessage::Changed(_, vm) if vm["spec"]["runStrategy"] == "Halted")
        );
        assert_eq!(history.restore_reason(), None);
        server.restore(&snapshot, 0);
        let WatchMessage::Listed(_, all) = next(&mut seen).await else { panic!("the list is the truth") };
        assert_eq!(all[0]["spec"]["runStrategy"], "Always");
        assert!(history.restore_reason().unwrap().contains("virtualmachines"));
        assert_eq!(history.wait().await, history.restore_reason().unwrap());
        // The other history continues.
        server.put_object(Kind::VirtualMachine, vm("b", "Always"));
        assert!(
            matches!(next(&mut seen).await, WatchMessage::Changed(_, vm) if vm["metadata"]["name"] == "b")
        );
    }

    #[tokio::test]
    async fn a_watch_that_breaks_goes_on_where_it_was() {
        let (server, history, mut seen) = followed().await;
        for name in ["b", "c", "d"] {
            server.breaks();
            server.put_object(Kind::VirtualMachine, vm(name, "Always"));
            assert!(
                matches!(next(&mut seen).await, WatchMessage::Changed(_, vm) if vm["metadata"]["name"] == name)
            );
        }
        assert_eq!(history.restore_reason(), None);
    }

    /// Writes of the program have a newer version than the events of its watch.
    #[tokio::test]
    async fn a_list_that_is_older_than_an_answer_is_of_another_history() {
        let (server, history, mut seen) = followed().await;
        let snapshot = server.snapshot();
        server.stalls(true);
        server.put_object(Kind::VirtualMachine, vm("a", "Halted"));
        let answer = server.object("/apis/kubevirt.io/v1/namespaces/n/virtualmachines/a").unwrap();
        history.record(Kind::VirtualMachine, &answer);
        server.fails(Some(http::StatusCode::INTERNAL_SERVER_ERROR));
        server.restore(&snapshot, 0);
        server.fails(None);
        loop {
            match next(&mut seen).await {
                WatchMessage::Listed(..) if history.restore_reason().is_some() => break,
                WatchMessage::Listed(..) => panic!("it is not found"),
                _ => {}
            }
        }
    }

    /// The first list of 501 VMs that is told, where the server has refused this request once.
    async fn first_list(request: &str, code: u16) -> Vec<Value> {
        let server = ApiServer::default();
        for number in 0..501 {
            server.put_object(Kind::VirtualMachine, vm(&format!("a{number:03}"), "Always"));
        }
        let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": "Expired"});
        server.answers(request, code, status.to_string());
        let (to, mut seen) = mpsc::channel(16);
        tokio::spawn(follow(server.client(), WatchTarget::all(Kind::VirtualMachine, None), to));
        while !server.asked().iter().any(|asked| asked.line == request) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.forgets(request);
        match next(&mut seen).await {
            WatchMessage::Listed(_, objects) => objects,
            other => panic!("{other:?}"),
        }
    }

    /// virt-controller would take VMs that run for VMs that are gone.
    #[tokio::test]
    async fn a_list_that_breaks_off_is_begun_again_and_not_told() {
        let page = |next: &str| format!("GET /apis/kubevirt.io/v1/virtualmachines?limit=500&continue={next}");
        for (next, code) in [("500", 404), ("500", 410), ("", 410)] {
            assert_eq!(first_list(&page(next), code).await.len(), 501, "{code} of the page '{next}'");
        }
        assert_eq!(first_list(&page(""), 404).await.len(), 0, "the server does not know the kind");
    }

    #[test]
    fn one_object_is_followed_by_its_name_and_another_of_the_answer_is_left_out() {
        let which = WatchTarget::for_object(Kind::Secret, "n", "a");
        assert!(which.path("watch=true").ends_with("&fieldSelector=metadata.name%3Da"));
        let object = |name: &str| json!({"metadata": {"name": name}});
        for (objects, expected) in
            [(vec![], None), (vec![object("b")], None), (vec![object("b"), object("a")], Some(object("a")))]
        {
            let WatchMessage::Only(key, found) = list_message(&which, objects) else {
                panic!("it is one by its name")
            };
            assert_eq!((key, found), (Key::new(Kind::Secret, "n", "a"), expected));
        }
    }
}
