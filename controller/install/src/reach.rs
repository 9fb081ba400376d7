//! Tests of the rights that our accounts must never have, whatever our programs need: a token stolen from one
//! node, or from one of our pods, must not give access to the whole cluster. Tests of the rights of users by
//! our roles.

use super::objects;
use super::tests::options;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A rule, its account, and its scope.
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

    fn description(&self) -> String {
        format!("{} may {:?} {:?} {:?}", self.account, self.verbs, self.resources, self.names)
    }
}

/// The only role of the cluster that an account of ours is bound to, as every API server creates it
/// (`plugin/pkg/auth/authorizer/rbac/bootstrappolicy/namespace_policy.go` of Kubernetes): it reads one
/// ConfigMap without secrets, by which virt-api verifies the API server's requests. Our own roles have no
/// rights in kube-system.
fn clusters_own(binding: &Value) -> Value {
    let place = (&binding["metadata"]["namespace"], &binding["metadata"]["name"]);
    assert_eq!(place, (&json!("kube-system"), &json!("kubevirt-apiserver-auth-reader")), "{binding}");
    let role = "extension-apiserver-authentication-reader";
    let to = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role});
    assert_eq!(binding["roleRef"], to, "{binding} leads to no role that we know");
    let account = json!([{"kind": "ServiceAccount", "name": "kubevirt-apiserver", "namespace": "kubevirt"}]);
    assert_eq!(binding["subjects"], account, "{binding}");
    let verbs = json!(["get", "list", "watch"]);
    let name = "extension-apiserver-authentication";
    json!({"rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": verbs}]})
}

/// The three bindings of all authenticated users: to read our version and the image of `virtctl guestfs`,
/// which virt-api also tells unauthenticated clients; to read the settings of the cluster, of imports and of
/// storage, which contain no secrets; and to read the instance types and preferences that all VMs may
/// reference. Other rights are for our accounts, or granted by the cluster's administrator.
fn is_everybodys(binding: &Value, role: &Value) -> bool {
    let subject =
        |name: &str| json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name}]);
    let rules = match binding["metadata"]["name"].as_str() {
        Some("kubevirt.io:default") => json!([
            {"apiGroups": ["kubevirt.io"], "resources": ["kubevirts"], "verbs": ["get", "list"]},
            {"apiGroups": ["subresources.kubevirt.io"], "resources": ["version", "guestfs"], "verbs": ["get", "list"]},
        ]),
        Some("cdi.kubevirt.io:config-reader") => json!([{
            "apiGroups": ["cdi.kubevirt.io"], "resources": ["cdiconfigs", "storageprofiles"],
            "verbs": ["get", "list", "watch"],
        }]),
        Some("instancetype.kubevirt.io:view") => json!([{
            "apiGroups": ["instancetype.kubevirt.io"],
            "resources": ["virtualmachineclusterinstancetypes", "virtualmachineclusterpreferences"],
            "verbs": ["get", "list", "watch"],
        }]),
        _ => return false,
    };
    assert_eq!(binding["subjects"], subject("system:authenticated"), "not for whom nobody knows: {binding}");
    assert_eq!(role["rules"], rules, "{role}");
    true
}

/// The rights of our accounts by their bindings.
fn rights() -> Vec<Right> {
    let all = objects(&options());
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|one| one.as_str().map(str::to_owned)).collect()
    };
    let mut rights = Vec::new();
    let (mut of_cluster, mut of_everybody) = (0, 0);
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
        let role = role.cloned().unwrap_or_else(|| {
            of_cluster += 1;
            clusters_own(binding)
        });
        if is_everybodys(binding, &role) {
            of_everybody += 1;
            continue;
        }
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
    assert_eq!((of_cluster, of_everybody), (1, 3), "bindings beside those of our accounts to our roles");
    rights
}

#[test]
fn no_account_reads_the_secrets_of_the_cluster() {
    let rights = rights();
    assert!(rights.len() > 10, "the rules were not found");
    for right in rights.iter().filter(|right| right.has("secrets")) {
        // virt-controller writes those of upload pods, restricted by a policy, and reads none.
        let reads = ["get", "list", "watch"].iter().any(|verb| right.may(verb));
        let is_written = right.account == "kubevirt-controller" && !reads;
        assert!(!right.everywhere || is_written, "{}", right.description());
        // virt-handler runs on every node: it may read its own certificate, and no other secret.
        let is_agent = right.account == "kubevirt-handler";
        assert!(!is_agent || right.names.len() == 1 && !right.may("create"), "{}", right.description());
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
            assert!(part.iter().all(|one| !one.contains('*')), "{}", right.description());
        }
        for resource in RESOURCES {
            assert!(!right.has(resource), "{}", right.description());
        }
        for verb in ["impersonate", "escalate", "bind", "approve", "sign"] {
            assert!(!right.may(verb), "{}", right.description());
        }
    }
}

