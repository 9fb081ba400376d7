//! What a VMI waits for, as stories.

mod state;

use crate::sim::{Sim, vmi};
use cluster_model::objects::{Attempt, Failure, Key, Kind};
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

/// An event for each repetition would hide all others; none where the cause changes, hides that.
#[test]
fn a_wait_is_told_where_it_begins_or_its_cause_changes() {
    let (reason, message) = ("FailedPvcNotFound", "PVC n/data does not exist, waiting for it to appear");
    for (was, is_told) in [
        (None, true),
        (Some((reason, message)), false),
        (Some((reason, "another message")), true),
        (Some(("AnotherReason", message)), true),
    ] {
        let (mut sim, key) = begin();
        sim.told.clear();
        sim.warnings.clear();
        let began = "2026-01-01T00:00:00Z";
        let was = was.map(|(reason, message)| {
            let kind = "Synchronized";
            json!([{"type": kind, "status": "False", "reason": reason, "message": message, "lastTransitionTime": began}])
        });
        sim.change(&key, json!({"status": {"conditions": was.clone().unwrap_or_else(|| json!([]))}}));
        sim.settle();
        assert_eq!(sim.warnings, if is_told { vec![reason] } else { vec![] }, "{was:?}");
        let said = sim.get(&key)["status"]["conditions"].as_array().unwrap();
        let said = said.iter().find(|said| said["type"] == "Synchronized").unwrap();
        assert_eq!((&said["reason"], &said["message"]), (&json!(reason), &json!(message)));
        assert_eq!(said["lastTransitionTime"] == began, was.is_some(), "it has waited since then");
    }
}

/// Why a pod could not be made is written before the next try: of one that fails at once, nothing would be seen.
#[test]
fn a_refused_pod_is_said_first_and_tried_again_at_its_time() {
    let mut sim = Sim::new();
    let mut object = vmi("web");
    object["status"] = json!({"phase": "Pending", "runtimeUser": 107});
    let key = sim.put(Kind::VirtualMachineInstance, object);
    let retry = sim.now;
    let (about, message) = (Attempt::Make(Kind::Pod), "exceeded quota: small".to_owned());
    sim.world.failures.insert(key.clone(), Failure { about, message: message.clone(), times: 1, retry });
    let plan = crate::decide(&sim.world, &key, sim.now);
    assert_eq!((creates_pod(&plan), plan.again), (false, Some(retry)), "{plan:?}");
    sim.apply(plan);
    assert_eq!(
        sim.condition(&key, "Synchronized").unwrap(),
        ("False".into(), "FailedCreate".into(), message)
    );
    let earlier = retry - jiff::SignedDuration::from_secs(1);
    let plan = crate::decide(&sim.world, &key, earlier);
    assert_eq!((plan.steps.is_empty(), plan.again), (true, Some(retry)), "{plan:?}");
    assert!(creates_pod(&crate::decide(&sim.world, &key, retry)));
}

/// Its disk will never be there: a VM that waited for it would start for ever.
#[test]
fn a_vmi_whose_data_volume_has_failed_fails_with_its_words() {
    let mut sim = Sim::new();
    let failed = json!([{"type": "Running", "status": "False", "message": "404"}]);
    let meta = json!({"namespace": "n", "name": "data"});
    let status = json!({"phase": "Failed", "conditions": failed});
    sim.put(Kind::DataVolume, json!({"metadata": meta, "spec": {}, "status": status}));
    let key = sim.put(Kind::VirtualMachineInstance, on("web", "data"));
    let plan = crate::decide(&sim.world, &key, sim.now);
    sim.apply(plan);
    let status = &sim.get(&key)["status"];
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("FailedDataVolumeImport")));
    let (is, reason, message) = sim.condition(&key, "DataVolumesReady").unwrap();
    assert_eq!((is.as_str(), reason.as_str(), message.as_str()), ("False", "NotAllDVsReady", "404"));
    assert_eq!(sim.warnings, ["FailedDataVolumeImport"]);
}

/// virt-handler makes disks by it, each by the entry of its own PVC.
#[test]
fn each_pvc_has_its_entry_in_the_status() {
    let mut sim = Sim::new();
    for name in ["one", "two"] {
        let notes = json!({"cdi.kubevirt.io/storage.preallocation": (name == "one").to_string()});
        let meta = json!({"namespace": "n", "name": name, "annotations": notes});
        sim.put(
            Kind::PersistentVolumeClaim,
            json!({"metadata": meta, "spec": {}, "status": {"phase": "Bound"}}),
        );
    }
    let mut object = vmi("web");
    object["spec"]["domain"]["devices"]["disks"] = json!([]);
    let volume =
        |name: &str, claim: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": claim}});
    object["spec"]["volumes"] = json!([volume("b", "two"), volume("a", "one")]);
    let key = sim.put(Kind::VirtualMachineInstance, object);
    sim.settle();
    let list = sim.get(&key)["status"]["volumeStatus"].as_array().unwrap();
    let told = |one: &Value| {
        let info = &one["persistentVolumeClaimInfo"];
        (one["name"].clone(), info["claimName"].clone(), info["preallocated"].clone())
    };
    let told: Vec<_> = list.iter().map(told).collect();
    assert_eq!(told, [(json!("a"), json!("one"), json!(true)), (json!("b"), json!("two"), Value::Null)]);
}

#[test]
fn a_vmi_that_waits_is_pending_and_not_ready_or_unready() {
    for is_filled in [false, true] {
        let mut sim = Sim::new();
        if is_filled {
            let meta = json!({"namespace": "n", "name": "data", "annotations": {POD_PHASE: "Running"}});
            sim.put(Kind::PersistentVolumeClaim, json!({"metadata": meta, "spec": {}}));
        }
        let key = sim.put(Kind::VirtualMachineInstance, on("web", "data"));
        sim.settle();
        assert_eq!(sim.get(&key)["status"]["phase"], "Pending", "{is_filled}");
        assert_eq!(sim.condition(&key, "Ready"), None);
    }
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
        sim.advance(1);
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
        sim.advance(1);
        for name in ["a", "b"] {
            sim.put(Kind::VirtualMachineInstance, on(name, "disk"));
        }
        assert!(creates_pod(&crate::decide(&sim.world, &oldest, sim.now)));
        sim.world.busy.insert(Key::new(Kind::VirtualMachineInstance, "n", busy));
        let plan = crate::decide(&sim.world, &oldest, sim.now);
        assert!(!creates_pod(&plan), "{busy}: {plan:?}");
    }
}
