//! Roles of users for our objects. The rights of admin, edit and view in a namespace extend to VMs and to
//! their subresources, by the table of these ([`cluster_model::subresources`]), and to DataVolumes and
//! related kinds, by separate roles, as upstream. All authenticated users may read our version, the settings
//! of imports (`virtctl image-upload` needs them), the instance types and preferences of the cluster, and the
//! KubeVirt object. A further role permits reading metrics, for administrators to bind.
//!
//! The roles of `kubevirt.io` are upstream's, rule by rule (`upstream_roles.txt`): including those of kinds
//! that we do not have ([`ABSENT`]), since a migrated cluster still has such objects, whose owners read and
//! delete them.

use api::cdi::{self, UPLOAD_GROUP};
use api::crd::{CustomResource, KINDS};
use api::{instancetype, migration_policy, pool};
use cluster_model::objects::{AUTHORITY, Kind};
use cluster_model::subresources::{Action, GROUP, Method, SUBRESOURCES, Subresource};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const KUBEVIRT: &str = "kubevirt.io";
const READ: &[&str] = &["get", "list", "watch"];
/// Verbs of an editor: all except deleting all objects of a namespace at once.
const EDIT: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];
const WRITE: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
/// Upstream's kinds that we do not have, by their group, with the rights of users on them.
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
];
/// Objects that the role `migrate` writes, and the other roles only read.
const MIGRATIONS: &str = Kind::VirtualMachineInstanceMigration.plural();
/// Objects that all roles only read.
const POLICIES: &str = Kind::MigrationPolicy.plural();

/// Rights of a namespace's users on the objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Absent {
    /// Objects that the role `edit` may write.
    Edited,
    /// Administrators write them, and editors do not see them.
    Administered,
}

/// The group of all authenticated users. Until 2024, upstream gave its rights to unauthenticated users too.
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
        // Bound by an administrator of the cluster: a migration uses capacity of other nodes, which all
        // namespaces share.
        role(KUBEVIRT, "migrate", false, migrates),
        role(KUBEVIRT, "default", false, vec![settings(), about_us()]),
        bind_to_authenticated(KUBEVIRT, "default"),
        role(KUBEVIRT, "metrics-reader", false, measures()),
        role(instancetype::GROUP, "view", false, vec![sizes(READ, |kind| kind.is_of_cluster)]),
        bind_to_authenticated(instancetype::GROUP, "view"),
        role(cdi::GROUP, "admin", true, disks(WRITE)),
        role(cdi::GROUP, "edit", true, disks(WRITE)),
        role(cdi::GROUP, "view", true, disks(READ)),
        role(cdi::GROUP, "config-reader", false, vec![how_disks_are_made()]),
        bind_to_authenticated(cdi::GROUP, "config-reader"),
    ]
}

/// Rights on all kinds of VMs.
fn rules(verbs: &[&str]) -> Vec<Value> {
    let kinds = KINDS.iter().filter(|kind| kind.group == KUBEVIRT && kind.kind != "KubeVirt");
    let names: Vec<&str> = kinds.map(|kind| kind.plural).filter(|plural| *plural != MIGRATIONS).collect();
    let mut rules = vec![
        json!({"apiGroups": [KUBEVIRT], "resources": names, "verbs": verbs}),
        json!({"apiGroups": [KUBEVIRT], "resources": [MIGRATIONS], "verbs": READ}),
    ];
    rules.push(json!({"apiGroups": [pool::GROUP], "resources": ["virtualmachinepools"], "verbs": verbs}));
    // Autoscalers and `kubectl scale` write the subresource `scale`.
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
            Absent::Administered if verbs == EDIT => continue,
            Absent::Edited | Absent::Administered => verbs,
        };
        rules.push(json!({"apiGroups": [group], "resources": names, "verbs": verbs}));
    }
    // Settings of the cluster for its administrator to write: they bound the network traffic of all namespaces.
    rules.push(json!({"apiGroups": [migration_policy::GROUP], "resources": [POLICIES], "verbs": READ}));
    rules
}

/// The right to read the settings of the cluster, which contain no secrets.
fn settings() -> Value {
    json!({"apiGroups": [KUBEVIRT], "resources": ["kubevirts"], "verbs": ["get", "list"]})
}

/// Rights on instance types and preferences. A RoleBinding does not cover the cluster-scoped ones; a
/// ClusterRoleBinding does.
fn sizes(verbs: &[&str], which: impl Fn(&CustomResource) -> bool) -> Value {
    let kinds = KINDS.iter().filter(|kind| kind.group == instancetype::GROUP && which(kind));
    let names: Vec<&str> = kinds.map(|kind| kind.plural).collect();
    json!({"apiGroups": [instancetype::GROUP], "resources": names, "verbs": verbs})
}

/// Rights on DataVolumes and related kinds. Writers may also upload to a PVC, and permit clones of the
/// namespace's disks into others. Readers may see the cluster-scoped kinds too, with a ClusterRoleBinding.
fn disks(verbs: &[&str]) -> Vec<Value> {
    let is_reader = verbs == READ;
    // The CDI object belongs to the administrator.
    let is_shown = |kind: &&CustomResource| !kind.is_of_cluster || is_reader && kind.kind != "CDI";
    let kinds = KINDS.iter().filter(|kind| kind.group == cdi::GROUP).filter(is_shown);
    let names: Vec<&str> = kinds.map(|kind| kind.plural).collect();
    let mut rules = vec![json!({"apiGroups": [cdi::GROUP], "resources": names, "verbs": verbs})];
    if !is_reader {
        let may = |verbs: &[&str], group: &str, name: &str| json!({"apiGroups": [group], "resources": [name], "verbs": verbs});
        rules.push(may(&["create"], cdi::GROUP, "datavolumes/source"));
        // `kubectl apply` first reads the object, which never exists.
        rules.push(may(&["create", "get"], UPLOAD_GROUP, "uploadtokenrequests"));
    }
    rules
}

/// The settings that clients read before they create a DataVolume or upload to it.
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

/// Rights on our version and the image for `virtctl guestfs`. The API server treats a request without an
/// object's name as a list.
fn about_us() -> Value {
    let of_us = SUBRESOURCES.iter().filter(|one| matches!(one.action, Action::Version | Action::Guestfs));
    let names: Vec<&str> = of_us.map(|one| one.path).collect();
    json!({"apiGroups": [GROUP], "resources": names, "verbs": ["get", "list"]})
}

/// The right to read the metrics of our programs, and the CA bundle that verifies them.
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

/// Binds the role of this name to all authenticated users.
fn bind_to_authenticated(group: &str, name: &str) -> Value {
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