/// The token of a virt-handler is as safe as the weakest node. Policies restrict its changes of existing
/// objects to its own node.
#[test]
fn the_agent_of_a_node_makes_and_removes_nothing() {
    let rights: Vec<Right> =
        rights().into_iter().filter(|right| right.account == "kubevirt-handler").collect();
    assert!(!rights.is_empty());
    for right in rights {
        for verb in ["delete", "deletecollection"] {
            assert!(!right.may(verb), "{}", right.description());
        }
        // A review stores nothing, and no program acts on an event.
        let told = ["events", "tokenreviews", "subjectaccessreviews"];
        if right.may("create") {
            let harmless = right.resources.iter().all(|one| told.contains(&one.as_str()));
            assert!(harmless, "{}", right.description());
        }
        assert!(!right.may("update"), "a patch says what it changes: {}", right.description());
    }
}

/// The rights that our roles add to the cluster's `admin`, `edit` and `view`.
#[test]
fn people_are_given_vms_and_nothing_else() {
    let roles: Vec<Value> = objects(&options())
        .into_iter()
        .filter(|object| {
            let labels = object["metadata"]["labels"].as_object();
            labels.is_some_and(|labels| {
                labels.keys().any(|key| key.starts_with("rbac.authorization.k8s.io/aggregate-to-"))
            })
        })
        .collect();
    assert_eq!(roles.len(), 6);
    for role in roles {
        let name = role["metadata"]["name"].as_str().unwrap();
        for rule in role["rules"].as_array().unwrap() {
            for group in rule["apiGroups"].as_array().unwrap() {
                assert!(group.as_str().unwrap().ends_with("kubevirt.io"), "{name}: {rule}");
            }
            for verb in rule["verbs"].as_array().unwrap() {
                let reads = ["get", "list", "watch"].contains(&verb.as_str().unwrap());
                let settings = rule["resources"].as_array().unwrap().contains(&Value::from("kubevirts"));
                // A request that stores nothing despite its PUT: the response is the expanded VM of its body.
                let asks =
                    rule["resources"] == json!(["expand-vm-spec"]) && rule["verbs"] == json!(["update"]);
                assert!(reads || asks || !(name.ends_with(":view") || settings), "{name}: {rule}");
            }
        }
    }
}

/// The resources of a group that a role of ours permits with a verb.
fn permitted(role: &str, group: &str, verb: &str) -> BTreeSet<String> {
    let all = objects(&options());
    let is_it = |object: &&Value| object["kind"] == "ClusterRole" && object["metadata"]["name"] == role;
    let role = all.iter().find(is_it).unwrap_or_else(|| panic!("no role {role}"));
    let has = |list: &Value, word: &str| list.as_array().unwrap().contains(&Value::from(word));
    let rules = role["rules"].as_array().unwrap().iter();
    let rules = rules.filter(|rule| has(&rule["apiGroups"], group) && has(&rule["verbs"], verb));
    let names = rules.flat_map(|rule| rule["resources"].as_array().unwrap());
    names.map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// A viewer has no consoles. An editor has them. Migration is a separate right.
#[test]
fn a_viewer_enters_no_guest_and_an_editor_migrates_none() {
    let of = |role: &str, verb: &str| permitted(role, "subresources.kubevirt.io", verb);
    let (views, asks) = (of("kubevirt.io:view", "get"), of("kubevirt.io:view", "update"));
    assert_eq!(asks, BTreeSet::from(["expand-vm-spec".to_owned()]));
    let enters =
        ["console", "vnc", "portforward", "usbredir"].map(|path| format!("virtualmachineinstances/{path}"));
    for role in ["kubevirt.io:edit", "kubevirt.io:admin"] {
        let (gets, updates) = (of(role, "get"), of(role, "update"));
        assert!(gets.is_superset(&views) && updates.is_superset(&asks), "{role}");
        assert!(enters.iter().all(|name| gets.contains(name) && !views.contains(name)), "{role}");
        for path in ["start", "stop", "restart", "evacuate/cancel"] {
            assert!(updates.contains(&format!("virtualmachines/{path}")), "{role}: {path}");
        }
        // The API server checks the first segment, and virt-api the whole path.
        assert!(updates.contains("virtualmachines/evacuate") && gets.contains("virtualmachineinstances/sev"));
        for name in [
            "virtualmachines/migrate",
            "virtualmachineinstances/vsock",
            "virtualmachineinstances/backup",
            "virtualmachineinstances/redefine-checkpoint",
        ] {
            assert!(!updates.contains(name) && !gets.contains(name), "{role}: {name}");
        }
    }
    // An editor can open the screen. The screenshot alone is for administrators, as upstream.
    let screenshot = "virtualmachineinstances/vnc/screenshot";
    assert!(of("kubevirt.io:admin", "get").contains(screenshot));
    assert!(!of("kubevirt.io:edit", "get").contains(screenshot));
    let migrates = BTreeSet::from(["virtualmachines/migrate".to_owned()]);
    assert_eq!(of("kubevirt.io:migrate", "update"), migrates);
    assert!(of("kubevirt.io:migrate", "get").is_empty());
}

/// A right: group, resource and verb.
type Permission = (String, String, String);

/// The rights in a role of ours.
fn permissions(role: &str) -> BTreeSet<Permission> {
    let all = objects(&options());
    let name = format!("kubevirt.io:{role}");
    let is_it = |object: &&Value| object["kind"] == "ClusterRole" && object["metadata"]["name"] == name;
    let role = all.iter().find(is_it).unwrap_or_else(|| panic!("no role {name}"));
    let texts = |list: &Value| {
        let texts = list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned());
        texts.collect::<Vec<_>>()
    };
    let mut found = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    found.insert((group.clone(), resource.clone(), verb));
                }
            }
        }
    }
    found
}

