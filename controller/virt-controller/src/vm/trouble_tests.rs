//! What is told where a VM or a VMI is kept from what is wanted of it.

use crate::sim::controller::Controller;
use crate::sim::others::OtherPrograms;
use crate::sim::{Sim, blank, data_volume_spec, vm, vm_with_disk, vmi};
use cluster_model::objects::{Attempt, Failure, Key, Kind};
use serde_json::json;
use std::collections::BTreeSet;

/// By the loop itself, until nothing moves any more.
fn until_quiet(controller: &mut Controller, sim: &mut Sim) {
    assert!((0..100).any(|tick| !controller.tick(sim, tick)), "it never settles");
}

fn settings(sim: &mut Sim) {
    let settings = crate::sim::kubevirt(json!({}));
    sim.put(Kind::KubeVirt, settings);
}

/// Sentences under a reason.
fn told(sim: &Sim, reason: &str) -> Vec<String> {
    sim.told.iter().filter(|(told, _)| told == reason).map(|(_, said)| said.clone()).collect()
}

/// Since when a VMI is not synchronized.
fn since(sim: &Sim, key: &Key) -> String {
    let conditions = sim.get(key)["status"]["conditions"].as_array().unwrap();
    let said = conditions.iter().find(|condition| condition["type"] == "Synchronized").unwrap();
    said["lastTransitionTime"].to_string()
}

fn is_going(sim: &Sim, key: &Key) -> bool {
    sim.get(key)["metadata"]["deletionTimestamp"].is_string()
}

/// Stopped, and deleted outright.
#[test]
fn a_vmi_that_the_server_keeps_is_told_once_and_tried_again() {
    for is_deleted in [false, true] {
        let mut sim = Sim::new();
        settings(&mut sim);
        let of = sim.put(Kind::VirtualMachine, vm("web", "Always"));
        sim.settle();
        let key = Key::new(Kind::VirtualMachineInstance, "n", "web");
        sim.boot(&key);
        match is_deleted {
            true => sim.delete(&of),
            false => sim.change(&of, json!({"spec": {"runStrategy": "Halted"}})),
        }
        sim.wire.keeps = Some(Kind::VirtualMachineInstance);
        let mut controller = Controller::start(&mut sim, 1);
        for _ in 0..3 {
            until_quiet(&mut controller, &mut sim);
            sim.advance(30);
        }
        let (status, reason, why) = sim.condition(&of, "Failure").unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("True", "FailedDelete"));
        let said = format!("Error deleting virtual machine instance web: {why}");
        assert_eq!(told(&sim, "FailedDelete"), [said], "once");
        assert!(!is_going(&sim, &key));
        sim.wire.keeps = None;
        for _ in 0..2 {
            sim.advance(60);
            until_quiet(&mut controller, &mut sim);
        }
        assert!(is_going(&sim, &key));
        assert_eq!(sim.condition(&of, "Failure"), None, "it is taken back");
    }
}

#[test]
fn a_pod_that_the_server_keeps_is_told_once_and_tried_again() {
    let mut sim = Sim::new();
    settings(&mut sim);
    let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
    sim.settle();
    let pod = sim.pod_of(&key).unwrap();
    sim.change(&pod, json!({"spec": {"nodeName": "node1"}}));
    sim.delete(&key);
    sim.wire.keeps = Some(Kind::Pod);
    let mut controller = Controller::start(&mut sim, 1);
    let mut times = BTreeSet::new();
    for _ in 0..3 {
        until_quiet(&mut controller, &mut sim);
        times.insert(since(&sim, &key));
        sim.advance(30);
    }
    assert_eq!(times.len(), 1, "it is the same all the time: {times:?}");
    let (status, reason, message) = sim.condition(&key, "Synchronized").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "FailedDelete"));
    assert!(
        message.starts_with(&format!("Failed to delete virtual machine pod {}: ", pod.name)),
        "{message}"
    );
    assert_eq!(told(&sim, "FailedDelete"), [message], "once");
    sim.wire.keeps = None;
    sim.advance(60);
    until_quiet(&mut controller, &mut sim);
    assert!(is_going(&sim, &pod));
    sim.advance(60);
    until_quiet(&mut controller, &mut sim);
    let said = sim.condition(&key, "Synchronized");
    assert!(
        said.as_ref().is_none_or(|(_, reason, _)| reason != "FailedDelete"),
        "it is taken back: {said:?}"
    );
}

/// Its guest outlives the grace period, and virt-handler writes in turn.
#[test]
fn the_pod_of_a_running_vmi_that_the_server_keeps_is_told_once() {
    let mut sim = Sim::new();
    settings(&mut sim);
    let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
    let mut others = OtherPrograms::default();
    others.stubborn = true;
    let mut controller = Controller::start(&mut sim, 1);
    let mut play = |sim: &mut Sim| {
        others.beat(sim);
        assert!((0..100).any(|tick| !(controller.tick(sim, tick) | others.act(sim))), "it never settles");
    };
    play(&mut sim);
    assert_eq!(sim.get(&key)["status"]["phase"], "Running");
    sim.delete(&key);
    sim.wire.keeps = Some(Kind::Pod);
    for _ in 0..4 {
        sim.advance(30);
        play(&mut sim);
    }
    let (status, reason, message) = sim.condition(&key, "Synchronized").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "FailedDelete"));
    assert_eq!(told(&sim, "FailedDelete"), [message], "once");
    sim.wire.keeps = None;
    for _ in 0..2 {
        sim.advance(60);
        play(&mut sim);
    }
    assert!(!sim.objects.contains_key(&key), "it goes with its pod");
}

#[test]
fn a_data_volume_that_is_refused_is_told_of_its_vm() {
    let mut sim = Sim::new();
    let of = sim.put(Kind::VirtualMachine, vm_with_disk("web", "Always", blank()));
    let retry = sim.now + jiff::SignedDuration::from_secs(5);
    let message = "exceeded quota: small".to_owned();
    let about = Attempt::Make(Kind::DataVolume);
    sim.world.failures.insert(of.clone(), Failure { about, message: message.clone(), times: 1, retry });
    sim.settle();
    assert_eq!(sim.condition(&of, "Failure").unwrap().1, "FailedDataVolumeCreate");
    assert_eq!(told(&sim, "FailedDataVolumeCreate"), [format!("Error creating DataVolume data: {message}")]);
}

#[test]
fn a_data_volume_that_its_vm_may_not_have_is_told_as_one_without_authorization() {
    let mut sim = Sim::new();
    let snapshot = json!({"snapshot": {"namespace": "other", "name": "golden"}});
    let of = sim.put(Kind::VirtualMachine, vm_with_disk("web", "Always", data_volume_spec(snapshot)));
    sim.settle();
    let (_, reason, why) = sim.condition(&of, "Failure").unwrap();
    assert_eq!(reason, "UnauthorizedDataVolumeCreate");
    let said = format!("Not authorized to create DataVolume data: {why}");
    assert_eq!(told(&sim, "UnauthorizedDataVolumeCreate"), [said], "once");
    assert!(!sim.objects.contains_key(&Key::new(Kind::DataVolume, "n", "data")));
}
