//! Lists of conditions: at most one of each type, with the time of the last change of its status.

use api::vmi::{Condition, ConditionType};
use api::{cdi, datavolume};
use jiff::Timestamp;

/// Reason while the heartbeat of a node is missing, until it is seen again.
pub const UNHEARD: &str = "NodeUnresponsive";
/// Reason while a pod of a VMI could not be deleted.
pub const KEPT: &str = "FailedDelete";
/// Reason for a VMI that could not be handed to its launcher, or that ended with an error.
pub const SYNC_FAILED: &str = "Synchronizing with the Domain failed.";
/// Reasons of a false `Synchronized` condition that virt-controller sets and clears for VMIs on a node.
pub const OF_CONTROLLER: [&str; 2] = [UNHEARD, KEPT];

/// A time as in objects: whole seconds.
pub fn stamp(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// The condition of this type.
pub fn of<'a>(list: &'a [Condition], kind: &ConditionType) -> Option<&'a Condition> {
    list.iter().find(|condition| condition.r#type == *kind)
}

/// True if the status of the condition of this type is `True`.
pub fn is(list: &[Condition], kind: &ConditionType) -> bool {
    of(list, kind).is_some_and(|condition| condition.status == "True")
}

/// Sets a condition. An equal condition is not changed, and keeps its time.
pub fn say(
    list: &mut Vec<Condition>,
    kind: ConditionType,
    status: &str,
    reason: Option<&str>,
    message: Option<&str>,
    now: Timestamp,
) {
    let text = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    let (reason, message) = (text(reason), text(message));
    let old = list.iter_mut().find(|condition| condition.r#type == kind);
    match old {
        Some(old) => {
            if old.status != status {
                status.clone_into(&mut old.status);
                old.last_transition_time = Some(stamp(now));
            }
            (old.reason, old.message) = (reason, message);
        }
        None => list.push(Condition {
            r#type: kind,
            status: status.to_owned(),
            reason,
            message,
            last_transition_time: Some(stamp(now)),
            ..Condition::default()
        }),
    }
}

/// A condition of a CDI kind: with the time of its last change, and of its last heartbeat.
pub trait OfCdi: Default {
    type Type: PartialEq;

    fn fields(&mut self) -> Fields<'_, Self::Type>;
}

/// Mutable fields of a condition.
#[derive(Debug)]
pub struct Fields<'a, T> {
    pub r#type: &'a mut T,
    pub status: &'a mut String,
    pub reason: &'a mut Option<String>,
    pub message: &'a mut Option<String>,
    pub changed: &'a mut Option<String>,
    pub said: &'a mut Option<String>,
}

macro_rules! of_cdi {
    ($condition:ty, $type:ty) => {
        impl OfCdi for $condition {
            type Type = $type;

            fn fields(&mut self) -> Fields<'_, $type> {
                Fields {
                    r#type: &mut self.r#type,
                    status: &mut self.status,
                    reason: &mut self.reason,
                    message: &mut self.message,
                    changed: &mut self.last_transition_time,
                    said: &mut self.last_heartbeat_time,
                }
            }
        }
    };
}

of_cdi!(cdi::Condition, String);
of_cdi!(datavolume::Condition, datavolume::ConditionType);

/// Sets a condition of a CDI object. An equal condition is not changed, and keeps its times.
pub fn say_of_cdi<C: OfCdi>(
    list: &mut Vec<C>,
    kind: C::Type,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let (reason, message, time) = (text(reason), text(message), Some(stamp(now)));
    let at = list.iter_mut().position(|condition| *condition.fields().r#type == kind);
    if at.is_none() {
        let mut new = C::default();
        *new.fields().r#type = kind;
        list.push(new);
    }
    let condition = match at {
        Some(at) => list.get_mut(at),
        None => list.last_mut(),
    };
    let Some(is) = condition.map(C::fields) else { return };
    if *is.status == status && *is.reason == reason && *is.message == message {
        return;
    }
    if *is.status != status {
        status.clone_into(is.status);
        is.changed.clone_from(&time);
    }
    (*is.reason, *is.message, *is.said) = (reason, message, time);
}

/// True if the VMI's `Synchronized` condition has one of these reasons.
pub fn is_unsynchronized(list: &[Condition], reasons: &[&str]) -> bool {
    let reason = of(list, &ConditionType::Synchronized).and_then(|said| said.reason.as_deref());
    reason.is_some_and(|reason| reasons.contains(&reason))
}

pub fn drop(list: &mut Vec<Condition>, kind: &ConditionType) {
    list.retain(|condition| condition.r#type != *kind);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_the_last_change() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut list = Vec::new();
        say(&mut list, ConditionType::Ready, "False", Some("A"), None, at(1));
        let first = list.clone();
        say(&mut list, ConditionType::Ready, "False", Some("A"), Some(""), at(2));
        assert_eq!(list, first);
        say(&mut list, ConditionType::Ready, "False", Some("B"), None, at(3));
        assert_eq!(list[0].last_transition_time, first[0].last_transition_time);
        say(&mut list, ConditionType::Ready, "True", None, None, at(4));
        assert_eq!(list[0].last_transition_time.as_deref(), Some("1970-01-01T00:00:04Z"));
        assert!(is(&list, &ConditionType::Ready));
    }

    #[test]
    fn what_is_said_of_cdis_objects_has_two_times() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let time = |second| Some(stamp(at(second)));
        let mut list: Vec<cdi::Condition> = Vec::new();
        for (second, status, reason) in [(1, "False", "A"), (2, "False", "A"), (3, "False", "B")] {
            say_of_cdi(&mut list, "Ready".to_owned(), status, reason, "", at(second));
        }
        assert_eq!(list.len(), 1);
        assert_eq!((&list[0].last_transition_time, &list[0].last_heartbeat_time), (&time(1), &time(3)));
        say_of_cdi(&mut list, "Ready".to_owned(), "True", "B", "", at(4));
        assert_eq!((&list[0].last_transition_time, &list[0].message), (&time(4), &None));
    }
}
