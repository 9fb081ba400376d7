//! Objects of one kind, by namespace and name.

use api::meta::ObjectMeta;
use api::wire;
use serde_json::Value;
use std::collections::BTreeMap;

/// An object that is kept.
pub trait Kept: Sized + PartialEq {
    /// Takes what is looked at; what has another form is left out.
    fn take(object: Value) -> Option<Self>;
    /// Its name and the like.
    fn meta(&self) -> &ObjectMeta;
}

/// Objects of one kind.
#[derive(Clone, Debug)]
pub struct Shelf<T>(BTreeMap<(String, String), T>);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Shelf(BTreeMap::new())
    }
}

impl<T: Kept> Shelf<T> {
    /// The object of this name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&T> {
        self.0.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// The objects of a namespace.
    pub fn within<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a T> {
        self.0
            .range((namespace.to_owned(), String::new())..)
            .take_while(move |((other, _), _)| other == namespace)
            .map(|(_, object)| object)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.values()
    }

    /// All their names.
    pub fn names(&self) -> Vec<(String, String)> {
        self.0.keys().cloned().collect()
    }

    /// Puts an object, unless there is a newer one. Whether something has changed.
    pub fn put(&mut self, object: Value) -> bool {
        let Some(object) = T::take(object) else { return false };
        let meta = object.meta();
        let key = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
        if let Some(old) = self.0.get(&key)
            && (is_older(meta, old.meta()) || old == &object)
        {
            return false;
        }
        self.0.insert(key, object);
        true
    }

    /// Takes an object away.
    pub fn remove(&mut self, namespace: &str, name: &str) -> bool {
        self.0.remove(&(namespace.to_owned(), name.to_owned())).is_some()
    }
}

/// The versions of etcd are numbers that rise; of any other kind nothing is said, and what comes later is newer.
fn is_older(one: &ObjectMeta, other: &ObjectMeta) -> bool {
    let number = |meta: &ObjectMeta| meta.resource_version.as_deref()?.parse::<u64>().ok();
    number(one).zip(number(other)).is_some_and(|(one, other)| one < other)
}

/// Reads what has its form. Who wrote which field is nothing to us, and the largest part of many objects.
fn read<T: wire::Wire>(mut object: Value) -> Option<T> {
    if let Some(Value::Object(meta)) = object.get_mut("metadata") {
        meta.remove("managedFields");
    }
    let mut faults = Vec::new();
    let read = wire::read_in_part(object, &mut faults);
    for fault in faults {
        tracing::warn!("an object is not as it should be, and is read in part: {fault}");
    }
    read
}

macro_rules! kept {
    ($($type:ty),*) => {
        $(impl Kept for $type {
            fn take(object: Value) -> Option<Self> {
                read(object)
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }
        })*
    };
}

kept!(api::vm::VirtualMachine, api::vmi::VirtualMachineInstance, api::datavolume::DataVolume);

impl Kept for super::Plain {
    fn take(mut object: Value) -> Option<Self> {
        object.get_mut("metadata")?.as_object_mut()?.remove("managedFields");
        Some(super::Plain { meta: read(object.get("metadata")?.clone())?, object })
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
}

/// The metadata of an object.
pub(super) fn meta(object: &Value) -> Option<ObjectMeta> {
    let mut meta = object.get("metadata")?.clone();
    meta.as_object_mut()?.remove("managedFields");
    wire::read_in_part(meta, &mut Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(version: &str, finalizers: &[&str]) -> Value {
        json!({"metadata": {"namespace": "n", "name": "a", "resourceVersion": version, "finalizers": finalizers}})
    }

    #[test]
    fn what_is_older_than_what_is_there_changes_nothing() {
        let mut shelf = Shelf::<super::super::Plain>::default();
        assert!(shelf.put(object("9", &["x"])));
        assert!(!shelf.put(object("9", &["x"])), "the same");
        assert!(!shelf.put(object("8", &["y"])), "older, though 8 < 9 as text too");
        assert!(shelf.put(object("10", &[])), "newer, though \"10\" < \"9\"");
        assert_eq!(shelf.within("n").count(), 1);
        assert_eq!(shelf.within("m").count(), 0);
        assert!(shelf.remove("n", "a") && !shelf.remove("n", "a"));
    }
}
