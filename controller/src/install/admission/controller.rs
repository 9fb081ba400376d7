//! virt-controller: its widest rights to write, bound to what it writes.
//!
//! | right | bound |
//! |---|---|
//! | create `pods` | launchers: owned by an instance, off the node's namespaces, not privileged, no token of an account; what sees a folder of the node is not root |
//! | delete `pods`, patch `pods/status` | launchers by label and name, owned or left behind; of the status only the conditions |
//! | patch `nodes` | the label that machines may come |
//! | create, delete `controllerrevisions` | those of machines, by their names |
//! | create `secrets`, `configmaps`, `leases` | the names that it declares ([`NAMED`]); certificates only |
//!
//! **Caveats.** Whoever has this account may still make machines anywhere, and pods that look like launchers with any image
//! and with secrets of their namespace, and may lead the API server's questions about anything to any server (webhook
//! configurations are exempt from policies, by the API server's own rule): it is as much as a cluster's administrator.

use super::{Policy, differ_only, is_user, literal, rule, same};
use crate::cluster::node::SCHEDULABLE;
use crate::cluster::pod::LAUNCHER;
use crate::cluster::rights::NAMED;
use crate::cluster::vm::REVISION;
use crate::install::{Wishes, identity};
use crate::kind::Kind;
use crate::rights::names;
use crate::serve::admission::{Accounts, Program};

pub(super) fn policies(wishes: &Wishes) -> [Policy; 5] {
    let base = |name, rules, validations: Vec<(String, &str)>| Policy {
        name,
        rules,
        when: vec![("virt-controller", is_user(&Accounts::of(&wishes.namespace).user(Program::Controller)))],
        validations: (validations.into_iter())
            .map(|(expression, message)| (expression, format!("virt-controller {message}")))
            .collect(),
        ..Policy::default()
    };
    let mut made = base("kubevirt-controller-pods", vec![rule("", &["pods"], &["CREATE"])], launcher(wishes));
    // It tries out once what the server keeps of a pod, and nothing comes of that.
    made.when.push(("not-tried-out", "!request.?dryRun.orValue(false)".to_owned()));
    let touched = base(
        "kubevirt-controller-own-pods",
        vec![rule("", &["pods"], &["DELETE"]), rule("", &["pods/status"], &["UPDATE"])],
        vec![
            (is_launcher("oldObject"), "deletes and changes the pods of machines only"),
            (
                format!("request.operation == 'DELETE' || {}", differ_only("?status", "key == 'conditions'")),
                "changes only the conditions of a pod's status",
            ),
        ],
    );
    let nodes = base(
        "kubevirt-controller-nodes",
        vec![rule("", &["nodes"], &["UPDATE"])],
        vec![
            (
                ["spec", "metadata.annotations", "metadata.finalizers", "metadata.ownerReferences"]
                    .map(same)
                    .join(" && "),
                "changes only labels of a node",
            ),
            (
                differ_only("metadata.?labels", &format!("key == {}", literal(SCHEDULABLE))),
                "changes only whether machines may come to a node",
            ),
        ],
    );
    let revisions = base(
        "kubevirt-controller-revisions",
        vec![rule("apps", &["controllerrevisions"], &["CREATE", "UPDATE", "DELETE"])],
        vec![(
            format!(
                "(request.operation == 'CREATE' ? object : oldObject).metadata.name.startsWith({})",
                literal(REVISION)
            ),
            "makes and deletes the revisions of machines only",
        )],
    );
    let of = |kind: Kind| literal(names(NAMED, kind).unwrap_or_default());
    let objects = base(
        "kubevirt-controller-objects",
        vec![
            rule("", &["secrets", "configmaps"], &["CREATE", "UPDATE"]),
            rule("coordination.k8s.io", &["leases"], &["CREATE", "UPDATE"]),
        ],
        vec![
            (
                format!(
                    "object.metadata.name in (request.resource.resource == 'secrets' ? {} : \
                     request.resource.resource == 'configmaps' ? {} : {})",
                    of(Kind::Secret),
                    of(Kind::ConfigMap),
                    of(Kind::Lease)
                ),
                "makes and changes only objects with the names of its own",
            ),
            // A secret can also ask for the token of an account.
            (
                "request.resource.resource != 'secrets' || object.?type.orValue('') == 'kubernetes.io/tls'"
                    .to_owned(),
                "keeps certificates in secrets, and nothing else",
            ),
        ],
    );
    [made, touched, nodes, revisions, objects]
}

/// An object of which it is true is the pod of a machine: it has the label that virt-controller alone gives, and a name as
/// virt-controller makes them. Not its owner: the garbage collector takes that when an instance is deleted with
/// `--cascade=orphan`, and virt-controller deletes such a pod when its machine has ended.
fn is_launcher(object: &str) -> String {
    let (label, value) = LAUNCHER;
    format!(
        "{object}.metadata.?labels[?{}].orValue('') == {} && {object}.metadata.name.startsWith({})",
        literal(label),
        literal(value),
        literal(crate::names::LAUNCHER)
    )
}

/// An object of which it is true is owned by an instance.
fn is_owned(object: &str) -> String {
    format!(
        "{object}.metadata.?ownerReferences.orValue([]).exists(owner, owner.kind == 'VirtualMachineInstance' && \
         owner.apiVersion.startsWith('kubevirt.io/'))"
    )
}

/// What a launcher's pod is, whatever other webhooks put beside: so only what none of them needs is refused.
fn launcher(wishes: &Wishes) -> Vec<(String, &'static str)> {
    let containers = "object.spec.containers + object.spec.?initContainers.orValue([])";
    let hosts =
        "object.spec.?volumes.orValue([]).filter(volume, has(volume.hostPath)).map(volume, volume.name)";
    let accounts = [identity::CONTROLLER, identity::API, identity::HANDLER];
    vec![
        (
            format!("{} && {}", is_launcher("object"), is_owned("object")),
            "makes pods of machines only, owned by their instances",
        ),
        (
            "!object.spec.?hostNetwork.orValue(false) && !object.spec.?hostPID.orValue(false) && \
             !object.spec.?hostIPC.orValue(false)"
                .to_owned(),
            "makes no pods in the namespaces of a node",
        ),
        (
            format!("({containers}).all(one, !one.?securityContext.?privileged.orValue(false))"),
            "makes no privileged pods",
        ),
        (
            format!(
                "({containers}).all(one, !one.?volumeMounts.orValue([]).exists(mount, mount.name in {hosts}) || \
                 one.?securityContext.?runAsNonRoot.orValue(false) && one.?securityContext.?runAsUser.orValue(0) != 0)"
            ),
            "shows folders of a node to no container that may be root",
        ),
        (
            "object.spec.?automountServiceAccountToken.orValue(true) == false".to_owned(),
            "gives no token of a service account to a pod",
        ),
        (
            format!(
                "request.namespace != {} || !(object.spec.?serviceAccountName.orValue('') in {})",
                literal(&wishes.namespace),
                literal(accounts)
            ),
            "gives the accounts of KubeVirt to no pod",
        ),
    ]
}
