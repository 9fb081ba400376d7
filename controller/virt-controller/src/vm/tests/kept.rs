//! What is not begun or deleted: VMs that do not start, refusals, and replica sets that have more to do than is done at once.

use super::*;
use crate::replicas::AT_ONCE;
use cluster_model::objects::{Attempt, Failure};
use cluster_model::plan::Step;

fn refused(sim: &mut Sim, key: &Key, about: Attempt) -> jiff::Timestamp {
    let retry = sim.now.checked_add(jiff::SignedDuration::from_secs(30)).unwrap();
    let message = "exceeded quota: small".to_owned();
    sim.world.failures.insert(key.clone(), Failure { about, message, times: 1, retry });
    retry
}

/// `running`, which VMs had before they had a strategy.
#[test]
fn the_older_field_of_a_vm_is_kept_and_gives_way_to_a_strategy() {
    for running in [true, false] {
        let mut sim = Sim::new();
        let mut object = vm("web", "Always");
        object["spec"].as_object_mut().unwrap().remove("runStrategy");
        object["spec"]["running"] = json!(running);
        let vm = sim.put(Kind::VirtualMachine, object);
        let vmi = Key::new(Kind::VirtualMachineInstance, "n", "web");
        sim.settle();
        let spec = &sim.get(&vm)["spec"];
        assert_eq!((&spec["running"], &spec["runStrategy"]), (&json!(running), &Value::Null));
        assert_eq!(sim.objects.contains_key(&vmi), running);
        if !running {
            ask(&mut sim, &vm, json!([{"action": "Start", "data": {"paused": "true"}}]));
            let spec = &sim.get(&vm)["spec"];
            assert_eq!((&spec["running"], &spec["runStrategy"]), (&Value::Null, &json!("Always")));
            assert!(sim.objects.contains_key(&vmi));
        }
    }
}

#[test]
fn another_vmi_of_its_name_is_no_trouble_for_a_vm_that_does_not_start() {
    let mut sim = Sim::new();
    sim.put(Kind::VirtualMachineInstance, crate::sim::vmi("web"));
    let vm = sim.put(Kind::VirtualMachine, vm("web", "Halted"));
    sim.settle();
    assert_eq!((sim.condition(&vm, "Failure"), word(&sim, &vm)), (None, "Stopped".to_owned()));
}

#[test]
fn a_vmi_that_was_refused_is_made_at_its_time_and_a_disk_is_no_reason_to_wait() {
    for kind in [Kind::VirtualMachineInstance, Kind::DataVolume] {
        let mut sim = Sim::new();
        let vm = sim.put(Kind::VirtualMachine, vm("web", "Always"));
        let vmi = Key::new(Kind::VirtualMachineInstance, "n", "web");
        let retry = refused(&mut sim, &vm, Attempt::Make(kind));
        sim.settle();
        assert_eq!(sim.objects.contains_key(&vmi), kind == Kind::DataVolume, "{kind:?}");
        assert!(sim.condition(&vm, "Failure").unwrap().2.contains("exceeded quota: small"));
        if kind == Kind::VirtualMachineInstance {
            assert_eq!(crate::decide(&sim.world, &vm, sim.now).again, Some(retry));
            sim.advance(30);
            sim.settle();
            assert!(sim.objects.contains_key(&vmi));
        }
    }
}

#[test]
fn the_disks_of_a_vm_that_does_not_run_are_made_unless_it_says_otherwise() {
    for (strategy, said, is_made) in
        [("Halted", "true", true), ("Halted", "false", false), ("Always", "false", true)]
    {
        let mut sim = Sim::new();
        let mut object = vm_with_disk("web", strategy, blank());
        object["metadata"]["annotations"] = json!({"kubevirt.io/immediate-data-volume-creation": said});
        sim.put(Kind::VirtualMachine, object);
        sim.settle();
        assert_eq!(sim.keys(Kind::DataVolume).len(), usize::from(is_made), "{strategy} {said}");
    }
}

fn vmis(sim: &Sim) -> Vec<String> {
    let is_left = |key: &Key| !crate::sim::is_going(sim.get(key));
    sim.keys(Kind::VirtualMachineInstance).into_iter().filter(is_left).map(|key| key.name).collect()
}

fn replicas(sim: &mut Sim, set: &Key, count: usize) {
    sim.change(set, json!({"spec": {"replicas": count}}));
    sim.advance(5);
    sim.settle();
}

#[test]
fn of_vmis_that_do_not_serve_a_replica_set_deletes_the_newest() {
    let mut sim = Sim::new();
    let set = sim.put(Kind::VirtualMachineInstanceReplicaSet, replica_set("web", 1));
    sim.settle();
    replicas(&mut sim, &set, 2);
    replicas(&mut sim, &set, 3);
    sim.boot(&Key::new(Kind::VirtualMachineInstance, "n", "web-2"));
    replicas(&mut sim, &set, 2);
    assert_eq!(vmis(&sim), ["web-0", "web-2"]);
    replicas(&mut sim, &set, 1);
    assert_eq!(vmis(&sim), ["web-2"]);
}

