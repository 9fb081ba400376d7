//! Metadata of every object, and small types that several kinds share.

use crate::object;
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// True if the text can be the name of an object or of a namespace, and can stand unescaped in a path of the
/// API server. Names from clients must be checked by it first: `../secrets/a` and `a?watch=true` would
/// address other objects.
pub fn is_name(text: &str) -> bool {
    /// The longest name of an object.
    const LONGEST: usize = 253;
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let is_edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    (1..=LONGEST).contains(&text.len())
        && text.bytes().all(is_plain)
        && is_edge(text.bytes().next())
        && is_edge(text.bytes().next_back())
}

/// True if the text can be the value of a label.
pub fn is_label_value(text: &str) -> bool {
    const LONGEST: usize = 63;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_edge = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    text.len() <= LONGEST
        && text.bytes().all(is_plain)
        && is_edge(text.bytes().next())
        && is_edge(text.bytes().next_back())
}

object! {
    /// Standard Kubernetes metadata of an object.
    pub struct ObjectMeta {
        /// Name of the object, unique within its namespace.
        pub name: Option<String> = "name",
        /// Prefix of a name that the API server completes if `name` is unset.
        pub generate_name: Option<String> = "generateName",
        /// Namespace that contains the object.
        pub namespace: Option<String> = "namespace",
        /// UID of the object, unique for all time.
        pub uid: Option<String> = "uid",
        /// Opaque version of the object, changed by every write.
        pub resource_version: Option<String> = "resourceVersion",
        /// Generation of the object, increased by every change of the spec.
        pub generation: Option<i64> = "generation",
        /// Creation time of the object (RFC 3339).
        pub creation_timestamp: Option<String> = "creationTimestamp",
        /// Time of the request to delete the object (RFC 3339).
        pub deletion_timestamp: Option<String> = "deletionTimestamp",
        /// Seconds that the object has to terminate gracefully.
        pub deletion_grace_period_seconds: Option<i64> = "deletionGracePeriodSeconds",
        /// Labels of the object, matched by selectors.
        pub labels: BTreeMap<String, String> = "labels",
        /// Annotations of the object: arbitrary values for tools.
        pub annotations: BTreeMap<String, String> = "annotations",
        /// Owners of the object. The object is deleted with its last owner.
        pub owner_references: Vec<OwnerReference> = "ownerReferences",
        /// Finalizers of the object. Deletion waits until the list is empty.
        pub finalizers: Vec<String> = "finalizers",
        /// Field managers of the object, maintained by the API server.
        pub managed_fields: Vec<Value> = "managedFields",
        /// URL of the object. Deprecated, without effect.
        pub self_link: Option<String> = "selfLink",
    }
}

object! {
    /// Owner of an object in the same namespace.
    pub struct OwnerReference {
        /// API version of the owner.
        pub api_version: String = "apiVersion",
        /// Kind of the owner, for example `VirtualMachine`.
        pub kind: String = "kind",
        /// Name of the owner object.
        pub name: String = "name",
        /// UID of the owner object.
        pub uid: String = "uid",
        /// Marks the owner as the managing controller. Default: false.
        pub controller: Option<bool> = "controller",
        /// Blocks foreground deletion of the owner until the object is deleted. Default: false.
        pub block_owner_deletion: Option<bool> = "blockOwnerDeletion",
    }
}

object! {
    /// Reference to an object in the same namespace.
    pub struct LocalReference (atomic) {
        /// Name of the referenced object in the same namespace.
        pub name: Option<String> = "name",
    }
}

object! {
    /// Label selector; all of its requirements must match.
    pub struct LabelSelector (atomic) {
        /// Labels that must be present with exactly these values.
        pub match_labels: BTreeMap<String, String> = "matchLabels",
        /// Label requirements: key, operator and values, in the form of a Kubernetes label selector.
        pub match_expressions: Vec<Value> = "matchExpressions" as Vec<Requirement>,
    }
}

impl LabelSelector {
    /// True if the selector has no requirement.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// True if these labels meet all requirements; also without a requirement.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|rule| is_met(rule, labels))
    }
}

/// True if these labels meet a requirement, in the form of a [`Requirement`]. An unreadable one is not met.
pub fn is_met(rule: &Value, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(rule["key"].as_str().unwrap_or_default());
    let values = || rule["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let is_listed = || value.is_some_and(|value| values().any(|listed| listed == value));
    let compared = || {
        let number = value?.parse::<i64>().ok()?;
        Some(number.cmp(&values().next()?.parse().ok()?))
    };
    match rule["operator"].as_str() {
        Some("In") => is_listed(),
        Some("NotIn") => !is_listed(),
        Some("Exists") => value.is_some(),
        Some("DoesNotExist") => value.is_none(),
        Some("Gt") => compared() == Some(Ordering::Greater),
        Some("Lt") => compared() == Some(Ordering::Less),
        _ => false,
    }
}

object! {
    /// Requirement for one label or field.
    pub struct Requirement {
        /// Name of the label or field.
        pub key: String = "key",
        /// Operator of the requirement: `In`, `NotIn`, `Exists`, `DoesNotExist`; for nodes also `Gt` and
        /// `Lt`.
        pub operator: String = "operator",
        /// Values for the operator; empty with `Exists` and `DoesNotExist`.
        pub values: Vec<String> = "values",
    }
}

object! {
    /// Empty object; its presence enables the feature.
    pub struct Empty {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_selector_takes_what_it_says() {
        let labels: BTreeMap<String, String> =
            [("app", "web"), ("size", "4")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let rule = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, expected) in [
            (json!({}), true),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "web", "tier": "a"}}), false),
            (rule("app", "In", json!(["web", "db"])), true),
            (rule("app", "In", json!([])), false),
            (rule("app", "NotIn", json!(["db"])), true),
            (rule("tier", "NotIn", json!(["db"])), true),
            (rule("app", "Exists", json!(null)), true),
            (rule("app", "DoesNotExist", json!(null)), false),
            (rule("app", "Near", json!(["web"])), false),
            (rule("size", "Gt", json!(["3"])), true),
            (rule("size", "Gt", json!(["4"])), false),
            (rule("size", "Lt", json!(["5"])), true),
            (rule("app", "Lt", json!(["5"])), false),
        ] {
            let read: LabelSelector = crate::wire::read(selector.clone()).unwrap();
            assert_eq!(read.matches(&labels), expected, "{selector}");
            assert_eq!(read.is_empty(), selector == json!({}), "{selector}");
        }
    }
}
