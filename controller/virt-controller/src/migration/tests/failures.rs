//! Ends of migrations whose VMI was handed over.

use super::*;

#[test]
fn a_migration_that_was_handed_over_fails_with_the_reason_of_its_vmi() {
    let failed = |reason: &str| json!({"completed": true, "failed": true, "failureReason": reason});
    for (change, message) in [
        (failed("no progress"), "source node reported migration failed: no progress"),
        (json!({"completed": true, "failed": true}), "source node reported migration failed"),
        (
            json!({"migrationUid": "other"}),
            "VMI's migration state was taken over by another migration job during active migration.",
        ),
        (Value::Null, "VMI's migration state was cleared during the active migration."),
    ] {
        let (mut sim, vmi, key, pod) = under_way();
        report(&mut sim, &vmi, &change);
        assert_eq!(sim.phase(&key), "Failed", "{message}");
        assert_eq!(told(&sim, "FailedMigration").last().map(String::as_str), Some(message));
        assert!(
            !sim.get(&sim.pod_of(&vmi).unwrap())["metadata"]["deletionTimestamp"].is_string(),
            "{message}"
        );
        if change["completed"] == true {
            assert!(sim.get(&pod)["metadata"]["deletionTimestamp"].is_string(), "{message}");
            assert!(sim.get(&vmi)["metadata"]["labels"]["kubevirt.io/migrationTargetNodeName"].is_null());
        }
        assert_eq!((sim.phase(&vmi), &sim.get(&vmi)["status"]["nodeName"]), ("Running", &json!("node1")));
        rests(&mut sim);
    }
}

#[test]
fn a_target_pod_that_is_down_fails_the_migration_and_the_guest_stays() {
    for (is_gone, message) in [
        (false, "Migration failed because target pod shutdown during migration"),
        (true, "Migration target pod was removed during active migration."),
    ] {
        let (mut sim, vmi, key, pod) = under_way();
        match is_gone {
            true => sim.vanish(&pod),
            false => sim.pod_ends(&pod, "Failed", 1),
        }
        sim.settle();
        assert_eq!(sim.phase(&key), "Failed");
        let said = told(&sim, "FailedMigration");
        let of_vmi = format!(
            "VirtualMachineInstance migration uid {} failed. reason: Target pod is down",
            sim.uid(&key)
        );
        assert_eq!(said, [of_vmi, message.to_owned()]);
        let state = &sim.get(&vmi)["status"]["migrationState"];
        assert_eq!(state["failureReason"], "Target pod is down");
        assert!(state["endTimestamp"].is_string());
        assert_eq!(sim.phase(&vmi), "Running");
    }
}

#[test]
fn a_migration_that_is_deleted_after_the_hand_over_is_aborted_by_the_source() {
    let (mut sim, vmi, key, pod) = under_way();
    sim.delete(&key);
    sim.settle();
    assert_eq!(sim.get(&vmi)["status"]["migrationState"]["abortRequested"], true);
    assert_eq!(sim.phase(&key), "Running", "the source decides");
    assert_eq!(sim.condition(&key, "migrationAbortRequested").unwrap().0, "True");
    assert_eq!(told(&sim, "SuccessfulAbortMigration").len(), 1);
    assert!(sim.get(&pod)["metadata"]["deletionTimestamp"].is_null());
    rests(&mut sim);
    let why = "Live migration has been aborted";
    report(
        &mut sim,
        &vmi,
        &json!({"abortStatus": "Succeeded", "completed": true, "failed": true, "failureReason": why}),
    );
    assert!(!sim.objects.contains_key(&key));
    assert!(sim.get(&pod)["metadata"]["deletionTimestamp"].is_string());
    assert!(told(&sim, "FailedMigration")[0].ends_with(why));
}

/// The abort came too late: the guest is at the target, and its pod stays.
#[test]
fn a_guest_that_arrives_in_spite_of_an_abort_stays_at_its_target() {
    let (mut sim, vmi, key, pod) = under_way();
    sim.delete(&key);
    sim.settle();
    arrive(&mut sim, &vmi);
    assert!(!sim.objects.contains_key(&key));
    assert_eq!(sim.get(&vmi)["status"]["nodeName"], "node2");
    assert!(sim.get(&pod)["metadata"]["deletionTimestamp"].is_null(), "it runs the guest");
}

/// Its finalizer was taken from it by force.
#[test]
fn a_migration_whose_object_is_gone_is_aborted_and_its_guest_may_still_arrive() {
    for arrives in [false, true] {
        let (mut sim, vmi, key, pod) = under_way();
        sim.vanish(&key);
        sim.settle();
        assert_eq!(sim.get(&vmi)["status"]["migrationState"]["abortRequested"], true);
        assert!(sim.get(&pod)["metadata"]["deletionTimestamp"].is_null(), "the guest may be in it");
        let next = migration(&mut sim, "next", &vmi, &json!({}));
        assert_eq!(waits_for(&sim, &next), "another migration of VMI n/web has not ended");
        match arrives {
            true => arrive(&mut sim, &vmi),
            false => {
                report(&mut sim, &vmi, &json!({"completed": true, "failed": true, "failureReason": "x"}))
            }
        }
        assert_eq!(sim.get(&vmi)["status"]["nodeName"], if arrives { "node2" } else { "node1" });
        let is_left = sim.objects.get(&pod).is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        assert_eq!(is_left, arrives, "without the guest it would keep the VMI from every other migration");
    }
}

