//! What users of a cluster may do with our objects: whoever is its admin, edits or views a namespace may do so with
//! VMs too, and ask for their subresources as the table of those says ([`cluster_model::subresources`]); the same with
//! DataVolumes and what belongs to them, by roles of their own, as upstream. Whoever is known to the API server may ask for our
//! version, read how disks are imported (`virtctl image-upload` does), and read the instance types and preferences of the
//! cluster and the KubeVirt object. And what a monitor needs, for whoever gives it to one.
//!
//! The roles of `kubevirt.io` are upstream's, rule by rule (`upstream_roles.txt`): those of kinds that we do not have too
//! ([`ABSENT`]), since a cluster that has changed over still has such objects, whose owners read and remove them.

use api::cdi::{self, UPLOAD_GROUP};
use api::crd::{CustomResource, KINDS};
use api::{instancetype, pool};
use cluster_model::objects::AUTHORITY;
use cluster_model::subresources::{Action, GROUP, Method, SUBRESOURCES, Subresource};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const KUBEVIRT: &str = "kubevirt.io";
const READ: &[&str] = &["get", "list", "watch"];
/// What an editor may: all but to delete every object of a namespace at once.
const EDIT: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];
const WRITE: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
/// Kinds of upstream that we do not have, by their group, and whether all of those who edit may write them.
const ABSENT: &[(&str, &[&str], Absent)] = &[
    (
        "snapshot.kubevirt.io",
        &["virtualmachinesnapshots", "virtualmachinesnapshotcontents", "virtualmachinerestores"],
        Absent::Edited,
    ),
    ("backup.kubevirt.io", &["virtualmachinebackups", "virtualmachinebackuptrackers"], Absent::Edited),
    ("export.kubevirt.io", &["virtualmachineexports"], Absent::Edited),
    ("clone.kubevirt.io", &["virtualmachineclones"], Absent::Edited),
    ("plugin.kubevirt.io", &["plugins"], Absent::Administered),
    (KUBEVIRT, &[MIGRATIONS], Absent::Read),
    ("migrations.kubevirt.io", &["migrationpolicies"], Absent::Read),
];
const MIGRATIONS: &str = "virtualmachineinstancemigrations";

/// What users of a namespace may do with the objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Absent {
    /// Editors write them.
    Edited,
    /// Administrators write them, and editors do not see them.
    Administered,
    /// Nobody writes them.
    Read,
}

/// Whom the API server knows. Upstream gave what these have to strangers too, until 2024.
const KNOWN: &str = "system:authenticated";

pub(super) fn objects() -> Vec<Value> {
    let (administers, edits) =
        (subresources(|one| one.is_for_admins), subresources(|one| one.is_for_editors));
    let views = subresources(|one| one.is_for_viewers);
    let mut migrates = subresources(|one| one.action == Action::Migrate);
    migrates.push(json!({"apiGroups": [KUBEVIRT], "resources": [MIGRATIONS], "verbs": WRITE}));
    vec![
        role(KUBEVIRT, "admin", true, [rules(WRITE), administers].concat()),
        role(KUBEVIRT, "edit", true, [rules(EDIT), vec![settings()], edits].concat()),
        role(KUBEVIRT, "view", true, [rules(READ), vec![settings()], views].concat()),
        // An administrator of the cluster binds it: a migration takes room on other nodes, which all namespaces share.
        role(KUBEVIRT, "migrate", false, migrates),
        role(KUBEVIRT, "default", false, vec![settings(), about_us()]),
        known(KUBEVIRT, "default"),
        role(KUBEVIRT, "metrics-reader", false, measures()),
        role(instancetype::GROUP, "view", false, vec![sizes(READ, |kind| kind.is_of_cluster)]),
        known(instancetype::GROUP, "view"),
        role(cdi::GROUP, "admin", true, disks(WRITE)),
        role(cdi::GROUP, "edit", true, disks(WRITE)),
        role(cdi::GROUP, "view", true, disks(READ)),
        role(cdi::GROUP, "config-reader", false, vec![how_disks_are_made()]),
        known(cdi::GROUP, "config-reader"),
    ]
}

