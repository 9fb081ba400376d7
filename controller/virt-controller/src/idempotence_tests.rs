//! Decisions are idempotent: where every object is as it should be, nothing is written. (`histories` has the writes before that.)

use super::sim::controller::Controller;
use super::sim::{Sim, vm};
use cluster_model::objects::{Key, Kind};
use serde_json::{Value, json};

fn node(beat: &str) -> Value {
    json!({"metadata": {
        "name": "node1",
        "labels": {"kubevirt.io/schedulable": "true"},
        "annotations": {"kubevirt.io/heartbeat": beat},
    }})
}

#[test]
fn a_thousand_vms_that_run_cause_no_write() {
    let mut sim = Sim::new();
    let names: Vec<String> = (0..1000).map(|number| format!("vm-{number}")).collect();
    let vmis: Vec<Key> = names.iter().map(|name| Key::new(Kind::VirtualMachineInstance, "n", name)).collect();
    for name in &names {
        sim.put(Kind::VirtualMachine, vm(name, "Always"));
    }
    sim.settle();
    for vmi in &vmis {
        let pod = sim.pod_of(vmi).unwrap();
        sim.pod_runs(&pod, "node1");
    }
    sim.settle();
    for vmi in &vmis {
        sim.agent_says(vmi, "Running");
    }
    sim.settle();
    // Some have migrated, and some do.
    for (number, vmi) in vmis.iter().take(20).enumerate() {
        let meta = json!({"namespace": "n", "name": format!("of-{}", vmi.name)});
        let spec = json!({"vmiName": vmi.name});
        let key = sim.put(Kind::VirtualMachineInstanceMigration, json!({"metadata": meta, "spec": spec}));
        let state = json!({"failureReason": "no progress"});
        if number % 2 == 0 {
            sim.change(&key, json!({"status": {"phase": "Failed", "migrationState": state}}));
        }
    }
    sim.settle();
    let pods = sim.keys(Kind::Pod).len();
    assert_eq!(pods, 1002, "two at a time leave a node");
    sim.advance(100);
    for key in sim.objects.keys() {
        let plan = super::decide(&sim.world, key, sim.now);
        assert!(plan.is_empty(), "{key}: {plan:?}");
    }
    let running = sim.objects.values().filter(|object| object["status"]["printableStatus"] == "Running");
    assert_eq!(running.count(), 1000);

    // The same for a leader that begins now, once the first one has made the settings and the certificates.
    let mut first = Controller::start(&mut sim, 1);
    for tick in 1..10 {
        first.tick(&mut sim, tick);
    }
    let writes = sim.writes;
    let mut next = Controller::start(&mut sim, 2);
    for tick in 1..4 {
        next.tick(&mut sim, tick);
    }
    // Nor is a node that says that it is there a reason.
    for beat in ["1", "2"] {
        sim.put(Kind::Node, node(beat));
        sim.advance(60);
        next.tick(&mut sim, 4);
    }
    assert_eq!(sim.writes, writes);
}
