//! Fencing: prevents a second QEMU from writing to a disk that a first one may still write to. It restricts
//! all users except the programs that implement it.
//!
//! The next run of a VM starts when VMI and pod of its last one are gone. So these must not be removed early:
//!
//! | what | permitted | why |
//! |---|---|---|
//! | our finalizers of VMs and VMIs | virt-controller removes them, when no pod is left | the VMI would be gone while its pod runs |
//! | the status of a VMI, the labels it is found by | virt-controller, virt-handler; virt-api the node that the VMI must leave | a VMI that is reported as ended is followed by the next |
//! | labels and owners of launcher pods | virt-controller; the garbage collector | no program waits for a pod that it does not find |
//! | the object of a launcher pod whose containers may run (`delete --force`, an eviction with no grace) | its kubelet; the pod garbage collector, when its node is gone or out of service | the object would be gone while QEMU runs |
//! | creating a launcher pod | virt-controller | a forged one would be trusted |
//!
//! An ordinary deletion (of a pod, a VMI, a namespace) is never refused: it waits for the kubelet. The
//! namespace controller and the garbage collector delete like that.
//!
//! **The emergency exit** is for an administrator who *knows* that nothing runs any more: it requires the
//! verb [`VERB`] on `virtualmachineinstances`, which a cluster's administrator has by `*`, and which the
//! roles admin, edit and view of a namespace do not have, and the annotation [`OFF`] on the object, so that
//! it is not used by habit (docs/how-to/nodes.md). A user without the verb cannot leave the annotation
//! there for one who has it. It is not passed on from a template to a VMI, or from a VMI to a pod.

use super::{Policy, api, is_user, literal, rule, same};
use crate::InstallOptions;
use cluster_model::accounts::Accounts;
use cluster_model::metadata::{FENCING, OFFLINE_MIGRATION, RESERVED};
use cluster_model::objects::{FINALIZER, FOUND_BY, LAUNCHER, MIGRATION_JOB, OF_VM, Program};
use cluster_model::subresources::VMI_STATUS_FIELDS;

/// RBAC verb of users who may end fencing.
const VERB: &str = "unfence";
/// Annotation of an object whose fencing is to end.
const OFF: (&str, &str) = (FENCING, "off");
/// Users of Kubernetes' own collectors, with separate accounts or without.
const COLLECTORS: [&str; 3] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:pod-garbage-collector",
    "system:kube-controller-manager",
];
/// Labels of launcher pods that only virt-controller changes: those by which pods are found, and the UID of the migration of a
/// target pod.
const FENCED: [&str; 5] = [FOUND_BY[0], FOUND_BY[1], FOUND_BY[2], FOUND_BY[3], MIGRATION_JOB];
/// Fields of a VMI's status that decide about its next run or its node.
const DECISIVE: [&str; 6] = [
    "nodeName",
    "activePods",
    "migrationState",
    "migratedVolumes",
    "virtualMachineRevisionName",
    "launcherContainerImageVersion",
];

