//! The table of the module's header, and the messages of its refusals.

use super::*;

fn vm(strategy: &str) -> VirtualMachine {
    api::wire::read(json!({"metadata": {"name": "web"}, "spec": {"runStrategy": strategy}})).unwrap()
}

fn vmi(phase: &str) -> VirtualMachineInstance {
    api::wire::read(json!({
        "metadata": {"name": "web", "uid": "u1"},
        "spec": {"terminationGracePeriodSeconds": 30},
        "status": {"phase": phase},
    }))
    .unwrap()
}

/// The changes, or the reason against them, as a line of text.
fn line(changes: Result<Changes>) -> String {
    let changes = match changes {
        Ok(changes) => changes,
        Err(refused) => {
            let (_, why) = refused.message.split_once("\": ").unwrap_or(("", &refused.message));
            return format!("{} {why}", refused.status.as_u16());
        }
    };
    let mut words = Vec::new();
    if let Some(Grace { seconds, .. }) = changes.grace {
        words.push(format!("grace {seconds}"));
    }
    if let Some(spec) = changes.spec {
        words.push(spec["spec"].to_string());
    }
    for request in
        changes.status.iter().flat_map(|status| status["status"]["stateChangeRequests"].as_array()).flatten()
    {
        words.push(format!("{} {}{}", request["action"].as_str().unwrap(), request["uid"], request["data"]));
    }
    words.join(", ").replace("null", "").replace('"', "")
}

#[test]
fn starts_follow_the_run_strategy() {
    let plain = StartOptions::default();
    let paused = StartOptions { paused: true, ..StartOptions::default() };
    for (strategy, phase, options, wanted) in [
        ("Halted", None, &plain, "{runStrategy:Always}"),
        ("Halted", None, &paused, "Start {paused:true}"),
        ("Halted", Some("Running"), &plain, "409 VM is already running"),
        ("Halted", Some("Succeeded"), &plain, "{runStrategy:Always}"),
        ("Manual", None, &plain, "Start "),
        ("Manual", Some("Pending"), &plain, "409 VM is already running"),
        ("Manual", Some("Unknown"), &plain, "Start "),
        ("Manual", Some("Succeeded"), &paused, "Stop u1, Start {paused:true}"),
        ("Manual", Some("Failed"), &plain, "Stop u1, Start "),
        ("RerunOnFailure", None, &plain, "Start "),
        ("RerunOnFailure", Some("Succeeded"), &plain, "Stop u1, Start "),
        (
            "RerunOnFailure",
            Some("Failed"),
            &plain,
            "409 RerunOnFailure does not support starting VM from failed state",
        ),
        ("Always", None, &plain, "409 Always does not support manual start requests"),
        ("Once", Some("Failed"), &plain, "409 Once does not support manual start requests"),
    ] {
        let vmi = phase.map(vmi);
        assert_eq!(line(start(&vm(strategy), vmi.as_ref(), options)), wanted, "{strategy} {phase:?}");
    }
}

#[test]
fn stops_follow_the_run_strategy() {
    let with = |seconds| StopOptions { grace_period: Some(seconds), ..StopOptions::default() };
    let plain = StopOptions::default();
    let shorter = "409 Halted only supports manual stop requests with a shorter graceperiod";
    for (strategy, phase, options, wanted) in [
        ("Always", None, &plain, "{runStrategy:Halted}"),
        ("Always", Some("Running"), &with(0), "grace 0, {runStrategy:Halted}"),
        ("Once", Some("Succeeded"), &with(5), "{runStrategy:Halted}"),
        ("Manual", Some("Running"), &plain, "Stop u1"),
        ("Manual", Some("Running"), &with(3), "grace 3, Stop u1"),
        ("Manual", None, &plain, "409 VM is not running"),
        ("RerunOnFailure", Some("Failed"), &plain, "409 VM is not running"),
        ("Halted", None, &with(0), "409 VM is not running"),
        ("Halted", Some("Running"), &plain, shorter),
        ("Halted", Some("Running"), &with(30), shorter),
        ("Halted", Some("Running"), &with(29), "grace 29, Stop u1"),
        ("Always", None, &with(-1), "400 gracePeriod has to be greater or equal to 0"),
    ] {
        let vmi = phase.map(vmi);
        assert_eq!(line(stop(&vm(strategy), vmi.as_ref(), options)), wanted, "{strategy} {phase:?}");
    }
}

#[test]
fn restarts_follow_the_run_strategy() {
    let with = |seconds| RestartOptions { grace_period_seconds: Some(seconds), ..RestartOptions::default() };
    let plain = RestartOptions::default();
    for (strategy, phase, options, wanted) in [
        ("Always", Some("Running"), &plain, "Stop u1, Start "),
        ("Always", Some("Running"), &with(0), "grace 1, Stop u1, Start "),
        ("Manual", Some("Running"), &plain, "Stop u1, Start "),
        ("RerunOnFailure", None, &plain, "409 VM is not running: Halted"),
        ("Halted", Some("Running"), &plain, "409 RunStategy Halted does not support manual restart requests"),
        ("Once", Some("Running"), &plain, "409 RunStategy Once does not support manual restart requests"),
        (
            "Always",
            Some("Running"),
            &with(2),
            "400 For force restart, only gracePeriod=0 is supported for now",
        ),
        ("Always", Some("Running"), &with(-1), "400 gracePeriod has to be greater or equal to 0"),
    ] {
        let vmi = phase.map(vmi);
        assert_eq!(line(restart(&vm(strategy), vmi.as_ref(), options)), wanted, "{strategy} {phase:?}");
    }
}

