//! Responses of the API server, read within bounds.
//!
//! Webhooks limit the size of objects, but not every object passes one: some kinds have none, updates of
//! objects that are being deleted skip them, and an object may be older than the webhook. Without a bound, a
//! user who may write an object in one namespace would control the memory of a program of the whole cluster
//! (1.4 MB of short entries take 100 MB here), or prevent it from reading any list with this object.
//!
//! If an object has more than [`VALUES`] values, is nested too deep, or holds a value that cannot be
//! represented, only its kind and the readable fields of its metadata are kept. The object is marked
//! ([`METADATA_ALONE`]), so that its missing spec is not taken for an empty one. `managedFields` is dropped:
//! it is not used, and is the largest part of many objects.

use crate::objects::{METADATA_ALONE, VALUES};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::cell::Cell;
use std::fmt;

/// An object, or a list of objects.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundedObject(pub Value);

impl<'de> serde::Deserialize<'de> for BoundedObject {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<BoundedObject, D::Error> {
        from.deserialize_map(OfObject { listed: None }).map(BoundedObject)
    }
}

struct OfObject<'a> {
    /// Kind of the list that contains the object.
    listed: Option<&'a str>,
}

impl<'de> Visitor<'de> for OfObject<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let left = ValueBudget::new();
        let mut fields = Map::new();
        let (mut items, mut unread) = (None, None);
        while let Some(name) = from.next_key::<String>()? {
            let value = match name.as_str() {
                "metadata" => from.next_value_seed(Metadata)?,
                "apiVersion" | "kind" => Value::String(from.next_value()?),
                // Only this program sets the marker.
                METADATA_ALONE => {
                    from.next_value::<IgnoredAny>()?;
                    continue;
                }
                "items" => {
                    items = Some(from.next_value::<&RawValue>()?);
                    continue;
                }
                _ => match left.deserialize(from.next_value::<&RawValue>()?) {
                    Ok(value) => value,
                    Err(error) => {
                        unread = Some(error);
                        continue;
                    }
                },
            };
            fields.insert(name, value);
        }
        let named = fields.get("metadata").unwrap_or(&Value::Null);
        let kind = fields.get("kind").and_then(Value::as_str);
        // A list has no name and is not inside another list. An `items` field elsewhere is an ordinary field.
        let items = items.filter(|_| self.listed.is_none() && named["name"].is_null());
        let items = items.map(|items| items.deserialize_any(Items { kind: kind.unwrap_or_default() }));
        if let Some(error) = unread {
            tracing::warn!(
                "{} {}/{} cannot be read completely, only its metadata are used: {error}",
                kind.or(self.listed).unwrap_or("an object"),
                named["namespace"].as_str().unwrap_or_default(),
                named["name"].as_str().unwrap_or_default(),
            );
            fields.retain(|name, _| ["apiVersion", "kind", "metadata"].contains(&name.as_str()));
            fields.insert(METADATA_ALONE.to_owned(), true.into());
        }
        if let Some(items) = items {
            fields.insert("items".to_owned(), items.map_err(A::Error::custom)?);
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
            let value: &RawValue = from.next_value()?;
            if name != "managedFields"
                && let Ok(value) = ValueBudget::new().deserialize(value)
            {
                fields.insert(name, value);
            }
        }
        Ok(Value::Object(fields))
    }
}

/// Objects of a list of this kind.
struct Items<'a> {
    kind: &'a str,
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut objects = Vec::new();
        while let Some(object) = from.next_element::<&RawValue>()? {
            match object.deserialize_map(OfObject { listed: Some(self.kind) }) {
                Ok(object) => objects.push(object),
                Err(error) => tracing::warn!(
                    "an object in the list of {} cannot be read and is skipped: {error}",
                    self.kind
                ),
            }
        }
        Ok(Value::Array(objects))
    }
}

/// Number of values that may still be read.
struct ValueBudget(Cell<usize>);

impl ValueBudget {
    fn new() -> ValueBudget {
        ValueBudget(Cell::new(VALUES))
    }
}

