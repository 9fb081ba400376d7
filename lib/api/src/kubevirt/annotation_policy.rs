//! Annotations of a VMI that its launcher pod gets. The cluster sets the policy by the annotation
//! [`POD_ANNOTATIONS`] of its KubeVirt object. It is an annotation and not a field, since clients of upstream
//! drop unknown fields from the object when they change it. That would open a strict cluster silently.

use serde_json::Value;

/// The annotation of the KubeVirt object: `strict`, or `pass`, which is the default.
pub const POD_ANNOTATIONS: &str = "kubevirt.io/pod-annotations";
const PASS: &str = "pass";
const STRICT: &str = "strict";

/// Annotations that are copied from a VMI to its launcher pod, and from a template to its DataVolume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnnotationPolicy {
    /// All but those of a closed list.
    #[default]
    Pass,
    /// Only those of an allow-list.
    Strict,
}

impl AnnotationPolicy {
    /// Reads the policy of a KubeVirt object. An unknown word means strict, since it was written to restrict.
    pub fn of_cluster(object: &Value) -> AnnotationPolicy {
        match value(object) {
            None | Some(PASS) => AnnotationPolicy::Pass,
            Some(_) => AnnotationPolicy::Strict,
        }
    }

    /// Reason why the annotation of a KubeVirt object is not valid as it is written.
    pub fn unknown_value(object: &Value) -> Option<String> {
        let word = value(object).filter(|word| ![PASS, STRICT].contains(word))?;
        let word: String = word.chars().take(64).collect();
        Some(format!("{word:?} is not supported; supported are {PASS}, {STRICT}; {STRICT} holds until then"))
    }
}

fn value(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][POD_ANNOTATIONS].as_str().filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_word_that_is_not_known_is_strict_and_told() {
        let of = |word: Value| {
            let object = json!({"metadata": {"annotations": {POD_ANNOTATIONS: word}}});
            (AnnotationPolicy::of_cluster(&object), AnnotationPolicy::unknown_value(&object).is_some())
        };
        for word in [json!(null), json!(""), json!("pass")] {
            assert_eq!(of(word.clone()), (AnnotationPolicy::Pass, false), "{word}");
        }
        assert_eq!(of(json!("strict")), (AnnotationPolicy::Strict, false));
        assert_eq!(of(json!("Strict")), (AnnotationPolicy::Strict, true));
        assert_eq!(AnnotationPolicy::of_cluster(&Value::Null), AnnotationPolicy::Pass);
    }
}