/// The rights in upstream's role, from the recorded table.
fn of_upstream(role: &str) -> BTreeSet<Permission> {
    const WRITE: &str = "get,list,watch,create,update,patch,delete";
    let mut found = BTreeSet::new();
    let lines = include_str!("upstream_roles.txt").lines().filter(|line| !line.starts_with('#'));
    for line in lines.filter_map(|line| line.strip_prefix(role)?.strip_prefix(' ')) {
        let [group, verbs, resources] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let verbs = match verbs {
            "all" => format!("{WRITE},deletecollection"),
            "write" => WRITE.to_owned(),
            "read" => "get,list,watch".to_owned(),
            verbs => verbs.to_owned(),
        };
        for resource in resources.split(',') {
            let of = |verb: &str| (group.to_owned(), resource.to_owned(), verb.to_owned());
            found.extend(verbs.split(',').map(of));
        }
    }
    assert!(!found.is_empty(), "{role}");
    found
}

/// Rights that a role has in addition to upstream's: our own subresource, `kubectl scale`, and the first
/// segments of longer paths, which the API server checks before virt-api checks the whole path.
fn is_added((group, resource, verb): &Permission) -> bool {
    let of_scale = ["virtualmachineinstancereplicasets/scale", "virtualmachinepools/scale"];
    let first_words =
        ["virtualmachineinstances/sev", "virtualmachineinstances/evacuate", "virtualmachines/evacuate"];
    of_scale.contains(&resource.as_str()) && group != "subresources.kubevirt.io"
        || group == "subresources.kubevirt.io" && first_words.contains(&resource.as_str())
        || resource == "virtualmachineinstances/stats" && verb == "get"
}

#[test]
fn the_roles_of_users_are_upstreams_rule_by_rule() {
    for role in ["default", "view", "edit", "admin", "migrate"] {
        let (ours, theirs) = (permissions(role), of_upstream(role));
        let missing: Vec<_> = theirs.difference(&ours).collect();
        assert_eq!(missing, Vec::<&Permission>::new(), "kubevirt.io:{role} lacks them");
        let more: Vec<_> = ours.difference(&theirs).filter(|right| !is_added(right)).collect();
        assert_eq!(more, Vec::<&Permission>::new(), "kubevirt.io:{role} has them, and upstream's has not");
    }
}

/// An editor creates disks in the namespace, uploads to them, and permits clones of them. A viewer does none
/// of it. These roles change nothing cluster-scoped.
#[test]
fn an_editor_makes_disks_and_a_viewer_reads_of_them() {
    let words = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    let own = words(&[
        "datavolumes",
        "datasources",
        "dataimportcrons",
        "volumeimportsources",
        "volumeuploadsources",
        "volumeclonesources",
    ]);
    let of_cluster = words(&["storageprofiles", "cdiconfigs", "objecttransfers"]);
    let of = |role: &str, verb: &str| permitted(&format!("cdi.kubevirt.io:{role}"), "cdi.kubevirt.io", verb);
    let tokens =
        |role: &str| permitted(&format!("cdi.kubevirt.io:{role}"), "upload.cdi.kubevirt.io", "create");
    for role in ["admin", "edit"] {
        assert_eq!(
            of(role, "create"),
            own.union(&words(&["datavolumes/source"])).cloned().collect(),
            "{role}"
        );
        for verb in ["get", "list", "watch", "update", "patch", "delete", "deletecollection"] {
            assert_eq!(of(role, verb), own, "{role} {verb}");
        }
        assert_eq!(tokens(role), words(&["uploadtokenrequests"]), "{role}");
    }
    assert_eq!(of("view", "list"), own.union(&of_cluster).cloned().collect());
    assert!(of("view", "create").is_empty() && tokens("view").is_empty());
    // The roles for VMs contain no rights on disks.
    for role in ["admin", "edit", "view"] {
        assert!(permitted(&format!("kubevirt.io:{role}"), "cdi.kubevirt.io", "get").is_empty(), "{role}");
    }
}

/// An editor writes the instance types and preferences of the namespace; a viewer reads them.
#[test]
fn an_editor_writes_instance_types_and_a_viewer_reads_them() {
    let of = |role: &str, verb: &str| permitted(role, "instancetype.kubevirt.io", verb).len();
    for role in ["kubevirt.io:admin", "kubevirt.io:edit"] {
        assert_eq!((of(role, "get"), of(role, "create"), of(role, "delete")), (4, 4, 4), "{role}");
    }
    assert_eq!((of("kubevirt.io:view", "list"), of("kubevirt.io:view", "create")), (4, 0));
    let everybody = "instancetype.kubevirt.io:view";
    assert_eq!((of(everybody, "watch"), of(everybody, "update")), (2, 0));
}
