//! Silence: where everything is as it should be, nothing is written; and whatever happens, it ends there.

use super::sim::{Sim, machine};
use crate::kind::{Key, Kind};
use proptest::prelude::*;
use serde_json::json;

#[test]
fn a_thousand_machines_that_run_cause_no_write() {
    let mut sim = Sim::new();
    let names: Vec<String> = (0..1000).map(|number| format!("vm-{number}")).collect();
    let instances: Vec<Key> = names.iter().map(|name| Key::new(Kind::Instance, "n", name)).collect();
    for name in &names {
        sim.put(Kind::Machine, machine(name, "Always"));
    }
    sim.settle();
    for vmi in &instances {
        let pod = sim.pod_of(vmi).unwrap();
        sim.pod_runs(&pod, "node1");
    }
    sim.settle();
    for vmi in &instances {
        sim.agent_says(vmi, "Running");
    }
    sim.settle();
    sim.later(3600);
    for key in sim.objects.keys() {
        let plan = super::decide(&sim.world, key, sim.now);
        assert!(plan.is_empty(), "{key}: {plan:?}");
    }
    let running = sim.objects.values().filter(|object| object["status"]["printableStatus"] == "Running");
    assert_eq!(running.count(), 1000);
}

#[derive(Clone, Debug)]
enum Event {
    Strategy(&'static str),
    Ask(&'static str),
    PodRuns,
    PodEnds(&'static str),
    PodVanishes,
    Agent(&'static str),
    DeleteInstance,
    Later(i64),
    Forget,
}

fn event() -> impl Strategy<Value = Event> {
    let strategy = prop::sample::select(vec!["Always", "Halted", "Manual", "RerunOnFailure", "Once"]);
    prop_oneof![
        strategy.prop_map(Event::Strategy),
        prop::sample::select(vec!["Start", "Stop"]).prop_map(Event::Ask),
        Just(Event::PodRuns),
        prop::sample::select(vec!["Succeeded", "Failed"]).prop_map(Event::PodEnds),
        Just(Event::PodVanishes),
        prop::sample::select(vec!["Running", "Succeeded", "Failed"]).prop_map(Event::Agent),
        Just(Event::DeleteInstance),
        (1_i64..400).prop_map(Event::Later),
        Just(Event::Forget),
    ]
}

fn happen(sim: &mut Sim, vm: &Key, vmi: &Key, event: &Event) {
    let there = sim.objects.contains_key(vmi);
    let pod = if there { sim.pod_of(vmi) } else { None };
    match (event, pod) {
        (Event::Strategy(name), _) => sim.change(vm, json!({"spec": {"runStrategy": name}})),
        (Event::Ask(action), _) => {
            sim.change(vm, json!({"status": {"stateChangeRequests": [{"action": action}]}}))
        }
        (Event::PodRuns, Some(pod)) if sim.get(&pod)["status"]["phase"].is_null() => {
            sim.pod_runs(&pod, "node1")
        }
        (Event::PodEnds(phase), Some(pod)) => sim.pod_ends(&pod, phase, 1),
        (Event::PodVanishes, Some(pod)) => sim.vanish(&pod),
        (Event::Agent(phase), _) if there => {
            let now = sim.get(vmi)["status"]["phase"].as_str().unwrap_or_default().to_owned();
            if api::vmi::Phase::from(now.as_str()).may_become(&api::vmi::Phase::from(*phase)) {
                sim.agent_says(vmi, phase);
            }
        }
        (Event::DeleteInstance, _) if there => sim.delete(vmi),
        (Event::Later(seconds), _) => sim.later(*seconds),
        // A new leader: everything is listed anew.
        (Event::Forget, _) => {
            let facts = sim.world.facts.clone();
            sim.world = crate::world::World { facts, ..Default::default() };
            for (key, object) in sim.objects.clone() {
                sim.world.put(key.kind, object);
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever happens and whenever it is looked at: it settles, an instance never has two pods, and a machine that is
    /// deleted in the end leaves nothing.
    #[test]
    fn it_settles_whatever_happens(events in prop::collection::vec((event(), any::<bool>()), 0..24)) {
        let mut sim = Sim::new();
        let vm = sim.put(Kind::Machine, machine("web", "Always"));
        let vmi = Key::new(Kind::Instance, "n", "web");
        for (event, look) in &events {
            happen(&mut sim, &vm, &vmi, event);
            if *look {
                sim.settle();
                let live = sim.objects.iter().filter(|(key, object)| {
                    key.kind == Kind::Pod && !["Succeeded", "Failed"].contains(&object["status"]["phase"].as_str().unwrap_or_default())
                        && object["metadata"]["deletionTimestamp"].is_null()
                });
                prop_assert!(live.count() <= 1);
            }
        }
        sim.delete(&vm);
        for _ in 0..4 {
            sim.settle();
            let keys: Vec<Key> = sim.objects.keys().cloned().collect();
            for key in keys {
                if key.kind == Kind::Pod && !sim.get(&key)["metadata"]["deletionTimestamp"].is_null() {
                    sim.pod_ends(&key, "Failed", 0);
                }
            }
            if sim.objects.contains_key(&vmi) && sim.get(&vmi)["status"]["phase"] == "Running" || sim.objects.contains_key(&vmi) && sim.get(&vmi)["status"]["phase"] == "Scheduled" {
                sim.agent_says(&vmi, "Failed");
            }
        }
        prop_assert!(sim.objects.is_empty(), "left: {:?}", sim.objects);
    }
}
