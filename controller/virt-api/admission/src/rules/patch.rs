//! Defaults as a JSON patch (RFC 6902) of the object as it was sent.
//!
//! ```text
//!  as sent ─ read ─► object ─ completed ─► object
//!     │                 └──── difference ────┘
//!     └─► + difference ─► as it should be ─► the patch from one to the other
//! ```
//!
//! Only defaults are in the patch: the form of the rest (a null, an empty list, a field that we do not
//! know) is kept.

use cluster_model::plan::{difference, merge};
use serde_json::{Value, json};

/// The patch of `sent` with the difference between `read` and `completed`.
pub(super) fn of(sent: &Value, read: &Value, completed: &Value) -> Vec<Value> {
    let Some(change) = difference(read, completed) else { return Vec::new() };
    let mut should = sent.clone();
    merge(&mut should, &change);
    between(sent, &should)
}

/// The patch from `is` to `should`.
pub(super) fn between(is: &Value, should: &Value) -> Vec<Value> {
    let mut steps = Vec::new();
    walk(is, should, &mut String::new(), &mut steps);
    steps
}

fn walk(is: &Value, should: &Value, at: &mut String, steps: &mut Vec<Value>) {
    let length = at.len();
    match (is, should) {
        _ if is == should => {}
        (Value::Object(is), Value::Object(should)) => {
            for (name, value) in should {
                at.push_str(&format!("/{}", escaped(name)));
                match is.get(name) {
                    Some(old) => walk(old, value, at, steps),
                    None => steps.push(json!({"op": "add", "path": at, "value": value})),
                }
                at.truncate(length);
            }
            for name in is.keys().filter(|name| !should.contains_key(*name)) {
                steps.push(json!({"op": "remove", "path": format!("{at}/{}", escaped(name))}));
            }
        }
        (Value::Array(is), Value::Array(should)) if is.len() <= should.len() => {
            for (i, value) in should.iter().enumerate() {
                match is.get(i) {
                    Some(old) => {
                        at.push_str(&format!("/{i}"));
                        walk(old, value, at, steps);
                        at.truncate(length);
                    }
                    None => steps.push(json!({"op": "add", "path": format!("{at}/-"), "value": value})),
                }
            }
        }
        _ => steps.push(json!({"op": "replace", "path": at, "value": should})),
    }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::json_patch;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!(1)), Just(json!("a")), Just(json!(null)), Just(json!([]))];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::btree_map("[a~/]{1,2}", inner.clone(), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
                prop::collection::vec(inner, 0..4).prop_map(Value::Array),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_patch_makes_the_one_of_the_other(is in value(), should in value()) {
            prop_assert_eq!(json_patch(is.clone(), &between(&is, &should)), Some(should));
        }
    }

    #[test]
    fn what_was_not_completed_stays_as_it_was_written() {
        let sent = json!({"spec": {"disks": null, "labels": {}, "colour": "red", "list": [1]}});
        let read = json!({"spec": {"colour": "red", "list": [1], "domain": {}}});
        let completed = json!({"spec": {"colour": "red", "list": [1, 2], "domain": {"type": "q35"}}});
        let patch = of(&sent, &read, &completed);
        assert_eq!(
            json_patch(sent, &patch).unwrap(),
            json!({"spec": {
                "disks": null, "labels": {}, "colour": "red", "list": [1, 2], "domain": {"type": "q35"},
            }})
        );
        assert_eq!(patch.len(), 2, "{patch:?}");
    }
}