#[test]
fn a_vm_of_the_field_running_keeps_it() {
    let mut vm = vm("Always");
    vm.spec.run_strategy = None;
    vm.spec.running = Some(true);
    assert_eq!(line(stop(&vm, None, &StopOptions::default())), "{running:false}");
    vm.spec.running = Some(false);
    assert_eq!(line(start(&vm, None, &StartOptions::default())), "{running:true}");
}

#[test]
fn one_thing_is_asked_at_a_time_but_a_stop_does_not_wait() {
    let mut vm: VirtualMachine = api::wire::read(json!({
        "metadata": {"name": "web"},
        "spec": {"runStrategy": "Manual"},
        "status": {"stateChangeRequests": [{"action": "Start"}], "startFailure": {"consecutiveFailCount": 3}},
    }))
    .unwrap();
    let underway = "500 Internal error occurred: unable to complete request: stop/start already underway";
    assert_eq!(line(start(&vm, None, &StartOptions::default())), underway);
    let running = vmi("Running");
    assert_eq!(line(restart(&vm, Some(&running), &RestartOptions::default())), underway);
    let stops = stop(&vm, Some(&running), &StopOptions::default()).unwrap().status.unwrap();
    assert_eq!(stops["status"]["stateChangeRequests"], json!([{"action": "Stop", "uid": "u1"}]));
    assert!(stops["status"].as_object().unwrap()["startFailure"].is_null());
    vm.status.as_mut().unwrap().state_change_requests.clear();
    vm.spec.run_strategy = Some(RunStrategy::Halted);
    let starts = start(&vm, None, &StartOptions::default()).unwrap();
    assert_eq!(starts.status, Some(json!({"status": {"startFailure": null}})));
}

/// A VM with these conditions.
fn with_conditions(conditions: &Value) -> VirtualMachine {
    let spec = json!({"runStrategy": "Manual"});
    api::wire::read(json!({"metadata": {"name": "web"}, "spec": spec, "status": {"conditions": conditions}}))
        .unwrap()
}

/// Tools look for upstream's first words; the others say what is the matter with this VM.
#[test]
fn volumes_that_were_left_behind_are_mended_first() {
    let moved = "a live migration has copied PVC n/data into PVC new: set the claimName of the volume to new";
    for (conditions, expected) in [
        (json!([{"type": "ManualRecoveryRequired", "status": "True", "message": moved}]), moved),
        (json!([{"type": "ManualRecoveryRequired", "status": "True"}]), "Volume migration failed"),
        (json!([{"type": "VolumesChange", "status": "True"}]), "the disks are being copied to other PVCs"),
    ] {
        let vm = with_conditions(&conditions);
        for answer in [
            line(start(&vm, None, &StartOptions::default())),
            line(restart(&vm, Some(&vmi("Running")), &RestartOptions::default())),
        ] {
            let expected = format!("409 VM recovery required: {expected}");
            assert!(answer.starts_with(&expected), "{conditions}: {answer}");
        }
    }
    for conditions in [
        json!([{"type": "ManualRecoveryRequired", "status": "False"}]),
        json!([{"type": "VolumesChange", "status": "False"}]),
    ] {
        assert_eq!(line(start(&with_conditions(&conditions), None, &StartOptions::default())), "Start ");
    }
}

/// virt-controller would not start the VM again.
#[test]
fn a_vm_is_not_restarted_without_the_disk_that_its_guest_runs_on() {
    let spec = |claim: &str, disk: Value| {
        json!({"domain": {"devices": {"disks": [disk]}}, "volumes": [
        {"name": "root", "persistentVolumeClaim": {"claimName": claim}}]})
    };
    for (strategy, claim, disk, phase, expected) in [
        (
            "Migration",
            "new",
            json!({"name": "root", "disk": {}}),
            "Running",
            "409 VM recovery required: the disk root of the guest is on PVC data, and was not copied into PVC new",
        ),
        ("Migration", "data", json!({"name": "root", "disk": {}}), "Running", "Stop u1, Start "),
        ("Replacement", "new", json!({"name": "root", "disk": {}}), "Running", "Stop u1, Start "),
        ("Migration", "new", json!({"name": "root", "cdrom": {}}), "Running", "Stop u1, Start "),
        ("Migration", "new", json!({"name": "root", "disk": {}}), "Pending", "Stop u1, Start "),
    ] {
        let mut vm = vm("Always");
        vm.spec.update_volumes_strategy = Some(strategy.into());
        let template = json!({"spec": spec(claim, disk.clone())});
        vm.spec.template = Some(api::wire::read(template).unwrap());
        let mut vmi = vmi(phase);
        vmi.spec = api::wire::read(spec("data", disk)).unwrap();
        let answer = line(restart(&vm, Some(&vmi), &RestartOptions::default()));
        assert!(answer.starts_with(expected), "{strategy} {claim} {phase}: {answer}");
    }
}

/// The VMI of an offline migration is not a run of its VM.
#[test]
fn a_vm_whose_disks_move_offline_starts_behind_that() {
    let mut carrier = vmi("Running");
    let offline = cluster_model::metadata::OFFLINE_MIGRATION;
    carrier.metadata.annotations.insert(offline.to_owned(), "u".to_owned());
    let started = |strategy: &str| line(start(&vm(strategy), Some(&carrier), &StartOptions::default()));
    assert_eq!((started("Halted").as_str(), started("Manual").as_str()), ("{runStrategy:Always}", "Start "));
}
