//! Common parts of replica sets and pools: their status, and the number of changes in one round.

use api::condition::ConditionKind;
use cluster_model::conditions::{self, stamp};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Largest number of objects that are created, changed or deleted in one round; the rest follows.
pub(crate) const AT_ONCE: usize = 10;

/// Writes a count. A Go client omits a count of zero.
pub(crate) fn set_count(status: &mut Value, name: &str, number: usize) {
    if number > 0 || !status[name].is_null() {
        status[name] = json!(number);
    }
}

/// A selector as the one text that the scale subresource needs.
pub(crate) fn text_of(selector: &Value) -> Option<String> {
    let mut parts: Vec<String> = (selector["matchLabels"].as_object().into_iter().flatten())
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for rule in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = rule["key"].as_str()?;
        let values: Vec<&str> =
            rule["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let values = values.join(",");
        parts.push(match rule["operator"].as_str()? {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        });
    }
    (!parts.is_empty()).then(|| parts.join(","))
}

/// Sets a condition to true, or removes it.
pub(crate) fn condition<T: ConditionKind>(
    status: &mut Value,
    kind: T,
    says: Option<(&str, &str)>,
    now: Timestamp,
) {
    conditions::change_in::<T>(status, |list| match says {
        Some((reason, message)) => conditions::set(list, kind, ("True", reason, message), &stamp(now)),
        None => conditions::remove(list, &kind),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::replica_set::ConditionType;

    #[test]
    fn what_was_said_is_taken_back_whole() {
        let mut status = json!({});
        condition(
            &mut status,
            ConditionType::ReplicaFailure,
            Some(("FailedCreate", "no room")),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(status["conditions"][0]["message"], "no room");
        condition(&mut status, ConditionType::ReplicaFailure, None, Timestamp::UNIX_EPOCH);
        assert_eq!(status, json!({}));
    }
}
