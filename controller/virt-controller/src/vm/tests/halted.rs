//! VMs that are halted while something is still to be done.

use super::*;

fn halt(sim: &mut Sim, vm: &Key) {
    sim.change(vm, json!({"spec": {"runStrategy": "Halted"}}));
    sim.settle();
}

/// The VM is halted, and stays so for ten minutes.
fn stays_halted(sim: &mut Sim, vm: &Key, vmi: &Key) {
    sim.advance(600);
    sim.settle();
    let strategy = &sim.get(vm)["spec"]["runStrategy"];
    assert_eq!((strategy, sim.objects.contains_key(vmi)), (&json!("Halted"), false));
    assert_eq!(sim.get(vm)["status"]["stateChangeRequests"].as_array().map_or(0, Vec::len), 0);
}

/// `virtctl restart`, and `virtctl stop` while the guest still shuts down.
#[test]
fn a_vm_that_is_halted_during_a_restart_stays_halted() {
    let (mut sim, vm, vmi) = begin("Always");
    sim.boot(&vmi);
    let uid = sim.uid(&vmi);
    ask(&mut sim, &vm, json!([{"action": "Stop", "uid": uid}, {"action": "Start"}]));
    halt(&mut sim, &vm);
    end(&mut sim, &vmi, "Succeeded");
    stays_halted(&mut sim, &vm, &vmi);
}

/// A VM of `RerunOnFailure` that has had no VMI has no `status.runStrategy` yet.
#[test]
fn a_vm_that_is_halted_while_its_start_waits_for_a_disk_stays_halted() {
    let paused = json!([{"action": "Start", "data": {"paused": "true"}}]);
    for (strategy, start) in [
        ("Manual", json!([{"action": "Start"}])),
        ("Manual", paused.clone()),
        ("RerunOnFailure", json!([{"action": "Start"}])),
        ("RerunOnFailure", paused),
    ] {
        let mut sim = Sim::new();
        let vm = sim.put(Kind::VirtualMachine, vm_with_disk("web", strategy, blank()));
        let vmi = Key::new(Kind::VirtualMachineInstance, "n", "web");
        sim.settle();
        ask(&mut sim, &vm, start);
        assert!(!sim.objects.contains_key(&vmi), "the disk is not filled");
        halt(&mut sim, &vm);
        stays_halted(&mut sim, &vm, &vmi);
    }
}

/// virt-controller itself has recorded that the VM starts again.
#[test]
fn a_vm_that_is_halted_before_its_next_start_after_a_failure_stays_halted() {
    let (mut sim, vm, vmi) = begin("RerunOnFailure");
    end(&mut sim, &vmi, "Failed");
    assert!(!sim.objects.contains_key(&vmi), "it waits for its next start");
    halt(&mut sim, &vm);
    stays_halted(&mut sim, &vm, &vmi);
}

/// `virtctl start --paused` before virt-controller has seen the end of the VM, or the VM at all.
#[test]
fn a_paused_start_of_a_halted_vm_is_kept_whatever_virt_controller_has_seen() {
    let paused = json!({"stateChangeRequests": [{"action": "Start", "data": {"paused": "true"}}]});
    for status in [json!({"runStrategy": "Always"}), json!({"runStrategy": "Once"}), json!({})] {
        let mut sim = Sim::new();
        let mut object = vm("web", "Halted");
        object["status"] = status.clone();
        cluster_model::plan::merge(&mut object["status"], &paused);
        let vm = sim.put(Kind::VirtualMachine, object);
        sim.settle();
        assert_eq!(sim.get(&vm)["spec"]["runStrategy"], "Always", "{status}");
        let vmi = Key::new(Kind::VirtualMachineInstance, "n", "web");
        assert_eq!(sim.get(&vmi)["spec"]["startStrategy"], "Paused", "{status}");
    }
}

/// An end to its failures, as by `virtctl stop`: what it is not asked to do does not fail.
#[test]
fn a_vm_that_is_halted_has_no_failed_starts() {
    let (mut sim, vm, vmi) = begin("Always");
    let pod = sim.pod_of(&vmi).unwrap();
    sim.pod_ends(&pod, "Failed", 1);
    sim.settle();
    assert_eq!(sim.get(&vm)["status"]["startFailure"]["consecutiveFailCount"], 1);
    halt(&mut sim, &vm);
    assert_eq!(sim.get(&vm)["status"]["startFailure"], Value::Null);
}
