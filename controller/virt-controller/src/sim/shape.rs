//! What there is, without what chance gives: uids, times, versions, and names that follow from those. Two ends are the same
//! when their shapes are.

use super::Sim;
use cluster_model::metadata::SCALE_IN;
use cluster_model::objects::Kind;
use cluster_model::objects::OF_VM;
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Objects by what they are; several of one kind may be alike.
pub(crate) type Shape = BTreeMap<String, Vec<Value>>;

/// The VMIs of the replica set are alike, whatever their numbers are.
pub(crate) const FLOCK: &str = "flock-";

/// What there is.
pub(crate) fn shape(sim: &Sim) -> Shape {
    let mut shape = Shape::new();
    // A revision may be left where a plan breaks off; it goes with its VM.
    for (key, object) in sim.objects.iter().filter(|(key, _)| key.kind != Kind::ControllerRevision) {
        let owner = &object["metadata"]["ownerReferences"][0]["name"];
        let name = match (key.kind, owner.as_str()) {
            (Kind::Pod, Some(owner)) => format!("of {}", plain_text(owner)),
            _ => plain_text(&key.name),
        };
        let mut object = match key.kind {
            // Keys and certificates are others each time.
            Kind::Secret
            | Kind::ConfigMap
            | Kind::CDIConfig
            | Kind::MutatingWebhookConfiguration
            | Kind::ValidatingWebhookConfiguration
            | Kind::APIService => Value::Null,
            _ => plain(object),
        };
        for (part, field) in [
            ("metadata", "name"),
            ("metadata", "uid"),
            ("metadata", "resourceVersion"),
            // Of a VMI it counts the words of its status.
            ("metadata", "generation"),
            // By which way it came here.
            ("status", "phaseTransitionTimestamps"),
        ] {
            drop(object.get_mut(part).and_then(Value::as_object_mut).and_then(|part| part.remove(field)));
        }
        if key.kind == Kind::Pod && super::is_over(&object) {
            // What was said of one that has ended depends on who was quicker, and is nothing to anybody.
            object["status"].as_object_mut().unwrap().remove("conditions");
        }
        if let (Kind::VirtualMachineInstance, Some(Value::Array(list)), true) =
            (key.kind, object.pointer_mut("/metadata/finalizers"), owner.is_null())
        {
            // It may stay where the VM was quicker to go than to let go; nobody asks for it then.
            list.retain(|name| name != OF_VM);
        }
        if owner.is_null()
            && let Some(notes) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
        {
            // It may stay where the replica set was quicker to go than to take back its choice.
            notes.remove(SCALE_IN);
        }
        if let Some(notes) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            for name in ["meddled", "kubevirt.io/heartbeat"] {
                notes.remove(name);
            }
            if notes.is_empty() {
                object["metadata"].as_object_mut().unwrap().remove("annotations");
            }
        }
        for list in ["/status/conditions", "/metadata/finalizers"] {
            if let Some(Value::Array(list)) = object.pointer_mut(list) {
                list.sort_by_key(|entry| (entry["type"].to_string(), entry.to_string()));
            }
        }
        shape.entry(format!("{} {}/{name}", key.kind.name(), key.namespace)).or_default().push(object);
    }
    shape.values_mut().for_each(|alike| alike.sort_by_key(Value::to_string));
    shape
}

/// The first thing in which two ends differ.
pub(crate) fn difference(calm: &Shape, rough: &Shape) -> Option<String> {
    let mut names = calm.keys().chain(rough.keys());
    names.find(|name| calm.get(*name) != rough.get(*name)).map(|name| {
        let text = |shape: &Shape| {
            let alike = shape.get(name).map_or(&[][..], Vec::as_slice);
            alike.iter().map(|object| format!("{object:#}")).collect::<Vec<_>>().join("\n")
        };
        format!("{name} is, where nothing went wrong,\n{}\nand else\n{}", text(calm), text(rough))
    })
}

fn plain(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(plain_text(text)),
        Value::Array(list) => list.iter().map(plain).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (plain_text(name), plain(value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

fn plain_text(text: &str) -> String {
    if text.len() >= 20 && text.parse::<Timestamp>().is_ok() {
        return "(then)".to_owned();
    }
    without_number(&without_number(text, "uid-"), FLOCK)
}

/// Takes away the digits that follow a word.
fn without_number(text: &str, word: &str) -> String {
    let mut parts = text.split(word);
    let mut made = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        made.push_str(word);
        made.push_str(part.trim_start_matches(|letter: char| letter.is_ascii_digit()));
    }
    made
}
