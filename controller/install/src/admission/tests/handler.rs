//! Policies of virt-handler.

use super::{expressions, policy};
use api::vmi::Phase;
use cluster_model::objects::{
    ABILITIES, CPU_MANAGER, CPU_MANAGER_OF_KUBEVIRT, HANDLER_STATUS_FIELDS, HEARTBEAT, OBSOLETE_HOST_MODEL,
    REALTIME, SCHEDULABLE, SOURCE_MIGRATION_FIELDS, TARGET_MIGRATION_FIELDS,
};
use serde_json::json;

/// virt-handler's policies take the node only from the token, and refuse a token without it.
#[test]
fn virt_handler_is_bound_to_the_node_of_its_token() {
    for name in ["kubevirt-handler-nodes", "kubevirt-handler-vmis", "kubevirt-handler-events"] {
        let policy = policy(name);
        let variables = policy["spec"]["variables"].to_string();
        assert!(variables.contains("authentication.kubernetes.io/node-name"), "{name}");
        assert_eq!(policy["spec"]["validations"][0]["expression"], "variables.node != ''", "{name}");
        assert!(expressions(&policy).contains("== variables.node"), "{name}");
    }
}

/// The policies permit virt-handler's writes: the labels are the constants that it uses.
#[test]
fn the_agent_may_write_what_it_writes() {
    let nodes = expressions(&policy("kubevirt-handler-nodes"));
    let single =
        [SCHEDULABLE, HEARTBEAT, CPU_MANAGER, CPU_MANAGER_OF_KUBEVIRT, REALTIME, OBSOLETE_HOST_MODEL];
    for key in ABILITIES.into_iter().chain(single) {
        assert!(nodes.contains(&format!("\"{key}\"")), "{key}");
    }
    let vmis = expressions(&policy("kubevirt-handler-vmis"));
    let of_migration = SOURCE_MIGRATION_FIELDS.iter().chain(&TARGET_MIGRATION_FIELDS);
    let mut fields = HANDLER_STATUS_FIELDS.iter().chain(of_migration);
    assert!(fields.all(|field| vmis.contains(&format!("\"{field}\""))));
    let [old, new] = ["oldObject", "object"].map(|object| format!("{object}.?status.?phase.orValue('')"));
    for said in [
        format!("{new} == '' || {new} in {}", json!(Phase::KNOWN)),
        format!("!({old} in [\"Succeeded\",\"Failed\"]) || {new} == {old}"),
        "size(object.?status.?conditions.orValue([])) <= 64".to_owned(),
    ] {
        assert!(vmis.contains(&said), "{said}: {vmis}");
    }
}

/// During a migration two nodes write to one VMI, each its own fields.
#[test]
fn the_node_of_the_source_and_that_of_the_target_write_different_fields() {
    let policy = policy("kubevirt-handler-vmis");
    let on = |field: &str| {
        let both = ["oldObject", "object"]
            .map(|object| format!("{object}.?status.{field}.orValue('') == variables.node"));
        json!(both.join(" && "))
    };
    let variable = |name: &str| {
        let all = policy["spec"]["variables"].as_array().unwrap();
        all.iter().find(|variable| variable["name"] == name).unwrap()["expression"].clone()
    };
    assert_eq!(variable("runs"), on("?nodeName"));
    let is_open = "!oldObject.?status.?migrationState.?completed.orValue(false)";
    assert_eq!(
        variable("receives"),
        format!("{} && {is_open}", on("?migrationState.?targetNode").as_str().unwrap())
    );
    let vmis = expressions(&policy);
    for said in [
        format!("(key == 'migrationState' || variables.runs && key in {})", json!(HANDLER_STATUS_FIELDS)),
        format!("variables.runs && key in {}", json!(SOURCE_MIGRATION_FIELDS)),
        format!("variables.receives && key in {}", json!(TARGET_MIGRATION_FIELDS)),
    ] {
        assert!(vmis.contains(&said), "{said}: {vmis}");
    }
    assert!(!HANDLER_STATUS_FIELDS.contains(&"migrationState"));
    assert!(SOURCE_MIGRATION_FIELDS.iter().all(|field| !TARGET_MIGRATION_FIELDS.contains(field)));
}
