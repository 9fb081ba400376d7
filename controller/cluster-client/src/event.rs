//! Events about an object, for users.

use cluster_model::objects::{Key, Kind, names};
use cluster_model::plan::EventRecord;
use jiff::Timestamp;
use serde_json::{Value, json};

/// The program that reports an event.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub component: &'a str,
    /// The node, for a program that runs on each node.
    pub host: Option<&'a str>,
}

impl<'a> Source<'a> {
    /// A program without a node.
    pub fn new(component: &'a str) -> Source<'a> {
        Source { component, host: None }
    }
}

/// The Event object for a note, and its key.
pub(super) fn event(note: &EventRecord, source: Source<'_>, now: Timestamp) -> (Value, Key) {
    let Key { kind, namespace, name } = &note.key;
    // Events of cluster-scoped objects are in the namespace `default`.
    let within = if namespace.is_empty() { "default" } else { namespace };
    let short: String = name.chars().take(200).collect();
    let unique = format!("{short}.{:016x}", now.as_nanosecond() as u64 ^ names::fnv(&note.message));
    let seconds = cluster_model::conditions::stamp(now);
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
        "message": bounded_message(&note.message),
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

/// A message for an event: shortened, and without control characters. It may contain texts of workers,
/// launchers and kubelets.
fn bounded_message(text: &str) -> String {
    const LONGEST: usize = 1000;
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_says_is_bounded_and_plain() {
        let message = format!("the pod broke off: \u{1b}[2J\nforged{}", "x".repeat(2000));
        let key = Key::new(Kind::Pod, "n", "a");
        let note = EventRecord { key, uid: String::new(), warning: true, reason: "Failed", message };
        let (object, _) = event(&note, Source::new("virt-controller"), Timestamp::UNIX_EPOCH);
        let said = object["message"].as_str().unwrap();
        assert!(said.starts_with("the pod broke off:  [2J forged") && said.chars().count() == 1000, "{said}");
    }
}
