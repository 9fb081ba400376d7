//! What a VMI waits for, as stories.

use crate::sim::{Sim, vmi};
use cluster_model::objects::{Key, Kind};
use cluster_model::plan::{Plan, Step};
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

// ── One PVC of several VMIs ───────────────────────────────────────────────────────────────────────────────────────

fn on(name: &str, claim: &str) -> Value {
    let mut object = vmi(name);
    object["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": claim}}]);
    object
}

/// A PVC `disk`, which each VMI here has.
fn with_disk() -> Sim {
    let mut sim = Sim::new();
    let meta = json!({"namespace": "n", "name": "disk"});
    let claim = json!({"metadata": meta, "spec": {"volumeMode": "Block"}, "status": {"phase": "Bound"}});
    sim.put(Kind::PersistentVolumeClaim, claim);
    sim
}

fn creates_pod(plan: &Plan) -> bool {
    plan.steps.iter().any(|step| matches!(step, Step::Create { key, .. } if key.kind == Kind::Pod))
}

fn says_in_use(plan: &Plan) -> bool {
    plan.steps.iter().any(|step| format!("{step:?}").contains("PvcInUse"))
}

/// Of two that wait for one another, none would start; of two that do not wait, both write to the disk.
#[test]
fn a_younger_vmi_waits_for_an_older_one_that_waits_for_nothing_else() {
    let said = |status: &str, reason: &str| json!({"conditions": [{"type": "Synchronized", "status": status, "reason": reason}]});
    let more = json!([
        {"name": "root", "persistentVolumeClaim": {"claimName": "disk"}},
        {"name": "more", "persistentVolumeClaim": {"claimName": "more"}},
    ]);
    for (change, starts) in [
        (json!({}), false),
        (json!({"status": said("False", "PvcInUse")}), false),
        (json!({"status": said("True", "InvalidSpec")}), false),
        (json!({"status": said("False", "InvalidSpec")}), true),
        (json!({"spec": {"volumes": more}}), true),
    ] {
        let mut sim = with_disk();
        let mut older = on("older", "disk");
        cluster_model::plan::merge(&mut older, &change);
        sim.put(Kind::VirtualMachineInstance, older);
        sim.later(1);
        let younger = sim.put(Kind::VirtualMachineInstance, on("younger", "disk"));
        let plan = crate::decide(&sim.world, &younger, sim.now);
        assert_eq!(creates_pod(&plan), starts, "{change}: {plan:?}");
        assert_eq!(says_in_use(&plan), !starts, "{change}: {plan:?}");
    }
}

/// The pod of the younger one was created, and its phase is not written yet.
#[test]
fn an_older_vmi_waits_for_a_younger_one_that_has_its_pod() {
    let mut sim = with_disk();
    let younger = sim.put(Kind::VirtualMachineInstance, on("younger", "disk"));
    sim.settle();
    assert!(sim.pod_of(&younger).is_some());
    let mut object = sim.get(&younger).clone();
    object["status"] = json!({});
    object["metadata"]["creationTimestamp"] = json!("2030-01-01T00:00:00Z");
    sim.world.put(Kind::VirtualMachineInstance, object, sim.now);
    let older = sim.put(Kind::VirtualMachineInstance, on("older", "disk"));
    let plan = crate::decide(&sim.world, &older, sim.now);
    assert!(says_in_use(&plan) && !creates_pod(&plan), "{plan:?}");
}

#[test]
fn one_of_several_whose_pod_may_be_created_now_is_enough_to_wait_for() {
    for busy in ["a", "b"] {
        let mut sim = with_disk();
        let oldest = sim.put(Kind::VirtualMachineInstance, on("oldest", "disk"));
        sim.later(1);
        for name in ["a", "b"] {
            sim.put(Kind::VirtualMachineInstance, on(name, "disk"));
        }
        assert!(creates_pod(&crate::decide(&sim.world, &oldest, sim.now)));
        sim.world.busy.insert(Key::new(Kind::VirtualMachineInstance, "n", busy));
        let plan = crate::decide(&sim.world, &oldest, sim.now);
        assert!(!creates_pod(&plan), "{busy}: {plan:?}");
    }
}
