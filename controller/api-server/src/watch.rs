//! The objects of a kind, and what becomes of them: list, then watch, for ever.
//!
//! ```text
//!  list (in pages) ─► Listed(all) ─► watch from there ─► Changed, Gone, …
//!        ▲                                │ ended in order: watch on from the last version
//!        └──────── version too old, or ───┘ never sent: watch from the same version
//!                  anything else wrong
//! ```
//!
//! After every `Listed` the receiver has the whole truth again, whatever was lost in between.

use super::answer::Answer;
use super::events::Events;
use super::request::{JSON, ask};
use crate::error::{Error, ErrorKind, Result};
use http::Request;
use kube::core::WatchEvent;
use kubernetes::objects::{Key, Kind, METADATA_ALONE, Which, escaped};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;

/// Objects of one page of a list at most. Where they are too long together, the next has an eighth of them; then twice as many again.
const PAGE: u32 = 500;
/// What is asked for of an object that is too long alone.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// How long the server may take for a page of a list.
const LISTING: Duration = Duration::from_secs(60);
/// How long the server keeps a watch open; nothing is lost when it ends.
const OPEN: u64 = 290;
/// How long a watch may be silent: it should have ended.
const SILENT: Duration = Duration::from_secs(OPEN + 40);
/// How long is waited after something went wrong, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(20));

/// What is seen.
#[derive(Clone, Debug)]
pub enum Seen {
    /// All objects of a kind; there are no others.
    Listed(Kind, Vec<Value>),
    /// The one object that is followed by its name: as it is, or nothing where there is none.
    Only(Key, Option<Value>),
    /// An object is new or another.
    Changed(Kind, Value),
    /// An object is gone, and which of that name it was.
    Gone(Key, String),
}

/// What a list of these objects tells.
fn listed(which: &Which, objects: Vec<Value>) -> Seen {
    match which.name {
        None => Seen::Listed(which.kind, objects),
        Some(name) => {
            let key = Key::new(which.kind, which.namespace.clone(), name);
            Seen::Only(key, objects.into_iter().find(|object| object["metadata"]["name"] == name))
        }
    }
}

/// Tells what is seen until nobody listens any more.
pub async fn follow(client: kube::Client, which: Which, to: Sender<Seen>) {
    let mut pause = PAUSE.0;
    let mut version: Option<String> = None;
    loop {
        let result = match &version {
            None => list(&client, &which, &to).await,
            Some(from) => watch(&client, &which, from.clone(), &to).await,
        };
        match result {
            Ok(Some(next)) => {
                pause = PAUSE.0;
                version = Some(next);
            }
            Ok(None) => return,
            Err(error) => {
                if error.kind() == ErrorKind::Gone {
                    tracing::debug!("{}", error.chain());
                } else {
                    tracing::warn!("{}", error.chain());
                }
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = to.closed() => return,
                }
                pause = (pause * 2).min(PAUSE.1);
                if !error.is_unsent() {
                    version = None;
                }
            }
        }
    }
}

