//! Limits of parallel migrations, and the order of those that wait.

use super::*;

fn limited(cluster: i64, node: i64) -> Sim {
    let mut sim = Sim::new();
    limit(&mut sim, cluster, node);
    sim
}

/// Sets the limits of the cluster, and of each node.
pub(super) fn limit(sim: &mut Sim, cluster: i64, node: i64) {
    let migrations =
        json!({"parallelMigrationsPerCluster": cluster, "parallelOutboundMigrationsPerNode": node});
    let spec = json!({"configuration": {"migrations": migrations}});
    let meta = json!({"namespace": "kubevirt", "name": "kubevirt", "resourceVersion": "99"});
    sim.world.put(Kind::KubeVirt, json!({"metadata": meta, "spec": spec}), sim.now);
}

/// VMIs that run, on this node each.
fn vmis(sim: &mut Sim, nodes: &[&str]) -> Vec<Key> {
    let begin = |(at, node): (usize, &&str)| {
        let key = sim.put(Kind::VirtualMachineInstance, vmi(&format!("vmi-{at}")));
        sim.settle();
        let pod = sim.pod_of(&key).unwrap();
        sim.pod_runs(&pod, node);
        sim.settle();
        sim.agent_says(&key, "Running");
        key
    };
    nodes.iter().enumerate().map(begin).collect()
}

/// A migration of each VMI with these priorities, one second apart.
fn ask(sim: &mut Sim, vmis: &[Key], priorities: &[Option<&str>]) -> Vec<Key> {
    let put = |(vmi, priority): (&Key, &Option<&str>)| {
        sim.advance(1);
        let meta = json!({"namespace": "n", "name": format!("of-{}", vmi.name)});
        let spec = json!({"vmiName": vmi.name, "priority": priority});
        sim.put(Kind::VirtualMachineInstanceMigration, json!({"metadata": meta, "spec": spec}))
    };
    vmis.iter().zip(priorities).map(put).collect()
}

fn phases(sim: &Sim, keys: &[Key]) -> Vec<String> {
    keys.iter().map(|key| sim.phase(key).to_owned()).collect()
}

#[test]
fn as_many_migrations_go_on_as_the_settings_permit_and_the_others_tell_why_they_wait() {
    for (cluster, node, expected, message) in [
        (
            2,
            9,
            ["Scheduling", "Scheduling", "Pending"],
            "2 live migrations of the cluster go on or come first",
        ),
        (
            9,
            1,
            ["Scheduling", "Scheduling", "Pending"],
            "1 live migrations away from node node1 go on or come first",
        ),
        (0, 9, ["Pending", "Pending", "Pending"], "0 live migrations of the cluster go on or come first"),
    ] {
        let mut sim = limited(cluster, node);
        let vmis = vmis(&mut sim, &["node1", "node2", "node1"]);
        let keys = ask(&mut sim, &vmis, &[None; 3]);
        sim.settle();
        assert_eq!(phases(&sim, &keys), expected, "{cluster} {node}");
        assert!(waits_for(&sim, &keys[2]).starts_with(message), "{}", waits_for(&sim, &keys[2]));
        rests(&mut sim);
    }
}

#[test]
fn the_next_migration_goes_on_when_one_has_ended() {
    let mut sim = limited(1, 9);
    let vmis = vmis(&mut sim, &["node1", "node1"]);
    let keys = ask(&mut sim, &vmis, &[None; 2]);
    sim.settle();
    assert_eq!(phases(&sim, &keys), ["Scheduling", "Pending"]);
    let again = crate::decide(&sim.world, &keys[1], sim.now).again;
    assert_eq!(again, Some(sim.now + jiff::SignedDuration::from_secs(60)), "settings may change");
    hand_over(&mut sim, &keys[0]);
    rests(&mut sim);
    assert!(!sim.world.dependents(&keys[0]).contains(&keys[1]), "it has not ended");
    arrive(&mut sim, &vmis[0]);
    assert_eq!(phases(&sim, &keys), ["Succeeded", "Scheduling"]);
    // One that is gone is no reason to wait either.
    sim.delete(&keys[0]);
    sim.change(&keys[1], json!({"status": {"phase": "Pending"}}));
    assert!(sim.world.dependents(&keys[0]).contains(&keys[1]));
}

