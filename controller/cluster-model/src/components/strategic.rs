//! Strategic merge patches of Deployments and DaemonSets: as a merge patch, but lists whose entries have a
//! key are merged by it.
//!
//! | in the patch | does |
//! |---|---|
//! | an entry of such a list | changes the entry with its key, or is appended |
//! | an entry with `$patch: delete` | takes the entry with its key away |
//! | an object with `$patch: replace` | stands for the whole object |
//! | a list entry `{$patch: replace}` | the other entries stand for the whole list |
//! | another name that begins with `$` | is refused: kubectl writes those for itself |

use serde_json::{Map, Value, json};

/// The key of a directive in a patch.
const DIRECTIVE: &str = "$patch";
/// The lists of a Deployment or DaemonSet whose entries have a key.
const KEYS: [(&str, &str); 10] = [
    ("containers", "name"),
    ("initContainers", "name"),
    ("volumes", "name"),
    ("env", "name"),
    ("imagePullSecrets", "name"),
    ("volumeMounts", "mountPath"),
    ("volumeDevices", "devicePath"),
    ("ports", "containerPort"),
    ("hostAliases", "ip"),
    ("topologySpreadConstraints", "topologyKey"),
];

/// Refuses directives other than `$patch` with a known value.
pub(super) fn check_directives(patch: &Value) -> Result<(), String> {
    match patch {
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| match name.as_str() {
            DIRECTIVE => match value.as_str() {
                Some("replace" | "merge" | "delete") => Ok(()),
                _ => Err(format!("has {DIRECTIVE}: {value}; known are replace, merge and delete")),
            },
            name if name.starts_with('$') => {
                let name: String = name.chars().take(64).collect();
                Err(format!("has the directive {name:?}, which is not supported; {DIRECTIVE} is"))
            }
            _ => check_directives(value),
        }),
        Value::Array(list) => list.iter().try_for_each(check_directives),
        _ => Ok(()),
    }
}

/// Applies the patch to the object.
pub(super) fn apply(object: &mut Value, patch: &Value) {
    let made = merged(Some(object), patch, "");
    *object = made.unwrap_or_else(|| json!({}));
}

/// The new value of the field of this name; `None` removes the field.
fn merged(is: Option<&Value>, patch: &Value, name: &str) -> Option<Value> {
    match patch {
        Value::Null => None,
        Value::Object(fields) => {
            let is = is.and_then(Value::as_object);
            match fields.get(DIRECTIVE).and_then(Value::as_str) {
                Some("delete") => None,
                Some("replace") => Some(Value::Object(object(None, fields))),
                _ => Some(Value::Object(object(is, fields))),
            }
        }
        Value::Array(list) => {
            let key = KEYS.iter().find(|(of, _)| *of == name).map(|(_, key)| *key);
            let is = is.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            Some(Value::Array(match key {
                Some(key) => entries(is, list, key),
                None => list.iter().filter_map(|entry| merged(None, entry, "")).collect(),
            }))
        }
        other => Some(other.clone()),
    }
}

fn object(is: Option<&Map<String, Value>>, patch: &Map<String, Value>) -> Map<String, Value> {
    let mut made = is.cloned().unwrap_or_default();
    for (name, value) in patch.iter().filter(|(name, _)| *name != DIRECTIVE) {
        match merged(made.get(name), value, name) {
            Some(value) => drop(made.insert(name.clone(), value)),
            None => drop(made.remove(name)),
        }
    }
    made
}

/// The list `is`, merged with the entries of a patch by their key.
fn entries(is: &[Value], patch: &[Value], key: &str) -> Vec<Value> {
    let is_directive = |entry: &Value| {
        entry.as_object().is_some_and(|fields| fields.len() == 1) && entry[DIRECTIVE] == "replace"
    };
    let mut made = if patch.iter().any(is_directive) { Vec::new() } else { is.to_vec() };
    for entry in patch.iter().filter(|entry| !is_directive(entry)) {
        let of = entry.get(key);
        let place = of.and_then(|of| made.iter().position(|there| there.get(key) == Some(of)));
        let there = place.and_then(|place| made.get(place));
        match (merged(there, entry, ""), place) {
            (Some(value), Some(place)) => {
                if let Some(there) = made.get_mut(place) {
                    *there = value;
                }
            }
            (Some(value), None) => made.push(value),
            (None, Some(place)) => drop(made.remove(place)),
            (None, None) => {}
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(patch: &Value) -> Value {
        let mut object = json!({
            "containers": [{"name": "a", "env": [{"name": "x", "value": "1"}]}, {"name": "b"}],
            "tolerations": [{"key": "x"}], "nodeSelector": {"a": "b"},
        });
        check_directives(patch).unwrap();
        apply(&mut object, patch);
        object
    }

    #[test]
    fn lists_are_merged_by_their_keys_and_others_replaced() {
        let containers = made(&json!({"containers": [{"name": "a", "env": [{"name": "y"}]}, {"name": "c"}]}));
        assert_eq!(
            containers["containers"],
            json!([{"name": "a", "env": [{"name": "x", "value": "1"}, {"name": "y"}]}, {"name": "b"}, {"name": "c"}])
        );
        assert_eq!(made(&json!({"tolerations": [{"key": "y"}]}))["tolerations"], json!([{"key": "y"}]));
        assert_eq!(made(&json!({"nodeSelector": {"c": "d"}}))["nodeSelector"], json!({"a": "b", "c": "d"}));
        assert_eq!(made(&json!({"nodeSelector": null})).get("nodeSelector"), None);
    }

    #[test]
    fn directives_delete_and_replace() {
        let gone = made(&json!({"containers": [{"name": "a", "$patch": "delete"}]}));
        assert_eq!(gone["containers"], json!([{"name": "b"}]));
        let other = made(&json!({"containers": [{"$patch": "replace"}, {"name": "c"}]}));
        assert_eq!(other["containers"], json!([{"name": "c"}]));
        assert_eq!(
            made(&json!({"nodeSelector": {"$patch": "replace", "c": "d"}}))["nodeSelector"],
            json!({"c": "d"})
        );
        for (patch, says) in [
            (json!({"$setElementOrder/containers": []}), "$setElementOrder/containers"),
            (json!({"containers": [{"name": "a", "$patch": "jump"}]}), "\"jump\""),
        ] {
            assert!(check_directives(&patch).unwrap_err().contains(says));
        }
    }
}
