//! Stories of the permit of an importer pod: on a block device no mark says that the disk is complete.

use super::tests::{class, said};
use crate::sim::others::{container, worker_ends, worker_runs};
use crate::sim::{Sim, data_volume};
use api::job::Stage;
use cluster_model::objects::{Key, Kind};
use cluster_model::worker::PERMIT;
use serde_json::{Value, json};

fn disk() -> Key {
    Key::new(Kind::DataVolume, "n", "disk")
}

fn claim() -> Key {
    Key::new(Kind::PersistentVolumeClaim, "n", "disk")
}

fn pod() -> Key {
    Key::new(Kind::Pod, "n", "importer-disk")
}

/// An import onto a volume of this mode, whose pod is there and does not run yet, and the pod as virt-controller made it.
fn imported(mode: &str) -> (Sim, Value) {
    let mut sim = Sim::new();
    class(&mut sim, "Immediate");
    let mut object = data_volume("disk", json!({"http": {"url": "https://images.example/a.qcow2"}}));
    object["spec"]["storage"]["volumeMode"] = json!(mode);
    sim.put(Kind::DataVolume, object);
    sim.settle();
    sim.bind(&claim());
    let mut made = Value::Null;
    for _ in 0..5 {
        let plan = crate::decide(&sim.world, &disk(), sim.now);
        sim.apply(plan);
        if let Some(pod) = sim.objects.get(&pod()) {
            made = pod.clone();
            break;
        }
    }
    for assigned in ["uid", "creationTimestamp", "generation", "resourceVersion"] {
        made["metadata"].as_object_mut().expect("the pod is there").remove(assigned);
    }
    sim.settle();
    (sim, made)
}

fn permit(sim: &Sim) -> Value {
    sim.get(&pod())["metadata"]["annotations"][PERMIT].clone()
}

#[test]
fn an_importer_pod_of_a_device_gets_its_permit_when_it_is_there() {
    let (sim, made) = imported("Block");
    assert!(made["metadata"]["annotations"][PERMIT].is_null(), "no request to create a pod has a permit");
    assert_eq!(permit(&sim), sim.uid(&pod()));
    let (spec, container) = (&made["spec"], &made["spec"]["containers"][0]);
    let volumes = spec["volumes"].as_array().unwrap();
    let volume =
        volumes.iter().find(|volume| volume["name"] == "cdi-permit-vol").expect("the annotation is mounted");
    assert_eq!(
        volume["downwardAPI"]["items"],
        json!([{"path": "permit", "fieldRef": {"fieldPath": format!("metadata.annotations['{PERMIT}']")}}])
    );
    let mounts = container["volumeMounts"].as_array().unwrap();
    assert!(
        mounts.iter().any(|mount| mount["name"] == "cdi-permit-vol" && mount["mountPath"] == "/etc/permit")
    );
    let env = container["env"].as_array().unwrap();
    assert!(env.contains(&json!({"name": "PERMIT_FILE", "value": "/etc/permit/permit"})), "{env:?}");
    assert!(
        env.contains(&json!({"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}})),
        "{env:?}"
    );
    // The mark of a complete disk is beside the file.
    let (sim, made) = imported("Filesystem");
    assert!(permit(&sim).is_null() && !made.to_string().contains("permit"));
}

/// The request of an earlier leader arrives when another pod has filled the disk, and a VMI may use it.
#[test]
fn a_pod_that_is_created_late_gets_no_permit() {
    let (mut sim, made) = imported("Block");
    worker_runs(&mut sim, &pod(), true);
    worker_ends(&mut sim, &pod(), Some(Stage::Done));
    sim.settle();
    assert_eq!((sim.phase(&disk()), sim.objects.contains_key(&pod())), ("Succeeded", false));
    // With the status of a leader that broke off, too.
    for phase in ["Succeeded", "ImportInProgress", "ImportScheduled"] {
        let mut late = made.clone();
        late["metadata"]["finalizers"] = json!(["held"]);
        late["spec"]["nodeName"] = json!("node1");
        sim.put(Kind::Pod, late);
        sim.change(&disk(), json!({"status": {"phase": phase}}));
        sim.settle();
        worker_runs(&mut sim, &pod(), true);
        assert!(crate::sim::is_going(sim.get(&pod())), "{phase}");
        assert!(permit(&sim).is_null(), "{phase}");
        assert_eq!(sim.phase(&disk()), "Succeeded");
        sim.vanish(&pod());
        sim.settle();
        assert!(!sim.objects.contains_key(&pod()), "{phase}");
    }
}

/// A VMI came between the creation of the pod and the moment at which it is seen.
#[test]
fn a_pod_gets_no_permit_under_a_vmi() {
    let (mut sim, made) = imported("Block");
    sim.vanish(&pod());
    let mut vmi = crate::sim::vmi("web");
    vmi["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
    vmi["status"] = json!({"phase": "Running"});
    sim.world.put(Kind::VirtualMachineInstance, vmi.clone(), sim.now);
    sim.put(Kind::Pod, made);
    let plan = crate::decide(&sim.world, &disk(), sim.now);
    assert!(plan.again.is_some(), "the end of the VMI is waited for");
    sim.apply(plan);
    assert!(permit(&sim).is_null());
    sim.world.remove(&Key::new(Kind::VirtualMachineInstance, "n", "web"));
    sim.settle();
    assert_eq!(permit(&sim), sim.uid(&pod()));
}

/// Its container runs and waits for the permit: a user would see an import that does not move, and then one that failed.
#[test]
fn a_permit_that_is_withheld_is_said_while_the_pod_runs() {
    let (mut sim, mut made) = imported("Block");
    sim.vanish(&pod());
    let mut vmi = crate::sim::vmi("web");
    vmi["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
    vmi["status"] = json!({"phase": "Running"});
    sim.world.put(Kind::VirtualMachineInstance, vmi, sim.now);
    let runs = json!([{"name": container(&made), "ready": true, "state": {"running": {}}}]);
    made["status"] = json!({"phase": "Running", "containerStatuses": runs});
    sim.put(Kind::Pod, made);
    let plan = crate::decide(&sim.world, &disk(), sim.now);
    assert!(plan.again.is_some(), "the end of the VMI is waited for");
    sim.apply(plan);
    assert!(permit(&sim).is_null());
    for kind in ["Running", "Ready"] {
        let (is, reason, message) = said(&sim, kind);
        assert_eq!((is.as_str(), reason.as_str()), ("False", "CloneSourceInUse"), "{kind}");
        assert_eq!(message, "VMI web uses PVC disk: it is not written", "{kind}");
    }
    sim.world.remove(&Key::new(Kind::VirtualMachineInstance, "n", "web"));
    sim.settle();
    assert_eq!(permit(&sim), sim.uid(&pod()));
    assert_eq!(
        (said(&sim, "Running").0.as_str(), said(&sim, "Ready").1.as_str()),
        ("True", "TransferRunning")
    );
}
