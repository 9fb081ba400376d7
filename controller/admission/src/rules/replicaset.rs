//! Replica sets: their template is judged as the VMI it makes, and their selector finds those VMIs for ever.

use super::{AdmissionResponse, Around, Operation, Request, template, unknown};
use api::fault::{Fault, Reason};
use api::meta::LabelSelector;
use api::replicaset::VirtualMachineInstanceReplicaSet;
use api::wire;
use serde_json::Value;
use std::collections::BTreeMap;

/// Whether a replica set may be made or changed.
pub(super) fn judge(request: &Request, around: &Around) -> AdmissionResponse {
    // Scaling needs no judgement of what is there already.
    let rest = |object: &Value| {
        let mut spec = object["spec"].clone();
        if let Value::Object(fields) = &mut spec {
            fields.remove("replicas");
            fields.remove("paused");
        }
        spec
    };
    let update = request.operation == Operation::Update;
    if request.is_leaving() || update && rest(&request.old) == rest(&request.object) {
        return AdmissionResponse::yes();
    }
    let mut faults = Vec::new();
    let set = wire::read_in_part::<VirtualMachineInstanceReplicaSet>(request.object.clone(), &mut faults);
    let Some(set) = set.filter(|_| faults.is_empty()) else { return AdmissionResponse::no(faults) };
    let mut warnings = unknown::warnings(&set);
    warnings.extend(template::warnings(set.spec.template.as_ref()));
    let Some(made) = &set.spec.template else {
        let fault = Fault::new("spec.template", Reason::Required, "missing virtual machine template.");
        return AdmissionResponse { faults: vec![fault], warnings, ..AdmissionResponse::yes() };
    };
    let labels = made.metadata.as_ref().map(|metadata| metadata.labels.clone()).unwrap_or_default();
    if !takes(&set.spec.selector, &labels) {
        faults.push(Fault::new("spec.selector", Reason::Invalid, "selector does not match labels."));
    }
    if update && request.old["spec"]["selector"] != request.object["spec"]["selector"] {
        faults.push(Fault::new("spec.selector", Reason::Invalid, "selector is immutable after creation."));
    }
    // Its VMIs are called after it, with a number.
    let name = set.metadata.name.as_deref().unwrap_or("set");
    faults.extend(template::faults(made, &format!("{name}-0"), set.metadata.namespace.as_deref(), around));
    AdmissionResponse { faults, warnings, ..AdmissionResponse::yes() }
}

/// A selector takes what has these labels. One that says nothing takes nothing: it would take everybody's.
fn takes(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let LabelSelector { match_labels, match_expressions, other: _ } = selector;
    let expression = |rule: &Value| {
        let value = labels.get(rule["key"].as_str().unwrap_or_default());
        let listed = rule["values"].as_array().is_some_and(|values| {
            values.iter().any(|allowed| value.is_some_and(|value| allowed == value.as_str()))
        });
        match rule["operator"].as_str() {
            Some("In") => listed,
            Some("NotIn") => !listed,
            Some("Exists") => value.is_some(),
            Some("DoesNotExist") => value.is_none(),
            _ => false,
        }
    };
    !(match_labels.is_empty() && match_expressions.is_empty())
        && match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
        && match_expressions.iter().all(expression)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_selector_takes_what_it_says() {
        let labels: BTreeMap<String, String> = [("app".to_owned(), "web".to_owned())].into();
        let rule = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]});
        for (selector, expected) in [
            (json!({}), false),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "web", "tier": "a"}}), false),
            (rule("In", json!(["web", "db"])), true),
            (rule("In", json!([])), false),
            (rule("NotIn", json!(["db"])), true),
            (rule("Exists", json!(null)), true),
            (rule("DoesNotExist", json!(null)), false),
            (rule("Near", json!(["web"])), false),
        ] {
            let read: LabelSelector = wire::read(selector.clone()).unwrap();
            assert_eq!(takes(&read, &labels), expected, "{selector}");
        }
    }
}