/// Tells all there are. The version to watch from; nothing, when nobody listens.
async fn list(client: &kube::Client, which: &Which, to: &Sender<Seen>) -> Result<Option<String>> {
    let mut objects = Vec::new();
    let mut next = String::new();
    let (mut page, mut form) = (PAGE, JSON);
    let version = loop {
        let path = which.path(&format!("limit={page}&continue={}", escaped(&next)));
        let all = Key::new(which.kind, which.namespace.clone(), "(all)");
        let request = Request::get(&path).header(http::header::ACCEPT, form);
        let mut answer = match ask(client, "list", &all, request, None, LISTING).await {
            // The kind is not known to the server (yet): there are none. It may be installed any time.
            Err(error) if error.kind() == ErrorKind::Gone && objects.is_empty() => {
                if to.send(listed(which, Vec::new())).await.is_err() {
                    return Ok(None);
                }
                return Err(error);
            }
            answer => match answer? {
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
            },
        };
        if let Value::Array(items) = answer["items"].take() {
            let mut items = items;
            if form == METADATA {
                // A page of one was asked for: of others the specifications are not to be lost.
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
    let told = to.send(listed(which, objects)).await;
    Ok(told.is_ok().then_some(version))
}

/// Of this object only the metadata were asked for.
fn mark(which: &Which, long: &mut Value) {
    let text = |name: &str| long["metadata"][name].as_str().unwrap_or_default();
    let (kind, namespace, name) = (which.kind.name(), text("namespace"), text("name"));
    tracing::warn!("{kind} {namespace}/{name} is too long: only its metadata are looked at");
    long[METADATA_ALONE] = true.into();
}

/// Tells what becomes of them. The version to go on from when the server ends it; nothing, when nobody listens.
async fn watch(
    client: &kube::Client,
    which: &Which,
    from: String,
    to: &Sender<Seen>,
) -> Result<Option<String>> {
    let path = which.path(&format!(
        "watch=true&allowWatchBookmarks=true&timeoutSeconds={OPEN}&resourceVersion={}",
        escaped(&from)
    ));
    let began = Instant::now();
    let events = Events::of(client, get(&path)?).await;
    crate::metrics::request("GET", began, Some(events.as_ref()));
    let mut events = events.map_err(|error| wrong("watch", which, error))?;
    let mut version = from;
    loop {
        let event = tokio::select! {
            event = tokio::time::timeout(SILENT, events.next()) => event,
            () = to.closed() => return Ok(None),
        };
        let event =
            event.map_err(|_| silent("watch", which))?.map_err(|error| wrong("watch", which, error))?;
        let mut at = |object: &Value| {
            if let Some(next) = object["metadata"]["resourceVersion"].as_str() {
                next.clone_into(&mut version);
            }
        };
        let seen = match event {
            None => return Ok(Some(version)),
            Some(WatchEvent::Added(Answer(object)) | WatchEvent::Modified(Answer(object))) => {
                at(&object);
                Seen::Changed(which.kind, object)
            }
            Some(WatchEvent::Deleted(Answer(object))) => {
                at(&object);
                let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
                let key = Key { kind: which.kind, namespace: text("namespace"), name: text("name") };
                Seen::Gone(key, text("uid"))
            }
            Some(WatchEvent::Bookmark(bookmark)) => {
                version = bookmark.metadata.resource_version;
                continue;
            }
            Some(WatchEvent::Error(status)) => return Err(wrong("watch", which, kube::Error::Api(status))),
        };
        if to.send(seen).await.is_err() {
            return Ok(None);
        }
    }
}

fn get(path: &str) -> Result<Request<Vec<u8>>> {
    Request::get(path).body(Vec::new()).map_err(|e| Error::setup(format!("{path} makes no address"), e))
}

fn wrong(doing: &str, which: &Which, error: kube::Error) -> Error {
    Error::of_client(doing, &Key::new(which.kind, which.namespace.clone(), "(all)"), error)
}

fn silent(doing: &str, which: &Which) -> Error {
    let what = format!("cannot {doing} {}: the API server was silent for too long", which.kind.name());
    Error::new(ErrorKind::Unreachable, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::Asked;
    use serde_json::json;
    use tokio::sync::mpsc;

    /// What a list of these objects tells, and how many requests that takes.
    async fn list_of(objects: &[Value]) -> (Vec<Value>, usize) {
        let server = Asked::begin().await;
        let (which, (to, mut seen)) = (Which::all(Kind::DataSource, None), mpsc::channel(1));
        let objects = json!({"metadata": {"resourceVersion": "1"}, "items": objects});
        server.has(&Kind::DataSource.collection(""), objects);
        assert_eq!(list(&server.client, &which, &to).await.unwrap().unwrap(), "1");
        let Some(Seen::Listed(Kind::DataSource, listed)) = seen.recv().await else { panic!("it is a list") };
        (listed, server.count())
    }

    fn object(name: &str, spec: &Value) -> Value {
        json!({"metadata": {"name": name}, "spec": spec})
    }

    #[tokio::test]
    async fn an_object_that_is_too_deep_leaves_the_list_as_it_is() {
        let deep = (0..200).fold(Value::Null, |within, _| json!({"a": within}));
        let (small, server) = (object("b", &json!({"c": 1})), Asked::begin().await);
        let objects = [&small, &object("a", &deep), &small];
        let list = json!({"metadata": {"resourceVersion": "1"}, "items": objects});
        server.has(&Kind::DataSource.collection(""), list);
        let (to, mut seen) = mpsc::channel(1);
        tokio::spawn(follow(server.client.clone(), Which::all(Kind::DataSource, None), to));
        let told = tokio::time::timeout(LISTING, seen.recv()).await.unwrap();
        let Some(Seen::Listed(Kind::DataSource, listed)) = told else { panic!("it is a list") };
        let named = json!({"metadata": {"name": "a"}, "metadataAlone": true});
        assert_eq!(listed, [small.clone(), named, small]);
        server.until(&[(Kind::DataSource, None, "list"), (Kind::DataSource, None, "watch")].into()).await;
    }

    #[tokio::test]
    async fn of_an_object_that_is_too_long_alone_the_metadata_are_listed() {
        let (small, long) = (object("b", &Value::Null), object("a", &json!("x".repeat(17 << 20))));
        let (listed, requests) = list_of(&[small.clone(), long, small.clone()]).await;
        let named = json!({"metadata": {"name": "a"}, "metadataAlone": true});
        assert_eq!(listed, [small.clone(), named, small]);
        assert_eq!(requests, 8, "of 500, 62, 7, 1, 2, 1, of the metadata of 1, and of 2");
    }

    #[tokio::test]
    async fn pages_grow_again_behind_long_objects() {
        let long = object("a", &json!("x".repeat(300 << 10)));
        let (mut objects, small) = (vec![long; 64], object("b", &Value::Null));
        objects.resize(504, small);
        let (listed, requests) = list_of(&objects).await;
        assert_eq!((listed.len(), requests), (504, 9), "of 500, 62, 7, 14, 28, 56, 112, 224, and the rest");
    }

    #[test]
    fn one_object_is_followed_by_its_name_and_another_of_the_answer_is_left_out() {
        let which = Which::only(Kind::Secret, "n", "a");
        assert!(which.path("watch=true").ends_with("&fieldSelector=metadata.name%3Da"));
        let object = |name: &str| json!({"metadata": {"name": name}});
        for (objects, expected) in
            [(vec![], None), (vec![object("b")], None), (vec![object("b"), object("a")], Some(object("a")))]
        {
            let Seen::Only(key, found) = listed(&which, objects) else { panic!("it is one by its name") };
            assert_eq!((key, found), (Key::new(Kind::Secret, "n", "a"), expected));
        }
    }
}
