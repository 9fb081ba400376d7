//! VMs that autohealing keeps: one that it replaces loses its disks.

use super::*;
use crate::sim::{door, vm_with_disk};

const MINUTES: SignedDuration = SignedDuration::from_mins(10);

fn begin_healing() -> (Sim, Key) {
    begin(1, "Always", json!({"autohealing": {}}))
}

/// True if the pool replaces a VM now.
fn deletes(sim: &Sim, pool: &Key) -> bool {
    let plan = crate::decide(&sim.world, pool, sim.now);
    plan.steps.iter().any(|step| matches!(step, Step::Delete { .. }))
}

/// No virt-controller ran for a while, and the guest came up meanwhile.
#[test]
fn a_vm_that_runs_is_kept_whatever_its_status_says() {
    let failed = json!({"printableStatus": "Running", "startFailure": {"consecutiveFailCount": 3}});
    for status in [json!({"printableStatus": "ImagePullBackOff"}), failed] {
        let (mut sim, pool) = begin_healing();
        boot(&mut sim, 1);
        let since = sim.now.checked_sub(MINUTES).unwrap().to_string();
        let notes = json!({"annotations": {api::pool::FAILING_SINCE: since}});
        sim.change(&vm_key(0), json!({"metadata": notes, "status": status}));
        for _ in 0..3 {
            sees(&mut sim, 10 * 60);
            assert!(!deletes(&sim, &pool), "{status}");
            sim.advance(10 * 60);
        }
        sim.settle();
        assert!(!crate::sim::is_going(sim.get(&vm_key(0))), "{status}");
        assert_eq!(sim.get(&vm_key(0))["status"]["printableStatus"], "Running");
    }
}

/// The condition of the VMI is old, too: its pod has begun to run.
#[test]
fn a_vm_whose_pod_runs_is_kept_whatever_its_vmi_says() {
    let (mut sim, pool) = begin_healing();
    fails_to_start(&mut sim, 0, "ImagePullBackOff");
    sim.settle();
    assert_eq!(sim.get(&vm_key(0))["status"]["printableStatus"], "ImagePullBackOff");
    let since = sim.now.checked_sub(MINUTES).unwrap().to_string();
    sim.change(&vm_key(0), json!({"metadata": {"annotations": {api::pool::FAILING_SINCE: since}}}));
    let pod = sim.pod_of(&run_key(0)).unwrap();
    sim.pod_runs(&pod, "node1");
    sees(&mut sim, 10 * 60);
    sees(&mut sim, 10 * 60);
    sim.advance(10 * 60);
    assert!(!deletes(&sim, &pool));
}

#[test]
fn a_vm_is_kept_where_a_clock_jumps() {
    let (mut sim, pool) = begin_healing();
    fails_to_start(&mut sim, 0, "ImagePullBackOff");
    sim.settle();
    sees(&mut sim, 60);
    sim.settle();
    assert!(sim.get(&vm_key(0))["metadata"]["annotations"][api::pool::FAILING_SINCE].is_string());
    sim.advance(10 * 60);
    sees(&mut sim, 0);
    sim.settle();
    assert!(!deletes(&sim, &pool));
    sees(&mut sim, 3 * 60);
    assert!(!deletes(&sim, &pool));
    sees(&mut sim, 60);
    assert!(deletes(&sim, &pool), "it has failed for five minutes");
}

/// What comes and goes has not failed for long.
#[test]
fn a_failure_that_ended_does_not_count() {
    let (mut sim, pool) = begin_healing();
    for _ in 0..3 {
        fails_to_start(&mut sim, 0, "ImagePullBackOff");
        sim.settle();
        sees(&mut sim, 4 * 60);
        sim.settle();
        sim.advance(4 * 60);
        assert!(!deletes(&sim, &pool));
        let pod = sim.pod_of(&run_key(0)).unwrap();
        sim.change(&pod, json!({"status": {"containerStatuses": []}}));
        sees(&mut sim, 10);
    }
}

/// The decision was right, and the guest comes up before it is carried out.
#[test]
fn a_vm_that_begins_to_run_meanwhile_is_kept() {
    for begins in [false, true] {
        let (mut sim, pool) = begin_healing();
        fails_to_start(&mut sim, 0, "ImagePullBackOff");
        sim.settle();
        sees(&mut sim, 10 * 60);
        sim.settle();
        sim.advance(10 * 60);
        let plan = crate::decide(&sim.world, &pool, sim.now);
        if begins {
            sim.change(&run_key(0), json!({"status": {"conditions": []}}));
        }
        let done = door::carry_out(&mut sim, plan);
        assert_eq!((done.failed.is_some(), crate::sim::is_going(sim.get(&vm_key(0)))), (begins, !begins));
    }
}

/// The server was asked about all of it, and the deletion is on its way.
#[test]
fn a_vm_that_runs_before_its_deletion_arrives_is_kept() {
    for runs in [false, true] {
        let (mut sim, pool) = begin_healing();
        fails_to_start(&mut sim, 0, "ImagePullBackOff");
        sim.settle();
        sees(&mut sim, 10 * 60);
        sim.settle();
        sim.advance(10 * 60);
        let mut plan = crate::decide(&sim.world, &pool, sim.now);
        let at = plan.steps.iter().position(|step| matches!(step, Step::Delete { .. })).unwrap();
        let deletion = Plan { steps: plan.steps.split_off(at), again: None };
        assert!(door::carry_out(&mut sim, plan).failed.is_none());
        if runs {
            sim.change(&vm_key(0), json!({"status": {"printableStatus": "Running"}}));
        }
        let done = door::carry_out(&mut sim, deletion);
        assert_eq!((done.failed.is_some(), crate::sim::is_going(sim.get(&vm_key(0)))), (runs, !runs));
    }
}

