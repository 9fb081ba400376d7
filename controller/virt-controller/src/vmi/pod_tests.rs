//! What the launcher pod has of its VMI.

use crate::sim::{Sim, vmi};
use cluster_model::objects::Kind;
use serde_json::json;

/// KubeVirt's conformance suite wants the first three; addresses and sidecars of guests hang on the others.
#[test]
fn a_pod_gets_the_annotations_of_its_vmi() {
    let passed = [
        "kubevirt.io/test",
        "kubernetes.io/test",
        "testannotation",
        "ovn.kubernetes.io/ip_address",
        "cni.projectcalico.org/ipAddrs",
        "vault.hashicorp.com/agent-inject",
        "ad.datadoghq.com/compute.logs",
    ];
    for (policy, expected) in [(None, passed.as_slice()), (Some("strict"), &passed[..1])] {
        let mut sim = Sim::new();
        if let Some(policy) = policy {
            let meta = json!({
                "namespace": "kubevirt", "name": "kubevirt", "annotations": {"kubevirt.io/pod-annotations": policy},
            });
            sim.world.put(Kind::KubeVirt, json!({"metadata": meta, "spec": {}}), sim.now);
        }
        let mut object = vmi("web");
        object["metadata"]["annotations"] =
            passed.iter().map(|key| ((*key).to_owned(), json!("a"))).collect();
        let key = sim.put(Kind::VirtualMachineInstance, object);
        sim.settle();
        let pod = sim.get(&sim.pod_of(&key).unwrap());
        let got: Vec<&str> =
            passed.into_iter().filter(|key| pod["metadata"]["annotations"][*key] == "a").collect();
        assert_eq!(got, expected, "{policy:?}");
        assert_eq!(sim.reasons().contains(&"NotPassedOn".to_owned()), policy.is_some());
        assert!(sim.warnings.is_empty(), "{:?}", sim.warnings);
    }
}

/// No node has so much: the scheduler says so, and the word of the VM is `ErrorUnschedulable`, as upstream's.
#[test]
fn a_vmi_that_no_node_can_hold_has_a_pod_that_asks_for_all_of_it() {
    for (domain, resource, least) in [
        (json!({"cpu": {"sockets": 1_000_000}}), "cpu", 100_000_u64),
        (json!({"memory": {"guest": "1Ei"}}), "memory", 1 << 60),
        (json!({"memory": {"guest": "15Ei"}}), "memory", 15 << 60),
    ] {
        let mut sim = Sim::new();
        let mut object = vmi("web");
        cluster_model::plan::merge(&mut object["spec"]["domain"], &domain);
        let key = sim.put(Kind::VirtualMachineInstance, object);
        sim.settle();
        let pod = sim.get(&sim.pod_of(&key).expect(resource));
        let mut asked = pod["spec"]["containers"].as_array().unwrap().iter();
        let asked = asked.find(|container| container["name"] == "compute").unwrap();
        let asked = asked["resources"]["requests"][resource].as_str().unwrap();
        let asked = api::quantity::Quantity::parse(asked).unwrap();
        assert!(asked.nanos() >= i128::from(least) * 1_000_000_000, "{resource}: {asked}");
    }
}

/// A guest would begin in a pod whose files are not there.
#[test]
fn a_pod_that_has_a_node_and_does_not_run_yet_is_not_handed_over() {
    let mut sim = Sim::new();
    let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
    sim.settle();
    let pod = sim.pod_of(&key).unwrap();
    let waiting = json!([{"name": "compute", "state": {"waiting": {"reason": "ContainerCreating"}}}]);
    let status = json!({"phase": "Pending", "containerStatuses": waiting});
    sim.change(&pod, json!({"spec": {"nodeName": "node1"}, "status": status}));
    sim.change(&key, json!({"metadata": {"finalizers": []}}));
    sim.settle();
    let object = sim.get(&key);
    assert_eq!(
        (&object["status"]["phase"], &object["status"]["nodeName"]),
        (&json!("Scheduling"), &json!(null))
    );
    assert_eq!(object["metadata"]["finalizers"], json!([cluster_model::objects::FINALIZER]), "it is held");
}

#[test]
fn what_keeps_a_pod_from_running_is_a_warning() {
    let mut sim = Sim::new();
    let mut object = vmi("web");
    object["spec"]["domain"]["cpu"] = json!({"dedicatedCpuPlacement": true});
    let key = sim.put(Kind::VirtualMachineInstance, object);
    sim.settle();
    let pod = sim.pod_of(&key).unwrap();
    sim.pod_says(
        &pod,
        json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}),
    );
    let waiting =
        json!([{"name": "compute", "state": {"waiting": {"reason": "ErrImagePull", "message": "404"}}}]);
    sim.change(&pod, json!({"status": {"containerStatuses": waiting}}));
    sim.settle();
    assert_eq!(sim.warnings, ["FailedScheduling", "FailedStart"]);
    sim.change(&pod, json!({"status": {"containerStatuses": []}}));
    sim.settle();
    sim.pod_runs(&pod, "node1");
    sim.settle();
    assert_eq!(sim.warnings, ["FailedScheduling", "FailedStart", "FailedGuaranteeResources"]);
}
