//! Serialization of the objects of an API server.
//!
//! ```text
//! JSON ──► serde_json::Value ──► read: a struct, and every fault with its path
//!                                  └─ unknown fields are kept in `other`
//!          struct ──► write ──► Value: known fields, then `other`
//!          type ──► schema: the OpenAPI schema of the type, from the same description
//! ```
//!
//! A struct is described once, with [`object!`](crate::object): each field with its name on the wire. An
//! `Option`, a `Vec` and a map are left out when empty; anything else is always written. A `null` equals an
//! absent field. Reading never stops at the first fault.

mod object;
mod path;
mod scalar;
mod schema;
mod string_enum;
mod unknown;

pub use path::Path;
pub use schema::Schema;
pub use unknown::known_values;
pub(crate) use unknown::nearest;
pub use unknown::{Unknown, unknown_fields};

use crate::fault::{Fault, Reason};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The unknown fields of an object.
pub type Other = Map<String, Value>;

/// A value with a JSON form.
pub trait Wire: Sized {
    /// Reads `value`, whose path is `at`. Faults are added to `faults`.
    fn read(value: Value, at: &Path, faults: &mut Vec<Fault>) -> Option<Self>;
    /// The value as JSON.
    fn write(&self) -> Value;
    /// Adds the unknown fields within the value.
    fn unknown(&self, at: &Path, found: &mut Vec<Unknown>);
    /// Schema of a value of this type.
    fn schema() -> Schema;
}

/// A field of an object, which may be absent.
pub trait Field: Sized + Default {
    /// Reads the field, if it is present.
    fn read_field(value: Option<Value>, at: &Path, faults: &mut Vec<Fault>) -> Self;
    /// The field as JSON; `None` if it is left out.
    fn write_field(&self) -> Option<Value>;
    /// Adds the unknown fields within the field.
    fn collect_unknown(&self, at: &Path, found: &mut Vec<Unknown>);
    /// Schema of the field where it is set.
    fn form() -> Schema;
}

impl<T: Wire> Field for Option<T> {
    fn read_field(value: Option<Value>, at: &Path, faults: &mut Vec<Fault>) -> Self {
        value.and_then(|value| T::read(value, at, faults))
    }

    fn write_field(&self) -> Option<Value> {
        self.as_ref().map(Wire::write)
    }

    fn collect_unknown(&self, at: &Path, found: &mut Vec<Unknown>) {
        if let Some(value) = self {
            value.unknown(at, found);
        }
    }

    fn form() -> Schema {
        T::schema().nullable()
    }
}

impl<T: Wire> Field for Vec<T> {
    fn read_field(value: Option<Value>, at: &Path, faults: &mut Vec<Fault>) -> Self {
        match value {
            None => Vec::new(),
            Some(Value::Array(items)) => items
                .into_iter()
                .enumerate()
                .filter_map(|(i, item)| T::read(item, &at.index(i), faults))
                .collect(),
            Some(other) => {
                faults.push(expected("a list", &other, at));
                Vec::new()
            }
        }
    }

    fn write_field(&self) -> Option<Value> {
        (!self.is_empty()).then(|| Value::Array(self.iter().map(Wire::write).collect()))
    }

    fn collect_unknown(&self, at: &Path, found: &mut Vec<Unknown>) {
        for (i, item) in self.iter().enumerate() {
            item.unknown(&at.index(i), found);
        }
    }

    fn form() -> Schema {
        Schema::list(T::schema())
    }
}

impl<T: Wire> Field for BTreeMap<String, T> {
    fn read_field(value: Option<Value>, at: &Path, faults: &mut Vec<Fault>) -> Self {
        match value {
            None => BTreeMap::new(),
            Some(Value::Object(items)) => items
                .into_iter()
                .filter_map(|(key, item)| T::read(item, &at.child(&key), faults).map(|item| (key, item)))
                .collect(),
            Some(other) => {
                faults.push(expected("an object", &other, at));
                BTreeMap::new()
            }
        }
    }

    fn write_field(&self) -> Option<Value> {
        (!self.is_empty())
            .then(|| Value::Object(self.iter().map(|(key, item)| (key.clone(), item.write())).collect()))
    }

    fn collect_unknown(&self, at: &Path, found: &mut Vec<Unknown>) {
        for (key, item) in self {
            item.unknown(&at.child(key), found);
        }
    }

    fn form() -> Schema {
        Schema::map(T::schema())
    }
}

/// Reads the valid fields of an object; the others are left out, and their faults added to `faults`. For a
/// caller that reports these faults together with its own.
pub fn read_in_part<T: Wire>(value: Value, faults: &mut Vec<Fault>) -> Option<T> {
    T::read(value, &Path::root(), faults)
}

/// Reads an object. An error has all faults of its form.
pub fn read<T: Wire>(value: Value) -> Result<T, Vec<Fault>> {
    let mut faults = Vec::new();
    match T::read(value, &Path::root(), &mut faults) {
        Some(object) if faults.is_empty() => Ok(object),
        _ => Err(faults),
    }
}

/// All unknown fields of an object, at any level.
pub fn unknown<T: Wire>(object: &T) -> Vec<Unknown> {
    let mut found = Vec::new();
    object.unknown(&Path::root(), &mut found);
    found
}

/// The fault of a value of the wrong type.
pub(crate) fn expected(what: &str, found: &Value, at: &Path) -> Fault {
    let found = match found {
        Value::Null => "nothing".to_owned(),
        Value::Bool(value) => format!("{value}"),
        Value::Number(value) => format!("the number {value}"),
        Value::String(value) => format!("the text {:?}", short(value)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    Fault::new(at, Reason::Invalid, format!("must be {what}, not {found}"))
}

fn short(text: &str) -> String {
    if text.chars().count() <= 40 { text.to_owned() } else { text.chars().take(40).chain(['…']).collect() }
}

/// The fields of `value`, which must be an object; for the macro.
#[doc(hidden)]
pub fn fields(value: Value, at: &Path, faults: &mut Vec<Fault>) -> Option<Other> {
    match value {
        Value::Object(fields) => Some(fields),
        other => {
            faults.push(expected("an object", &other, at));
            None
        }
    }
}

/// Removes a field and returns its value, unless that is `null`; for the macro.
#[doc(hidden)]
pub fn remove(fields: &mut Other, key: &str) -> Option<Value> {
    fields.remove(key).filter(|value| !value.is_null())
}

/// Inserts a field, if it has a value; for the macro.
#[doc(hidden)]
pub fn insert(fields: &mut Other, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        fields.insert(key.to_owned(), value);
    }
}

/// All faults as one error of serde; for the macro.
#[doc(hidden)]
pub fn all<E: serde::de::Error>(faults: &[Fault]) -> E {
    let sentences: Vec<String> = faults.iter().map(ToString::to_string).collect();
    E::custom(sentences.join("; "))
}