pub(super) fn policies(options: &InstallOptions) -> [Policy; 6] {
    let user = |program| is_user(&Accounts::new(&options.namespace).user(program));
    let not_controller = ("not-virt-controller", format!("!({})", user(Program::Controller)));
    let off = |object: &str| {
        let (key, value) = (literal(OFF.0), literal(OFF.1));
        format!("{object}.metadata.?annotations[?{key}].orValue('') == {value}")
    };
    let exit = |object: &str| format!("(variables.may && {})", off(object));
    let may = format!(
        "authorizer.group('kubevirt.io').resource('virtualmachineinstances').namespace(request.?namespace.orValue('')).check({})\
         .allowed()",
        literal(VERB)
    );
    let base = |name, rules, when, validations| Policy {
        name,
        rules,
        when,
        variables: vec![("may", may.clone())],
        validations,
        ..Policy::default()
    };
    // A user who may end fencing would end it by habit on an object that already has the annotation. So no
    // other user may set it.
    let word = base(
        "kubevirt-fencing-word",
        vec![rule("kubevirt.io", &["virtualmachines", "virtualmachineinstances"], &["CREATE", "UPDATE"])],
        vec![(
            "is-new",
            format!("{} && (request.operation == 'CREATE' || !({}))", off("object"), off("oldObject")),
        )],
        vec![("variables.may".to_owned(), not_yours())],
    );
    let kept = format!(
        "oldObject.metadata.?finalizers.orValue([]).filter(one, one in {}).all(one, one in \
         object.metadata.?finalizers.orValue([])) || {}",
        literal([FINALIZER, OF_VM]),
        exit("object")
    );
    let finalizers = base(
        "kubevirt-fencing-finalizers",
        vec![rule("kubevirt.io", &["virtualmachines", "virtualmachineinstances"], &["UPDATE"])],
        vec![not_controller.clone()],
        vec![(
            kept,
            "a finalizer of KubeVirt is removed by virt-controller once nothing of the VM runs any more; \
             without it a second QEMU could write to the same disk. If you know that none runs, see \"When a node is lost for \
             good\" in the documentation"
                .to_owned(),
        )],
    );
    let labels = RESERVED.map(|key| same_key("metadata.?labels", key)).join(" && ");
    let status = base(
        "kubevirt-fencing-status",
        vec![rule("kubevirt.io", &["virtualmachineinstances"], &["CREATE", "UPDATE"])],
        vec![not_controller.clone(), ("not-virt-handler", format!("!({})", user(Program::Handler)))],
        vec![
            (
                format!(
                    "request.operation == 'CREATE' || {} || {} || {} && {}",
                    same("status"),
                    exit("object"),
                    user(Program::Api),
                    api::only("status", &VMI_STATUS_FIELDS)
                ),
                "the status of a VMI is written by KubeVirt's own programs only".to_owned(),
            ),
            (
                format!(
                    "request.operation != 'CREATE' || object.?status.?phase.orValue('') in ['', 'Pending'] && {}.all(key, \
                     !(key in object.?status.orValue({{}})))",
                    literal(DECISIVE)
                ),
                "a VMI is created without a status: KubeVirt's own programs write it".to_owned(),
            ),
            (
                format!("request.operation == 'CREATE' || ({labels}) || {}", exit("object")),
                // Upstream's wording, which users and tools know. virt-api uses the same.
                format!(
                    "modification of the following reserved kubevirt.io/ labels on a VMI object is prohibited: {} \
                     (KubeVirt's own programs write them)",
                    RESERVED.join(", ")
                ),
            ),
            (
                format!(
                    "(request.operation == 'CREATE' ? object.metadata.?annotations[?{}].orValue('') == '' : {}) || {}",
                    literal(OFFLINE_MIGRATION),
                    same_key("metadata.?annotations", OFFLINE_MIGRATION),
                    exit("object")
                ),
                format!(
                    "the annotation {OFFLINE_MIGRATION} of a VMI is written by virt-controller only: it would end the guest, or take a VMI \
                     without a guest for one"
                ),
            ),
        ],
    );
    let runs = "oldObject.?spec.?nodeName.orValue('') != '' && !(oldObject.?status.?phase.orValue('') in ['Succeeded', 'Failed'])";
    let pods = Policy {
        label: Some(LAUNCHER),
        ..base(
            "kubevirt-fencing-pods",
            // An update of a pod's status can change the labels too: the API server resets only spec and
            // owners there.
            vec![rule("", &["pods"], &["UPDATE", "DELETE"]), rule("", &["pods/status"], &["UPDATE"])],
            vec![
                not_controller.clone(),
                ("not-a-collector", format!("!(request.userInfo.username in {})", literal(COLLECTORS))),
                ("not-a-kubelet", "!('system:nodes' in request.userInfo.groups)".to_owned()),
            ],
            vec![
                (
                    format!(
                        "request.operation != 'UPDATE' || {} && {} || {}",
                        same("metadata.ownerReferences"),
                        FENCED.map(|key| same_key("metadata.?labels", key)).join(" && "),
                        exit("oldObject")
                    ),
                    format!(
                        "the owner of a launcher pod and the labels it is found by stay: {}",
                        FENCED.join(", ")
                    ),
                ),
                (
                    format!(
                        "request.operation != 'DELETE' || !({}) || !({runs}) || {}",
                        no_grace("request.?options"),
                        exit("oldObject")
                    ),
                    FORCED.to_owned(),
                ),
                (
                    format!(
                        "request.operation != 'UPDATE' || variables.may || !({}) || {}",
                        off("object"),
                        off("oldObject")
                    ),
                    not_yours(),
                ),
            ],
        )
    };
    let name = cluster_model::objects::names::LAUNCHER;
    // By the name too: a pod with the name of a future launcher pod would block its creation.
    let is_launcher = format!(
        "object.metadata.?labels[?{}].orValue('') == {} || object.metadata.?name.orValue('').startsWith({})",
        literal(LAUNCHER.0),
        literal(LAUNCHER.1),
        literal(name)
    );
    let made = base(
        "kubevirt-fencing-launchers",
        vec![rule("", &["pods"], &["CREATE"])],
        vec![not_controller, ("launchers", is_launcher)],
        vec![(
            "variables.may".to_owned(),
            format!(
                "pods with the label {}={}, or a name that begins with {name}, are made by virt-controller only",
                LAUNCHER.0, LAUNCHER.1
            ),
        )],
    );
    // The object of the request is the eviction, which has only the name of the pod.
    let evictions = base(
        "kubevirt-fencing-evictions",
        vec![rule("", &["pods/eviction"], &["CREATE"])],
        vec![(
            "launchers",
            format!(
                "request.?name.orValue('').startsWith({})",
                literal(cluster_model::objects::names::LAUNCHER)
            ),
        )],
        vec![(format!("!({})", no_grace("object.?deleteOptions")), FORCED.to_owned())],
    );
    [finalizers, status, pods, made, evictions, word]
}

/// Message for a user who sets the annotation without the right to end fencing.
fn not_yours() -> String {
    format!(
        "the annotation {}={} ends what keeps a second QEMU from a disk: only users who may {VERB} \
         virtualmachineinstances set it (administrators of the cluster)",
        OFF.0, OFF.1
    )
}

/// Message for a forced deletion of a pod.
const FORCED: &str = "a launcher pod is not deleted by force while it may run: its object would be gone and QEMU would not, and \
     a second one could write to the same disk. Delete it without force and wait; if its node is lost for good, delete the node \
     or give it the taint node.kubernetes.io/out-of-service; see \"When a node is lost for good\" in the documentation";

/// True for a deletion without a grace period.
fn no_grace(options: &str) -> String {
    format!("{options}.?gracePeriodSeconds.orValue(-1) == 0")
}

/// True if a value of a map is unchanged.
fn same_key(path: &str, key: &str) -> String {
    let value = |object: &str| format!("{object}.{path}[?{}].orValue('')", literal(key));
    format!("{} == {}", value("object"), value("oldObject"))
}