/// The watch of pods is silent, and the launcher pod runs meanwhile: the VMI stays as it is.
#[test]
fn a_vm_whose_pod_runs_is_kept_while_the_watch_of_pods_is_silent() {
    let (mut sim, pool) = begin_healing();
    fails_to_start(&mut sim, 0, "ImagePullBackOff");
    sim.settle();
    sees(&mut sim, 0);
    sim.settle();
    assert_eq!(sim.get(&vm_key(0))["status"]["printableStatus"], "ImagePullBackOff");
    // The leader's picture: nothing more is heard of pods.
    let mut picture = sim.world.clone();
    let pod = sim.pod_of(&run_key(0)).unwrap();
    sim.pod_runs(&pod, "node1");
    picture.uptime += std::time::Duration::from_secs(301);
    let now = sim.now.checked_add(SignedDuration::from_secs(301)).unwrap();
    let plan = crate::decide(&picture, &pool, now);
    let done = door::carry_out(&mut sim, plan);
    let is_there = sim.objects.get(&vm_key(0)).is_some_and(|vm| !crate::sim::is_going(vm));
    assert!(
        is_there && done.failed.is_some(),
        "the VM was deleted, with its disks, though its launcher pod runs"
    );
}

/// The watch of PVCs is silent, and the disk that the VMI waits for is there by now.
#[test]
fn a_vm_whose_pvc_appeared_is_kept_while_the_watch_of_pvcs_is_silent() {
    for appears in [false, true] {
        let (mut sim, pool) = begin_healing();
        let volume = json!({"name": "root", "persistentVolumeClaim": {"claimName": "disk"}});
        sim.change(&run_key(0), json!({"spec": {"volumes": [volume]}}));
        fails_to_start(&mut sim, 0, "ImagePullBackOff");
        sim.settle();
        sees(&mut sim, 10 * 60);
        sim.settle();
        sim.advance(10 * 60);
        let plan = crate::decide(&sim.world, &pool, sim.now);
        if appears {
            let meta = json!({"namespace": "n", "name": "disk"});
            sim.put(
                Kind::PersistentVolumeClaim,
                json!({"metadata": meta, "spec": {}, "status": {"phase": "Bound"}}),
            );
        }
        let done = door::carry_out(&mut sim, plan);
        assert_eq!((done.failed.is_some(), crate::sim::is_going(sim.get(&vm_key(0)))), (appears, !appears));
    }
}

/// A replacement would delete the disks of a VM that its user has halted.
#[test]
fn a_halted_vm_is_kept_whatever_failed_before() {
    let failed = json!({"startFailure": {"consecutiveFailCount": 3, "lastFailedVMIUID": "u"}});
    for is_read in [false, true] {
        let (mut sim, pool) = begin(1, "Halted", json!({}));
        sim.change(&vm_key(0), json!({"status": failed}));
        if is_read {
            sim.settle();
        }
        sim.change(&pool, json!({"spec": {"autohealing": {}}}));
        assert!(!deletes(&sim, &pool));
    }
}

/// Its user halts it while its image is not found. The VMI stays until its node says that it has ended.
#[test]
fn a_vm_that_fails_is_kept_from_the_moment_it_is_halted() {
    let (mut sim, pool) = begin_healing();
    fails_to_start(&mut sim, 0, "ImagePullBackOff");
    sim.settle();
    sees(&mut sim, 10 * 60);
    sim.settle();
    sim.change(&vm_key(0), json!({"spec": {"runStrategy": "Halted"}}));
    sim.advance(10 * 60);
    assert!(!deletes(&sim, &pool));
    sees(&mut sim, 10 * 60);
    assert!(!deletes(&sim, &pool));
    let plan = crate::decide(&sim.world, &pool, sim.now);
    sim.apply(plan);
    assert_eq!(sim.get(&vm_key(0))["metadata"]["annotations"][api::pool::FAILING_SINCE], Value::Null);
}

/// The failure of one disk is not a reason to delete the others of a VM that is not to run.
#[test]
fn a_halted_vm_is_kept_whatever_its_disks_do() {
    for (strategy, is_deleted) in [("Halted", false), ("Always", true)] {
        let template = json!({"spec": vm_with_disk("web", strategy, blank())["spec"]});
        let (mut sim, pool) =
            begin(1, strategy, json!({"autohealing": {}, "virtualMachineTemplate": template}));
        let data = Key::new(Kind::DataVolume, "n", "data-0");
        sim.change(&data, json!({"status": {"phase": "Failed"}}));
        for _ in 0..2 {
            sees(&mut sim, 10 * 60);
            let plan = crate::decide(&sim.world, &pool, sim.now);
            if !deletes(&sim, &pool) {
                sim.apply(plan);
            }
            sim.advance(10 * 60);
        }
        assert_eq!(deletes(&sim, &pool), is_deleted, "{strategy}");
        let notes = &sim.get(&vm_key(0))["metadata"]["annotations"];
        assert_eq!(notes[api::pool::FAILING_SINCE].is_string(), is_deleted, "{strategy}");
    }
}
