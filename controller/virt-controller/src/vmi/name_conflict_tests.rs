//! Pods that say they are the launcher of a VMI and are not, as stories.

use super::tests::{begin, phase, reference};
use cluster_model::objects::{FOUND_BY, Key, Kind};
use serde_json::json;

#[test]
fn a_strangers_pod_changes_nothing() {
    let (mut sim, key) = begin();
    sim.boot(&key);
    let (pod, uid) = (sim.pod_of(&key).unwrap(), sim.get(&key)["metadata"]["uid"].clone());
    let before = sim.get(&key).clone();
    // It says all that a launcher's pod says, but for the name that is taken.
    let mut strange = sim.get(&pod).clone();
    strange["metadata"] = json!({
        "namespace": "n", "name": "stranger", "labels": strange["metadata"]["labels"], "ownerReferences": [reference(&uid)],
    });
    sim.world.put(Kind::Pod, strange.clone(), sim.now);
    strange["status"] = json!({"phase": "Failed"});
    sim.world.put(Kind::Pod, strange, sim.now);
    sim.settle();
    sim.world.remove(&Key::new(Kind::Pod, "n", "stranger"));
    sim.settle();
    assert_eq!(*sim.get(&key), before);
}

#[test]
fn a_pod_that_was_there_first_is_not_taken_for_the_launchers() {
    let (mut sim, key) = begin();
    let uid = sim.uid(&key);
    let name =
        cluster_model::objects::names::pod("web", &uid, cluster_model::objects::LauncherAttempt::Start);
    let other =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "x", "controller": true});
    let strange = sim.put(
        Kind::Pod,
        json!({"metadata": {"namespace": "n", "name": name, "ownerReferences": [other]}, "spec": {"nodeName": "node1"}}),
    );
    let plan = crate::decide(&sim.world, &key, sim.now);
    let failed = crate::sim::door::carry_out(&mut sim, plan).failed.unwrap().1.to_string();
    assert!(failed.contains("another program or user"), "{failed}");
    assert_eq!(phase(&sim, &key), "", "it is not said to have one");
    sim.vanish(&strange);
    sim.settle();
    assert_eq!(phase(&sim, &key), "Scheduling");
}

/// It says whose it is, and is found by no label: neither the policies that keep launcher pods know it, nor who watches them.
#[test]
fn a_pod_without_the_labels_of_a_launcher_is_not_taken_for_one() {
    for without in FOUND_BY {
        let (mut model, model_key) = begin();
        model.boot(&model_key);
        let mut strange = model.get(&model.pod_of(&model_key).unwrap()).clone();
        let (mut sim, key) = begin();
        for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
            strange["metadata"].as_object_mut().unwrap().remove(field);
        }
        let uid = sim.get(&key)["metadata"]["uid"].clone();
        strange["metadata"]["name"] = json!(cluster_model::objects::names::pod(
            "web",
            uid.as_str().unwrap(),
            cluster_model::objects::LauncherAttempt::Start
        ));
        strange["metadata"]["ownerReferences"] = json!([reference(&uid)]);
        strange["metadata"]["labels"]["kubevirt.io/created-by"] = uid.clone();
        strange["metadata"]["labels"].as_object_mut().unwrap().remove(without);
        let strange = sim.put(Kind::Pod, strange);
        let plan = crate::decide(&sim.world, &key, sim.now);
        let failed = crate::sim::door::carry_out(&mut sim, plan).failed;
        let failed = failed.map(|failed| failed.1.to_string()).unwrap_or_default();
        assert!(failed.contains("another program or user"), "{without}: {failed}");
        assert_eq!(phase(&sim, &key), "", "{without}: it is not said to have one");
        sim.vanish(&strange);
        sim.settle();
        assert_eq!(phase(&sim, &key), "Scheduling", "{without}");
    }
}

#[test]
fn a_pod_that_came_in_the_place_of_the_true_one_is_no_launcher_and_goes_with_its_vmi() {
    let (mut sim, key) = begin();
    sim.boot(&key);
    let pod = sim.pod_of(&key).unwrap();
    let mut strange = sim.get(&pod).clone();
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
        strange["metadata"].as_object_mut().unwrap().remove(field);
    }
    sim.vanish(&pod);
    let strange = sim.put(Kind::Pod, strange);
    sim.settle();
    assert_eq!(phase(&sim, &key), "Failed", "its own pod is gone");
    assert!(
        !sim.get(&strange)["metadata"]["deletionTimestamp"].is_null(),
        "whoever has to be sure ends both"
    );
}
