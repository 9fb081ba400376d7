//! VMs that a pool keeps: a VM that it deletes takes its disks along.

use super::*;
use crate::sim::replica_set;
use cluster_model::metadata::SCALE_IN;
use cluster_model::objects::{Attempt, Failure};

fn is_going(sim: &Sim, number: usize) -> bool {
    sim.objects.get(&vm_key(number)).is_none_or(crate::sim::is_going)
}

#[test]
fn a_pool_that_may_not_scale_in_deletes_no_vm() {
    for strategy in ["unmanaged", "opportunistic", "proactive"] {
        let (mut sim, key) = begin(3, "Halted", json!({"scaleInStrategy": {strategy: {}}}));
        sim.change(&key, json!({"spec": {"replicas": 1}}));
        sim.settle();
        let left = if strategy == "proactive" { 1 } else { 3 };
        assert_eq!(names(&sim).len(), left, "{strategy}");
    }
}

#[test]
fn a_pool_that_is_being_deleted_makes_and_deletes_nothing() {
    let (mut sim, key) = begin(2, "Halted", json!({}));
    let finalizers =
        json!({"finalizers": ["foregroundDeletion"], "deletionTimestamp": "2026-01-01T00:00:00Z"});
    for replicas in [1, 3] {
        sim.change(&key, json!({"metadata": finalizers, "spec": {"replicas": replicas}}));
        assert!(crate::decide(&sim.world, &key, sim.now).is_empty(), "{replicas}");
    }
}

/// One that is leaving anyway has its place until it is gone, whatever its labels have become.
#[test]
fn a_vm_that_goes_is_counted_with_other_labels_too() {
    let (mut sim, key) = begin(1, "Always", json!({}));
    boot(&mut sim, 1);
    sim.delete(&vm_key(0));
    sim.change(&vm_key(0), json!({"metadata": {"labels": {"app": "mine"}}}));
    sim.settle();
    assert_eq!(names(&sim), ["web-0"]);
    assert_eq!(sim.get(&key)["status"]["replicas"], 1);
    assert!(!sim.get(&vm_key(0))["metadata"]["ownerReferences"].is_null());
}

#[test]
fn a_vm_that_the_server_refuses_is_told_and_tried_again_at_its_time() {
    let mut sim = Sim::new();
    let key = sim.put(Kind::VirtualMachinePool, pool(1, "Halted"));
    let retry = sim.now.checked_add(SignedDuration::from_secs(30)).unwrap();
    let (about, message) = (Attempt::Make(Kind::VirtualMachine), "exceeded quota: small".to_owned());
    sim.world.failures.insert(key.clone(), Failure { about, message: message.clone(), times: 1, retry });
    sim.settle();
    assert_eq!(names(&sim), [""; 0]);
    assert_eq!(
        sim.condition(&key, "ReplicaFailure"),
        Some(("True".to_owned(), "FailedScaleOut".to_owned(), message))
    );
    assert_eq!(crate::decide(&sim.world, &key, sim.now).again, Some(retry));
    sim.advance(30);
    sim.settle();
    assert_eq!(names(&sim), ["web-0"]);
}

#[test]
fn a_few_are_deleted_let_go_and_updated_at_a_time() {
    let at_once = super::super::AT_ONCE;
    let (mut sim, key) = begin(30, "Halted", json!({}));
    let once = |sim: &mut Sim| {
        let plan = crate::decide(&sim.world, &key, sim.now);
        sim.apply(plan);
    };
    sim.change(&key, grown());
    once(&mut sim);
    let grown = (0..30).filter(|number| guest(&sim, &vm_key(*number)) == "256Mi").count();
    assert_eq!(grown, at_once);
    sim.settle();
    sim.change(&key, json!({"spec": {"replicas": 1}}));
    once(&mut sim);
    assert_eq!((0..30).filter(|number| is_going(&sim, *number)).count(), at_once);
    for number in 0..30 {
        if sim.objects.contains_key(&vm_key(number)) {
            sim.change(&vm_key(number), json!({"metadata": {"labels": {"app": "mine"}}}));
        }
    }
    once(&mut sim);
    let all = names(&sim);
    let free = all.iter().filter(|name| {
        let vm = Key::new(Kind::VirtualMachine, "n", name.as_str());
        sim.get(&vm)["metadata"]["ownerReferences"].is_null()
            && sim.get(&vm)["metadata"]["labels"]["app"] == "mine"
    });
    assert_eq!(free.count(), at_once);
}

/// Requests of a user come first, and a VM that is not started again is not stopped.
#[test]
fn a_vm_that_would_not_run_again_or_was_asked_for_something_is_not_restarted() {
    let (mut sim, key) = begin(1, "Once", json!({}));
    boot(&mut sim, 1);
    sim.change(&key, grown());
    sim.settle();
    assert_eq!((guest(&sim, &vm_key(0)), going(&sim)), (json!("256Mi"), vec![]));
    let (mut sim, key) = begin(1, "Manual", json!({}));
    sim.change(&vm_key(0), json!({"status": {"stateChangeRequests": [{"action": "Start"}]}}));
    boot(&mut sim, 1);
    let asked = json!([{"action": "Stop", "uid": sim.get(&run_key(0))["metadata"]["uid"]}]);
    sim.change(&vm_key(0), json!({"status": {"stateChangeRequests": asked}}));
    sim.change(&key, grown());
    let plan = crate::decide(&sim.world, &key, sim.now);
    sim.apply(plan);
    let plan = crate::decide(&sim.world, &key, sim.now);
    sim.apply(plan);
    assert_eq!(sim.get(&vm_key(0))["status"]["stateChangeRequests"], asked, "it stays stopped");
}

/// The definition of the kind asks for an object; an older one may not have stood there.
#[test]
fn a_status_that_is_a_text_is_replaced() {
    let (mut sim, pool) = begin(2, "Halted", json!({}));
    let set = sim.put(Kind::VirtualMachineInstanceReplicaSet, replica_set("front", 2));
    sim.settle();
    for key in [pool, set] {
        let before = sim.get(&key)["status"].clone();
        sim.change(&key, json!({"status": "a text"}));
        sim.settle();
        assert_eq!(sim.get(&key)["status"], before);
    }
}

/// An annotation of the template is no choice of a VM.
#[test]
fn a_template_chooses_no_vm() {
    let (mut sim, key) = begin(1, "Halted", json!({}));
    let uid = sim.uid(&key);
    let notes = json!({"annotations": {SCALE_IN: uid, "a": "b"}});
    sim.change(&key, json!({"spec": {"virtualMachineTemplate": {"metadata": notes}}}));
    let plan = crate::decide(&sim.world, &key, sim.now);
    sim.apply(plan);
    let notes = &sim.get(&vm_key(0))["metadata"]["annotations"];
    assert_eq!((&notes["a"], &notes[SCALE_IN]), (&json!("b"), &Value::Null));
}
