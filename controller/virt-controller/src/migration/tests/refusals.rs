//! Reasons against a migration, before it has a target pod.

use super::*;
use cluster_model::objects::{Attempt, Failure};

/// A VMI that runs, a change of it, and a migration.
fn refused(change: &Value, spec: &Value) -> (Sim, Key) {
    let mut sim = Sim::new();
    let vmi = running(&mut sim, "web");
    sim.change(&vmi, change.clone());
    let key = migration(&mut sim, "move", &vmi, spec);
    (sim, key)
}

#[test]
fn a_migration_that_cannot_be_fails_with_its_reason_and_without_a_pod() {
    let not_migratable = json!([{"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable", "message": "PVC a"}]);
    let final_phase = json!({"status": {"phase": "Succeeded"}});
    for (change, spec, message) in [
        (final_phase, json!({}), "Migration failed vmi shutdown during migration."),
        (
            json!({"status": {"conditions": not_migratable}}),
            json!({}),
            "Cannot migrate VMI, Reason: DisksNotLiveMigratable, Message: PVC a",
        ),
        (
            json!({}),
            json!({"spec": {"sendTo": {"migrationID": "a", "connectURL": "b"}}}),
            "spec.sendTo is not supported",
        ),
        (json!({}), json!({"spec": {"receive": {"migrationID": "a"}}}), "spec.receive is not supported"),
    ] {
        let (mut sim, key) = refused(&change, &spec);
        assert_eq!((sim.phase(&key), target(&sim, &key)), ("Failed", None), "{message}");
        let said = told(&sim, "FailedMigration");
        assert!(said.len() == 1 && said[0].contains(message), "{said:?}");
        let reason = &sim.get(&key)["status"]["migrationState"]["failureReason"];
        assert_eq!(reason.as_str(), Some(said[0].as_str()), "events are kept for an hour");
        rests(&mut sim);
    }
}

#[test]
fn a_migration_of_a_vmi_that_is_gone_ends_and_is_deleted() {
    let mut sim = Sim::new();
    let vmi = Key::new(Kind::VirtualMachineInstance, "n", "web");
    let key = migration(&mut sim, "move", &vmi, &json!({}));
    assert!(!sim.objects.contains_key(&key));
    assert_eq!(told(&sim, "FailedMigration"), ["Migration failed because vmi does not exist."]);
}

/// The cache of migrations may be ahead of that of VMIs.
#[test]
fn a_vmi_that_is_not_known_yet_fails_no_migration() {
    let mut sim = Sim::new();
    let vmi = running(&mut sim, "web");
    let object = sim.get(&vmi).clone();
    sim.world.remove(&vmi);
    let key = migration(&mut sim, "move", &vmi, &json!({}));
    assert_eq!((sim.phase(&key), told(&sim, "FailedMigration")), ("", vec![]));
    sim.world.put(Kind::VirtualMachineInstance, object, sim.now);
    sim.settle();
    assert_eq!(sim.phase(&key), "Scheduling");
}

#[test]
fn a_migration_waits_for_its_vmi_with_a_reason_that_is_told_once() {
    let mut sim = Sim::new();
    let vmi = scheduled(&mut sim, "web");
    let key = migration(&mut sim, "move", &vmi, &json!({}));
    let message = "VMI n/web is in the phase Scheduled: it is migrated when it is Running";
    assert_eq!((sim.phase(&key), waits_for(&sim, &key).as_str()), ("Pending", message));
    assert_eq!(told(&sim, "MigrationPending"), [message]);
    let source = sim.get(&key)["status"]["migrationState"]["sourcePod"].clone();
    assert!(source.is_string(), "readers see where the guest runs");
    rests(&mut sim);
    assert!(sim.world.dependents(&vmi).contains(&key), "a change of the VMI is looked at");
    sim.agent_says(&vmi, "Running");
    sim.settle();
    assert_eq!((sim.phase(&key), waits_for(&sim, &key).as_str()), ("Scheduling", ""));
}

#[test]
fn a_second_migration_fails_where_the_first_has_the_vmi_and_waits_where_it_has_not_yet() {
    let (mut sim, vmi, first) = begin();
    let second = migration(&mut sim, "second", &vmi, &json!({}));
    assert_eq!((sim.phase(&first), sim.phase(&second)), ("Scheduling", "Pending"));
    assert_eq!(waits_for(&sim, &second), "the migration move of VMI n/web comes first");
    hand_over(&mut sim, &first);
    let third = migration(&mut sim, "third", &vmi, &json!({}));
    assert_eq!((sim.phase(&second), sim.phase(&third)), ("Pending", "Failed"));
    let message = "VMI is not eligible for migration because another migration job is in progress.";
    assert_eq!(told(&sim, "FailedMigration"), [message]);
    arrive(&mut sim, &vmi);
    assert_eq!(sim.phase(&first), "Succeeded");
    let source = sim.pod_of(&vmi).unwrap();
    assert!(waits_for(&sim, &second).contains(&source.name), "the source has not ended yet");
    sim.pod_ends(&source, "Succeeded", 0);
    assert!(sim.world.dependents(&source).contains(&second), "the end of a pod is looked at");
    sim.settle();
    assert_eq!(sim.phase(&second), "Scheduling");
}

