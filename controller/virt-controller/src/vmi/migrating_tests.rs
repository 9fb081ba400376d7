//! Both ends of a migration, and what follows for the VMI.

use super::*;
use crate::sim::{Sim, vmi};
use api::launcher::Ending;
use cluster_model::objects::{LauncherAttempt, MIGRATION_JOB, names};
use serde_json::{Value, json};

const READY: &str = "targetNodeDomainReadyTimestamp";
const TIME: &str = "2027-01-01T00:00:00Z";

/// A VMI that was handed over to the target of a migration: the VMI, its source pod and its target pod.
fn migrating() -> (Sim, Key, Key, Key) {
    let mut sim = Sim::new();
    let vmi = sim.put(Kind::VirtualMachineInstance, vmi("web"));
    sim.boot(&vmi);
    let source = sim.pod_of(&vmi).unwrap();
    let meta = json!({"namespace": "n", "name": "move"});
    let object = json!({"metadata": meta, "spec": {"vmiName": "web"}});
    let migration = sim.put(Kind::VirtualMachineInstanceMigration, object);
    sim.settle();
    let uid = sim.uid(&migration);
    let attempt = LauncherAttempt::Migration(&uid);
    let target = Key::new(Kind::Pod, "n", names::pod("web", &sim.uid(&vmi), attempt));
    assert_eq!(sim.get(&target)["metadata"]["labels"][MIGRATION_JOB], uid);
    sim.pod_runs(&target, "node2");
    sim.settle();
    (sim, vmi, source, target)
}

fn report(sim: &mut Sim, vmi: &Key, state: &Value) {
    sim.change(vmi, json!({"status": {"migrationState": state}}));
}

/// A pod is over, with the ending that its launcher left.
fn ends(sim: &mut Sim, pod: &Key, reason: Option<&str>, life: api::launcher::Life) {
    let ending = reason.map(|reason| Ending {
        life,
        reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
        message: None,
    });
    sim.launcher_ends(pod, "Failed", 1, ending);
}

