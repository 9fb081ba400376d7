//! VMIs: defaults, immutability, and ownership of the status.

use super::base::*;
use api::vmi::VirtualMachineInstance;
use serde_json::{Value, json};

const MUTATE: &str = "/virtualmachineinstances-mutate";
const CREATE: &str = "/virtualmachineinstances-validate-create";
const UPDATE: &str = "/virtualmachineinstances-validate-update";

#[test]
fn a_vmi_is_completed_by_the_one_function() {
    let after = changed(MUTATE, &create(vmi()), &with(&json!({"evictionStrategy": "LiveMigrateIfPossible"})));
    let mut expected: VirtualMachineInstance = api::wire::read(vmi()).unwrap();
    let mut given = api::defaults::DefaultsContext::new("11111111-1111-4111-8111-111111111111");
    given.eviction_strategy = Some(api::vmi::EvictionStrategy::LiveMigrateIfPossible);
    api::defaults::apply(&mut expected, &given);
    assert_eq!(api::wire::read::<VirtualMachineInstance>(after.clone()).unwrap(), expected);
    assert_eq!(after["status"]["phase"], "Pending");
    assert_eq!(after["metadata"]["finalizers"], json!(["kubevirt.io/foregroundDeleteVirtualMachine"]));
    assert_eq!(ask(MUTATE, &create(after), &context()).patch.len(), 0, "twice is the same as once");
}

#[test]
fn a_default_that_is_not_known_refuses_no_vmi() {
    let context = with(&json!({"evictionStrategy": "Run"}));
    let after = changed(MUTATE, &create(vmi()), &context);
    assert_eq!(after["spec"].get("evictionStrategy"), None);
    assert_eq!(ask(CREATE, &create(after), &context).faults, []);
}

#[test]
fn what_may_surprise_is_warned_of() {
    let mut object = vmi();
    set(&mut object, "/spec/domain/resources", json!({"limits": {"memory": "64Mi"}}));
    set(&mut object, "/spec/domain/devices/disks/0", json!({"name": "root", "cdrom": {"readonly": false}}));
    let answer = ask(CREATE, &create(object), &context());
    assert_eq!(answer.faults, []);
    assert_eq!(
        answer.warnings,
        [
            "spec.domain.devices.disks[0].cdrom.readonly: false has no effect: a CD-ROM drive only reads",
            "spec.domain.memory.guest: the guest has 128Mi, more than spec.domain.resources.limits.memory 64Mi: a pod \
             that uses more than its limit is killed",
        ]
    );
}

#[test]
fn nobody_makes_a_vmi_that_has_begun_already() {
    let mut object = vmi();
    set(&mut object, "/status", json!({"phase": "Running", "nodeName": "node1", "colour": "red"}));
    let status = changed(MUTATE, &create(object.clone()), &context())["status"].clone();
    assert_eq!(
        (&status["phase"], &status["nodeName"], &status["colour"]),
        (&json!("Pending"), &Value::Null, &Value::Null)
    );
    let ours = by(CONTROLLER, None, create(object));
    assert_eq!(changed(MUTATE, &ours, &context())["status"]["nodeName"], "node1");
}

#[test]
fn a_status_that_somebody_else_writes_is_put_back() {
    let mut old = vmi();
    set(&mut old, "/status", json!({"phase": "Running", "nodeName": "node1"}));
    let mut new = old.clone();
    set(&mut new, "/status", json!({"phase": "Succeeded"}));
    set(&mut new, "/metadata/labels/a", json!("b"));
    let request = update(old.clone(), new.clone());
    let answer = ask(MUTATE, &request, &context());
    assert_eq!(answer.warnings.len(), 1);
    let after = changed(MUTATE, &request, &context());
    assert_eq!((&after["status"], &after["metadata"]["labels"]["a"]), (&old["status"], &json!("b")));
    assert_eq!(changed(MUTATE, &update(vmi(), new.clone()), &context()).get("status"), None);
    for ours in [HANDLER, CONTROLLER] {
        assert_eq!(ask(MUTATE, &by(ours, None, request.clone()), &context()).patch.len(), 0);
    }
    let elsewhere = "system:serviceaccount:other:kubevirt-handler";
    assert_eq!(ask(MUTATE, &by(elsewhere, None, request), &context()).patch.len(), 2);
    assert_eq!(ask(MUTATE, &update(old.clone(), old), &context()).warnings.len(), 0);
}

