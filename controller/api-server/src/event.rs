//! Events: sentences for people, about an object.

use jiff::Timestamp;
use kubernetes::objects::{Key, Kind, names};
use kubernetes::plan::Note;
use serde_json::{Value, json};

/// The program that tells something.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The program's name.
    pub component: &'a str,
    /// The node that the program runs on, where each node has one.
    pub host: Option<&'a str>,
}

impl<'a> Source<'a> {
    /// A program that does not say where it runs.
    pub fn of(component: &'a str) -> Source<'a> {
        Source { component, host: None }
    }
}

/// The event that tells a note, and its key.
pub(super) fn event(note: &Note, source: Source<'_>, now: Timestamp) -> (Value, Key) {
    let Key { kind, namespace, name } = &note.key;
    // Events of what has no namespace are kept in the default one.
    let within = if namespace.is_empty() { "default" } else { namespace };
    let short: String = name.chars().take(200).collect();
    let unique = format!("{short}.{:016x}", now.as_nanosecond() as u64 ^ names::fnv(&note.message));
    let seconds = kubernetes::conditions::stamp(now);
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": unique, "namespace": within},
        "involvedObject": {
            "apiVersion": kind.api_version(),
            "kind": kind.name(),
            "namespace": namespace,
            "name": name,
            "uid": note.uid,
        },
        "type": if note.warning { "Warning" } else { "Normal" },
        "reason": note.reason,
        "message": note.message.chars().take(1000).collect::<String>(),
        "source": {"component": source.component},
        "reportingComponent": source.component,
        "firstTimestamp": seconds,
        "lastTimestamp": seconds,
        "count": 1,
    });
    if let Some(host) = source.host {
        object["source"]["host"] = json!(host);
        object["reportingInstance"] = json!(host);
    }
    (object, Key::new(Kind::Event, within, unique))
}
