//! The target pod until the VMI is handed over to it.

use super::*;

fn unschedulable(sim: &mut Sim, pod: &Key) {
    let condition =
        json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"});
    sim.pod_says(pod, condition);
    sim.settle();
}

#[test]
fn a_target_pod_without_a_node_is_reported_and_deleted_in_time() {
    for (annotation, seconds) in [(None, 300), (Some("20"), 20), (Some("soon"), 300)] {
        let mut sim = Sim::new();
        let vmi = running(&mut sim, "web");
        let annotations = json!({"kubevirt.io/migrationUnschedulablePodTimeoutSeconds": annotation});
        let key = migration(&mut sim, "move", &vmi, &json!({"metadata": {"annotations": annotations}}));
        let pod = target(&sim, &key).unwrap();
        unschedulable(&mut sim, &pod);
        assert_eq!(waits_for(&sim, &key), format!("no node takes the target pod {}: 0/2 nodes", pod.name));
        let message = "Migration target pod for VMI [n/web] is currently unschedulable.";
        assert_eq!(told(&sim, "migrationTargetPodUnschedulable"), [message]);
        rests(&mut sim);
        let until = sim.now + jiff::SignedDuration::from_secs(seconds);
        assert_eq!(crate::decide(&sim.world, &key, sim.now).again, Some(until));
        sim.advance(seconds - 1);
        rests(&mut sim);
        sim.advance(1);
        sim.settle();
        assert_eq!((sim.phase(&key), target(&sim, &key)), ("Failed", None));
        let message = format!("unschedulable pod n/{} timeout period exceeded", pod.name);
        assert_eq!(told(&sim, "SuccessfulDelete"), std::slice::from_ref(&message));
        let said = told(&sim, "FailedMigration");
        assert_eq!(
            said,
            [format!("Migration failed: {message}: no node takes the target pod {}: 0/2 nodes", pod.name)]
        );
        assert_eq!(sim.phase(&vmi), "Running");
    }
}

#[test]
fn a_target_pod_that_does_not_start_is_reported_in_the_words_of_the_kubelet_and_deleted_in_time() {
    let (mut sim, _, key) = begin();
    let pod = target(&sim, &key).unwrap();
    let waiting = json!({"reason": "ErrImagePull", "message": "404"});
    let compute = json!([{"name": "compute", "state": {"waiting": waiting}}]);
    sim.change(&pod, json!({"spec": {"nodeName": "node2"}, "status": {"containerStatuses": compute}}));
    sim.settle();
    let message = format!("the target pod {} does not start: ErrImagePull: 404", pod.name);
    assert_eq!((waits_for(&sim, &key), told(&sim, "MigrationPending")), (message.clone(), vec![message]));
    sim.advance(899);
    rests(&mut sim);
    sim.advance(1);
    sim.settle();
    assert_eq!(sim.phase(&key), "Failed");
    assert!(sim.get(&pod)["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(
        told(&sim, "SuccessfulDelete"),
        [format!("pending pod n/{} timeout period exceeded", pod.name)]
    );
}

#[test]
fn a_target_pod_that_is_lost_before_the_hand_over_ends_its_migration() {
    let removed = "Migration target pod was removed during active migration.";
    for (how, message) in [
        (
            "ends",
            "Migration failed because target pod shutdown during migration: Error: container compute ended",
        ),
        (
            "container",
            "Migration failed because target pod shutdown during migration: Error: container virtiofs-a",
        ),
        ("deleted", removed),
        ("gone", removed),
    ] {
        let (mut sim, vmi, key) = begin();
        let pod = target(&sim, &key).unwrap();
        let ended = json!({"exitCode": 1, "reason": "Error", "finishedAt": sim.now.to_string()});
        match how {
            "ends" => sim.pod_ends(&pod, "Failed", 1),
            "container" => {
                let list = json!([{"name": "virtiofs-a", "ready": false, "state": {"terminated": ended}}]);
                sim.change(&pod, json!({"status": {"containerStatuses": list}}));
            }
            "deleted" => {
                sim.change(&pod, json!({"spec": {"nodeName": "node2"}}));
                sim.delete(&pod);
            }
            _ => sim.vanish(&pod),
        }
        sim.settle();
        assert_eq!(sim.phase(&key), "Failed", "{how}");
        let said = told(&sim, "FailedMigration");
        assert!(said.len() == 1 && said[0].starts_with(message), "{how}: {said:?}");
        assert!(sim.get(&vmi)["status"]["migrationState"].is_null(), "{how}");
    }
}

/// The cache of pods may be behind that of migrations.
#[test]
fn a_target_pod_that_is_not_known_yet_fails_no_migration() {
    let (mut sim, _, key) = begin();
    let pod = target(&sim, &key).unwrap();
    let object = sim.get(&pod).clone();
    sim.world.remove(&pod);
    sim.round();
    assert_eq!((sim.phase(&key), told(&sim, "FailedMigration")), ("Scheduling", vec![]));
    sim.world.put(Kind::Pod, object, sim.now);
    rests(&mut sim);
}

#[test]
fn a_pod_whose_creation_was_not_answered_is_found() {
    let (mut sim, _, key) = begin();
    sim.change(&key, json!({"status": {"phase": "Pending", "phaseTransitionTimestamps": null}}));
    let pods = sim.keys(Kind::Pod).len();
    sim.settle();
    assert_eq!((sim.phase(&key), sim.keys(Kind::Pod).len()), ("Scheduling", pods));
}

#[test]
fn a_vmi_is_not_handed_over_on_its_own_node_or_while_its_source_ends() {
    let (mut sim, vmi, key) = begin();
    let (source, pod) = (sim.pod_of(&vmi).unwrap(), target(&sim, &key).unwrap());
    sim.delete(&source);
    sim.pod_runs(&pod, "node2");
    sim.settle();
    assert_eq!(
        (sim.phase(&key), waits_for(&sim, &key).as_str()),
        ("Scheduled", "the launcher pod of VMI n/web is ending")
    );
    assert!(sim.get(&vmi)["status"]["migrationState"].is_null());

    let (mut sim, vmi, key) = begin();
    let pod = target(&sim, &key).unwrap();
    sim.pod_runs(&pod, "node1");
    sim.settle();
    assert_eq!(sim.phase(&key), "Failed");
    assert!(told(&sim, "FailedMigration")[0].contains("runs on node node1, as the VMI does"));
    assert!(sim.get(&vmi)["status"]["migrationState"].is_null());
}

/// A virt-handler may write the VMI between the decision and the patch.
#[test]
fn a_vmi_that_changed_meanwhile_is_not_handed_over_by_an_older_decision() {
    let (mut sim, vmi, key) = begin();
    let pod = target(&sim, &key).unwrap();
    sim.pod_runs(&pod, "node2");
    let plan = crate::decide(&sim.world, &key, sim.now);
    sim.apply(plan);
    let plan = crate::decide(&sim.world, &key, sim.now);
    sim.change(&vmi, json!({"status": {"phase": "Failed"}}));
    let done = crate::sim::door::carry_out(&mut sim, plan);
    assert!(done.failed.is_some(), "{done:?}");
    assert!(sim.get(&vmi)["status"]["migrationState"].is_null());
    sim.settle();
    assert_eq!(
        (sim.phase(&key), told(&sim, "FailedMigration")),
        ("Failed", vec![super::super::VMI_SHUTDOWN.to_owned()])
    );
}
