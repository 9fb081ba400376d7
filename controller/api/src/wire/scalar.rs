//! Texts, numbers, truths, and JSON that is passed on as it is.

use super::{Field, Path, Unknown, Wire, expected};
use crate::fault::Fault;
use serde_json::Value;

/// A scalar of the wire: how it is read and written, and that it is always written where it stands bare.
macro_rules! scalar {
    ($type:ty, $what:literal, $read:expr) => {
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
        }

        impl Field for $type {
            fn take(value: Option<Value>, at: &Path, faults: &mut Vec<Fault>) -> Self {
                value.and_then(|value| Self::read(value, at, faults)).unwrap_or_default()
            }

            fn give(&self) -> Option<Value> {
                Some(self.write())
            }

            fn look(&self, _: &Path, _: &mut Vec<Unknown>) {}
        }
    };
}

scalar!(String, "a text", |value| value.as_str().map(str::to_owned));
scalar!(bool, "true or false", |value| value.as_bool());
scalar!(u32, "a whole number from 0 to 4294967295", |value| value.as_u64().and_then(|n| n.try_into().ok()));
scalar!(u64, "a whole number from 0", |value| value.as_u64());
scalar!(i64, "a whole number", |value| value.as_i64());

impl Wire for Value {
    fn read(value: Value, _: &Path, _: &mut Vec<Fault>) -> Option<Self> {
        Some(value)
    }

    fn write(&self) -> Value {
        self.clone()
    }

    fn unknown(&self, _: &Path, _: &mut Vec<Unknown>) {}
}
