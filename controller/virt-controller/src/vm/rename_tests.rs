//! The steps by which a VM gets another name (docs/reference/virtctl.md), one after the other.

use crate::sim::{Sim, blank, vm, vm_with_disk};
use cluster_model::objects::{Key, Kind};
use serde_json::{Value, json};

/// `kubectl delete vm NAME --cascade=orphan`: the garbage collector takes the owner off what is left, and then its own finalizer.
fn delete_alone(sim: &mut Sim, key: &Key) {
    let uid = sim.get(key)["metadata"]["uid"].clone();
    let mut finalizers = sim.get(key)["metadata"]["finalizers"].as_array().unwrap().clone();
    finalizers.push(json!("orphan"));
    sim.change(key, json!({"metadata": {"finalizers": finalizers}}));
    sim.delete(key);
    sim.settle();
    for (other, mut object) in sim.objects.clone() {
        let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() else { continue };
        owners.retain(|owner| owner["uid"] != uid);
        if sim.get(&other) != &object {
            sim.put(other.kind, object);
        }
    }
    assert_eq!(sim.get(key)["metadata"]["finalizers"], json!(["orphan"]), "nothing else holds it");
    sim.vanish(key);
    sim.settle();
}

#[test]
fn a_vm_gets_another_name_and_keeps_its_disk_and_its_identity() {
    let mut sim = Sim::new();
    let old = sim.put(Kind::VirtualMachine, vm_with_disk("old", "Always", blank()));
    sim.settle();
    let disk = Key::new(Kind::DataVolume, "n", "data");
    let claim = Key::new(Kind::PersistentVolumeClaim, "n", "data");
    sim.bind(&claim);
    sim.change(&disk, json!({"status": {"phase": "Succeeded"}}));
    let run = Key::new(Kind::VirtualMachineInstance, "n", "old");
    sim.boot(&run);
    let uuid = sim.get(&run)["spec"]["domain"]["firmware"]["uuid"].clone();
    assert!(uuid.is_string());

    // virtctl stop
    sim.change(&old, json!({"spec": {"runStrategy": "Halted"}}));
    sim.settle();
    let pod = sim.pod_of(&run).unwrap();
    sim.agent_says(&run, "Succeeded");
    sim.pod_ends(&pod, "Succeeded", 0);
    sim.settle();
    assert!(!sim.objects.contains_key(&run), "it has stopped");
    // kubectl get -o yaml, with another name and without what the API server writes
    let mut manifest = sim.get(&old).clone();
    manifest["metadata"] = json!({"namespace": "n", "name": "new"});
    manifest.as_object_mut().unwrap().remove("status");
    let whole = |sim: &Sim| -> Value {
        let disk = sim.get(&disk);
        json!([disk["metadata"]["uid"], disk["spec"]])
    };
    let before = whole(&sim);
    delete_alone(&mut sim, &old);
    assert!(!sim.objects.contains_key(&old));
    assert_eq!(whole(&sim), before, "the disk stays");
    // kubectl apply, virtctl start
    let new = sim.put(Kind::VirtualMachine, manifest);
    sim.settle();
    assert_eq!(sim.get(&new)["status"]["printableStatus"], "Stopped");
    sim.change(&new, json!({"spec": {"runStrategy": "Always"}}));
    sim.settle();
    let run = Key::new(Kind::VirtualMachineInstance, "n", "new");
    sim.boot(&run);
    assert_eq!(sim.get(&run)["spec"]["domain"]["firmware"]["uuid"], uuid, "the guest is the same computer");
    assert_eq!(whole(&sim), before, "and has the same disk");
    assert_eq!(sim.get(&new)["status"]["printableStatus"], "Running");
    assert_eq!(sim.condition(&new, "Failure"), None);
}

#[test]
fn its_tpm_comes_along_when_its_pvc_gets_the_other_name() {
    let mut sim = Sim::new();
    let class =
        json!({"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}});
    sim.put(Kind::StorageClass, json!({"metadata": class, "provisioner": "p"}));
    let with_tpm = |name: &str, strategy: &str| {
        let mut object = vm(name, strategy);
        object["spec"]["template"]["spec"]["domain"]["devices"]["tpm"] = json!({"persistent": true});
        object
    };
    let old = sim.put(Kind::VirtualMachine, with_tpm("old", "Always"));
    sim.settle();
    let [state] = &sim.keys(Kind::PersistentVolumeClaim)[..] else { panic!("{:?}", sim.objects.keys()) };
    let state = state.clone();
    let run = Key::new(Kind::VirtualMachineInstance, "n", "old");
    let pod = sim.pod_of(&run).unwrap();
    sim.change(&old, json!({"spec": {"runStrategy": "Halted"}}));
    sim.settle();
    sim.vanish(&pod);
    sim.settle();
    delete_alone(&mut sim, &old);
    sim.change(&state, json!({"metadata": {"labels": {"persistent-state-for": "new"}}}));
    sim.put(Kind::VirtualMachine, with_tpm("new", "Always"));
    sim.settle();
    assert_eq!(sim.keys(Kind::PersistentVolumeClaim), std::slice::from_ref(&state), "no other is made");
    let pod = sim.pod_of(&Key::new(Kind::VirtualMachineInstance, "n", "new")).unwrap();
    assert!(sim.get(&pod)["spec"]["volumes"].to_string().contains(&state.name));
}
