//! VMIs that end while virt-handler is away: their launchers left to the kubelet how.

use crate::sim::{Sim, vm, vmi};
use api::launcher::{Ending, Life};
use cluster_model::objects::{Key, Kind};
use cluster_model::plan::Step;
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
        sim.advance(61);
        sim.round();
        // The rest follows from this.
        let ended = sim.told.iter().filter(|(reason, _)| reason == "Stopped").count();
        assert_eq!(ended, 1, "{:?}", sim.told);
        for _ in 0..3 {
            sim.settle();
            sim.advance(600);
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
        sim.advance(61);
        sim.settle();
        assert_eq!(phase(&sim, &key), ends_as, "{message}");
        let condition = sim.condition(&key, "Synchronized").map(|(_, reason, said)| (reason, said));
        assert_eq!(condition.unwrap_or_default(), (reason.to_owned(), said.to_owned()), "{message}");
        let warned = sim.warnings.iter().any(|reason| reason == "Stopped");
        assert_eq!(warned, said == "the guest panicked", "{message}: {:?}", sim.told);
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
        sim.advance(59);
        sim.settle();
        assert_eq!(phase(&sim, &vmi), "Running", "{hours}: virt-handler may come");
        sim.advance(2);
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

/// Tools measure by these how long a start takes, and virt-controller sees by them that a guest ran.
#[test]
fn each_phase_of_a_vmi_has_its_time_and_the_first_reason_of_its_end_stays() {
    let mut sim = Sim::new();
    let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
    sim.settle();
    sim.advance(5);
    let pod = sim.pod_of(&key).unwrap();
    sim.pod_runs(&pod, "node1");
    sim.settle();
    let times = sim.get(&key)["status"]["phaseTransitionTimestamps"].as_array().unwrap();
    let times: Vec<_> =
        times.iter().map(|one| (one["phase"].clone(), one["phaseTransitionTimestamp"].clone())).collect();
    let [begun, now] = [-5, 0].map(|seconds| {
        json!(cluster_model::conditions::stamp(sim.now + jiff::SignedDuration::from_secs(seconds)))
    });
    assert_eq!(times, [(json!("Scheduling"), begun), (json!("Scheduled"), now)]);
    assert_eq!(sim.get(&key)["status"]["migrationTransport"], "Unix");
    sim.change(&key, json!({"status": {"reason": "First"}}));
    sim.vanish(&pod);
    sim.settle();
    let status = &sim.get(&key)["status"];
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("First")));
}

/// The pod was created, and the answer was lost: a second one beside it would be a second guest.
#[test]
fn a_vmi_that_does_not_know_its_pod_takes_it_and_ends_with_it() {
    for (is_over, is_going, phase) in [
        (false, false, "Scheduling"),
        (true, false, "Failed"),
        (false, true, "Failed"),
        (true, true, "Failed"),
    ] {
        let mut sim = Sim::new();
        let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
        sim.settle();
        let pod = sim.pod_of(&key).unwrap();
        let mut object = sim.get(&pod).clone();
        object["spec"]["nodeName"] = json!("node1");
        let waiting = json!({"waiting": {"reason": "ErrImagePull", "message": "manifest unknown"}});
        object["status"]["containerStatuses"] = json!([{"name": "compute", "state": waiting}]);
        object["status"]["phase"] = json!(if is_over { "Failed" } else { "Running" });
        object["metadata"]["deletionTimestamp"] = json!(is_going.then_some("2027-01-01T00:00:00Z"));
        sim.world.put(Kind::Pod, object, sim.now);
        let mut object = sim.get(&key).clone();
        object["status"] = json!({});
        object["metadata"]["finalizers"] = json!([]);
        sim.world.put(Kind::VirtualMachineInstance, object, sim.now);
        let plan = crate::decide(&sim.world, &key, sim.now);
        let written = plan.steps.iter().find_map(|step| match step {
            Step::Patch { change, .. } => change["status"]["phase"].as_str(),
            _ => None,
        });
        assert_eq!(written, Some(phase), "{is_over} {is_going}: {plan:?}");
        if phase == "Scheduling" {
            let said = format!("{plan:?}");
            assert!(
                said.contains(cluster_model::objects::FINALIZER) && said.contains("manifest unknown"),
                "{said}"
            );
        }
        assert!(!plan.steps.iter().any(|step| matches!(step, Step::Create { .. })), "{plan:?}");
    }
}
