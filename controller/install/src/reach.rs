//! What the accounts that we install must never be able to do, whatever our programs come to need: a token that is stolen
//! from one node, or from one of our pods, is not to be a way to all of the cluster.

use super::objects;
use super::tests::wishes;
use serde_json::Value;

/// A rule, who has it, and whether it holds in the whole cluster.
struct Right {
    account: String,
    everywhere: bool,
    groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
    names: Vec<String>,
}

impl Right {
    fn has(&self, resource: &str) -> bool {
        self.resources.iter().any(|one| one == resource || one == "*")
    }

    fn may(&self, verb: &str) -> bool {
        self.verbs.iter().any(|one| one == verb || one == "*")
    }

    fn told(&self) -> String {
        format!("{} may {:?} {:?} {:?}", self.account, self.verbs, self.resources, self.names)
    }
}

/// The rights that our accounts are bound to.
fn rights() -> Vec<Right> {
    let all = objects(&wishes());
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)).collect()
    };
    let mut rights = Vec::new();
    for binding in &all {
        let everywhere = binding["kind"] == "ClusterRoleBinding";
        if !everywhere && binding["kind"] != "RoleBinding" {
            continue;
        }
        let to = &binding["roleRef"];
        let role = all.iter().find(|object| {
            object["kind"] == to["kind"]
                && object["metadata"]["name"] == to["name"]
                && (to["kind"] == "ClusterRole"
                    || object["metadata"]["namespace"] == binding["metadata"]["namespace"])
        });
        let role = role.unwrap_or_else(|| panic!("{binding} leads to no role"));
        for subject in binding["subjects"].as_array().unwrap() {
            assert_eq!(subject["kind"], "ServiceAccount", "{binding}: rights are for accounts of ours alone");
            for rule in role["rules"].as_array().unwrap() {
                rights.push(Right {
                    account: subject["name"].as_str().unwrap().to_owned(),
                    everywhere,
                    groups: texts(&rule["apiGroups"]),
                    resources: texts(&rule["resources"]),
                    verbs: texts(&rule["verbs"]),
                    names: texts(&rule["resourceNames"]),
                });
            }
        }
    }
    rights
}

#[test]
fn no_account_reads_the_secrets_of_the_cluster() {
    let rights = rights();
    assert!(rights.len() > 10, "the rules were not found");
    for right in rights.iter().filter(|right| right.has("secrets")) {
        assert!(!right.everywhere, "{}", right.told());
        // An agent runs on every node: its own certificate, and nothing else that is secret.
        let is_agent = right.account == "kubevirt-handler";
        assert!(!is_agent || right.names.len() == 1 && !right.may("create"), "{}", right.told());
    }
}

#[test]
fn no_account_can_become_another_or_enter_a_pod() {
    const RESOURCES: &[&str] = &[
        "pods/exec",
        "pods/attach",
        "pods/portforward",
        "pods/proxy",
        "pods/ephemeralcontainers",
        "nodes/proxy",
        "services/proxy",
        "serviceaccounts",
        "serviceaccounts/token",
        "roles",
        "rolebindings",
        "clusterroles",
        "clusterrolebindings",
        "certificatesigningrequests",
        "certificatesigningrequests/approval",
        "users",
        "groups",
    ];
    for right in rights() {
        for part in [&right.groups, &right.resources, &right.verbs] {
            assert!(part.iter().all(|one| !one.contains('*')), "{}", right.told());
        }
        for resource in RESOURCES {
            assert!(!right.has(resource), "{}", right.told());
        }
        for verb in ["impersonate", "escalate", "bind", "approve", "sign"] {
            assert!(!right.may(verb), "{}", right.told());
        }
    }
}

/// An agent's token is as good as the weakest node. What it may change of objects that are there, policies bound to its own
/// node.
#[test]
fn the_agent_of_a_node_makes_and_removes_nothing() {
    let rights: Vec<Right> =
        rights().into_iter().filter(|right| right.account == "kubevirt-handler").collect();
    assert!(!rights.is_empty());
    for right in rights {
        for verb in ["delete", "deletecollection"] {
            assert!(!right.may(verb), "{}", right.told());
        }
        // A review asks a question, and an event tells; neither is a thing that anybody obeys.
        let told = ["events", "tokenreviews", "subjectaccessreviews"];
        if right.may("create") {
            let harmless = right.resources.iter().all(|one| told.contains(&one.as_str()));
            assert!(harmless, "{}", right.told());
        }
        assert!(!right.may("update"), "a patch says what it changes: {}", right.told());
    }
}

/// What our roles add to those that everybody's `admin`, `edit` and `view` are.
#[test]
fn people_are_given_vms_and_nothing_else() {
    let roles: Vec<Value> = objects(&wishes())
        .into_iter()
        .filter(|object| {
            let labels = object["metadata"]["labels"].as_object();
            labels.is_some_and(|labels| {
                labels.keys().any(|key| key.starts_with("rbac.authorization.k8s.io/aggregate-to-"))
            })
        })
        .collect();
    assert_eq!(roles.len(), 3);
    for role in roles {
        let name = role["metadata"]["name"].as_str().unwrap();
        for rule in role["rules"].as_array().unwrap() {
            for group in rule["apiGroups"].as_array().unwrap() {
                assert!(group.as_str().unwrap().ends_with("kubevirt.io"), "{name}: {rule}");
            }
            for verb in rule["verbs"].as_array().unwrap() {
                let reads = ["get", "list", "watch"].contains(&verb.as_str().unwrap());
                let settings = rule["resources"].as_array().unwrap().contains(&Value::from("kubevirts"));
                assert!(reads || !(name.ends_with(":view") || settings), "{name}: {rule}");
            }
        }
    }
}
