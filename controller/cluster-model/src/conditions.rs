//! Lists of conditions: at most one of each type, with the time of the last change of its status. [`set`] is the only
//! writer of a condition, for all kinds.

use api::condition::{CheckTime, Condition, ConditionKind};
use api::vmi::ConditionType;
use api::wire::{Field as _, Path};
use jiff::Timestamp;
use serde_json::Value;

/// Reason while the heartbeat of a node is missing, until it is seen again.
pub const UNHEARD: &str = "NodeUnresponsive";
/// Reason while a pod of a VMI could not be deleted.
pub const KEPT: &str = "FailedDelete";
/// Reason for a VMI whose source has ended during its live migration, until the target has said whether it has the guest.
pub const SOURCE_DOWN: &str = "MigrationSourceDown";
/// Reason for a VMI that could not be handed to its launcher, or that ended with an error.
pub const SYNC_FAILED: &str = "Synchronizing with the Domain failed.";
/// Reasons of a false `Synchronized` condition that virt-controller sets and clears for VMIs on a node.
pub const OF_CONTROLLER: [&str; 3] = [UNHEARD, KEPT, SOURCE_DOWN];

/// A time as in objects: whole seconds.
pub fn stamp(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// The condition of this type.
pub fn find<'a, T: ConditionKind>(list: &'a [Condition<T>], kind: &T) -> Option<&'a Condition<T>> {
    list.iter().find(|condition| condition.r#type == *kind)
}

/// True if the status of the condition of this type is `True`.
pub fn is_true<T: ConditionKind>(list: &[Condition<T>], kind: &T) -> bool {
    find(list, kind).is_some_and(|condition| condition.status == "True")
}

/// Status, reason and message of a condition. An empty text is left out.
pub type ConditionText<'a> = (&'a str, &'a str, &'a str);

