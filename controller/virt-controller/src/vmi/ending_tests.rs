//! VMIs that end while virt-handler is away: their launchers left to the kubelet how.

use crate::sim::{Sim, vm, vmi};
use api::launcher::{Ending, Life};
use cluster_model::objects::{Key, Kind};
use serde_json::{Value, json};

fn left(life: Life, reason: &str, message: &str) -> String {
    Ending { life, reason: Some(reason.into()), message: Some(message.into()) }.termination()
}

fn shut_down() -> String {
    left(Life::Succeeded, "Shutdown", "the guest shut down")
}

/// The kubelet: the launcher has ended, and left this.
fn launcher_ends(sim: &mut Sim, pod: &Key, message: &str) {
    let ended =
        json!({"exitCode": 0, "reason": "Completed", "finishedAt": sim.now.to_string(), "message": message});
    let status = json!([{"name": "compute", "ready": false, "state": {"terminated": ended}}]);
    sim.change(pod, json!({"status": {"phase": "Succeeded", "containerStatuses": status}}));
}

fn phase(sim: &Sim, vmi: &Key) -> Value {
    sim.get(vmi)["status"]["phase"].clone()
}

/// A VMI without a VM, which runs; and its pod.
fn alone() -> (Sim, Key, Key) {
    let mut sim = Sim::new();
    let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
    sim.boot(&key);
    let pod = sim.pod_of(&key).unwrap();
    (sim, key, pod)
}

#[test]
fn a_vm_that_was_shut_down_while_virt_handler_was_away_stays_off() {
    for (message, phase_then, starts_again) in [
        (shut_down(), "Succeeded", false),
        (left(Life::Failed, "Crashed", "QEMU ended by itself"), "Failed", true),
    ] {
        let mut sim = Sim::new();
        sim.put(Kind::VirtualMachine, vm("web", "RerunOnFailure"));
        sim.settle();
        let vmi = Key::new(Kind::VirtualMachineInstance, "n", "web");
        sim.boot(&vmi);
        let (lives, pod) = (sim.lives, sim.pod_of(&vmi).unwrap());
        launcher_ends(&mut sim, &pod, &message);
        sim.settle();
        assert_eq!(phase(&sim, &vmi), "Running", "virt-handler may come");
        sim.later(61);
        sim.round();
        // The rest follows from this.
        let ended = sim.told.iter().filter(|(reason, _)| reason == "Stopped").count();
        assert_eq!(ended, 1, "{:?}", sim.told);
        for _ in 0..3 {
            sim.settle();
            sim.later(600);
        }
        assert_eq!(sim.lives > lives, starts_again, "{phase_then}: {:?}", sim.reasons());
    }
}

#[test]
fn a_vmi_ends_as_its_launcher_left_it() {
    let panicked = left(Life::Failed, "GuestPanicked", "the guest panicked");
    let no_ending = left(Life::Running, "", "");
    for (message, ends_as, reason, said) in [
        (shut_down().as_str(), "Succeeded", "", ""),
        (&panicked, "Failed", "Synchronizing with the Domain failed.", "the guest panicked"),
        ("panicked at line 7", "Failed", "PodEnded", "virt-launcher pod has ended"),
        (&no_ending, "Failed", "PodEnded", "virt-launcher pod has ended"),
    ] {
        let (mut sim, key, pod) = alone();
        launcher_ends(&mut sim, &pod, message);
        sim.later(61);
        sim.settle();
        assert_eq!(phase(&sim, &key), ends_as, "{message}");
        let condition = sim.condition(&key, "Synchronized").map(|(_, reason, said)| (reason, said));
        assert_eq!(condition.unwrap_or_default(), (reason.to_owned(), said.to_owned()), "{message}");
    }
}

/// A pod that is being deleted is gone at the moment when its containers have ended.
#[test]
fn a_vmi_whose_pod_went_with_its_guest_ends_as_its_launcher_left_it() {
    for (message, ends_as) in [(shut_down().as_str(), "Succeeded"), ("killed", "Failed")] {
        let (mut sim, vmi, pod) = alone();
        sim.delete(&pod);
        sim.settle();
        launcher_ends(&mut sim, &pod, message);
        sim.vanish(&pod);
        sim.round();
        let told = sim.told.iter().any(|(reason, _)| reason == "Stopped");
        assert_eq!(told, ends_as == "Succeeded", "{:?}", sim.told);
        assert_eq!(phase(&sim, &vmi), ends_as, "{message}");
        sim.delete(&vmi);
        sim.settle();
        assert!(!sim.world.endings.contains_key(&("n".to_owned(), "web".to_owned())), "it goes with its VMI");
    }
}

/// The time at which a container ended is of the clock of its node.
#[test]
fn a_clock_of_a_node_that_is_wrong_by_an_hour_changes_nothing_of_how_long_virt_handler_is_waited_for() {
    for hours in [-1, 0, 1] {
        let (mut sim, vmi, pod) = alone();
        let at = sim.now + jiff::SignedDuration::from_hours(hours);
        let ended = json!({"exitCode": 0, "finishedAt": at.to_string(), "message": shut_down()});
        let compute = json!([{"name": "compute", "ready": false, "state": {"terminated": ended}}]);
        sim.change(&pod, json!({"status": {"phase": "Succeeded", "containerStatuses": compute}}));
        sim.settle();
        sim.later(59);
        sim.settle();
        assert_eq!(phase(&sim, &vmi), "Running", "{hours}: virt-handler may come");
        sim.later(2);
        sim.settle();
        assert_eq!(phase(&sim, &vmi), "Succeeded", "{hours}");
    }
}

/// Nobody on its node can say more once the kubelet ends the pod.
#[test]
fn a_vmi_whose_pod_is_going_waits_for_nobody() {
    let (mut sim, vmi, pod) = alone();
    sim.delete(&pod);
    launcher_ends(&mut sim, &pod, &shut_down());
    sim.round();
    assert_eq!(phase(&sim, &vmi), "Succeeded");
}

#[test]
fn a_pod_that_is_not_the_vmis_own_says_nothing_of_its_end() {
    let (mut sim, key, pod) = alone();
    let object = sim.get(&pod).clone();
    sim.vanish(&pod);
    // Somebody makes one of the same name, which has the labels and the owner of the launcher.
    let mut other = object;
    other["metadata"]["uid"] = Value::Null;
    let other = sim.put(Kind::Pod, other);
    launcher_ends(&mut sim, &other, &shut_down());
    sim.vanish(&other);
    sim.settle();
    assert_eq!(phase(&sim, &key), "Failed");
    assert!(sim.world.endings.is_empty(), "{:?}", sim.world.endings);
}

#[test]
fn a_launcher_that_failed_before_its_guest_says_why_in_a_sentence() {
    let mut sim = Sim::new();
    let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
    sim.settle();
    let pod = sim.pod_of(&key).unwrap();
    let message = Ending::failed("cannot lock /r/lock").termination();
    let ended =
        json!({"exitCode": 1, "reason": "Error", "message": message, "finishedAt": sim.now.to_string()});
    let compute = json!([{"name": "compute", "ready": false, "state": {"terminated": ended}}]);
    sim.change(
        &pod,
        json!({"spec": {"nodeName": "node1"}, "status": {"phase": "Failed", "containerStatuses": compute}}),
    );
    sim.settle();
    let (_, _, said) = sim.condition(&key, "Synchronized").unwrap();
    assert_eq!(said, "container compute ended with exit code 1: cannot lock /r/lock");
}
