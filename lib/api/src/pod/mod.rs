//! Parts of a pod spec that a VMI passes to its launcher pod.
//!
//! The VMI keeps these parts unchanged, with unknown fields of a newer Kubernetes. Their schema is made from
//! the types here (`= "affinity" as Option<Affinity>` in [`object!`](crate::object)), so that an API server
//! refuses invalid parts at once, and can explain the rest.

mod affinity;
mod parts;

pub use affinity::*;
pub use parts::*;

use crate::fault::Fault;
use crate::wire::{Path, Schema, Unknown, Wire, expected};
use serde_json::{Value, json};

/// The number of a port, or its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumberOrName {
    Number(i64),
    Name(String),
}

impl Wire for NumberOrName {
    fn read(value: Value, at: &Path, faults: &mut Vec<Fault>) -> Option<Self> {
        let read = match &value {
            Value::Number(number) => number.as_i64().map(NumberOrName::Number),
            Value::String(name) => Some(NumberOrName::Name(name.clone())),
            _ => None,
        };
        if read.is_none() {
            faults.push(expected("a whole number or a text", &value, at));
        }
        read
    }

    fn write(&self) -> Value {
        match self {
            NumberOrName::Number(number) => json!(number),
            NumberOrName::Name(name) => json!(name),
        }
    }

    fn unknown(&self, _: &Path, _: &mut Vec<Unknown>) {}

    fn schema() -> Schema {
        Schema::scalar(json!({
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": true,
        }))
    }
}

impl Default for NumberOrName {
    fn default() -> Self {
        NumberOrName::Number(0)
    }
}

crate::always!(NumberOrName);
crate::serde_by_value!(NumberOrName);