/// Sets the condition of a type. One that says the same already is not changed, and keeps its times. `time`: the present,
/// as in objects.
pub fn set<T: ConditionKind>(
    list: &mut Vec<Condition<T>>,
    kind: T,
    (status, reason, message): ConditionText<'_>,
    time: &str,
) {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let (reason, message) = (text(reason), text(message));
    let at = list.iter().position(|condition| condition.r#type == kind).unwrap_or(list.len());
    if at == list.len() {
        list.push(Condition { r#type: kind, ..Condition::default() });
    }
    let Some(condition) = list.get_mut(at) else { return };
    if condition.status == status && condition.reason == reason && condition.message == message {
        return;
    }
    if condition.status != status || condition.last_transition_time.is_none() {
        status.clone_into(&mut condition.status);
        condition.last_transition_time = text(time);
    }
    if T::CHECK_TIME == CheckTime::Heartbeat {
        condition.last_check_time = text(time);
    }
    (condition.reason, condition.message) = (reason, message);
}

/// Removes the condition of a type.
pub fn remove<T: ConditionKind>(list: &mut Vec<Condition<T>>, kind: &T) {
    list.retain(|condition| condition.r#type != *kind);
}

/// Changes the conditions in the status of an object that is kept as JSON. Entries that are not conditions are dropped.
pub fn change_in<T: ConditionKind>(status: &mut Value, change: impl FnOnce(&mut Vec<Condition<T>>)) {
    const FIELD: &str = "conditions";
    let old = status.as_object_mut().and_then(|fields| fields.remove(FIELD));
    let mut list = Vec::read_field(old, &Path::of(FIELD), &mut Vec::new());
    change(&mut list);
    if let Some(list) = list.write_field() {
        clear_scalar(status);
        status[FIELD] = list;
    }
}

/// The status of an object, to write its fields. A status that has no fields, such as a text, is removed.
pub fn status_of(object: &mut Value) -> &mut Value {
    let status = &mut object["status"];
    clear_scalar(status);
    status
}

/// Removes a value that has no fields: one of them could not be assigned.
fn clear_scalar(value: &mut Value) {
    if !value.is_object() {
        *value = Value::Null;
    }
}

/// True if the VMI's `Synchronized` condition has one of these reasons.
pub fn is_unsynchronized(list: &[Condition<ConditionType>], reasons: &[&str]) -> bool {
    let reason = find(list, &ConditionType::Synchronized).and_then(|said| said.reason.as_deref());
    reason.is_some_and(|reason| reasons.contains(&reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::cdi;
    use serde_json::json;

    #[test]
    fn the_time_is_that_of_the_last_change_of_the_status() {
        let mut list = Vec::new();
        set(&mut list, ConditionType::Ready, ("False", "A", ""), "1");
        let first = list.clone();
        set(&mut list, ConditionType::Ready, ("False", "A", ""), "2");
        assert_eq!(list, first);
        set(&mut list, ConditionType::Ready, ("False", "B", ""), "3");
        assert_eq!(list[0].last_transition_time, first[0].last_transition_time);
        set(&mut list, ConditionType::Ready, ("True", "", ""), "4");
        assert_eq!(list[0].last_transition_time.as_deref(), Some("4"));
        assert_eq!((&list[0].reason, &list[0].message, &list[0].last_check_time), (&None, &None, &None));
        assert!(is_true(&list, &ConditionType::Ready));
        set(&mut list, ConditionType::Paused, ("True", "C", "d"), "5");
        remove(&mut list, &ConditionType::Ready);
        assert_eq!((list.len(), list[0].message.as_deref()), (1, Some("d")));
    }

    #[test]
    fn the_heartbeat_of_a_cdi_object_is_that_of_any_change() {
        let time = |text: &str| Some(text.to_owned());
        let mut list: Vec<cdi::Condition> = Vec::new();
        for (time, status, reason) in [("1", "False", "A"), ("2", "False", "A"), ("3", "False", "B")] {
            set(&mut list, "Ready".to_owned(), (status, reason, ""), time);
        }
        assert_eq!(list.len(), 1);
        assert_eq!((&list[0].last_transition_time, &list[0].last_check_time), (&time("1"), &time("3")));
        set(&mut list, "Ready".to_owned(), ("True", "B", ""), "4");
        assert_eq!((&list[0].last_transition_time, &list[0].message), (&time("4"), &None));
    }

    /// A condition of another program, and its unknown fields, stay.
    #[test]
    fn conditions_in_json_are_changed_one_by_one() {
        let theirs = json!({"type": "Theirs", "status": "Unknown", "observedGeneration": 3});
        let mut status = json!({"replicas": 1, "conditions": [theirs]});
        change_in::<ConditionType>(&mut status, |list| {
            set(list, ConditionType::Ready, ("True", "A", "b"), "1")
        });
        let ours = json!({
            "type": "Ready", "status": "True", "reason": "A", "message": "b", "lastTransitionTime": "1",
        });
        assert_eq!(status, json!({"replicas": 1, "conditions": [theirs, ours]}));
        change_in::<ConditionType>(&mut status, |list| list.clear());
        assert_eq!(status, json!({"replicas": 1}));
        let mut none = json!(null);
        change_in::<ConditionType>(&mut none, |list| set(list, ConditionType::Ready, ("True", "", ""), "1"));
        assert_eq!(none["conditions"][0]["status"], "True");
        for odd in [json!("a text"), json!(1), json!([1]), json!(true)] {
            let mut object = json!({"status": odd});
            let ready = |list: &mut Vec<_>| set(list, ConditionType::Ready, ("True", "", ""), "1");
            change_in::<ConditionType>(&mut object["status"], ready);
            assert_eq!(object["status"]["conditions"][0]["status"], "True");
            let mut object = json!({"status": odd});
            status_of(&mut object)["phase"] = json!("Deleting");
            assert_eq!(object, json!({"status": {"phase": "Deleting"}}));
        }
    }
}