/// The target pod of such a one runs no guest, and would keep the VMI from every other migration.
#[test]
fn a_target_pod_whose_migration_is_gone_is_deleted() {
    let (mut sim, vmi, key) = begin();
    let pod = target(&sim, &key).unwrap();
    sim.vanish(&key);
    // The VMI may have been handed over since it was read.
    let plan = crate::decide(&sim.world, &vmi, sim.now);
    sim.change(&vmi, json!({"metadata": {"annotations": {"a": "b"}}}));
    assert!(crate::sim::door::carry_out(&mut sim, plan).failed.is_some());
    assert!(sim.objects.contains_key(&pod));
    sim.settle();
    assert!(!sim.objects.contains_key(&pod));
    assert_eq!(sim.phase(&vmi), "Running");
}

#[test]
fn a_vmi_that_ends_takes_its_migration_along() {
    for phase in ["Succeeded", "Failed"] {
        let (mut sim, vmi, key, pod) = under_way();
        sim.agent_says(&vmi, phase);
        sim.settle();
        assert_eq!(sim.phase(&key), "Failed");
        assert_eq!(told(&sim, "FailedMigration"), ["Migration failed vmi shutdown during migration."]);
        let state = &sim.get(&vmi)["status"]["migrationState"];
        assert_eq!(
            (&state["completed"], &state["failed"]),
            (&json!(true), &json!(true)),
            "it is Migrating no more"
        );
        assert!(sim.get(&pod)["metadata"]["deletionTimestamp"].is_string());
        assert!(sim.get(&vmi)["metadata"]["labels"]["kubevirt.io/migrationTargetNodeName"].is_null());
    }
}

#[test]
fn a_vmi_that_is_deleted_fails_its_migration_before_the_hand_over_and_aborts_it_after() {
    let (mut sim, vmi, key) = begin();
    let pod = target(&sim, &key).unwrap();
    sim.delete(&vmi);
    sim.settle();
    assert_eq!((sim.phase(&key), sim.objects.contains_key(&pod)), ("Failed", false));

    let (mut sim, vmi, key, pod) = under_way();
    sim.delete(&vmi);
    sim.settle();
    assert_eq!(sim.get(&vmi)["status"]["migrationState"]["abortRequested"], true);
    assert_eq!(sim.phase(&key), "Running");
    assert!(sim.get(&pod)["metadata"]["deletionTimestamp"].is_null());
}

/// A hand-over that a leader made whose Lease had passed on meanwhile.
#[test]
fn a_target_pod_of_a_failed_migration_stays_while_the_guest_may_be_in_it() {
    let (mut sim, vmi, key, pod) = under_way();
    let object = sim.get(&key).clone();
    sim.world.remove(&key);
    let mut failed = object;
    failed["status"]["phase"] = json!("Failed");
    failed["status"]["migrationState"] = json!({"failureReason": "x"});
    sim.objects.insert(key.clone(), failed.clone());
    sim.world.put(Kind::VirtualMachineInstanceMigration, failed, sim.now);
    sim.settle();
    assert_eq!(sim.get(&vmi)["status"]["migrationState"]["abortRequested"], true);
    assert!(sim.get(&pod)["metadata"]["deletionTimestamp"].is_null(), "the source is asked first");
    arrive(&mut sim, &vmi);
    assert_eq!(sim.get(&vmi)["status"]["nodeName"], "node2");
    assert!(sim.get(&pod)["metadata"]["deletionTimestamp"].is_null(), "it runs the guest");
    rests(&mut sim);
}

/// A VMI that was handed over: the VMI, its migration, and the target pod.
fn handed_over() -> (Sim, Key, Key, Key) {
    let (mut sim, vmi, key) = begin();
    let pod = hand_over(&mut sim, &key);
    assert_eq!(sim.phase(&key), "PreparingTarget");
    (sim, vmi, key, pod)
}

/// The migration has failed with this reason, the guest stays, and its target pod goes.
fn has_failed(sim: &Sim, (vmi, key, pod): (&Key, &Key, &Key), reason: &str) {
    let state = &sim.get(vmi)["status"]["migrationState"];
    assert_eq!((&state["completed"], &state["failed"]), (&json!(true), &json!(true)), "{state}");
    assert_eq!(state["failureReason"], reason);
    assert_eq!((sim.phase(key), sim.phase(vmi)), ("Failed", "Running"));
    assert_eq!(sim.get(vmi)["status"]["nodeName"], "node1");
    assert!(sim.get(pod)["metadata"]["deletionTimestamp"].is_string());
    let message = format!("Migration failed: {reason}");
    assert_eq!(told(sim, "FailedMigration").last(), Some(&message));
    assert_eq!(sim.get(key)["status"]["migrationState"]["failureReason"], reason);
}

