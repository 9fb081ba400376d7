//! Migrations that have ended.

use super::*;

/// Migrates a VMI to another node, to and fro.
fn migrate(sim: &mut Sim, vmi: &Key, number: usize, arrives: bool) -> Key {
    sim.advance(1);
    let key = migration(sim, &format!("move-{number}"), vmi, &json!({}));
    let from = sim.get(vmi)["status"]["nodeName"].as_str().unwrap().to_owned();
    let source = sim.get(vmi)["status"]["activePods"].clone();
    let pod = target(sim, &key).expect("a target pod");
    sim.pod_runs(&pod, if from == "node1" { "node2" } else { "node1" });
    sim.settle();
    if arrives {
        arrive(sim, vmi);
        let source = source.as_object().unwrap().keys().next().unwrap().clone();
        let source = sim.keys(Kind::Pod).into_iter().find(|pod| sim.uid(pod) == source).unwrap();
        sim.pod_ends(&source, "Succeeded", 0);
    } else {
        report(sim, vmi, &json!({"completed": true, "failed": true, "failureReason": "x"}));
        sim.pod_ends(&pod, "Failed", 1);
    }
    sim.settle();
    key
}

#[test]
fn five_migrations_that_have_ended_are_kept_and_older_ones_go_with_their_pods() {
    let mut sim = Sim::new();
    let vmi = running(&mut sim, "web");
    let keys: Vec<Key> = (0..7).map(|number| migrate(&mut sim, &vmi, number, true)).collect();
    assert_eq!(sim.keys(Kind::VirtualMachineInstanceMigration), keys[2..], "the newest");
    // The pods of the start and of the first migration have ended, and their successors are kept for readers.
    let pods = sim.keys(Kind::Pod);
    assert_eq!(pods.len(), 6, "five sources, and the guest's: {pods:?}");
    let guests = sim.get(&vmi)["status"]["migrationState"]["targetPod"].clone();
    assert!(pods.iter().any(|pod| guests == pod.name && sim.phase(pod) == "Running"));
    rests(&mut sim);
}

#[test]
fn failed_migrations_are_counted_too_and_an_unfinished_one_is_never_deleted() {
    let mut sim = Sim::new();
    let vmi = running(&mut sim, "web");
    let failed: Vec<Key> = (0..6).map(|number| migrate(&mut sim, &vmi, number, false)).collect();
    assert_eq!(sim.keys(Kind::VirtualMachineInstanceMigration), failed[1..]);
    sim.advance(1);
    let next = migration(&mut sim, "next", &vmi, &json!({}));
    assert_eq!(sim.keys(Kind::VirtualMachineInstanceMigration).len(), 6);
    assert_eq!(sim.phase(&next), "Scheduling");
    assert_eq!(sim.phase(&vmi), "Running");
}

#[test]
fn a_migration_that_has_succeeded_is_deleted_and_the_guest_stays() {
    let mut sim = Sim::new();
    let vmi = running(&mut sim, "web");
    let key = migrate(&mut sim, &vmi, 0, true);
    let pod = target(&sim, &key).unwrap();
    sim.delete(&key);
    sim.settle();
    assert!(!sim.objects.contains_key(&key));
    assert!(sim.get(&pod)["metadata"]["deletionTimestamp"].is_null(), "it runs the guest");
    assert_eq!(sim.phase(&vmi), "Running");
}

#[test]
fn migrations_go_with_their_vmi() {
    let mut sim = Sim::new();
    let vmi = running(&mut sim, "web");
    migrate(&mut sim, &vmi, 0, true);
    migrate(&mut sim, &vmi, 1, false);
    sim.delete(&vmi);
    sim.agent_says(&vmi, "Succeeded");
    sim.settle();
    for pod in sim
        .keys(Kind::Pod)
        .iter()
        .filter(|pod| !crate::sim::is_over(sim.get(pod)))
        .cloned()
        .collect::<Vec<_>>()
    {
        sim.pod_ends(&pod, "Succeeded", 0);
    }
    sim.settle();
    assert_eq!(sim.keys(Kind::VirtualMachineInstance), []);
    assert_eq!(sim.keys(Kind::VirtualMachineInstanceMigration), []);
}

#[test]
fn what_virt_handler_adds_to_a_migration_that_has_ended_is_copied_and_its_reason_stays() {
    let (mut sim, vmi, key, _) = under_way();
    report(&mut sim, &vmi, &json!({"completed": true, "failed": true}));
    assert_eq!(sim.phase(&key), "Failed");
    report(&mut sim, &vmi, &json!({"abortStatus": "Failed"}));
    let state = &sim.get(&key)["status"]["migrationState"];
    assert_eq!(state["abortStatus"], "Failed");
    assert_eq!(state["failureReason"], "source node reported migration failed");
    rests(&mut sim);
}