#[test]
fn a_migration_waits_while_the_launcher_pod_of_its_vmi_is_being_deleted() {
    let mut sim = Sim::new();
    let vmi = running(&mut sim, "web");
    let pod = sim.pod_of(&vmi).unwrap();
    sim.delete(&pod);
    let key = migration(&mut sim, "move", &vmi, &json!({}));
    assert_eq!(sim.phase(&key), "Pending");
    assert_eq!(waits_for(&sim, &key), "the launcher pod of VMI n/web is ending");
}

#[test]
fn a_cluster_without_settings_has_no_target_pods() {
    let mut sim = Sim::new();
    let vmi = running(&mut sim, "web");
    sim.world.remove(&Key::new(Kind::KubeVirt, "kubevirt", "kubevirt"));
    let key = migration(&mut sim, "move", &vmi, &json!({}));
    assert!(waits_for(&sim, &key).starts_with("there is no KubeVirt object"), "{}", waits_for(&sim, &key));
    assert!(crate::decide(&sim.world, &key, sim.now).again.is_some(), "it looks again");
}

#[test]
fn a_quota_without_room_is_reported_and_the_pod_is_created_when_there_is_room() {
    let mut sim = Sim::new();
    let vmi = running(&mut sim, "web");
    let spec = json!({"metadata": {"namespace": "n", "name": "move"}, "spec": {"vmiName": "web"}});
    let key = sim.put(Kind::VirtualMachineInstanceMigration, spec);
    let retry = sim.now + jiff::SignedDuration::from_secs(30);
    let (about, message) =
        (Attempt::Make(Kind::Pod), "pods \"a\" is forbidden: exceeded quota: small".to_owned());
    sim.world.failures.insert(key.clone(), Failure { about, message, times: 1, retry });
    sim.settle();
    assert_eq!((sim.phase(&key), target(&sim, &key)), ("Pending", None));
    assert_eq!(sim.condition(&key, "migrationRejectedByResourceQuota").unwrap().0, "True");
    assert!(waits_for(&sim, &key).contains("exceeded quota"), "{}", waits_for(&sim, &key));
    assert_eq!(
        told(&sim, "FailedCreate"),
        ["Error creating pod: pods \"a\" is forbidden: exceeded quota: small"]
    );
    rests(&mut sim);
    assert_eq!(crate::decide(&sim.world, &key, sim.now).again, Some(retry));
    sim.now = retry;
    sim.settle();
    assert_eq!((sim.phase(&key), waits_for(&sim, &key).as_str()), ("Scheduling", ""));
    assert_eq!(sim.condition(&key, "migrationRejectedByResourceQuota"), None);
    assert_eq!(sim.phase(&vmi), "Running");
}

#[test]
fn a_vmi_whose_disk_is_gone_is_not_migrated() {
    let mut sim = Sim::new();
    let mut object = vmi("web");
    object["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
    let claim =
        json!({"metadata": {"namespace": "n", "name": "disk"}, "spec": {}, "status": {"phase": "Bound"}});
    let claim = sim.put(Kind::PersistentVolumeClaim, claim);
    let vmi = sim.put(Kind::VirtualMachineInstance, object);
    sim.boot(&vmi);
    sim.vanish(&claim);
    let key = migration(&mut sim, "move", &vmi, &json!({}));
    assert_eq!(sim.phase(&key), "Failed");
    let said = told(&sim, "FailedMigration");
    assert!(said[0].contains("PVC n/disk does not exist"), "{said:?}");
}

#[test]
fn a_cancelled_migration_leaves_no_pod_and_its_vmi_alone() {
    for has_pod in [false, true] {
        let mut sim = Sim::new();
        let vmi = match has_pod {
            true => running(&mut sim, "web"),
            false => scheduled(&mut sim, "web"),
        };
        let key = migration(&mut sim, "move", &vmi, &json!({}));
        let pod = target(&sim, &key);
        assert_eq!(pod.is_some(), has_pod);
        sim.delete(&key);
        sim.settle();
        assert!(!sim.objects.contains_key(&key), "the finalizer is gone");
        assert!(pod.is_none_or(|pod| !sim.objects.contains_key(&pod)));
        assert_eq!(told(&sim, "FailedMigration"), ["Migration failed due to being canceled"]);
        assert!(sim.get(&vmi)["status"]["migrationState"].is_null());
    }
}
