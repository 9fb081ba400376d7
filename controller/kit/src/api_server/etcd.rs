//! Objects by their paths, the versions and uids that they get, and the rules of a write.

use super::answer::{Answer, conflict, created, not_found, ok, refusal};
use super::data_source::store_data_source;
use super::json_patch::json_patch;
use super::request::{PatchForm, Place, Request, Selection};
use cluster_model::objects::Kind;
use cluster_model::plan::merge;
use http::StatusCode;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Time of all creations and deletions.
const NOW: &str = "2026-01-01T00:00:00Z";

#[derive(Default)]
pub(super) struct Etcd {
    stored: Stored,
    /// Events since the last restore.
    log: Vec<Event>,
    /// Versions before this one are no longer known.
    pub(super) compacted: u64,
    /// Number of times that all watches were broken off.
    pub(super) breaks: usize,
    /// Watches send nothing.
    pub(super) stalls: bool,
}

/// Contents of etcd.
#[derive(Clone, Default)]
pub struct Stored {
    version: u64,
    objects: BTreeMap<String, Value>,
}

/// Event of a watch.
struct Event {
    version: u64,
    /// `None` for a bookmark, which is of all kinds.
    kind: Option<Kind>,
    word: &'static str,
    object: Value,
}

impl Etcd {
    pub(super) fn version(&self) -> u64 {
        self.stored.version
    }

    pub(super) fn get(&self, path: &str) -> Option<&Value> {
        self.stored.objects.get(path)
    }

    pub(super) fn all(&self) -> Vec<(Kind, Value)> {
        let all = self.stored.objects.iter();
        all.filter_map(|(path, object)| Some((Place::of(path)?.kind, object.clone()))).collect()
    }

    pub(super) fn snapshot(&self) -> Stored {
        self.stored.clone()
    }

    pub(super) fn restore(&mut self, snapshot: &Stored, bump: u64) {
        self.stored = snapshot.clone();
        self.stored.version += bump;
        // Same as `--mark-compacted`.
        self.compacted = if bump > 0 { self.stored.version } else { 0 };
        self.log.clear();
        self.breaks += 1;
    }

