//! Accessors for objects as JSON: texts, times and conditions, whatever other fields they have.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// The text at a JSON pointer, if it is not empty.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
}

/// The time at a JSON pointer.
pub(crate) fn moment(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer)?.parse().ok()
}

/// The list at a JSON pointer.
pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// The value of an annotation, if set.
pub(crate) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(name)?.as_str()
}

/// The value of an annotation that is set and not empty.
pub(crate) fn annotation_text<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    annotation(object, name).filter(|text| !text.is_empty())
}

/// The phase of an object; empty if it has none yet.
pub(crate) fn phase(object: &Value) -> &str {
    text(object, "/status/phase").unwrap_or_default()
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name").unwrap_or_default()
}

/// A condition of an object's status.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Condition<'a> {
    pub(crate) kind: &'a str,
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
    pub(crate) since: Option<Timestamp>,
}

impl<'a> Condition<'a> {
    /// The message, or without one the reason.
    pub(crate) fn message_or_reason(&self) -> &'a str {
        if self.message.is_empty() { self.reason } else { self.message }
    }

    /// Name of the condition for quotes: `condition PodScheduled, Unschedulable`.
    pub(crate) fn shown(&self) -> String {
        match self.reason.is_empty() {
            true => format!("condition {}", self.kind),
            false => format!("condition {}, {}", self.kind, self.reason),
        }
    }
}

/// The conditions of an object.
pub(crate) fn conditions(object: &Value) -> impl Iterator<Item = Condition<'_>> {
    list(object, "/status/conditions").map(|condition| Condition {
        kind: text(condition, "/type").unwrap_or_default(),
        status: text(condition, "/status").unwrap_or_default(),
        reason: text(condition, "/reason").unwrap_or_default(),
        message: text(condition, "/message").unwrap_or_default(),
        since: moment(condition, "/lastTransitionTime"),
    })
}

/// The condition of a type, if it has this status.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str, status: &str) -> Option<Condition<'a>> {
    conditions(object).find(|condition| condition.kind == kind && condition.status == status)
}

/// Time since `then`, as kubectl writes it: two units at most.
pub(crate) fn age(now: Timestamp, then: Timestamp) -> String {
    let seconds = now.duration_since(then).max(SignedDuration::ZERO).as_secs();
    let two = |large: i64, unit: &str, small: i64, under: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{under}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds / 60, "m", seconds % 60, "s"),
        600..10_800 => format!("{}m", seconds / 60),
        10_800..28_800 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        28_800..172_800 => format!("{}h", seconds / 3_600),
        172_800..691_200 => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ages_are_written_as_kubectl_does() {
        let now = Timestamp::from_second(2_000_000_000).unwrap();
        for (seconds, text) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (125, "2m5s"),
            (180, "3m"),
            (700, "11m"),
            (10_860, "3h1m"),
            (90_000, "25h"),
            (180_000, "2d2h"),
            (864_000, "10d"),
        ] {
            let then = Timestamp::from_second(2_000_000_000 - seconds).unwrap();
            assert_eq!(age(now, then), text);
        }
    }

    #[test]
    fn objects_that_are_otherwise_are_seen_through() {
        let odd =
            json!({"status": {"conditions": [{"type": "Ready", "status": "False"}, 7, "x"], "phase": 3}});
        assert_eq!(conditions(&odd).count(), 3);
        assert_eq!(condition(&odd, "Ready", "False").unwrap().shown(), "condition Ready");
        assert!(condition(&odd, "Ready", "True").is_none());
        assert_eq!((text(&odd, "/status/phase"), name(&odd)), (None, ""));
        assert_eq!(moment(&json!({"t": "soon"}), "/t"), None);
    }
}
