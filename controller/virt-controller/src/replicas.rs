//! Common parts of replica sets and pools: their status, and the number of changes in one round.

use cluster_model::conditions::stamp;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Largest number of objects that are created, changed or deleted in one round; the rest follows.
pub(crate) const AT_ONCE: usize = 10;

/// Writes a count. A Go client omits a count of zero.
pub(crate) fn put(status: &mut Value, name: &str, number: usize) {
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

/// Says a condition, or takes it away.
pub(crate) fn condition(status: &mut Value, kind: &str, says: Option<(&str, &str)>, now: Timestamp) {
    let mut list = status["conditions"].as_array().cloned().unwrap_or_default();
    let at = list.iter().position(|condition| condition["type"] == kind);
    match (says, at) {
        (None, None) => return,
        (None, Some(at)) => {
            list.remove(at);
        }
        (Some((reason, message)), at) => {
            let since = at.map_or_else(|| json!(stamp(now)), |at| list[at]["lastTransitionTime"].clone());
            let new = json!({
                "type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since,
            });
            match at {
                Some(at) => list[at] = new,
                None => list.push(new),
            }
        }
    }
    match list.is_empty() {
        false => status["conditions"] = json!(list),
        true => drop(status.as_object_mut().and_then(|status| status.remove("conditions"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_taken_back_whole() {
        let mut status = json!({});
        condition(&mut status, "ReplicaFailure", Some(("FailedCreate", "no room")), Timestamp::UNIX_EPOCH);
        assert_eq!(status["conditions"][0]["message"], "no room");
        condition(&mut status, "ReplicaFailure", None, Timestamp::UNIX_EPOCH);
        assert_eq!(status, json!({}));
    }
}
