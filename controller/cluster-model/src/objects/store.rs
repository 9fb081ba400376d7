//! Store of the objects of one kind, by namespace and name.

use super::{IndexKey, Plain, owner};
use api::fault::Fault;
use api::meta::ObjectMeta;
use api::wire;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An object that is kept in a store.
pub trait StoredObject: Sized + PartialEq {
    /// Keeps the fields that decisions read. Fields of another form are left out.
    fn parse(object: Value) -> Option<Self>;
    fn meta(&self) -> &ObjectMeta;

    /// Index keys of the object.
    fn index_keys(&self) -> Vec<IndexKey> {
        owner::mark(self.meta()).into_iter().collect()
    }
}

/// A store of one kind, independent of the type that it keeps.
pub(super) trait Objects {
    /// Puts an object. Returns its namespace and name if that changed the store.
    fn put(&mut self, object: Value) -> Option<(String, String)>;
    fn remove(&mut self, namespace: &str, name: &str) -> bool;
    fn names(&self) -> Vec<(String, String)>;
    fn meta(&self, namespace: &str, name: &str) -> Option<&ObjectMeta>;
    fn index_keys(&self, namespace: &str, name: &str) -> Vec<IndexKey>;
}

impl<T: StoredObject> Objects for Store<T> {
    fn put(&mut self, object: Value) -> Option<(String, String)> {
        self.insert(object)
    }

    fn remove(&mut self, namespace: &str, name: &str) -> bool {
        Store::remove(self, namespace, name)
    }

    fn names(&self) -> Vec<(String, String)> {
        Store::names(self)
    }

    fn meta(&self, namespace: &str, name: &str) -> Option<&ObjectMeta> {
        self.get(namespace, name).map(StoredObject::meta)
    }

    fn index_keys(&self, namespace: &str, name: &str) -> Vec<IndexKey> {
        self.get(namespace, name).map(StoredObject::index_keys).unwrap_or_default()
    }
}

/// A clone shares the objects: it costs their names alone.
#[derive(Debug)]
pub struct Store<T>(BTreeMap<(String, String), Arc<T>>);

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Store(self.0.clone())
    }
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Store(BTreeMap::new())
    }
}

impl<T: StoredObject> Store<T> {
    pub fn get(&self, namespace: &str, name: &str) -> Option<&T> {
        self.0.get(&(namespace.to_owned(), name.to_owned())).map(Arc::as_ref)
    }

    pub fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a T> {
        self.0
            .range((namespace.to_owned(), String::new())..)
            .take_while(move |((other, _), _)| other == namespace)
            .map(|(_, object)| object.as_ref())
    }

    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.values().map(Arc::as_ref)
    }

    /// The namespaces and names of all objects.
    pub fn names(&self) -> Vec<(String, String)> {
        self.0.keys().cloned().collect()
    }

    /// Puts an object, unless the store has a newer one. Returns true if that changed the store.
    pub fn put(&mut self, object: Value) -> bool {
        self.insert(object).is_some()
    }

    fn insert(&mut self, object: Value) -> Option<(String, String)> {
        let object = T::parse(object)?;
        let meta = object.meta();
        let key = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
        if let Some(old) = self.0.get(&key)
            && (is_older(&meta.resource_version, &old.meta().resource_version) || **old == object)
        {
            return None;
        }
        self.0.insert(key.clone(), Arc::new(object));
        Some(key)
    }

    /// Removes an object. Returns true if it was there.
    pub fn remove(&mut self, namespace: &str, name: &str) -> bool {
        self.0.remove(&(namespace.to_owned(), name.to_owned())).is_some()
    }
}

/// Resource versions of etcd are rising numbers. Versions of another form do not compare, and the later one
/// replaces the earlier one.
pub(super) fn is_older(one: &Option<String>, other: &Option<String>) -> bool {
    let number = |version: &Option<String>| version.as_deref()?.parse::<u64>().ok();
    number(one).zip(number(other)).is_some_and(|(one, other)| one < other)
}

/// Reads a typed object; a field of another form is left out. `managedFields` is dropped: it is not used, and
/// is the largest part of many objects.
pub(super) fn read<T: wire::Wire>(mut object: Value) -> Option<T> {
    if let Some(Value::Object(meta)) = object.get_mut("metadata") {
        meta.remove("managedFields");
    }
    let mut faults = Vec::new();
    let read = wire::read_in_part(object, &mut faults);
    if let Some(told) = summary(&faults) {
        tracing::warn!("an object has invalid fields, which are ignored: {told}");
    }
    read
}

/// Summary of the faults, by the first one: there may be as many as the object has values.
fn summary(faults: &[Fault]) -> Option<String> {
    let (first, more) = faults.split_first()?;
    Some(match more.len() {
        0 => first.to_string(),
        more => format!("{first} (and {more} more)"),
    })
}

impl StoredObject for Plain {
    fn parse(mut object: Value) -> Option<Self> {
        object.get_mut("metadata")?.as_object_mut()?.remove("managedFields");
        Some(Plain { meta: read(object.get("metadata")?.clone())?, object })
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
}

pub(super) fn meta(object: &Value) -> Option<ObjectMeta> {
    let mut meta = object.get("metadata")?.clone();
    meta.as_object_mut()?.remove("managedFields");
    wire::read_in_part(meta, &mut Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::fault::Reason;
    use serde_json::json;

    fn object(version: &str, finalizers: &[&str]) -> Value {
        json!({"metadata": {"namespace": "n", "name": "a", "resourceVersion": version, "finalizers": finalizers}})
    }

    #[test]
    fn of_many_faults_one_is_told() {
        let fault = |n: usize| Fault::new(format!("spec.volumes[{n}]"), Reason::Invalid, "must be an object");
        let faults: Vec<Fault> = (0..1000).map(fault).collect();
        let told_of = |count: usize| summary(&faults[..count]).unwrap_or_default();
        assert_eq!(told_of(0), "");
        assert!(told_of(1).contains("volumes[0]") && !told_of(1).contains("more"), "{}", told_of(1));
        assert!(told_of(1000).ends_with("(and 999 more)") && told_of(1000).len() < 100, "{}", told_of(1000));
    }

    #[test]
    fn what_is_older_than_what_is_there_changes_nothing() {
        let mut store = Store::<Plain>::default();
        assert!(store.put(object("9", &["x"])));
        assert!(!store.put(object("9", &["x"])), "the same");
        assert!(!store.put(object("8", &["y"])), "older, though 8 < 9 as text too");
        assert!(store.put(object("10", &[])), "newer, though \"10\" < \"9\"");
        assert_eq!(store.in_namespace("n").count(), 1);
        assert_eq!(store.in_namespace("m").count(), 0);
        assert!(store.remove("n", "a") && !store.remove("n", "a"));
    }
}