/// What one decision makes and deletes of VMIs.
fn one_round(sim: &mut Sim, set: &Key) -> (usize, usize) {
    let plan = crate::decide(&sim.world, set, sim.now);
    let is_vmi = |key: &Key| key.kind == Kind::VirtualMachineInstance;
    let count = |is: &dyn Fn(&Step) -> bool| plan.steps.iter().filter(|&step| is(step)).count();
    let made = count(&|step| matches!(step, Step::Create { key, .. } if is_vmi(key)));
    let deleted = count(&|step| matches!(step, Step::Delete { key, .. } if is_vmi(key)));
    sim.apply(plan);
    (made, deleted)
}

#[test]
fn a_replica_set_does_a_few_things_at_a_time_and_the_rest_then() {
    let mut sim = Sim::new();
    let set = sim.put(Kind::VirtualMachineInstanceReplicaSet, replica_set("web", 12));
    assert_eq!(one_round(&mut sim, &set), (AT_ONCE, 0));
    assert_eq!(one_round(&mut sim, &set), (2, 0));
    assert_eq!(one_round(&mut sim, &set), (0, 0));
    sim.advance(10);
    for name in vmis(&sim) {
        let vmi = Key::new(Kind::VirtualMachineInstance, "n", name);
        sim.change(&vmi, json!({"status": {"phase": "Failed"}}));
    }
    let (made, deleted) = one_round(&mut sim, &set);
    assert_eq!((made, deleted), (AT_ONCE, AT_ONCE), "those that were made long ago make room at once");
    sim.settle();
    assert_eq!(vmis(&sim).len(), 12);
    sim.change(&set, json!({"spec": {"replicas": 0}}));
    assert_eq!(one_round(&mut sim, &set), (0, AT_ONCE));
}

#[test]
fn a_replica_set_that_goes_or_was_refused_makes_and_deletes_nothing() {
    let mut sim = Sim::new();
    let set = sim.put(Kind::VirtualMachineInstanceReplicaSet, replica_set("web", 2));
    let retry = refused(&mut sim, &set, Attempt::Make(Kind::VirtualMachineInstance));
    sim.settle();
    assert_eq!((vmis(&sim).len(), crate::decide(&sim.world, &set, sim.now).again), (0, Some(retry)));
    let failure = sim.condition(&set, "ReplicaFailure").unwrap();
    assert_eq!((failure.1.as_str(), failure.2.as_str()), ("FailedCreate", "exceeded quota: small"));
    sim.advance(30);
    sim.settle();
    assert_eq!(vmis(&sim).len(), 2);
    sim.world.failures.clear();
    let meta = json!({"finalizers": ["foregroundDeletion"], "deletionTimestamp": "2027-01-01T00:00:00Z"});
    for count in [0, 3] {
        sim.change(&set, json!({"metadata": meta, "spec": {"replicas": count}}));
        assert_eq!(one_round(&mut sim, &set), (0, 0), "{count}");
    }
}

/// One that failed early keeps its place, and another one takes that afterwards.
#[test]
fn a_vmi_that_failed_early_is_replaced_when_its_time_has_passed() {
    let mut sim = Sim::new();
    let set = sim.put(Kind::VirtualMachineInstanceReplicaSet, replica_set("web", 1));
    one_round(&mut sim, &set);
    let failed = Key::new(Kind::VirtualMachineInstance, "n", "web-0");
    sim.change(&failed, json!({"status": {"phase": "Failed"}}));
    sim.advance(9);
    assert_eq!(one_round(&mut sim, &set), (0, 0));
    let again = crate::decide(&sim.world, &set, sim.now).again;
    assert_eq!(again, sim.now.checked_add(jiff::SignedDuration::from_secs(1)).ok());
    sim.advance(1);
    assert_eq!(one_round(&mut sim, &set), (1, 1));
}

#[test]
fn a_vmi_with_other_labels_leaves_its_replica_set() {
    for paused in [false, true] {
        let mut sim = Sim::new();
        let set = sim.put(Kind::VirtualMachineInstanceReplicaSet, replica_set("web", 2));
        sim.settle();
        let out = Key::new(Kind::VirtualMachineInstance, "n", "web-1");
        sim.change(&set, json!({"spec": {"paused": paused}}));
        sim.change(&out, json!({"metadata": {"labels": {"app": "mine"}}}));
        sim.settle();
        let metadata = &sim.get(&out)["metadata"];
        assert!(metadata["ownerReferences"].is_null() && metadata["deletionTimestamp"].is_null());
        assert_eq!(vmis(&sim).len(), if paused { 2 } else { 3 });
        assert_eq!(sim.get(&set)["status"]["replicas"], if paused { 1 } else { 2 });
    }
}

/// Otherwise each VMI that it makes would leave, and it would make another one.
#[test]
fn a_replica_set_keeps_its_vmis_where_its_selector_takes_none_of_them() {
    for selector in [json!(null), json!("a text"), json!({}), json!({"matchLabels": {"app": "other"}})] {
        let mut sim = Sim::new();
        let mut object = replica_set("web", 2);
        object["spec"]["selector"] = selector.clone();
        let set = sim.put(Kind::VirtualMachineInstanceReplicaSet, object);
        sim.settle();
        assert_eq!(vmis(&sim), ["web-0", "web-1"], "{selector}");
        sim.change(&set, json!({"spec": {"replicas": 1}}));
        sim.settle();
        assert_eq!(vmis(&sim).len(), 1, "{selector}");
        for name in vmis(&sim) {
            let vmi = Key::new(Kind::VirtualMachineInstance, "n", name);
            assert!(sim.get(&vmi)["metadata"]["ownerReferences"].is_array(), "{selector}");
        }
    }
}
