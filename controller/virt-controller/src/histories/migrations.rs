//! Histories of VMIs that migrate: two attempts at a guest, one of which runs it.

use super::{cases, comes_to_an_end, none, nothing_is_left};
use crate::sim::event::{Event, faults, migration_event};
use crate::sim::history::Run;
use api::launcher::{Ending, Life};
use cluster_model::objects::{Key, Kind};
use proptest::prelude::*;
use serde_json::json;

const OURS: [Kind; 3] = [Kind::VirtualMachine, Kind::VirtualMachineInstance, Kind::Pod];

proptest! {
    #![proptest_config(cases(200))]

    /// The guest of a VMI runs in one pod at most, and that is its active one, whoever ends meanwhile.
    #[test]
    fn at_most_one_attempt_runs_the_guest(
        history in prop::collection::vec((migration_event(), faults(), 0..6_usize), 2..16)
    ) {
        nothing_is_left(&history, |key| OURS.contains(&key.kind))?;
    }
}

/// A VM that runs, and its VMI.
fn running() -> (Run, Key) {
    let mut run = Run::new();
    run.happen(&Event::Vm(0, "Always"));
    run.settle();
    let vmi = Key::new(Kind::VirtualMachineInstance, "n", "first");
    assert_eq!(run.sim.get(&vmi)["status"]["phase"], "Running");
    (run, vmi)
}

fn happens(run: &mut Run, events: &[Event]) {
    for event in events {
        run.happen(event);
        run.settle();
        none(run.failure()).unwrap();
    }
}

/// Node of the guest, uid of its VMI, and the number of its pods that have not ended.
fn seen(run: &Run, vmi: &Key) -> (String, String, usize) {
    let object = run.sim.get(vmi);
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let pods = run.sim.keys(Kind::Pod);
    let pods = pods.iter().filter(|pod| !crate::sim::is_over(run.sim.get(pod))).count();
    (text(&object["status"]["nodeName"]), text(&object["metadata"]["uid"]), pods)
}

#[test]
fn a_vmi_migrates_to_and_fro_and_stays_the_same() {
    let (mut run, vmi) = running();
    let (node, uid, _) = seen(&run, &vmi);
    assert_eq!(node, "node1");
    for node in ["node2", "node1", "node2"] {
        happens(&mut run, &[Event::Migrate(0)]);
        assert_eq!(seen(&run, &vmi).2, 2, "source and target");
        happens(&mut run, &[Event::Arrive(0, true)]);
        assert_eq!(seen(&run, &vmi), (node.to_owned(), uid.clone(), 1));
    }
    comes_to_an_end(&mut run).unwrap();
    assert_eq!(run.sim.keys(Kind::Pod), []);
}

#[test]
fn a_guest_whose_migration_fails_stays_where_it_is() {
    let (mut run, vmi) = running();
    let before = seen(&run, &vmi);
    happens(&mut run, &[Event::Migrate(0), Event::Arrive(0, false)]);
    assert_eq!(seen(&run, &vmi), before);
}

/// The launcher of the source leaves its ending to the kubelet, too.
#[test]
fn the_end_of_a_source_is_not_the_end_of_its_vmi() {
    let (mut run, vmi) = running();
    happens(&mut run, &[Event::Migrate(0)]);
    let state = run.sim.get(&vmi)["status"]["migrationState"].clone();
    let source = Key::new(Kind::Pod, "n", state["sourcePod"].as_str().unwrap());
    run.happen(&Event::Arrive(0, true));
    let message = Ending { life: Life::Succeeded, reason: None, message: None }.termination();
    let ended = json!({"exitCode": 0, "finishedAt": run.sim.now.to_string(), "message": message});
    let compute = json!([{"name": "compute", "ready": false, "state": {"terminated": ended}}]);
    run.sim.change(&source, json!({"status": {"phase": "Succeeded", "containerStatuses": compute}}));
    run.settle();
    happens(&mut run, &[Event::Vanish(0)]);
    let reasons = run.sim.reasons();
    assert!(!reasons.iter().any(|reason| reason == "Stopped"), "{reasons:?}");
    let (node, ..) = seen(&run, &vmi);
    assert_eq!(node, "node1", "it was started anew");
}

#[test]
fn a_vmi_whose_source_is_lost_during_a_migration_fails_and_takes_the_target_along() {
    let (mut run, vmi) = running();
    let uid = seen(&run, &vmi).1;
    happens(&mut run, &[Event::Migrate(0), Event::Vanish(0)]);
    let (node, next, pods) = seen(&run, &vmi);
    assert_ne!(next, uid, "the VM has a new VMI");
    assert_eq!((node.as_str(), pods), ("node1", 1));
}