/// Rights on every kind of VMs.
fn rules(verbs: &[&str]) -> Vec<Value> {
    let kinds = KINDS.iter().filter(|kind| kind.group == KUBEVIRT && kind.kind != "KubeVirt");
    let names: Vec<&str> = kinds.map(|kind| kind.plural).collect();
    let mut rules = vec![json!({"apiGroups": [KUBEVIRT], "resources": names, "verbs": verbs})];
    rules.push(json!({"apiGroups": [pool::GROUP], "resources": ["virtualmachinepools"], "verbs": verbs}));
    // A scale is what autoscalers and `kubectl scale` write.
    let of_scale: Vec<&&str> =
        verbs.iter().filter(|verb| ["get", "update", "patch"].contains(verb)).collect();
    for (group, scale) in
        [(KUBEVIRT, "virtualmachineinstancereplicasets/scale"), (pool::GROUP, "virtualmachinepools/scale")]
    {
        rules.push(json!({"apiGroups": [group], "resources": [scale], "verbs": of_scale}));
    }
    rules.push(sizes(verbs, |_| true));
    for (group, names, which) in ABSENT {
        let verbs = match which {
            Absent::Read => READ,
            Absent::Administered if verbs == EDIT => continue,
            Absent::Edited | Absent::Administered => verbs,
        };
        rules.push(json!({"apiGroups": [group], "resources": names, "verbs": verbs}));
    }
    rules
}

/// The right to read the settings of the cluster, in which nothing is secret.
fn settings() -> Value {
    json!({"apiGroups": [KUBEVIRT], "resources": ["kubevirts"], "verbs": ["get", "list"]})
}

/// Rights on instance types and preferences. Those of the cluster are reached only where the role is bound in all of it.
fn sizes(verbs: &[&str], which: impl Fn(&CustomResource) -> bool) -> Value {
    let kinds = KINDS.iter().filter(|kind| kind.group == instancetype::GROUP && which(kind));
    let names: Vec<&str> = kinds.map(|kind| kind.plural).collect();
    json!({"apiGroups": [instancetype::GROUP], "resources": names, "verbs": verbs})
}

/// Rights on DataVolumes and what belongs to them. Whoever writes them may upload to a PVC, and let disks of the namespace be
/// cloned into others; whoever reads them may see what the cluster has of them too, where the role is bound in all of it.
fn disks(verbs: &[&str]) -> Vec<Value> {
    let is_reader = verbs == READ;
    // The installation is its administrator's.
    let is_shown = |kind: &&CustomResource| !kind.is_of_cluster || is_reader && kind.kind != "CDI";
    let kinds = KINDS.iter().filter(|kind| kind.group == cdi::GROUP).filter(is_shown);
    let names: Vec<&str> = kinds.map(|kind| kind.plural).collect();
    let mut rules = vec![json!({"apiGroups": [cdi::GROUP], "resources": names, "verbs": verbs})];
    if !is_reader {
        let may = |verbs: &[&str], group: &str, name: &str| json!({"apiGroups": [group], "resources": [name], "verbs": verbs});
        rules.push(may(&["create"], cdi::GROUP, "datavolumes/source"));
        // `kubectl apply` looks first whether there is one, which is never so.
        rules.push(may(&["create", "get"], UPLOAD_GROUP, "uploadtokenrequests"));
    }
    rules
}

/// What clients read of the settings before they make a DataVolume or upload to it.
fn how_disks_are_made() -> Value {
    json!({"apiGroups": [cdi::GROUP], "resources": ["cdiconfigs", "storageprofiles"], "verbs": READ})
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

fn role(group: &str, name: &str, aggregated: bool, rules: Vec<Value>) -> Value {
    let mut labels = json!({group: ""});
    if aggregated {
        labels[format!("rbac.authorization.k8s.io/aggregate-to-{name}")] = json!("true");
    }
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": format!("{group}:{name}"), "labels": labels},
        "rules": rules,
    })
}

/// Whoever is known has the role of this name.
fn known(group: &str, name: &str) -> Value {
    let name = format!("{group}:{name}");
    let rights = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": format!("{rights}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": {group: ""}},
        "roleRef": {"apiGroup": rights, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": rights, "kind": "Group", "name": KNOWN}],
    })
}
