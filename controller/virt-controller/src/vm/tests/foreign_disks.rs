//! Disks that a VM finds under the names of its own, and does not use.

use crate::sim::{Sim, blank, vm_with_disk};
use cluster_model::objects::{Key, Kind};
use serde_json::json;

/// The garbage collector deletes the DataVolume of a deleted VM first, and its PVC later.
#[test]
fn a_pvc_whose_data_volume_is_gone_is_not_the_disk_of_the_next_vm() {
    let mut sim = Sim::new();
    let owner = json!([{"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": "data", "uid": "gone", "controller": true}]);
    let mut claim = json!({
        "metadata": {"namespace": "n", "name": "data", "ownerReferences": owner}, "spec": {}, "status": {"phase": "Bound"},
    });
    let left = sim.put(Kind::PersistentVolumeClaim, claim.clone());
    let vm = sim.put(Kind::VirtualMachine, vm_with_disk("web", "Always", blank()));
    let vmi = Key::new(Kind::VirtualMachineInstance, "n", "web");
    sim.settle();
    assert!(!sim.objects.contains_key(&vmi));
    let status = sim.get(&vm)["status"].to_string();
    assert!(status.contains("still exists from a DataVolume that is gone"), "{status}");
    sim.vanish(&left);
    sim.settle();
    assert!(sim.objects.contains_key(&Key::new(Kind::DataVolume, "n", "data")), "it is made again");

    // A VMI that names the PVC alone waits as well, until the PVC is nobody's.
    let mut sim = Sim::new();
    let left = sim.put(Kind::PersistentVolumeClaim, claim.clone());
    let mut object = crate::sim::vmi("web");
    object["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "data"}}]);
    let vmi = sim.put(Kind::VirtualMachineInstance, object);
    sim.settle();
    assert_eq!(sim.pod_of(&vmi), None);
    claim["metadata"]["ownerReferences"] = json!(null);
    sim.change(&left, claim);
    sim.settle();
    assert!(sim.pod_of(&vmi).is_some());
}

#[test]
fn a_disk_of_another_vm_is_not_used() {
    let owner = |uid: &str| json!([{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "web", "uid": uid, "controller": true}]);
    for (meta, why) in [
        (json!({"ownerReferences": owner("of-one-that-is-gone")}), "still exists from a VM that is gone"),
        (json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}), "is being deleted"),
    ] {
        let mut sim = Sim::new();
        let mut data = json!({"metadata": {"namespace": "n", "name": "data"}, "spec": {}, "status": {"phase": "Succeeded"}});
        cluster_model::plan::merge(&mut data["metadata"], &meta);
        sim.put(Kind::DataVolume, data);
        let vm = sim.put(Kind::VirtualMachine, vm_with_disk("web", "Always", blank()));
        sim.settle();
        assert!(!sim.objects.contains_key(&Key::new(Kind::VirtualMachineInstance, "n", "web")), "{why}");
        let status = sim.get(&vm)["status"].to_string();
        assert!(status.contains(why), "{why}: {status}");
    }
}