#[test]
fn a_target_that_gives_up_before_the_source_comes_ends_the_migration_with_its_reason() {
    let (mut sim, vmi, key, pod) = handed_over();
    report(&mut sim, &vmi, &json!({"targetNodeAddress": "192.0.2.2"}));
    report(&mut sim, &vmi, &json!({"targetFailureReason": "the source did not connect within 300 s"}));
    let reason = "The target gave up: the source did not connect within 300 s";
    has_failed(&sim, (&vmi, &key, &pod), reason);
    let of_vmi = format!("VirtualMachineInstance migration uid {} failed. reason: {reason}", sim.uid(&key));
    assert!(told(&sim, "FailedMigration").contains(&of_vmi));
    rests(&mut sim);

    // The guest is there.
    let (mut sim, vmi, key, _) = under_way();
    let ready = json!({"targetFailureReason": "x", "targetNodeDomainReadyTimestamp": "2027-01-01T00:00:09Z"});
    report(&mut sim, &vmi, &ready);
    assert_eq!(sim.phase(&key), "Running");
    arrive(&mut sim, &vmi);
    assert_eq!(sim.phase(&key), "Succeeded");
}

#[test]
fn a_target_that_is_not_prepared_in_time_ends_the_migration_and_names_what_was_waited_for() {
    for (is_announced, awaited) in [
        (false, "virt-handler of the source node node1 to announce its certificate".to_owned()),
        (true, "virt-handler of the target node node2 to prepare launcher pod ".to_owned()),
    ] {
        let (mut sim, vmi, key, pod) = handed_over();
        let awaited = if is_announced { format!("{awaited}{}", pod.name) } else { awaited };
        if is_announced {
            report(&mut sim, &vmi, &json!({"sourceCertificate": "0a"}));
        }
        sim.advance(299);
        sim.settle();
        assert_eq!(sim.phase(&key), "PreparingTarget");
        rests(&mut sim);
        sim.advance(1);
        sim.settle();
        has_failed(&sim, (&vmi, &key, &pod), &format!("The migration waited 300 s for {awaited}"));
        rests(&mut sim);
    }
}

/// The source may have begun, and not have told it yet.
#[test]
fn a_source_that_does_not_begin_in_time_is_asked_to_abort_and_has_the_last_word() {
    let reason = "The migration waited 360 s for virt-handler of the source node node1 to begin, with node node2 ready";
    for arrives in [false, true] {
        let (mut sim, vmi, key, pod) = handed_over();
        sim.advance(200);
        report(&mut sim, &vmi, &json!({"sourceCertificate": "0a", "targetNodeAddress": "192.0.2.2"}));
        sim.advance(359);
        sim.settle();
        assert!(sim.get(&vmi)["status"]["migrationState"]["abortRequested"].is_null());
        sim.advance(1);
        sim.settle();
        let state = &sim.get(&vmi)["status"]["migrationState"];
        assert_eq!((&state["abortRequested"], &state["failureReason"]), (&json!(true), &json!(reason)));
        assert!(state["completed"].is_null() && sim.phase(&key) == "TargetReady", "{state}");
        assert!(sim.get(&pod)["metadata"]["deletionTimestamp"].is_null());
        rests(&mut sim);
        match arrives {
            false => {
                report(
                    &mut sim,
                    &vmi,
                    &json!({"completed": true, "failed": true, "abortStatus": "Succeeded"}),
                );
                has_failed(&sim, (&vmi, &key, &pod), reason);
            }
            true => {
                arrive(&mut sim, &vmi);
                assert_eq!(
                    (sim.phase(&key), &sim.get(&vmi)["status"]["nodeName"]),
                    ("Succeeded", &json!("node2"))
                );
                assert!(sim.get(&vmi)["status"]["migrationState"]["failureReason"].is_null());
            }
        }
    }
}

/// The source's launcher keeps the limits of a migration that has begun.
#[test]
fn a_migration_that_has_begun_is_waited_for_as_long_as_it_takes() {
    let (mut sim, vmi, key, _) = under_way();
    sim.advance(10 * 24 * 3600);
    sim.settle();
    assert_eq!(sim.phase(&key), "Running");
    assert!(sim.get(&vmi)["status"]["migrationState"]["abortRequested"].is_null());
}

#[test]
fn a_target_launcher_that_ends_says_why() {
    let (mut sim, vmi, key, pod) = under_way();
    let ending = api::launcher::Ending {
        life: api::launcher::Life::Failed,
        reason: Some(api::launcher::NOT_RECEIVED.to_owned()),
        message: Some("the source has another CPU".to_owned()),
    };
    sim.launcher_ends(&pod, "Failed", 1, Some(ending));
    sim.settle();
    assert_eq!(sim.phase(&key), "Failed");
    let reason = &sim.get(&vmi)["status"]["migrationState"]["failureReason"];
    assert_eq!(reason, "Target pod is down: the source has another CPU");
    let message = "Migration failed because target pod shutdown during migration: the source has another CPU"
        .to_owned();
    assert_eq!(told(&sim, "FailedMigration").last(), Some(&message));
}