impl<'de> DeserializeSeed<'de> for &ValueBudget {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        let over = || D::Error::custom(format_args!("the object has more than {VALUES} values"));
        self.0.set(self.0.get().checked_sub(1).ok_or_else(over)?);
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &ValueBudget {
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
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = from.next_key::<String>()? {
            fields.insert(name, from.next_value_seed(self)?);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Event of a watch, read as kube's client does.
    #[derive(serde::Deserialize)]
    #[serde(tag = "type", content = "object", rename_all = "UPPERCASE")]
    enum Event {
        Modified(BoundedObject),
    }

    fn read(value: &Value) -> Value {
        serde_json::from_str::<BoundedObject>(&value.to_string()).unwrap().0
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
        let kept = json!({"kind": "DataSource", "metadata": metadata, "metadataAlone": true});
        assert_eq!(read(&large), kept);
        // The other objects of the list are complete.
        let small = json!({"kind": "DataSource", "metadata": {"name": "b"}, "spec": {"source": 1}});
        let list = read(&json!({"items": [small, large, small]}));
        assert_eq!(list, json!({"items": [small, kept, small]}));
        let mut labelled = small.clone();
        labelled["metadata"]["labels"] = many;
        assert_eq!(read(&labelled), small, "the labels are left out");
    }

    #[test]
    fn of_an_object_that_is_nested_too_deep_its_metadata_are_kept() {
        let small = r#"{"kind":"DataSource","metadata":{"name":"b"},"spec":{"a":[{"b":{}}]}}"#;
        for (levels, is_read) in [(100, true), (200, false), (100_000, false)] {
            let nested =
                |open: &str, close: &str| format!("{}0{}", open.repeat(levels), close.repeat(levels));
            for deep in [nested("{\"a\":", "}"), nested("[", "]")] {
                // Too deep in the spec, next to it, in a list's `items`, and in the metadata.
                let spec = format!(r#"{{"metadata":{{"name":"a"}},"spec":{{"more":{deep}}}}}"#);
                let root = format!(r#"{{"metadata":{{"name":"a"}},"more":{deep}}}"#);
                let items = format!(r#"{{"metadata":{{"name":"a"}},"items":[{{"items":{deep}}}]}}"#);
                let metadata = format!(r#"{{"metadata":{{"name":"a","more":{deep}}}}}"#);
                for (object, part) in
                    [(spec, "spec"), (root, "more"), (items, "items"), (metadata, "metadata")]
                {
                    let list = format!(r#"{{"kind":"DataSourceList","items":[{small},{object},{small}]}}"#);
                    let list: BoundedObject = serde_json::from_str(&list).unwrap();
                    let small: Value = serde_json::from_str(small).unwrap();
                    let [first, read, last] = list.0["items"].as_array().unwrap().as_slice() else {
                        panic!()
                    };
                    assert_eq!((first, last), (&small, &small));
                    let expected = match (is_read, part) {
                        (_, "items") | (false, "metadata") => json!({"metadata": {"name": "a"}}),
                        (true, _) => serde_json::from_str(&object).unwrap(),
                        (false, _) => json!({"metadata": {"name": "a"}, "metadataAlone": true}),
                    };
                    assert_eq!(*read, expected, "{levels} levels");
                    let event = format!(r#"{{"type":"MODIFIED","object":{object}}}"#);
                    let Event::Modified(BoundedObject(told)) = serde_json::from_str(&event).unwrap();
                    assert_eq!(told, *read);
                }
            }
        }
    }

    #[test]
    fn what_is_no_value_here_takes_its_object_alone() {
        let (kept, small) = (
            json!({"metadata": {"name": "a"}, "metadataAlone": true}),
            json!({"metadata": {"name": "b"}, "data": 1}),
        );
        for data in ["1e999", r#"{"\ud800":1}"#, r#"["\ud800"]"#] {
            let odd = format!(r#"{{"metadata":{{"name":"a","labels":{data}}},"data":{data}}}"#);
            let list = format!(r#"{{"items":[{odd},7,null,{{"metadata":7}},{small}]}}"#);
            let BoundedObject(list) = serde_json::from_str(&list).unwrap();
            assert_eq!(list, json!({"items": [kept, small]}));
        }
        assert!(
            serde_json::from_str::<BoundedObject>(r#"{"items":7}"#).is_err(),
            "nobody takes this for an empty list"
        );
    }

    #[test]
    fn an_object_is_no_list_whatever_its_fields_are_called() {
        let within = json!({"metadata": {"name": "a"}, "items": vec![json!({"a": vec![0; VALUES / 2]}); 4]});
        assert_eq!(read(&within), json!({"metadata": {"name": "a"}}));
        let said = json!({"metadata": {"name": "a"}, "metadataAlone": true, "spec": 1});
        assert_eq!(
            read(&said),
            json!({"metadata": {"name": "a"}, "spec": 1}),
            "it is not the object that says so"
        );
        let list = json!({"items": [{"items": [{"items": []}]}]});
        assert_eq!(read(&list), json!({"items": [{}]}));
    }

    #[test]
    fn an_object_without_metadata_may_be_too_large() {
        let review = json!({"kind": "Review", "metadataAlone": true});
        assert_eq!(read(&json!({"kind": "Review", "spec": vec![7; VALUES]})), review);
    }
}