/// Phase, node, and the end of the migration.
fn seen(sim: &Sim, vmi: &Key) -> (String, String, Value) {
    let status = &sim.get(vmi)["status"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let state = &status["migrationState"];
    let end = match (state["completed"] == true, state["failed"] == true) {
        (true, true) => state["failureReason"].clone(),
        (true, false) => json!("arrived"),
        (false, _) => Value::Null,
    };
    (text(&status["phase"]), text(&status["nodeName"]), end)
}

#[test]
fn a_guest_arrives_when_both_ends_agree_and_never_before() {
    let failed =
        json!({READY: TIME, "endTimestamp": TIME, "completed": true, "failed": true, "failureReason": "x"});
    for (state, source_is_down, node, end) in [
        (json!({}), false, "node1", Value::Null),
        (json!({READY: TIME}), false, "node1", Value::Null),
        (json!({"endTimestamp": TIME}), false, "node1", Value::Null),
        (json!({READY: TIME, "endTimestamp": TIME}), false, "node2", json!("arrived")),
        (json!({READY: TIME}), true, "node2", json!("arrived")),
        (json!({READY: TIME, "endTimestamp": TIME}), true, "node2", json!("arrived")),
        (failed, false, "node1", json!("x")),
        (json!({READY: TIME, "failed": true, "failureReason": "x"}), false, "node1", json!("x")),
    ] {
        let (mut sim, vmi, source, target) = migrating();
        report(&mut sim, &vmi, &state);
        if source_is_down {
            sim.pod_ends(&source, "Succeeded", 0);
        }
        sim.settle();
        assert_eq!(
            seen(&sim, &vmi),
            ("Running".to_owned(), node.to_owned(), end),
            "{state} {source_is_down}"
        );
        let labels = &sim.get(&vmi)["metadata"]["labels"];
        assert_eq!(labels["kubevirt.io/nodeName"], node);
        let has_ended = sim.get(&vmi)["status"]["migrationState"]["completed"] == true;
        assert_eq!(labels[crate::vmi::MIGRATION_TARGET].is_null(), has_ended, "{state}");
        let is_alive = |pod: &Key| !sim.objects.get(pod).is_none_or(crate::sim::is_going);
        assert_eq!(is_alive(&target), node == "node2" || !has_ended, "{state}");
    }
}

#[test]
fn a_guest_that_arrived_need_not_leave_its_node_any_more_and_is_served_there() {
    let (mut sim, vmi, source, target) = migrating();
    sim.change(&vmi, json!({"status": {"evacuationNodeName": "node1"}}));
    report(&mut sim, &vmi, &json!({READY: TIME, "endTimestamp": TIME}));
    sim.settle();
    let (source, target) = (sim.uid(&source), sim.get(&target));
    let status = &sim.get(&vmi)["status"];
    assert!(status["evacuationNodeName"].is_null() && status["migrationState"]["endTimestamp"] == TIME);
    assert_eq!(sim.condition(&vmi, "EvictionRequested"), None);
    assert_eq!(sim.condition(&vmi, "Ready").unwrap().0, "True");
    let gate = target["status"]["conditions"].as_array().unwrap().iter();
    let gate = gate.filter(|said| said["type"] == crate::pod::UNPAUSED && said["status"] == "True");
    assert_eq!(gate.count(), 1, "Services lead to it");
    assert_eq!(status["activePods"][source], "node1", "it has not ended");
    let message = "The VirtualMachineInstance migrated to node node2.";
    assert_eq!(sim.told.iter().filter(|(reason, said)| reason == "Migrated" && said == message).count(), 1);
}

/// The cache of pods may be behind that of VMIs.
#[test]
fn a_pod_that_is_not_known_yet_is_asked_for_at_the_api_server() {
    for is_source in [true, false] {
        let (mut sim, vmi, source, target) = migrating();
        let pod = if is_source { source } else { target };
        if is_source {
            report(&mut sim, &vmi, &json!({READY: TIME}));
        }
        sim.world.remove(&pod);
        let plan = crate::decide(&sim.world, &vmi, sim.now);
        let asks = |step: &Step| matches!(step, Step::RequireAbsent { key, .. } if *key == pod);
        assert!(plan.steps.iter().any(asks), "{plan:?}");
        sim.apply(plan);
        assert_eq!(seen(&sim, &vmi), ("Running".to_owned(), "node1".to_owned(), Value::Null));
    }
}

#[test]
fn a_vmi_whose_source_is_down_waits_for_its_target_as_long_as_the_guest_may_be_there() {
    use api::launcher::Life;
    // What the source left, whether its node reported the begin and the end, and for how long the target is waited for.
    for (ending, has_begun, is_reported, patience) in [
        (Some((MIGRATED, Life::Succeeded)), true, false, None),
        (Some((MIGRATED, Life::Succeeded)), true, true, None),
        (Some((MIGRATION_UNKNOWN, Life::Failed)), true, false, Some(300)),
        (Some((MIGRATION_UNKNOWN, Life::Failed)), true, true, Some(300)),
        (None, true, false, Some(300)),
        (None, false, false, Some(60)),
        (None, true, true, None),
    ] {
        for is_gone in [false, true] {
            let (mut sim, vmi, source, target) = migrating();
            sim.advance(30);
            if has_begun {
                report(&mut sim, &vmi, &json!({"startTimestamp": TIME}));
            }
            if is_reported {
                report(&mut sim, &vmi, &json!({"endTimestamp": TIME}));
            }
            ends(
                &mut sim,
                &source,
                ending.map(|(reason, _)| reason),
                ending.map_or(Life::Failed, |(_, life)| life),
            );
            if is_gone {
                sim.vanish(&source);
            }
            sim.settle();
            let told = format!("{ending:?} {has_begun} {is_reported} {is_gone}");
            assert_eq!(seen(&sim, &vmi), ("Running".to_owned(), "node1".to_owned(), Value::Null), "{told}");
            let (status, reason, message) = sim.condition(&vmi, "Synchronized").unwrap();
            assert_eq!((status.as_str(), reason.as_str()), ("False", "MigrationSourceDown"));
            assert!(message.contains(&source.name) && message.contains(&target.name), "{message}");
            sim.advance(patience.unwrap_or(100_000) - 1);
            sim.settle();
            assert_eq!(seen(&sim, &vmi).2, Value::Null, "{told}");
            let mut late = (sim.world.clone(), sim.objects.clone());
            // The guest is there.
            report(&mut sim, &vmi, &json!({READY: TIME}));
            sim.settle();
            assert_eq!(
                seen(&sim, &vmi),
                ("Running".to_owned(), "node2".to_owned(), json!("arrived")),
                "{told}"
            );
            assert_eq!(sim.condition(&vmi, "Synchronized"), None, "{told}");
            // It is not.
            std::mem::swap(&mut sim.world, &mut late.0);
            std::mem::swap(&mut sim.objects, &mut late.1);
            if patience.is_some() {
                sim.advance(1);
                sim.settle();
                assert_eq!(seen(&sim, &vmi).2, Value::Null, "its pod has the last word: {told}");
                assert!(crate::sim::is_going(sim.get(&target)), "{told}");
            }
            ends(&mut sim, &target, Some(NOT_RECEIVED), Life::Failed);
            sim.settle();
            sim.advance(60);
            sim.settle();
            let (phase, node, end) = seen(&sim, &vmi);
            assert_eq!((phase.as_str(), node.as_str()), ("Failed", "node1"), "{told}");
            let left = ending.is_some_and(|(reason, _)| reason == MIGRATED);
            assert_eq!(end, if left { TARGET_POD_DOWN } else { SOURCE_POD_DOWN }, "{told}");
        }
    }
}

/// The answer of the target was lost: it holds a guest, which may go on at the source.
#[test]
fn a_guest_that_is_held_arrives_when_its_source_has_none_and_else_is_dropped() {
    use api::launcher::Life;
    let held = json!({"targetNodeDomainDetected": true});
    let arrived = ("Running".to_owned(), "node2".to_owned(), json!("arrived"));
    let underway = ("Running".to_owned(), "node1".to_owned(), Value::Null);
    // What the source left, and what comes of it: at once, and once the target pod has ended.
    for (ending, is_reported, is_arrived) in [
        (Some((MIGRATED, Life::Succeeded)), false, true),
        (Some((MIGRATION_UNKNOWN, Life::Failed)), false, true),
        (None, true, true),
        (Some(("Shutdown", Life::Succeeded)), false, false),
        (None, false, false),
    ] {
        let (mut sim, vmi, source, target) = migrating();
        report(&mut sim, &vmi, &held);
        sim.settle();
        assert_eq!(seen(&sim, &vmi), underway);
        if is_reported {
            report(&mut sim, &vmi, &json!({"endTimestamp": TIME}));
            sim.settle();
            assert_eq!(seen(&sim, &vmi), arrived);
            continue;
        }
        let life = ending.map_or(Life::Failed, |(_, life)| life);
        ends(&mut sim, &source, ending.map(|(reason, _)| reason), life);
        sim.settle();
        if is_arrived {
            assert_eq!(seen(&sim, &vmi), arrived, "{ending:?}");
            continue;
        }
        assert_eq!(seen(&sim, &vmi), underway, "{ending:?}");
        sim.advance(60);
        sim.settle();
        if ending.is_none() {
            assert_eq!(seen(&sim, &vmi), underway, "the target pod has the last word");
            assert!(crate::sim::is_going(sim.get(&target)));
            ends(&mut sim, &target, Some(NOT_RECEIVED), Life::Failed);
            sim.settle();
            sim.advance(60);
            sim.settle();
        }
        let (phase, node, _) = seen(&sim, &vmi);
        let expected = if ending.is_some() { "Succeeded" } else { "Failed" };
        assert_eq!((phase.as_str(), node.as_str()), (expected, "node1"), "{ending:?}");
    }
}

/// The guest was shut down, or crashed, before it was sent.
#[test]
fn a_guest_that_ends_in_its_source_ends_its_vmi_and_the_migration() {
    use api::launcher::Life;
    for (life, phase) in [(Life::Succeeded, "Succeeded"), (Life::Failed, "Failed")] {
        let (mut sim, vmi, source, _) = migrating();
        ends(&mut sim, &source, Some(""), life);
        sim.settle();
        assert_eq!(seen(&sim, &vmi).2, Value::Null, "virt-handler has its time");
        sim.advance(60);
        sim.settle();
        assert_eq!(seen(&sim, &vmi), (phase.to_owned(), "node1".to_owned(), json!(VMI_ENDED)));
    }
}

/// Source and target are down: the last word is the target's, if the guest was there.
#[test]
fn a_guest_that_ended_at_its_target_before_it_was_reported_ends_its_vmi_as_there() {
    use api::launcher::Life;
    for (ending, phase) in [
        (Some(("", Life::Succeeded)), "Succeeded"),
        (Some((NOT_RECEIVED, Life::Failed)), "Failed"),
        (None, "Failed"),
    ] {
        let (mut sim, vmi, source, target) = migrating();
        ends(&mut sim, &source, Some(MIGRATED), Life::Succeeded);
        ends(
            &mut sim,
            &target,
            ending.map(|(reason, _)| reason),
            ending.map_or(Life::Failed, |(_, life)| life),
        );
        sim.settle();
        sim.advance(60);
        sim.settle();
        assert_eq!(
            seen(&sim, &vmi),
            (phase.to_owned(), "node1".to_owned(), json!(TARGET_POD_DOWN)),
            "{ending:?}"
        );
    }
}

#[test]
fn a_source_that_sent_its_guest_is_not_the_end_in_order_of_a_vmi_whose_migration_failed() {
    for reason in [MIGRATED, MIGRATION_UNKNOWN] {
        let (mut sim, vmi, source, _) = migrating();
        report(&mut sim, &vmi, &json!({"completed": true, "failed": true, "failureReason": "x"}));
        ends(&mut sim, &source, Some(reason), api::launcher::Life::Succeeded);
        sim.settle();
        sim.advance(60);
        sim.settle();
        assert_eq!(seen(&sim, &vmi), ("Failed".to_owned(), "node1".to_owned(), json!("x")), "{reason}");
        let (_, _, message) = sim.condition(&vmi, "Synchronized").unwrap();
        assert!(message.contains("live migration"), "{message}");
    }
}

/// An older version wrote the node, and not the end.
#[test]
fn a_state_whose_guest_is_at_its_target_is_completed() {
    let (mut sim, vmi, source, _) = migrating();
    sim.pod_ends(&source, "Succeeded", 0);
    sim.change(&vmi, json!({"status": {"nodeName": "node2"}}));
    sim.settle();
    assert_eq!(seen(&sim, &vmi), ("Running".to_owned(), "node2".to_owned(), json!("arrived")));
}
