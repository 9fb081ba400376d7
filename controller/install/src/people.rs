//! What users of a cluster may do with our objects: whoever is its admin, edits or views a namespace may do so with
//! VMs too, and ask for their subresources as the table of those says ([`kubernetes::subresources`]). Whoever is known to the
//! API server may ask for our version. And what a monitor needs, for whoever gives it to one.

use api::crd::KINDS;
use kubernetes::objects::AUTHORITY;
use kubernetes::subresources::{Action, GROUP, Method, SUBRESOURCES, Subresource};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
/// Whom the API server knows. Upstream gave what these have to strangers too, until 2024.
const KNOWN: &str = "system:authenticated";

pub(super) fn objects() -> Vec<Value> {
    let edits = || subresources(|one| one.is_for_editors);
    let migrates = subresources(|one| one.action == Action::Migrate);
    vec![
        role("admin", true, [rules(WRITE, true), edits()].concat()),
        role("edit", true, [rules(WRITE, false), edits()].concat()),
        role("view", true, [rules(READ, false), subresources(|one| one.is_for_viewers)].concat()),
        // An administrator of the cluster binds it: a migration takes room on other nodes, which all namespaces share.
        role("migrate", false, migrates),
        role("default", false, vec![about_us()]),
        known("default"),
        role("metrics-reader", false, measures()),
    ]
}

/// Rights on every kind of ours; on the settings only for who may see them.
fn rules(verbs: &[&str], settings: bool) -> Vec<Value> {
    let groups: BTreeSet<&str> = KINDS.iter().map(|kind| kind.group).collect();
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

/// Rights on the subresources for which `may` is true: a rule for each method.
fn subresources(may: impl Fn(&Subresource) -> bool) -> Vec<Value> {
    let rule = |method: Method| {
        let of_method = SUBRESOURCES.iter().filter(|one| one.method == method && may(one));
        let names: BTreeSet<String> = of_method.flat_map(Subresource::granted).collect();
        let rule = json!({"apiGroups": [GROUP], "resources": names, "verbs": [method.verb()]});
        (!names.is_empty()).then_some(rule)
    };
    [Method::Get, Method::Put].into_iter().filter_map(rule).collect()
}

/// Our version, and the image for `virtctl guestfs`. The API server takes a request without the name of an object for a list.
fn about_us() -> Value {
    let of_us = SUBRESOURCES.iter().filter(|one| matches!(one.action, Action::Version | Action::Guestfs));
    let names: Vec<&str> = of_us.map(|one| one.path).collect();
    json!({"apiGroups": [GROUP], "resources": names, "verbs": ["get", "list"]})
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

/// Whoever is known has the role of this name.
fn known(name: &str) -> Value {
    let name = format!("kubevirt.io:{name}");
    let group = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": format!("{group}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": {"kubevirt.io": ""}},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": KNOWN}],
    })
}
