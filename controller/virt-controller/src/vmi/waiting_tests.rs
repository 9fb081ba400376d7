//! What a VMI waits for, as stories.

use crate::sim::{Sim, vmi};
use cluster_model::objects::{Key, Kind};
use cluster_model::uploads::POD_PHASE;
use serde_json::{Value, json};

/// A VMI with one PVC, which is not there yet.
fn begin() -> (Sim, Key) {
    let mut sim = Sim::new();
    let mut object = vmi("web");
    object["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "data"}}]);
    let key = sim.put(Kind::VirtualMachineInstance, object);
    sim.settle();
    (sim, key)
}

fn conditions(sim: &Sim, key: &Key) -> Vec<String> {
    let all = sim.get(key)["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let word = |condition: &Value| condition["type"].as_str().unwrap_or_default().to_owned();
    let waits = ["Synchronized", "PodScheduled", "Provisioning", "DataVolumesReady"];
    all.iter().map(word).filter(|word| waits.contains(&word.as_str())).collect()
}

/// A pool takes a VM with `ErrorPvcNotFound` for one that fails to start, and deletes it with its disks.
#[test]
fn a_claim_that_has_come_and_is_filled_is_not_missed_any_more() {
    let (mut sim, key) = begin();
    assert_eq!(conditions(&sim, &key), ["Synchronized", "PodScheduled"]);
    let claim = Key::new(Kind::PersistentVolumeClaim, "n", "data");
    let filled = json!({POD_PHASE: "Running"});
    let object = |annotations: Value| {
        json!({
            "metadata": {"namespace": "n", "name": "data", "annotations": annotations},
            "spec": {"volumeMode": "Block"}, "status": {"phase": "Bound"},
        })
    };
    sim.put(Kind::PersistentVolumeClaim, object(filled.clone()));
    sim.settle();
    assert_eq!(conditions(&sim, &key), ["DataVolumesReady", "Provisioning"]);
    // It goes again, and comes again.
    sim.vanish(&claim);
    sim.settle();
    assert!(!conditions(&sim, &key).contains(&"Provisioning".to_owned()), "{:?}", conditions(&sim, &key));
    sim.put(Kind::PersistentVolumeClaim, object(json!({})));
    sim.settle();
    assert_eq!(sim.get(&key)["status"]["phase"], "Scheduling");
    assert!(!conditions(&sim, &key).contains(&"DataVolumesReady".to_owned()), "{:?}", conditions(&sim, &key));
}
