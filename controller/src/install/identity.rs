//! Who our programs are to the API server, and what they may do there: what they declare to do, and nothing else.

use super::Wishes;
use crate::cluster::rights::RIGHTS;
use crate::node;
use crate::rights::Grant;
use crate::serve;
use serde_json::{Value, json};

/// The account of virt-controller.
pub(super) const CONTROLLER: &str = "kubevirt-controller";
/// The account of virt-api.
pub(super) const API: &str = "kubevirt-apiserver";
/// The account of virt-handler.
pub(super) const HANDLER: &str = "kubevirt-handler";

pub(super) fn objects(wishes: &Wishes) -> Vec<Value> {
    let rule = |(kind, part, verbs): &Grant| {
        let resource = part.map_or(kind.plural().to_owned(), |part| format!("{}/{part}", kind.plural()));
        json!({"apiGroups": [kind.group()], "resources": [resource], "verbs": verbs})
    };
    let rules = |of: &[Grant], own: bool| -> Vec<Value> {
        of.iter().filter(|(kind, ..)| kind.is_of_installation() == own).map(rule).collect()
    };
    let mut objects = Vec::new();
    for (account, rights) in
        [(CONTROLLER, RIGHTS), (API, serve::rights::RIGHTS), (HANDLER, node::rights::RIGHTS)]
    {
        objects.push(
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named(account, Some(wishes))}),
        );
        objects.extend(granted(account, None, rules(rights, false), wishes));
        let own = rules(rights, true);
        if !own.is_empty() {
            objects.extend(granted(account, Some(wishes), own, wishes));
        }
    }
    objects
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

fn named(name: &str, within: Option<&Wishes>) -> Value {
    let mut metadata = json!({"name": name, "labels": {"kubevirt.io": ""}});
    if let Some(wishes) = within {
        metadata["namespace"] = json!(wishes.namespace);
    }
    metadata
}
