//! What users of a cluster may do with our objects: whoever is its admin, edits or views a namespace may do so with
//! VMs too. And what a monitor needs, for whoever gives it to one.

use api::crd::KINDS;
use kubernetes::objects::AUTHORITY;
use serde_json::{Value, json};

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

pub(super) fn objects() -> Vec<Value> {
    vec![
        role("admin", true, rules(WRITE, true)),
        role("edit", true, rules(WRITE, false)),
        role("view", true, rules(READ, false)),
        role("metrics-reader", false, measures()),
    ]
}

/// Rights on every kind of ours; on the settings only for who may see them.
fn rules(verbs: &[&str], settings: bool) -> Vec<Value> {
    let groups: std::collections::BTreeSet<&str> = KINDS.iter().map(|kind| kind.group).collect();
    let mut rules: Vec<Value> = Vec::new();
    for group in groups {
        let of_group = KINDS.iter().filter(|kind| kind.group == group && kind.kind != "KubeVirt");
        let names: Vec<&str> = of_group.map(|kind| kind.plural).collect();
        rules.push(json!({"apiGroups": [group], "resources": names, "verbs": verbs}));
    }
    // A scale is what autoscalers and `kubectl scale` write.
    let scale = "virtualmachineinstancereplicasets/scale";
    let of_scale: Vec<&&str> =
        verbs.iter().filter(|verb| ["get", "update", "patch"].contains(verb)).collect();
    rules.push(json!({"apiGroups": ["kubevirt.io"], "resources": [scale], "verbs": of_scale}));
    if settings {
        rules.push(json!({"apiGroups": ["kubevirt.io"], "resources": ["kubevirts"], "verbs": READ}));
    }
    rules
}

/// What our programs measure, and by which authorities a monitor knows that it is they.
fn measures() -> Vec<Value> {
    vec![
        json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}),
        json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [AUTHORITY], "verbs": READ}),
    ]
}

fn role(name: &str, aggregated: bool, rules: Vec<Value>) -> Value {
    let mut labels = json!({"kubevirt.io": ""});
    if aggregated {
        labels[format!("rbac.authorization.k8s.io/aggregate-to-{name}")] = json!("true");
    }
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": format!("kubevirt.io:{name}"), "labels": labels},
        "rules": rules,
    })
}
