//! Follows the objects of one kind: a list, then every change, for ever.
//!
//! ```text
//!  list ─► Begin, There…, Whole ─► watch ─► There, Gone, …
//!    ▲                               │ the server ended it: watched on from the last version seen
//!    └───────────────────────────────┘ that version is too old, or an error: listed again, a little later each time
//! ```

use futures_util::StreamExt as _;
use http::{Method, Request, header};
use kube::core::WatchEvent;
use serde_json::Value;
use std::time::Duration;
use tokio::sync::mpsc;

/// The longest pause before it is tried again.
const LONGEST: Duration = Duration::from_secs(20);
/// How long one watch lasts; the server ends it.
const WATCH: u32 = 290;
/// Objects of one part of a list.
const PART: u32 = 500;

/// What happens to the objects.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// All of them are told anew …
    Begin,
    /// One is there, or has changed.
    There(Value),
    /// … and that were all.
    Whole,
    /// One is gone.
    Gone(Value),
}

/// Objects of one kind that match.
#[derive(Clone, Debug)]
pub struct Objects {
    /// `/api/v1/pods`
    pub path: String,
    /// `labelSelector=…&fieldSelector=…`, as it stands in an address.
    pub selector: String,
}

/// Follows objects until nobody listens.
pub async fn follow(client: kube::Client, objects: Objects, tell: mpsc::Sender<Event>) {
    let mut pause = Duration::from_millis(500);
    loop {
        match once(&client, &objects, &tell).await {
            Ok(Ended::NobodyListens) => return,
            Ok(Ended::TooOld) => pause = Duration::from_millis(500),
            Err(e) => {
                tracing::warn!("cannot follow {}: {e}; again in {} ms", objects.path, pause.as_millis());
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST);
            }
        }
    }
}

enum Ended {
    NobodyListens,
    TooOld,
}

async fn once(
    client: &kube::Client,
    objects: &Objects,
    tell: &mpsc::Sender<Event>,
) -> Result<Ended, kube::Error> {
    let Some(mut version) = list(client, objects, tell).await? else { return Ok(Ended::NobodyListens) };
    loop {
        let query = format!(
            "watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH}&resourceVersion={version}&{}",
            objects.selector
        );
        let events = client.request_events::<Value>(get(&objects.path, &query)?).await?;
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            let (object, event): (Value, fn(Value) -> Event) = match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, Event::There),
                WatchEvent::Deleted(object) => (object, Event::Gone),
                WatchEvent::Bookmark(mark) => {
                    version = mark.metadata.resource_version;
                    continue;
                }
                WatchEvent::Error(status) if status.code == 410 => return Ok(Ended::TooOld),
                WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
            };
            if let Some(seen) = object.pointer("/metadata/resourceVersion").and_then(Value::as_str) {
                seen.clone_into(&mut version);
            }
            if tell.send(event(object)).await.is_err() {
                return Ok(Ended::NobodyListens);
            }
        }
    }
}

/// Tells all that are there, part by part. Gives back the version that they are of.
async fn list(
    client: &kube::Client,
    objects: &Objects,
    tell: &mpsc::Sender<Event>,
) -> Result<Option<String>, kube::Error> {
    let mut next = String::new();
    let mut told = tell.send(Event::Begin).await.is_ok();
    loop {
        let query = format!("limit={PART}&continue={next}&{}", objects.selector);
        let mut part: Value = client.request(get(&objects.path, &query)?).await?;
        let items = part.get_mut("items").map(Value::take);
        for object in
            items.and_then(|items| serde_json::from_value::<Vec<Value>>(items).ok()).unwrap_or_default()
        {
            told = told && tell.send(Event::There(object)).await.is_ok();
        }
        let word = |name: &str| part["metadata"][name].as_str().unwrap_or_default().to_owned();
        next = word("continue");
        if next.is_empty() {
            told = told && tell.send(Event::Whole).await.is_ok();
            return Ok(told.then(|| word("resourceVersion")));
        }
    }
}

fn get(path: &str, query: &str) -> Result<Request<Vec<u8>>, kube::Error> {
    let request = Request::builder().method(Method::GET).uri(format!("{path}?{query}"));
    let request = request.header(header::ACCEPT, "application/json").body(Vec::new());
    request.map_err(kube::Error::HttpError)
}
