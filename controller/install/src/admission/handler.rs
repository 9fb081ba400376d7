//! virt-handler: each of its write rights, restricted to its own node.
//!
//! | right | bound |
//! |---|---|
//! | patch `nodes` | its own; of the metadata the labels of [`ABILITIES`], [`CPU_MANAGER`], [`REALTIME`] and [`OBSOLETE_HOST_MODEL`], and the annotation [`HEARTBEAT`], nothing of the spec |
//! | patch `virtualmachineinstances` whose guest its node runs, before and after | the fields [`HANDLER_STATUS_FIELDS`] of the status, no more than [`CONDITIONS`] conditions, a known phase, and no other once it is final; of a migration the fields [`SOURCE_MIGRATION_FIELDS`] |
//! | patch `virtualmachineinstances` that migrate to its node, before and after | of the migration the fields [`TARGET_MIGRATION_FIELDS`] |
//! | create `events` | about VMIs, in the name of its own node |
//!
//! The API server vouches for the node in the token. The account on a compromised node gives no access to
//! other nodes: neither by a label that attracts their VMIs, nor by the status of another node's VMI.

use super::{Policy, differ_only, is_user, literal, rule, same};
use crate::InstallOptions;
use api::vmi::Phase;
use cluster_model::accounts::{Accounts, NODE_CLAIM};
use cluster_model::objects::{
    ABILITIES, CPU_MANAGER, CPU_MANAGER_OF_KUBEVIRT, HANDLER_STATUS_FIELDS, HEARTBEAT, OBSOLETE_HOST_MODEL,
    Program, REALTIME, SCHEDULABLE, SOURCE_MIGRATION_FIELDS, TARGET_MIGRATION_FIELDS,
};

/// Maximum number of conditions: more than there are types of them. virt-controller copies them to the VM.
const CONDITIONS: usize = 64;

/// Message for a token without a node.
const NO_NODE: &str = "the token of virt-handler does not say its node: it must be one that Kubernetes 1.30 or newer has made for \
     its pod, with the feature ServiceAccountTokenPodNodeInfo";

pub(super) fn policies(options: &InstallOptions) -> [Policy; 3] {
    let base = |name, rules| Policy {
        name,
        rules: vec![rules],
        when: vec![("virt-handler", is_user(&Accounts::new(&options.namespace).user(Program::Handler)))],
        variables: vec![("node", node())],
        validations: vec![("variables.node != ''".to_owned(), NO_NODE.to_owned())],
        ..Policy::default()
    };
    let [mut nodes, mut vmis, mut events] = [
        base("kubevirt-handler-nodes", rule("", &["nodes"], &["UPDATE"])),
        base("kubevirt-handler-vmis", rule("kubevirt.io", &["virtualmachineinstances"], &["UPDATE"])),
        base("kubevirt-handler-events", rule("", &["events"], &["CREATE", "UPDATE"])),
    ];
    let also = |policy: &mut Policy, expression: String, message: &str| {
        policy.validations.push((expression, format!("virt-handler {message}")));
    };

    also(&mut nodes, "request.name == variables.node".to_owned(), "changes its own node only");
    also(&mut nodes, same("spec"), "does not change the spec of a node");
    also(
        &mut nodes,
        same_metadata(&["finalizers", "ownerReferences"]),
        "changes labels and annotations of a node only",
    );
    let label = ABILITIES.map(|prefix| format!("key.startsWith({})", literal(prefix))).join(" || ");
    let single = [SCHEDULABLE, CPU_MANAGER, CPU_MANAGER_OF_KUBEVIRT, REALTIME, OBSOLETE_HOST_MODEL];
    let label = format!("(key in {} || {label})", literal(single));
    also(
        &mut nodes,
        differ_only("metadata.?labels", &label),
        "changes only those labels of its node that describe features for VMIs",
    );
    let beat = format!("key == {}", literal(HEARTBEAT));
    also(
        &mut nodes,
        differ_only("metadata.?annotations", &beat),
        "changes only the heartbeat of its node's annotations",
    );

    let both = |field: &str| {
        let on = |object: &str| format!("{object}.?status.{field}.orValue('') == variables.node");
        format!("{} && {}", on("oldObject"), on("object"))
    };
    vmis.variables.push(("runs", both("?nodeName")));
    // Also after its end the state names the target.
    let is_open = "!oldObject.?status.?migrationState.?completed.orValue(false)";
    vmis.variables.push(("receives", format!("{} && {is_open}", both("?migrationState.?targetNode"))));
    also(
        &mut vmis,
        "variables.runs || variables.receives".to_owned(),
        "changes only the VMIs of its own node",
    );
    also(&mut vmis, same("spec"), "does not change the spec of a VMI");
    also(
        &mut vmis,
        same_metadata(&["labels", "annotations", "finalizers", "ownerReferences"]),
        "does not change the metadata of a VMI",
    );
    also(
        &mut vmis,
        differ_only(
            "?status",
            &format!(
                "(key == 'migrationState' || variables.runs && key in {})",
                literal(HANDLER_STATUS_FIELDS)
            ),
        ),
        "changes only its own fields of a VMI's status",
    );
    let (source, target) = (literal(SOURCE_MIGRATION_FIELDS), literal(TARGET_MIGRATION_FIELDS));
    also(
        &mut vmis,
        differ_only(
            "?status.?migrationState",
            &format!("(variables.runs && key in {source} || variables.receives && key in {target})"),
        ),
        "changes only its own fields of a VMI's migration",
    );
    let of_end =
        |object: &str, field: &str| format!("{object}.?status.?migrationState.?{field}.orValue(false)");
    also(
        &mut vmis,
        format!(
            "{} == {} || {}",
            of_end("object", "completed"),
            of_end("oldObject", "completed"),
            of_end("object", "failed")
        ),
        "ends a migration of a VMI as failed only",
    );
    also(
        &mut vmis,
        format!("size(object.?status.?conditions.orValue([])) <= {CONDITIONS}"),
        "sets few conditions of a VMI",
    );
    let phase = |object: &str| format!("{object}.?status.?phase.orValue('')");
    also(
        &mut vmis,
        format!("{} == '' || {} in {}", phase("object"), phase("object"), literal(Phase::KNOWN)),
        "sets a known phase of a VMI",
    );
    let ended = literal([Phase::Succeeded, Phase::Failed].map(|phase| phase.as_str().to_owned()));
    also(
        &mut vmis,
        format!("!({0} in {ended}) || {1} == {0}", phase("oldObject"), phase("object")),
        "does not change the phase of a VMI that has ended",
    );

    also(
        &mut events,
        "object.involvedObject.?kind.orValue('') == 'VirtualMachineInstance' && \
         object.involvedObject.?apiVersion.orValue('').startsWith('kubevirt.io/')"
            .to_owned(),
        "records events of VMIs only",
    );
    also(
        &mut events,
        "object.?source.?host.orValue('') == variables.node && object.?reportingInstance.orValue('') == variables.node"
            .to_owned(),
        "records events in the name of its own node only",
    );
    [nodes, vmis, events]
}

/// The node in the token; empty if it has none.
fn node() -> String {
    let (extra, claim) = ("request.userInfo.extra", literal(NODE_CLAIM));
    format!("has({extra}) && {claim} in {extra} && size({extra}[{claim}]) == 1 ? {extra}[{claim}][0] : ''")
}

fn same_metadata(fields: &[&str]) -> String {
    fields.iter().map(|field| same(&format!("metadata.{field}"))).collect::<Vec<_>>().join(" && ")
}
