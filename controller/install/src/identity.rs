//! Who our programs are to the API server, and what they may do there: what they declare to do, and nothing else. What a
//! program follows of the cluster's own ([`rights::elsewhere`]) is permitted by a role that the cluster has.

use super::Wishes;
use cluster_model::objects::rights::{self, Grant};
use cluster_model::objects::{Elsewhere, Program};
use serde_json::{Value, json};

pub(super) fn objects(wishes: &Wishes) -> Vec<Value> {
    let mut objects = Vec::new();
    for program in Program::ALL {
        let account = program.account();
        objects.push(
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named(account, Some(wishes))}),
        );
        objects.extend(granted(account, None, rules(program, false), wishes));
        let own = rules(program, true);
        if !own.is_empty() {
            objects.extend(granted(account, Some(wishes), own, wishes));
        }
        objects.extend(rights::elsewhere(program).map(|object| reader(account, object, wishes)));
    }
    objects
}

/// The rules of a role: of what is in the namespace of the installation, or of all else.
fn rules(program: Program, own: bool) -> Vec<Value> {
    let grants = rights::of(program).into_iter().filter(|grant| grant.kind.is_of_installation() == own);
    let beyond = rights::beyond(program).filter(|_| !own).flat_map(|grant| rule(&grant, None));
    grants.flat_map(|grant| rule(&grant, rights::names(program, grant.kind))).chain(beyond).collect()
}

/// What is made has no name yet for the API server: the rule that lets it be made can carry none.
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

/// A role with these rules, in the namespace of the installation or in all, and the account that has it.
fn granted(account: &str, within: Option<&Wishes>, rules: Vec<Value>, wishes: &Wishes) -> [Value; 2] {
    let kind = if within.is_some() { "Role" } else { "ClusterRole" };
    let version = "rbac.authorization.k8s.io/v1";
    [
        json!({"apiVersion": version, "kind": kind, "metadata": named(account, within), "rules": rules}),
        json!({
            "apiVersion": version,
            "kind": format!("{kind}Binding"),
            "metadata": named(account, within),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": account},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": wishes.namespace}],
        }),
    ]
}

/// The binding to a role of the cluster's own: it permits to read how the API server shows itself.
fn reader(account: &str, Elsewhere { namespace, role, .. }: &Elsewhere, wishes: &Wishes) -> Value {
    let name = format!("{account}-auth-reader");
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace, "labels": {"kubevirt.io": ""}},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": wishes.namespace}],
    })
}

fn named(name: &str, within: Option<&Wishes>) -> Value {
    let mut metadata = json!({"name": name, "labels": {"kubevirt.io": ""}});
    if let Some(wishes) = within {
        metadata["namespace"] = json!(wishes.namespace);
    }
    metadata
}