    /// Creates or replaces an object.
    pub(super) fn put(&mut self, path: &str, mut object: Value) -> Value {
        let place = Place::of(path).unwrap_or_else(|| panic!("{path} is of no kind that is known here"));
        let old = self.stored.objects.get(path);
        let next = self.stored.version + 1;
        name(&mut object, &place);
        let meta = &mut object["metadata"];
        let mut default = |field: &str, value: Value| {
            if meta[field].is_null() {
                meta[field] = old.map_or(value, |old| old["metadata"][field].clone());
            }
        };
        default("uid", json!(format!("uid-{next}")));
        default("creationTimestamp", json!(NOW));
        default("generation", json!(1));
        default("resourceVersion", json!(next.to_string()));
        if let Some(old) = old {
            object["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
            if *old == object {
                return object;
            }
            let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
            object["metadata"]["generation"] = json!(generation + i64::from(old["spec"] != object["spec"]));
            object["metadata"]["resourceVersion"] = json!(next.to_string());
        }
        let word = if old.is_some() { "MODIFIED" } else { "ADDED" };
        self.stored.objects.insert(path.to_owned(), object.clone());
        self.happen(place.kind, word, object.clone());
        object
    }

    pub(super) fn remove(&mut self, path: &str) -> Option<Value> {
        let mut object = self.stored.objects.remove(path)?;
        object["metadata"]["resourceVersion"] = json!((self.stored.version + 1).to_string());
        self.happen(Place::of(path)?.kind, "DELETED", object.clone());
        Some(object)
    }

    fn happen(&mut self, kind: Kind, word: &'static str, object: Value) {
        self.stored.version += 1;
        self.log.push(Event { version: self.stored.version, kind: Some(kind), word, object });
    }

    pub(super) fn bookmark(&mut self) {
        let version = self.stored.version;
        let meta = json!({"resourceVersion": version.to_string(), "creationTimestamp": null});
        let object = json!({"kind": "Bookmark", "apiVersion": "v1", "metadata": meta, "spec": {}});
        self.log.push(Event { version, kind: None, word: "BOOKMARK", object });
    }

    /// Number of the events so far.
    pub(super) fn events(&self) -> usize {
        self.log.len()
    }

    /// Lines of a watch for the events behind a version, from a position in the log on.
    pub(super) fn lines(&self, selection: &Selection, version: u64, position: usize) -> Vec<String> {
        let is_meant = |event: &&Event| {
            event.version > version && event.kind.is_none_or(|kind| selection.takes(kind, &event.object))
        };
        // Fields in the order of the real API server.
        let line = |event: &Event| format!("{{\"type\":\"{}\",\"object\":{}}}\n", event.word, event.object);
        self.log.iter().skip(position).filter(is_meant).map(line).collect()
    }

    /// One page of a list.
    pub(super) fn list(&self, request: &Request, selection: &Selection) -> Value {
        let is_meant = |(path, object): &(&String, &Value)| {
            Place::of(path).is_some_and(|place| selection.takes(place.kind, object))
        };
        let all: Vec<&Value> =
            self.stored.objects.iter().filter(is_meant).map(|(_, object)| object).collect();
        let number = |name: &str| request.number(name).and_then(|number| usize::try_from(number).ok());
        let from = number("continue").unwrap_or(0).min(all.len());
        let end = number("limit").map_or(all.len(), |limit| all.len().min(from + limit));
        let shown = |object: &&Value| match request.is_of_metadata() {
            true => json!({"metadata": object["metadata"]}),
            false => (*object).clone(),
        };
        let items: Vec<Value> = all[from..end].iter().map(shown).collect();
        let mut meta = json!({"resourceVersion": self.stored.version.to_string()});
        if end < all.len() {
            meta["continue"] = json!(end.to_string());
        }
        json!({"metadata": meta, "items": items})
    }

    /// Creates an object of a client.
    pub(super) fn create(&mut self, request: &Request, place: &Place, mut object: Value) -> Answer {
        let version = self.stored.version + 1;
        let generated = || format!("{}{version}", object["metadata"]["generateName"].as_str().unwrap_or("x"));
        let name_of = object["metadata"]["name"].as_str().map_or_else(generated, str::to_owned);
        let path = format!("{}/{name_of}", request.path);
        if self.stored.objects.contains_key(&path) {
            return refusal(StatusCode::CONFLICT, "AlreadyExists", &format!("{path} already exists"));
        }
        name(&mut object, &Place { name: Some(name_of), ..place.clone() });
        if place.kind == Kind::PersistentVolumeClaim {
            store_data_source(&mut object);
        }
        let object = if request.is_dry() { object } else { self.put(&path, object) };
        created(&object)
    }

    /// Patches an object.
    pub(super) fn patch(&mut self, request: &Request, place: &Place) -> Answer {
        let path = request.object();
        let Some(old) = self.stored.objects.get(path).cloned() else { return not_found(request) };
        let version = &request.body["metadata"]["resourceVersion"];
        if !version.is_null() && *version != old["metadata"]["resourceVersion"] {
            return conflict(path);
        }
        let Some(mut object) = changed(&old, request) else {
            return refusal(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", "the patch does not apply");
        };
        if place.part == Some("status") {
            let (status, meta) = (object["status"].take(), object["metadata"].take());
            object = old;
            object["status"] = status;
            // Of a pod this request changes labels and annotations too.
            if place.kind == Kind::Pod {
                for part in ["annotations", "labels"] {
                    match &meta[part] {
                        Value::Null => drop(object["metadata"].as_object_mut().map(|meta| meta.remove(part))),
                        changed => object["metadata"][part] = changed.clone(),
                    }
                }
            }
        }
        if !request.is_dry() {
            let is_over = is_going(&object) && !is_held(&object);
            object = self.put(path, object);
            if is_over {
                self.remove(path);
            }
        }
        ok(&object)
    }

    /// Deletes an object that fulfills the preconditions. Finalizers delay the end.
    pub(super) fn delete(&mut self, request: &Request, options: &Value) -> Answer {
        let path = request.object();
        let Some(mut object) = self.stored.objects.get(path).cloned() else { return not_found(request) };
        let is_other = |field: &str| {
            let wanted = &options["preconditions"][field];
            !wanted.is_null() && *wanted != object["metadata"][field]
        };
        if is_other("uid") || is_other("resourceVersion") {
            return conflict(path);
        }
        if !request.is_dry() && !options["dryRun"].is_array() {
            object["metadata"]["deletionTimestamp"] = json!(NOW);
            object = match is_held(&object) {
                true => self.put(path, object),
                false => self.remove(path).unwrap_or_default(),
            };
        }
        ok(&object)
    }
}

/// Writes the name and the namespace of a path into an object.
fn name(object: &mut Value, place: &Place) {
    object["metadata"]["name"] = json!(place.name);
    if let Some(namespace) = &place.namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
}

/// The object after the patch of a request; `None` if it does not apply.
fn changed(old: &Value, request: &Request) -> Option<Value> {
    let (mut object, change) = (old.clone(), &request.body);
    match request.patch_form() {
        PatchForm::Json => return json_patch(object, change.as_array()?),
        PatchForm::Merge => merge(&mut object, change),
        PatchForm::Strategic => {
            merge(&mut object, change);
            if let Some(new) = change["status"]["conditions"].as_array() {
                let mut all = old["status"]["conditions"].as_array().cloned().unwrap_or_default();
                all.retain(|old| !new.iter().any(|new| new["type"] == old["type"]));
                all.extend(new.iter().cloned());
                object["status"]["conditions"] = Value::Array(all);
            }
        }
    }
    Some(object)
}

fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn is_held(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}
