//! What the API server answers, read within bounds.
//!
//! Webhooks keep objects small, but not every object meets one: some kinds have none, none is asked about what is being deleted, and there
//! may have been none when the object was made. Whoever may write an object in one namespace would otherwise say how much memory a
//! program of the whole cluster takes: 1.4 MB of short entries are 100 MB here.
//!
//! Of an object with more than [`VALUES`] values the name of its kind and its metadata are kept, and of the metadata each field that
//! is not larger itself. Who wrote which field (`managedFields`) is nothing to us, and the largest part of many objects.

use kubernetes::objects::VALUES;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::cell::Cell;
use std::fmt;

/// An object, or a list of objects.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer(pub(super) Value);

impl<'de> serde::Deserialize<'de> for Answer {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Answer, D::Error> {
        from.deserialize_any(OfObject).map(Answer)
    }
}

struct OfObject;

impl<'de> Visitor<'de> for OfObject {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let left = Left::new();
        let mut fields = Map::new();
        while let Some(name) = from.next_key::<String>()? {
            let value = match name.as_str() {
                "metadata" => from.next_value_seed(Metadata)?,
                // Each of a list is an object.
                "items" => from.next_value_seed(Items)?,
                _ => from.next_value_seed(&left)?,
            };
            fields.insert(name, value);
        }
        if left.is_short() {
            let named = &fields["metadata"];
            tracing::warn!(
                "{} {}/{} has more than {VALUES} values: only its metadata are looked at",
                fields.get("kind").and_then(|kind| kind.as_str()).unwrap_or("an object"),
                named["namespace"].as_str().unwrap_or_default(),
                named["name"].as_str().unwrap_or_default(),
            );
            fields.retain(|name, _| ["apiVersion", "kind", "metadata"].contains(&name.as_str()));
        }
        Ok(Value::Object(fields))
    }
}

/// The metadata of an object or a list.
struct Metadata;

impl<'de> DeserializeSeed<'de> for Metadata {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Metadata {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = from.next_key::<String>()? {
            if name == "managedFields" {
                from.next_value::<IgnoredAny>()?;
                continue;
            }
            let left = Left::new();
            let value = from.next_value_seed(&left)?;
            if !left.is_short() {
                fields.insert(name, value);
            }
        }
        Ok(Value::Object(fields))
    }
}

/// The objects of a list.
struct Items;

impl<'de> DeserializeSeed<'de> for Items {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut objects = Vec::new();
        while let Some(Answer(object)) = from.next_element()? {
            objects.push(object);
        }
        Ok(Value::Array(objects))
    }
}

/// How many values may still come. What is over is read and dropped.
struct Left {
    values: Cell<usize>,
    short: Cell<bool>,
}

impl Left {
    fn new() -> Left {
        Left { values: Cell::new(VALUES), short: Cell::new(false) }
    }

    fn is_short(&self) -> bool {
        self.short.get()
    }
}

impl<'de> DeserializeSeed<'de> for &Left {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        match self.values.get().checked_sub(1) {
            Some(less) => {
                self.values.set(less);
                from.deserialize_any(self)
            }
            None => {
                self.short.set(true);
                from.deserialize_ignored_any(IgnoredAny).map(|_| Value::Null)
            }
        }
    }
}

impl<'de> Visitor<'de> for &Left {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = from.next_element_seed(self)? {
            // What was dropped leaves nothing behind: a list of a million numbers is no million of nulls.
            if !self.is_short() {
                list.push(value);
            }
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = from.next_key::<String>()? {
            let value = from.next_value_seed(self)?;
            if !self.is_short() {
                fields.insert(name, value);
            }
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: &Value) -> Value {
        serde_json::from_str::<Answer>(&value.to_string()).unwrap().0
    }

    #[test]
    fn what_is_within_bounds_is_read_as_it_is() {
        for value in [
            json!({"kind": "Pod", "metadata": {"name": "a"}, "spec": [null, true, -1, 2, 0.5, "x", {"a": {}}]}),
            json!({"metadata": {"continue": ""}, "items": [{"metadata": {"name": "a"}}], "kind": "PodList"}),
            json!({"items": null}),
            json!({"spec": vec![7; VALUES - 1]}),
        ] {
            assert_eq!(read(&value), value);
        }
        let managed = json!({"metadata": {"name": "a", "managedFields": [{"f:spec": {}}]}});
        assert_eq!(read(&managed), json!({"metadata": {"name": "a"}}));
    }

    #[test]
    fn of_an_object_that_is_too_large_its_metadata_are_kept() {
        let many = json!(vec![json!({"a": 0}); VALUES]);
        let metadata =
            json!({"name": "a", "namespace": "n", "deletionTimestamp": "now", "finalizers": ["x"]});
        let large = json!({"kind": "DataSource", "metadata": metadata, "spec": {"more": many}, "status": {}});
        let kept = json!({"kind": "DataSource", "metadata": metadata});
        assert_eq!(read(&large), kept);
        // Its neighbours are whole.
        let small = json!({"kind": "DataSource", "metadata": {"name": "b"}, "spec": {"source": 1}});
        let list = read(&json!({"items": [small, large, small]}));
        assert_eq!(list, json!({"items": [small, kept, small]}));
        let mut labelled = small.clone();
        labelled["metadata"]["labels"] = many;
        assert_eq!(read(&labelled), small, "the labels are left out");
    }
}
