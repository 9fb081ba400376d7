//! Texts, numbers, booleans, and JSON that is kept unchanged.

use super::{Field, Path, Schema, Unknown, Wire, expected};
use crate::fault::Fault;
use serde_json::{Number, Value, json};

/// A scalar of the wire: its reading and writing. It is always written, unless it is in an `Option`.
macro_rules! scalar {
    ($type:ty, $what:literal, $schema:tt, $read:expr) => {
        impl Wire for $type {
            fn read(value: Value, at: &Path, faults: &mut Vec<Fault>) -> Option<Self> {
                let read: fn(&Value) -> Option<$type> = $read;
                let result = read(&value);
                if result.is_none() {
                    faults.push(expected($what, &value, at));
                }
                result
            }

            fn write(&self) -> Value {
                Value::from(self.clone())
            }

            fn unknown(&self, _: &Path, _: &mut Vec<Unknown>) {}

            fn schema() -> Schema {
                Schema::scalar(json!($schema))
            }
        }

        impl Field for $type {
            fn read_field(value: Option<Value>, at: &Path, faults: &mut Vec<Fault>) -> Self {
                value.and_then(|value| Self::read(value, at, faults)).unwrap_or_default()
            }

            fn write_field(&self) -> Option<Value> {
                Some(self.write())
            }

            fn collect_unknown(&self, _: &Path, _: &mut Vec<Unknown>) {}

            fn form() -> Schema {
                Self::schema().bare()
            }
        }
    };
}

scalar!(String, "a text", {"type": "string"}, |value| value.as_str().map(str::to_owned));
scalar!(bool, "true or false", {"type": "boolean"}, |value| value.as_bool());
scalar!(
    u32,
    "a whole number from 0 to 4294967295",
    {"type": "integer", "format": "int64", "minimum": 0, "maximum": 4_294_967_295_u32},
    |value| value.as_u64().and_then(|n| n.try_into().ok())
);
scalar!(
    u64,
    "a whole number from 0",
    {"type": "integer", "format": "int64", "minimum": 0},
    |value| value.as_u64()
);
scalar!(i64, "a whole number", {"type": "integer", "format": "int64"}, |value| value.as_i64());

/// A number with or without a fraction, kept as it was written.
impl Wire for Number {
    fn read(value: Value, at: &Path, faults: &mut Vec<Fault>) -> Option<Self> {
        match value {
            Value::Number(number) => Some(number),
            other => {
                faults.push(expected("a number", &other, at));
                None
            }
        }
    }

    fn write(&self) -> Value {
        Value::Number(self.clone())
    }

    fn unknown(&self, _: &Path, _: &mut Vec<Unknown>) {}

    fn schema() -> Schema {
        Schema::scalar(json!({"type": "number"}))
    }
}

/// An object that is kept unchanged.
impl Wire for Value {
    fn read(value: Value, _: &Path, _: &mut Vec<Fault>) -> Option<Self> {
        Some(value)
    }

    fn write(&self) -> Value {
        self.clone()
    }

    fn unknown(&self, _: &Path, _: &mut Vec<Unknown>) {}

    fn schema() -> Schema {
        Schema::object("")
    }
}
