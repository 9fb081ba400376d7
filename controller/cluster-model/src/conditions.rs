//! Lists of conditions: one of each type, and its time is that of the last change of its status.

use api::vmi::{Condition, ConditionType};
use api::{cdi, datavolume};
use jiff::Timestamp;

/// The reason of what is said while nothing is heard of a node, until its heartbeat is seen again.
pub const UNHEARD: &str = "NodeUnresponsive";
/// The reason of what is said while a pod of a VMI could not be deleted.
pub const KEPT: &str = "FailedDelete";
/// The reason of what is said of a VMI that could not be handed to its launcher, or ended as it should not.
pub const SYNC_FAILED: &str = "Synchronizing with the Domain failed.";
/// Reasons why a VMI that was handed to its node is not synchronized, as virt-controller says and takes back.
pub const OF_CONTROLLER: [&str; 2] = [UNHEARD, KEPT];

/// A time as objects hold it: whole seconds.
pub fn stamp(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// One condition of a VMI.
pub fn of<'a>(list: &'a [Condition], kind: &ConditionType) -> Option<&'a Condition> {
    list.iter().find(|condition| condition.r#type == *kind)
}

/// A condition is true.
pub fn is(list: &[Condition], kind: &ConditionType) -> bool {
    of(list, kind).is_some_and(|condition| condition.status == "True")
}

/// Says a condition. What says so already stays as it is, with its time.
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

/// A condition as the kinds of CDI have it: with the time of its latest change, and that of the latest word on it.
pub trait OfCdi: Default {
    /// Its type.
    type Type: PartialEq;

    /// Its fields.
    fn fields(&mut self) -> Fields<'_, Self::Type>;
}

/// The fields of a condition.
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

/// Says a condition of an object of CDI. What says so already stays as it is, with its times.
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

/// A VMI is not synchronized, for one of these reasons.
pub fn is_unsynchronized(list: &[Condition], reasons: &[&str]) -> bool {
    let reason = of(list, &ConditionType::Synchronized).and_then(|said| said.reason.as_deref());
    reason.is_some_and(|reason| reasons.contains(&reason))
}

/// Takes a condition away.
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
