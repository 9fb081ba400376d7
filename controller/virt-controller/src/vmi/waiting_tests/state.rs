//! The PVC of EFI variables and TPM: which one a VMI uses, waits for, or gets.

use super::super::{PATIENCE, state};
use crate::sim::{Sim, vmi};
use cluster_model::objects::{Key, Kind, names};
use cluster_model::plan::merge;
use cluster_model::state::STATE_FOR;
use serde_json::{Value, json};

/// A VMI with a TPM that is kept, and a StorageClass.
fn begin(meta: &Value) -> (Sim, Key) {
    let mut sim = Sim::new();
    let notes = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    sim.put(
        Kind::StorageClass,
        json!({"metadata": {"name": "fast", "annotations": notes}, "provisioner": "p"}),
    );
    let mut object = vmi("web");
    object["spec"]["domain"]["devices"]["tpm"] = json!({"persistent": true});
    merge(&mut object["metadata"], meta);
    let key = sim.put(Kind::VirtualMachineInstance, object);
    (sim, key)
}

/// The name of the PVC that is made for it.
fn own(sim: &Sim, vmi: &Key) -> Key {
    let uid = sim.get(vmi)["metadata"]["uid"].as_str().unwrap();
    Key::new(Kind::PersistentVolumeClaim, "n", names::state("web", uid))
}

/// A guest whose TPM goes while it runs does not boot again.
#[test]
fn a_pvc_that_goes_or_has_no_file_system_is_waited_for() {
    let going = json!({"metadata": {"deletionTimestamp": "2027-01-01T00:00:00Z", "finalizers": ["a/b"]}});
    for (change, said) in [
        (going, "of the VM, is being deleted"),
        (json!({"spec": {"volumeMode": "Block"}}), "is a block device"),
    ] {
        let (mut sim, key) = begin(&json!({}));
        let own = own(&sim, &key);
        let mut claim = json!({"metadata": {"namespace": "n", "name": own.name}, "spec": {}});
        merge(&mut claim, &change);
        sim.put(Kind::PersistentVolumeClaim, claim);
        let plan = crate::decide(&sim.world, &key, sim.now);
        assert_eq!(plan.again, sim.now.checked_add(PATIENCE).ok(), "nothing else tells that it may go on");
        sim.apply(plan);
        assert_eq!(sim.pod_of(&key), None, "{said}");
        let (_, reason, message) = sim.condition(&key, "Synchronized").unwrap();
        assert!(reason == "FailedBackendStorageCreate" && message.contains(said), "{reason}: {message}");
    }
}

#[test]
fn a_pvc_of_upstream_that_goes_is_not_used() {
    let (mut sim, key) = begin(&json!({}));
    let meta = json!({
        "namespace": "n", "name": "older", "labels": {STATE_FOR: "web"},
        "deletionTimestamp": "2027-01-01T00:00:00Z", "finalizers": ["a/b"],
    });
    sim.put(Kind::PersistentVolumeClaim, json!({"metadata": meta, "spec": {}}));
    sim.settle();
    assert!(sim.objects.contains_key(&own(&sim, &key)));
}

/// The state of one of a replica set goes with it, and not with the set.
#[test]
fn the_state_of_a_vmi_that_has_no_vm_is_its_own() {
    let owner = json!([{
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceReplicaSet", "name": "set", "uid": "s", "controller": true,
    }]);
    let (mut sim, key) = begin(&json!({"ownerReferences": owner}));
    sim.settle();
    let owner = &sim.get(&own(&sim, &key))["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["name"]), (&json!("VirtualMachineInstance"), &json!("web")));
}

#[test]
fn the_status_names_the_pvc_where_something_is_kept_in_it() {
    for (tpm, efi, expected) in [
        (json!({"persistent": true}), Value::Null, true),
        (json!({"persistent": true, "enabled": true}), Value::Null, true),
        (json!({"persistent": true, "enabled": false}), Value::Null, false),
        (json!({"persistent": false}), Value::Null, false),
        (json!({}), Value::Null, false),
        (Value::Null, json!({"persistent": true}), true),
        (Value::Null, json!({}), false),
        (Value::Null, Value::Null, false),
    ] {
        let (mut sim, key) = begin(&json!({}));
        let own = own(&sim, &key);
        let meta = json!({"namespace": "n", "name": own.name});
        sim.put(Kind::PersistentVolumeClaim, json!({"metadata": meta, "spec": {}}));
        let mut object = sim.get(&key).clone();
        let loader = (!efi.is_null()).then(|| json!({"bootloader": {"efi": efi}}));
        merge(&mut object["spec"]["domain"], &json!({"devices": {"tpm": null}, "firmware": loader}));
        if !tpm.is_null() {
            object["spec"]["domain"]["devices"]["tpm"] = tpm.clone();
        }
        let vmi = api::wire::read(object).unwrap();
        assert_eq!(state::find(&sim.world, &vmi).is_some(), expected, "{tpm} {efi}");
    }
}

/// A VM whose state is on one node alone does not move to another.
#[test]
fn the_pvc_is_shared_where_its_class_shares_file_systems() {
    let set = |mode: &str, access: Value| json!({"volumeMode": mode, "accessModes": access});
    let (one, many, both) =
        (json!(["ReadWriteOnce"]), json!(["ReadWriteMany"]), json!(["ReadWriteOnce", "ReadWriteMany"]));
    for (sets, is_named, expected) in [
        (json!([set("Filesystem", one.clone())]), false, "ReadWriteOnce"),
        (json!([set("Filesystem", both)]), false, "ReadWriteMany"),
        (json!([set("Filesystem", one.clone()), set("Filesystem", many.clone())]), false, "ReadWriteMany"),
        (json!([set("Block", many.clone()), set("Filesystem", one.clone())]), true, "ReadWriteOnce"),
        (json!([set("Block", many)]), false, "ReadWriteOnce"),
        (json!([set("Block", one)]), true, "ReadWriteMany"),
    ] {
        let (mut sim, key) = begin(&json!({}));
        let profile = json!({"metadata": {"name": "fast"}, "spec": {"claimPropertySets": sets}});
        sim.put(Kind::StorageProfile, profile);
        if is_named {
            let set = json!({"configuration": {"vmStateStorageClass": "fast"}});
            let settings = json!({"metadata": {"namespace": "kubevirt", "name": "kubevirt"}, "spec": set});
            sim.world.put(Kind::KubeVirt, settings, sim.now);
        }
        sim.settle();
        let made = sim.get(&own(&sim, &key));
        assert_eq!(made["spec"]["accessModes"], json!([expected]), "{sets} {is_named}");
    }
}