#[test]
fn the_order_is_by_priority_and_then_by_age() {
    let mut sim = limited(1, 9);
    let vmis = vmis(&mut sim, &["node1"; 6]);
    let names = [
        None,
        None,
        Some("system-maintenance"),
        Some("user-triggered"),
        Some("odd"),
        Some("system-critical"),
    ];
    let keys = ask(&mut sim, &vmis, &names);
    let mut order = Vec::new();
    for _ in 0..6 {
        sim.settle();
        let runs = keys.iter().position(|key| sim.phase(key) == "Scheduling").expect("one runs");
        order.push(runs);
        hand_over(&mut sim, &keys[runs]);
        arrive(&mut sim, &vmis[runs]);
    }
    assert_eq!(order, [5, 3, 2, 0, 1, 4]);
}

/// It may wait for ever.
#[test]
fn a_migration_that_waits_for_something_else_takes_no_place() {
    for reason in ["vmi", "conditions", "failure", "deleted", "gone"] {
        let mut sim = limited(1, 1);
        let vmis = vmis(&mut sim, &["node1"; 2]);
        let keys = ask(&mut sim, &vmis, &[Some("system-critical"), None]);
        match reason {
            "vmi" => sim.change(&vmis[0], json!({"status": {"phase": "Unknown"}})),
            "conditions" => {
                let said = json!([{"type": "LiveMigratable", "status": "False"}]);
                sim.change(&vmis[0], json!({"status": {"conditions": said}}));
            }
            "failure" => {
                use cluster_model::objects::{Attempt, Failure};
                let (about, message) = (Attempt::Make(Kind::Pod), "exceeded quota".to_owned());
                let retry = sim.now + jiff::SignedDuration::from_secs(30);
                sim.world.failures.insert(keys[0].clone(), Failure { about, message, times: 1, retry });
            }
            "deleted" => {
                sim.change(&keys[0], json!({"metadata": {"finalizers": ["example.org/held"]}}));
                sim.delete(&keys[0]);
            }
            _ => {
                let pod = sim.pod_of(&vmis[0]).unwrap();
                sim.delete(&pod);
            }
        }
        sim.settle();
        assert_eq!((sim.phase(&keys[1]), target(&sim, &keys[0])), ("Scheduling", None), "{reason}");
    }
}

/// Its pod may be on the way.
#[test]
fn a_migration_whose_plan_is_being_carried_out_takes_a_place() {
    let mut sim = limited(1, 9);
    let vmis = vmis(&mut sim, &["node1"; 2]);
    let keys = ask(&mut sim, &vmis, &[None; 2]);
    // The finalizers.
    for key in &keys {
        let plan = crate::decide(&sim.world, key, sim.now);
        sim.apply(plan);
    }
    // The younger one was alone a moment ago.
    sim.world.busy.insert(keys[1].clone());
    let plan = crate::decide(&sim.world, &keys[0], sim.now);
    assert!(!format!("{plan:?}").contains("Create"), "{plan:?}");
    assert_eq!(plan.again, Some(sim.now + jiff::SignedDuration::from_secs(1)), "it is looked at soon");
    sim.world.busy.clear();
    let plan = crate::decide(&sim.world, &keys[0], sim.now);
    assert!(format!("{plan:?}").contains("Create"), "{plan:?}");
}

#[test]
fn the_first_migrations_of_each_node_are_decided_on_when_one_has_ended() {
    let mut sim = limited(1, 1);
    let nodes = ["node1", "node1", "node1", "node1", "node1", "node1", "node1", "node2"];
    let vmis = vmis(&mut sim, &nodes);
    let keys = ask(&mut sim, &vmis, &[None; 8]);
    sim.settle();
    let next = |sim: &Sim| -> Vec<Key> {
        let all = sim.world.dependents(&keys[0]);
        keys[1..].iter().filter(|key| all.contains(key)).cloned().collect()
    };
    assert_eq!(next(&sim), []);
    hand_over(&mut sim, &keys[0]);
    let state = json!({"completed": true, "failed": true, "failureReason": "x"});
    sim.change(&vmis[0], json!({"status": {"migrationState": state}}));
    let plan = crate::decide(&sim.world, &keys[0], sim.now);
    sim.apply(plan);
    let expected: Vec<Key> = [1, 2, 3, 4, 7].map(|at| keys[at].clone()).to_vec();
    assert_eq!(next(&sim), expected);
}
