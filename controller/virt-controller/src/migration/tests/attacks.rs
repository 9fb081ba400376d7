//! Migrations that something else crosses: the end of the target pod, a second migration, an object that is removed by force.

use super::*;
use cluster_model::plan::{Plan, Step};

/// The guest would arrive in a pod that is about to be shut down.
#[test]
fn a_target_pod_that_is_being_deleted_ends_its_migration() {
    let (mut sim, vmi, key, pod) = under_way();
    sim.delete(&pod);
    sim.settle();
    let state = sim.get(&vmi)["status"]["migrationState"].clone();
    assert_eq!(state["abortRequested"], true);
    let reason = state["failureReason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("The target pod is being deleted: virt-launcher-web-"), "{reason}");
    rests(&mut sim);
    report(&mut sim, &vmi, &json!({"completed": true, "failed": true, "abortStatus": "Succeeded"}));
    assert_eq!((sim.phase(&key), sim.phase(&vmi)), ("Failed", "Running"));
    assert_eq!(told(&sim, "FailedMigration"), [format!("Migration failed: {reason}")]);
}

/// A guest that has arrived is not called back.
#[test]
fn a_target_pod_that_has_the_guest_may_be_deleted_as_any_other() {
    let (mut sim, vmi, key, pod) = under_way();
    report(&mut sim, &vmi, &json!({"targetNodeDomainReadyTimestamp": "2027-01-01T00:00:09Z"}));
    sim.delete(&pod);
    sim.settle();
    assert!(sim.get(&vmi)["status"]["migrationState"]["abortRequested"].is_null());
    arrive(&mut sim, &vmi);
    assert_eq!(sim.phase(&key), "Succeeded");
}

/// Without a webhook, or by two clients at once.
#[test]
fn of_two_migrations_of_a_vmi_the_first_goes_on_and_the_second_follows() {
    let mut sim = Sim::new();
    let vmi = running(&mut sim, "web");
    let put = |sim: &mut Sim, name: &str| {
        let meta = json!({"namespace": "n", "name": name, "labels": {"kubevirt.io/vmi-name": "web"},
            "finalizers": ["kubevirt.io/migrationJobFinalize"]});
        sim.put(Kind::VirtualMachineInstanceMigration, json!({"metadata": meta, "spec": {"vmiName": "web"}}))
    };
    let (first, second) = (put(&mut sim, "a"), put(&mut sim, "b"));
    let makes = |plan: &Plan| plan.steps.iter().any(|step| matches!(step, Step::Create { .. }));
    let plans = [&first, &second].map(|key| crate::decide(&sim.world, key, sim.now));
    assert_eq!(plans.each_ref().map(makes), [true, false]);
    for plan in plans {
        sim.apply(plan);
    }
    sim.settle();
    assert!(waits_for(&sim, &second).contains("the migration a of VMI n/web comes first"));
    let source = sim.pod_of(&vmi).unwrap();
    hand_over(&mut sim, &first);
    report(
        &mut sim,
        &vmi,
        &json!({"targetNodeAddress": "192.0.2.2", "startTimestamp": "2027-01-01T00:00:00Z"}),
    );
    arrive(&mut sim, &vmi);
    assert_eq!(sim.phase(&first), "Succeeded");
    sim.pod_ends(&source, "Succeeded", 0);
    sim.settle();
    assert!(target(&sim, &second).is_some(), "{}", waits_for(&sim, &second));
}

#[test]
fn a_target_pod_whose_migration_was_removed_by_force_goes_once_it_has_failed() {
    let (mut sim, vmi, key, pod) = under_way();
    sim.vanish(&key);
    sim.settle();
    report(
        &mut sim,
        &vmi,
        &json!({"completed": true, "failed": true, "failureReason": "x", "abortStatus": "Succeeded"}),
    );
    sim.advance(60);
    sim.settle();
    let is_left = |sim: &Sim| {
        sim.objects.contains_key(&pod) && sim.get(&pod)["metadata"]["deletionTimestamp"].is_null()
    };
    assert!(!is_left(&sim));
    assert_eq!(sim.phase(&vmi), "Running");
}
