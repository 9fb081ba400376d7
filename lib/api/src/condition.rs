//! Condition of an object: one type for all kinds. Each kind has its own condition types, and its own name for the
//! time of the latest check.

use crate::fault::Fault;
use crate::wire::{self, Field, Other, Path, Schema, Unknown, Wire};
use serde_json::Value;
use std::fmt::Debug;

/// Condition types of a kind.
pub trait ConditionKind: Field + Wire + Clone + Debug + PartialEq {
    /// Description of a condition in the schema of the kind.
    const DESCRIPTION: &'static str;
    /// Field with the time of the latest check.
    const CHECK_TIME: CheckTime = CheckTime::Probe;
}

/// Field of a condition with the time of its latest check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckTime {
    /// `lastProbeTime`, of kubevirt.io. No program sets it.
    Probe,
    /// `lastHeartbeatTime`, of cdi.kubevirt.io: the time of the latest change of any field.
    Heartbeat,
}

impl CheckTime {
    const fn key(self) -> &'static str {
        match self {
            CheckTime::Probe => "lastProbeTime",
            CheckTime::Heartbeat => "lastHeartbeatTime",
        }
    }
}

/// Condition of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Condition<T> {
    pub r#type: T,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Time of the latest change of the status (RFC 3339).
    pub last_transition_time: Option<String>,
    /// Time of the latest check, in the field that the kind has for it ([`CheckTime`]).
    pub last_check_time: Option<String>,
    /// Reason in one word, for programs.
    pub reason: Option<String>,
    /// Message as a sentence, for people.
    pub message: Option<String>,
    /// Unknown fields, which are kept and written again.
    pub other: Other,
}

const TYPE: &str = "type";
const STATUS: &str = "status";
const TRANSITION_TIME: &str = "lastTransitionTime";
const REASON: &str = "reason";
const MESSAGE: &str = "message";

impl<T: ConditionKind> Wire for Condition<T> {
    fn read(value: Value, at: &Path, faults: &mut Vec<Fault>) -> Option<Self> {
        let mut fields = wire::fields(value, at, faults)?;
        Some(Condition {
            r#type: field(&mut fields, TYPE, at, faults),
            status: field(&mut fields, STATUS, at, faults),
            last_transition_time: field(&mut fields, TRANSITION_TIME, at, faults),
            last_check_time: field(&mut fields, T::CHECK_TIME.key(), at, faults),
            reason: field(&mut fields, REASON, at, faults),
            message: field(&mut fields, MESSAGE, at, faults),
            other: fields,
        })
    }

    fn write(&self) -> Value {
        let mut fields = Other::new();
        for (key, value) in [
            (TYPE, self.r#type.write_field()),
            (STATUS, self.status.write_field()),
            (TRANSITION_TIME, self.last_transition_time.write_field()),
            (T::CHECK_TIME.key(), self.last_check_time.write_field()),
            (REASON, self.reason.write_field()),
            (MESSAGE, self.message.write_field()),
        ] {
            wire::insert(&mut fields, key, value);
        }
        fields.extend(self.other.clone());
        Value::Object(fields)
    }

    fn unknown(&self, at: &Path, found: &mut Vec<Unknown>) {
        let known = [TYPE, STATUS, TRANSITION_TIME, T::CHECK_TIME.key(), REASON, MESSAGE];
        wire::unknown_fields(found, at, self.other.keys(), &known);
    }

    fn schema() -> Schema {
        let text = Option::<String>::form;
        Schema::object(T::DESCRIPTION)
            .field(TYPE, "Type of the condition, unique within the list.", T::form())
            .field(STATUS, "Status of the condition: `True`, `False` or `Unknown`.", String::form())
            .field(TRANSITION_TIME, "Time of the latest change of the condition's status (RFC 3339).", text())
            .field(T::CHECK_TIME.key(), "Time of the latest check of the condition (RFC 3339).", text())
            .field(REASON, "Reason for the condition in one word, for programs.", text())
            .field(MESSAGE, "Message about the condition, for people.", text())
            .by(TYPE)
    }
}

fn field<F: Field>(fields: &mut Other, key: &str, at: &Path, faults: &mut Vec<Fault>) -> F {
    F::read_field(wire::remove(fields, key), &at.child(key), faults)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cdi, vmi};
    use serde_json::json;

    /// The check time of the other group is not a field of the kind: it is kept as any unknown field.
    #[test]
    fn a_kind_has_the_check_time_of_its_group() {
        let value = json!({
            "type": "Ready", "status": "True", "reason": "A", "message": "b", "lastTransitionTime": "1",
            "lastProbeTime": "2", "lastHeartbeatTime": "3",
        });
        let of_vmi: vmi::Condition = wire::read(value.clone()).unwrap();
        let of_cdi: cdi::Condition = wire::read(value.clone()).unwrap();
        assert_eq!((of_vmi.last_check_time.as_deref(), of_vmi.other.len()), (Some("2"), 1));
        assert_eq!((of_cdi.last_check_time.as_deref(), of_cdi.other.len()), (Some("3"), 1));
        assert_eq!(of_vmi.r#type, vmi::ConditionType::Ready);
        assert_eq!((of_vmi.write(), of_cdi.write()), (value.clone(), value));
        assert_eq!(wire::unknown(&of_vmi)[0].path.as_str(), "lastHeartbeatTime");
        assert_eq!(wire::unknown(&of_cdi)[0].path.as_str(), "lastProbeTime");
    }

    #[test]
    fn a_wrong_value_is_a_fault_at_its_field() {
        let faults = wire::read::<vmi::Condition>(json!({"type": 7, "status": "True"})).unwrap_err();
        assert_eq!(faults[0].field, "type");
    }
}
