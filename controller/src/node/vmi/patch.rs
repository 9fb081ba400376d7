//! From one status to another as a JSON patch. Pure.
//!
//! ```text
//!  a field that changes   test (what we saw), replace or remove
//!  a field that is new    test (the object as we saw it), add
//! ```
//!
//! The status is written by two programs. A patch whose tests fail changes nothing: whoever made it looks again.

use api::vmi::Status;
use api::wire::Wire as _;
use serde_json::{Value, json};

/// The patch that makes `old` `new`, of an object with this version; empty when they are the same.
pub fn patch(old: Option<&Status>, new: &Status, version: Option<&str>) -> Vec<Value> {
    let written = new.write();
    let Some(old) = old.map(|old| old.write()) else {
        let mut steps = seen(version);
        steps.push(json!({"op": "add", "path": "/status", "value": written}));
        return steps;
    };
    let (Value::Object(old), Value::Object(new)) = (old, written) else { return Vec::new() };
    let mut steps = Vec::new();
    let mut adds = false;
    for (field, value) in &new {
        let path = format!("/status/{field}");
        match old.get(field) {
            Some(before) if before == value => {}
            Some(before) => {
                steps.push(json!({"op": "test", "path": path, "value": before}));
                steps.push(json!({"op": "replace", "path": path, "value": value}));
            }
            None => {
                adds = true;
                steps.push(json!({"op": "add", "path": path, "value": value}));
            }
        }
    }
    for (field, before) in old.iter().filter(|(field, _)| !new.contains_key(*field)) {
        let path = format!("/status/{field}");
        steps.push(json!({"op": "test", "path": path, "value": before}));
        steps.push(json!({"op": "remove", "path": path}));
    }
    if adds {
        // That a field is not there cannot be tested: that nothing has changed can.
        steps.splice(0..0, seen(version));
    }
    // What the phase was is the ground of all we do.
    if let (false, Some(phase)) = (steps.is_empty(), old.get("phase")) {
        let guard = json!({"op": "test", "path": "/status/phase", "value": phase});
        if !steps.contains(&guard) {
            steps.insert(0, guard);
        }
    }
    steps
}

fn seen(version: Option<&str>) -> Vec<Value> {
    let test = |version: &str| json!({"op": "test", "path": "/metadata/resourceVersion", "value": version});
    version.map(test).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::vmi::Phase;

    fn status(value: Value) -> Status {
        api::wire::read(value).unwrap()
    }

    #[test]
    fn only_what_differs_is_written_and_what_is_replaced_is_tested() {
        let old = status(json!({"phase": "Scheduled", "nodeName": "a", "reason": "x", "ours": 1}));
        let mut new = old.clone();
        assert_eq!(patch(Some(&old), &new, Some("7")), Vec::<Value>::new());
        new.phase = Some(Phase::Running);
        new.reason = None;
        assert_eq!(
            patch(Some(&old), &new, Some("7")),
            [
                json!({"op": "test", "path": "/status/phase", "value": "Scheduled"}),
                json!({"op": "replace", "path": "/status/phase", "value": "Running"}),
                json!({"op": "test", "path": "/status/reason", "value": "x"}),
                json!({"op": "remove", "path": "/status/reason"}),
            ]
        );
    }

    #[test]
    fn what_is_new_is_added_only_to_the_object_that_was_seen() {
        let old = status(json!({"phase": "Running"}));
        let mut new = old.clone();
        new.node_name = Some("a".into());
        assert_eq!(
            patch(Some(&old), &new, Some("7")),
            [
                json!({"op": "test", "path": "/status/phase", "value": "Running"}),
                json!({"op": "test", "path": "/metadata/resourceVersion", "value": "7"}),
                json!({"op": "add", "path": "/status/nodeName", "value": "a"}),
            ]
        );
    }
}
