//! A patch of `customizeComponents`: one of three types, read once and applied to a whole object.
//!
//! | type | content |
//! |---|---|
//! | `json` | a list of operations (RFC 6902) |
//! | `merge` | a part of the object; null removes a field (RFC 7386) |
//! | `strategic` | the same, but lists of objects are merged by the keys of their entries |
//!
//! Pure. A patch is refused if it is too large or too deep, or if it makes the object too large.

use super::{json, strategic};
use crate::plan::merge;
use api::kubevirt::PatchType;
use serde_json::Value;

/// Maximum length of a patch, in bytes.
pub const LONGEST: usize = 64 * 1024;
/// Maximum number of patches of an object.
pub const MOST: usize = 100;

#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    Json(Vec<json::Operation>),
    Merge(Value),
    /// Merge patch whose keyed lists are merged.
    Strategic(Value),
}

impl Patch {
    /// Reads a patch. The error is the end of a sentence ("is not JSON: …").
    pub fn read(kind: &PatchType, text: &str) -> Result<Patch, String> {
        if text.len() > LONGEST {
            return Err(format!("has {} bytes; at most {LONGEST} are read", text.len()));
        }
        let value: Value = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
        let part = |value: Value| match value.is_object() {
            true => Ok(value),
            false => Err("is not a JSON object: it is to be a part of the object that it changes".to_owned()),
        };
        match kind {
            PatchType::Json => Ok(Patch::Json(json::read(&value)?)),
            PatchType::Merge => Ok(Patch::Merge(part(value)?)),
            PatchType::Strategic => {
                let value = part(value)?;
                strategic::check_directives(&value)?;
                Ok(Patch::Strategic(value))
            }
            PatchType::Other(word) => {
                let word: String = word.chars().take(32).collect();
                Err(format!("is of the type {word:?}; known are json, merge and strategic"))
            }
        }
    }

    /// Applies the patch to an object. The error is the end of a sentence.
    pub fn apply(&self, object: &Value) -> Result<Value, String> {
        let mut made = object.clone();
        match self {
            Patch::Json(operations) => json::apply(&mut made, operations)?,
            Patch::Merge(part) => merge(&mut made, part),
            Patch::Strategic(part) => strategic::apply(&mut made, part),
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object() -> Value {
        json!({"spec": {"replicas": 2, "template": {"spec": {
            "containers": [{"name": "a", "image": "i:1", "resources": {"requests": {"cpu": "1"}}}, {"name": "b"}],
            "tolerations": [{"key": "x"}], "nodeSelector": {"a": "b"},
        }}}})
    }

    fn patched(kind: &PatchType, patch: &Value) -> Result<Value, String> {
        Patch::read(kind, &patch.to_string())?.apply(&object())
    }

    #[test]
    fn each_type_changes_an_object_in_its_way() {
        let resources = json!({"limits": {"memory": "1Gi"}});
        let part = |list: Value| json!({"spec": {"template": {"spec": {"containers": list}}}});
        let strategic =
            patched(&PatchType::Strategic, &part(json!([{"name": "a", "resources": resources}]))).unwrap();
        let containers = &strategic["spec"]["template"]["spec"]["containers"];
        assert_eq!(
            containers[0]["resources"],
            json!({"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}})
        );
        assert_eq!((&containers[0]["image"], &containers[1]), (&json!("i:1"), &json!({"name": "b"})));
        let merge = patched(&PatchType::Merge, &part(json!([{"name": "c"}]))).unwrap();
        assert_eq!(
            merge["spec"]["template"]["spec"]["containers"],
            json!([{"name": "c"}]),
            "lists are replaced"
        );
        let json =
            patched(&PatchType::Json, &json!([{"op": "replace", "path": "/spec/replicas", "value": 3}]))
                .unwrap();
        assert_eq!(json["spec"]["replicas"], 3);
    }

    #[test]
    fn what_is_no_patch_says_why() {
        for (kind, text, says) in [
            (PatchType::Merge, "{", "is not JSON"),
            (PatchType::Merge, "[]", "is not a JSON object"),
            (PatchType::Strategic, "3", "is not a JSON object"),
            (PatchType::Json, "{}", "is not a list of operations"),
            (PatchType::Other("yaml".into()), "{}", "is of the type \"yaml\""),
        ] {
            let said = Patch::read(&kind, text).unwrap_err();
            assert!(said.starts_with(says), "{said}");
        }
        let long = format!("{{\"a\": \"{}\"}}", "x".repeat(LONGEST));
        assert!(Patch::read(&PatchType::Merge, &long).unwrap_err().contains("at most 65536"));
    }
}