#[test]
fn what_is_wrong_with_a_vmi_is_said() {
    for (pointer, value, field, message) in [
        (
            "/metadata/labels/kubevirt.io~1nodeName",
            json!("node1"),
            "metadata.labels",
            "creation of the following reserved kubevirt.io/ labels on a VMI object is prohibited",
        ),
        (
            "/spec/domain/devices/interfaces/0/model",
            json!("ne3k"),
            "spec.domain.devices.interfaces[0].model",
            "interface spec.domain.devices.interfaces[0].name uses model ne3k that is not supported.",
        ),
        (
            "/spec/networks",
            json!([]),
            "spec.domain.devices.interfaces[0].name",
            "spec.domain.devices.interfaces[0].name 'default' not found.",
        ),
    ] {
        let mut object = vmi();
        set(&mut object, pointer, value);
        let answer = ask(CREATE, &create(object), &context());
        assert_eq!(told(&answer), [(field.to_owned(), message.to_owned())], "{pointer}");
    }
    let mut labelled = vmi();
    set(&mut labelled, "/metadata/labels/kubevirt.io~1nodeName", json!("node1"));
    let warnings = ask(CREATE, &create(labelled.clone()), &context()).warnings;
    assert_eq!(warnings, ["metadata.labels: reserved for KubeVirt: kubevirt.io/nodeName"]);
    assert_eq!(told(&ask(CREATE, &by(CONTROLLER, None, create(labelled)), &context())), []);
    let mut unnamed = vmi();
    set(&mut unnamed, "/metadata", json!({"generateName": "web-", "namespace": "n"}));
    assert_eq!(told(&ask(CREATE, &create(unnamed), &context())), []);
}

#[test]
fn the_spec_of_a_vmi_stays() {
    let restricted = |new: &Value| {
        let answer = ask(UPDATE, &update(vmi(), new.clone()), &context());
        told(&answer).into_iter().map(|(_, message)| message).collect::<Vec<_>>()
    };
    let mut new = vmi();
    set(&mut new, "/spec/domain/memory/guest", json!("256Mi"));
    assert_eq!(restricted(&new), ["update of VMI object is restricted"]);
    assert_eq!(told(&ask(UPDATE, &by(CONTROLLER, None, update(vmi(), new)), &context())), []);
    let mut unknown = vmi();
    set(&mut unknown, "/spec/colour", json!("red"));
    assert_eq!(restricted(&unknown).len(), 1);
    let mut label = vmi();
    set(&mut label, "/metadata/labels/kubevirt.io~1nodeName", json!("node2"));
    assert_eq!(
        restricted(&label),
        ["modification of the following reserved kubevirt.io/ labels on a VMI object is prohibited"]
    );
    assert_eq!(
        ask(UPDATE, &update(vmi(), label), &context()).warnings,
        ["metadata.labels: reserved for KubeVirt: kubevirt.io/nodeName"]
    );
    let mut said_otherwise = vmi();
    set(&mut said_otherwise, "/spec/tolerations", json!([]));
    set(&mut said_otherwise, "/metadata/labels/mine", json!("yes"));
    assert_eq!(restricted(&said_otherwise), Vec::<String>::new());
}

#[test]
fn the_agent_of_a_node_changes_what_is_on_that_node() {
    let on = |node: &str, phase: &str| {
        let mut object = vmi();
        set(&mut object, "/status", json!({"nodeName": node, "phase": phase}));
        object
    };
    let change = |claim: Option<&str>, old: Value, new: Value| {
        told(&ask(UPDATE, &by(HANDLER, claim, update(old, new)), &context())).len()
    };
    assert_eq!(change(Some("node1"), on("node1", "Scheduled"), on("node1", "Running")), 0);
    assert_eq!(change(Some("node2"), on("node1", "Scheduled"), on("node1", "Running")), 1, "of another");
    assert_eq!(change(Some("node2"), on("node1", "Running"), on("node2", "Running")), 1, "taken");
    assert_eq!(change(Some("node1"), on("node1", "Running"), on("node2", "Running")), 1, "given away");
    assert_eq!(change(None, on("node1", "Running"), on("node1", "Failed")), 1, "nobody knows who");
    assert_eq!(change(Some("node1"), vmi(), vmi()), 1, "on no node");
    let migrating = |to: &str| {
        let mut object = on("node1", "Running");
        object["status"]["migrationState"] = json!({"targetNode": to});
        object
    };
    assert_eq!(
        change(Some("node2"), migrating("node2"), migrating("node2")),
        0,
        "the target of its migration"
    );
    assert_eq!(
        change(Some("node2"), on("node1", "Running"), migrating("node2")),
        1,
        "made itself the target"
    );
    assert_eq!(change(Some("node3"), migrating("node2"), migrating("node2")), 1, "of another");
}
