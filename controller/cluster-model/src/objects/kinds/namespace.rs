//! Namespace: its labels, which settings of the cluster select.

use crate::objects::about::kept;
use crate::objects::store::{StoredObject, meta};
use crate::objects::{About, Selector, Use};
use api::meta::ObjectMeta;
use serde_json::Value;
use std::collections::BTreeMap;

pub(crate) const ABOUT: About = About {
    kept: kept!(namespaces),
    controller: Use { follows: &[Selector::ALL], ..Use::NONE },
    ..About::new("v1", "Namespace", "namespaces")
};

/// The part of a Namespace that is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Namespace {
    pub meta: ObjectMeta,
}

impl StoredObject for Namespace {
    fn parse(object: Value) -> Option<Self> {
        let ObjectMeta { name, labels, resource_version, uid, .. } = meta(&object)?;
        Some(Namespace { meta: ObjectMeta { name, labels, resource_version, uid, ..ObjectMeta::default() } })
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
}

/// True if a label selector matches these labels. An empty one matches everything, an invalid one nothing.
pub fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let has = |key: &str, value: &Value| labels.get(key).map(String::as_str) == value.as_str();
    let equal = (selector["matchLabels"].as_object().into_iter().flatten())
        .all(|(key, value)| value.is_string() && has(key, value));
    let meets = |rule: &Value| {
        let Some(key) = rule["key"].as_str() else { return false };
        let is_one =
            || rule["values"].as_array().is_some_and(|values| values.iter().any(|value| has(key, value)));
        match rule["operator"].as_str() {
            Some("In") => labels.contains_key(key) && is_one(),
            Some("NotIn") => !labels.contains_key(key) || !is_one(),
            Some("Exists") => labels.contains_key(key),
            Some("DoesNotExist") => !labels.contains_key(key),
            _ => false,
        }
    };
    selector.is_object() && equal && selector["matchExpressions"].as_array().into_iter().flatten().all(meets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_selector_selects_by_all_that_it_says() {
        let labels = BTreeMap::from([("tier".to_owned(), "gold".to_owned())]);
        let by = |selector: Value| selects(&selector, &labels);
        let rule = |operator: &str, values: Value| {
            by(json!({"matchExpressions": [{"key": "tier", "operator": operator, "values": values}]}))
        };
        assert!(by(json!({})) && by(json!({"matchLabels": {"tier": "gold"}})));
        assert!(!by(Value::Null) && !by(json!({"matchLabels": {"tier": "gold", "a": "b"}})));
        assert!(!by(json!({"matchLabels": {"a": null}})), "what is not a text is nobody's label");
        assert!(rule("In", json!(["gold"])) && !rule("In", json!(["tin"])));
        assert!(!rule("NotIn", json!(["gold"])) && rule("NotIn", json!(["tin"])));
        assert!(
            rule("Exists", json!(null))
                && !rule("DoesNotExist", json!(null))
                && !rule("Like", json!(["gold"]))
        );
    }
}
