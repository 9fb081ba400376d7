//! Service accounts of our programs, and their rights at the API server, derived from the declarations of the
//! kinds. Reading an object of the cluster ([`rights::cluster_objects`]) is permitted by a role that the cluster
//! has.

use super::InstallOptions;
use cluster_model::objects::rights::{self, Grant};
use cluster_model::objects::{ClusterObject, Program};
use serde_json::{Value, json};

pub(super) fn objects(options: &InstallOptions) -> Vec<Value> {
    let mut objects = Vec::new();
    for program in Program::ALL {
        let account = program.account();
        objects.push(
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(account, Some(options))}),
        );
        objects.extend(granted(account, None, rules(program, false), options));
        let own = rules(program, true);
        if !own.is_empty() {
            objects.extend(granted(account, Some(options), own, options));
        }
        objects.extend(rights::cluster_objects(program).map(|object| reader(account, object, options)));
    }
    objects
}

/// Rules of a role: on kinds restricted to the namespace of the installation, or on all others.
fn rules(program: Program, own: bool) -> Vec<Value> {
    let grants = rights::grants(program).into_iter().filter(|grant| grant.kind.is_of_installation() == own);
    let beyond = rights::grants_by_prefix(program).filter(|_| !own).flat_map(|grant| rule(&grant, None));
    grants.flat_map(|grant| rule(&grant, rights::names(program, grant.kind))).chain(beyond).collect()
}

/// Rules for a grant. The API server does not know the name of an object that is created, so the rule for
/// `create` has no `resourceNames`.
fn rule(Grant { kind, part, verbs }: &Grant, names: Option<&[&str]>) -> Vec<Value> {
    let resource = part.map_or(kind.plural().to_owned(), |part| format!("{}/{part}", kind.plural()));
    let rule =
        |verbs: Vec<&str>| json!({"apiGroups": [kind.group()], "resources": [resource], "verbs": verbs});
    let Some(names) = names else { return vec![rule(verbs.clone())] };
    let (makes, touches): (Vec<&str>, Vec<&str>) = verbs.iter().partition(|verb| **verb == "create");
    let mut rules = Vec::new();
    if !makes.is_empty() {
        rules.push(rule(makes));
    }
    let mut bound = rule(touches);
    bound["resourceNames"] = json!(names);
    rules.push(bound);
    rules
}

/// A role with these rules and its binding to the account, in the namespace of the installation or in all.
fn granted(
    account: &str,
    within: Option<&InstallOptions>,
    rules: Vec<Value>,
    options: &InstallOptions,
) -> [Value; 2] {
    let kind = if within.is_some() { "Role" } else { "ClusterRole" };
    let version = "rbac.authorization.k8s.io/v1";
    [
        json!({"apiVersion": version, "kind": kind, "metadata": metadata(account, within), "rules": rules}),
        json!({
            "apiVersion": version,
            "kind": format!("{kind}Binding"),
            "metadata": metadata(account, within),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": account},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": options.namespace}],
        }),
    ]
}

/// The binding to a role of the cluster, which permits reading the client CA of the API aggregator.
fn reader(
    account: &str,
    ClusterObject { namespace, role, .. }: &ClusterObject,
    options: &InstallOptions,
) -> Value {
    let name = format!("{account}-auth-reader");
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace, "labels": {"kubevirt.io": ""}},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": options.namespace}],
    })
}

fn metadata(name: &str, within: Option<&InstallOptions>) -> Value {
    let mut metadata = json!({"name": name, "labels": {"kubevirt.io": ""}});
    if let Some(options) = within {
        metadata["namespace"] = json!(options.namespace);
    }
    metadata
}
