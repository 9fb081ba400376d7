use super::*;
use api::launcher::{Ending, Life};
use serde_json::{Value, json};

const NOW: &str = "2026-12-01T10:00:00Z";

fn status(more: Value) -> Status {
    let mut state = json!({
        "migrationUid": "m", "sourceNode": "node1", "sourcePod": "s", "targetNode": "node2", "targetPod": "t",
    });
    if let (Value::Object(state), Value::Object(more)) = (&mut state, more) {
        state.extend(more);
    }
    api::wire::read(json!({"nodeName": "node1", "phase": "Running", "migrationState": state})).unwrap()
}

/// The target is ready for the certificate `own`.
fn ready() -> Value {
    json!({
        "sourceCertificate": "own", "targetCertificate": "its", "targetNodeAddress": "10.0.0.2",
        "targetDirectMigrationNodePorts": {"41": 0, "42": 49152, "43": 49153},
    })
}

fn with(mut ready: Value, more: Value) -> Value {
    if let (Value::Object(ready), Value::Object(more)) = (&mut ready, more) {
        ready.extend(more);
    }
    ready
}

fn launcher(life: Life) -> launcher::State {
    launcher::State { life, ..launcher::State::default() }
}

fn telling(phase: MigrationPhase) -> launcher::State {
    let migration = Migration {
        id: "m".into(),
        phase,
        started: "2026-12-01T09:59:00Z".into(),
        ended: (phase != MigrationPhase::Running).then(|| "2026-12-01T09:59:30Z".into()),
        message: (phase == MigrationPhase::Failed).then(|| "no way".into()),
        ..Migration::default()
    };
    launcher::State { migration: Some(migration), ..launcher(Life::Running) }
}

fn machine() -> Option<Machine> {
    let vmi = json!({
        "metadata": {"name": "a", "namespace": "n"},
        "spec": {
            "domain": {
                "memory": {"guest": "64Mi"}, "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                "devices": {"disks": [{"name": "root", "disk": {}}, {"name": "data", "disk": {}}]},
            },
            "volumes": [
                {"name": "root", "containerDisk": {"image": "r/a:1"}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            ],
        },
    });
    Machine::check_again(&api::wire::read(vmi).unwrap()).ok()
}

fn end(stage: Stage) -> MigrationEnd {
    MigrationEnd::new("m", "own".into(), stage)
}

fn next(more: Value, launcher: &launcher::State, end: Option<&MigrationEnd>) -> Option<Next> {
    next_of_source(&status(more), machine, launcher, end, None)
}

#[test]
fn a_source_announces_itself_and_orders_once_the_target_is_ready_for_it() {
    let runs = launcher(Life::Running);
    assert_eq!(next(json!({}), &runs, None), Some(Next::Announce("m".into())));
    let announced = end(Stage::Announced);
    assert_eq!(next(json!({}), &runs, Some(&announced)), None, "the target is waited for");
    let Some(Next::Order(order)) = next(ready(), &runs, Some(&announced)) else { panic!("no order") };
    assert_eq!((order.address.as_str(), order.peer.as_str()), ("10.0.0.2", "its"));
    assert_eq!((order.copied_disks, order.whole_disks), (vec!["root".to_owned()], true));
    assert_eq!((order.limits.progress_seconds, order.limits.completion_seconds_per_gib), (150, 150));
    let mut moves = status(ready());
    // The PVC of EFI variables and the TPM is no disk.
    let names = ["data", "persistent-state-for-a-x7k2p"];
    moves.migrated_volumes = names.map(|name| api::wire::read(json!({"volumeName": name})).unwrap()).to_vec();
    let Some(Next::Order(order)) = next_of_source(&moves, machine, &runs, Some(&announced), None) else {
        panic!("no order")
    };
    assert_eq!(order.copied_disks, ["root", "data"], "as virt-controller has decided");
    let other = with(ready(), json!({"sourceCertificate": "of an earlier virt-handler"}));
    assert_eq!(next(other, &runs, Some(&announced)), None, "the target would refuse it");
    assert_eq!(next(ready(), &runs, Some(&end(Stage::Ordered))), None);
    assert_eq!(next(ready(), &runs, Some(&end(Stage::Refused("x".into())))), None);
    assert_eq!(next(ready(), &telling(MigrationPhase::Running), Some(&announced)), None, "it runs already");
    for over in [json!({"completed": true}), json!({"endTimestamp": NOW}), json!({"sourceNode": "node9"})] {
        assert_eq!(next(with(ready(), over), &runs, None), None);
    }
}

#[test]
fn an_abort_is_asked_of_the_launcher_once_and_ends_a_migration_that_did_not_begin() {
    let abort = || with(ready(), json!({"abortRequested": true}));
    let runs = telling(MigrationPhase::Running);
    assert_eq!(next(abort(), &runs, Some(&end(Stage::Ordered))), Some(Next::Abort("m".into())));
    assert_eq!(
        next(abort(), &runs, None),
        Some(Next::Abort("m".into())),
        "an earlier virt-handler ordered it"
    );
    let again = |end| next_of_source(&status(abort()), machine, &runs, end, Some("m"));
    assert_eq!((again(Some(&end(Stage::Ordered))), again(None)), (None, None));
    assert_eq!(next(abort(), &launcher(Life::Running), Some(&end(Stage::Announced))), None);
    let told = source_state(&status(abort()), Some(&launcher(Life::Running)), None, NOW).unwrap();
    assert_eq!((told.completed, told.failed), (Some(true), Some(true)));
    assert_eq!(told.abort_status, Some(AbortStatus::Succeeded));
    assert_eq!(told.failure_reason.as_deref(), Some(ABORTED));
    let left =
        |reason: &str| Ending { life: Life::Succeeded, reason: Some(reason.into()), message: None }.state();
    for last in [None, Some(left(launcher::MIGRATED)), Some(left(launcher::MIGRATION_UNKNOWN))] {
        let unknown = source_state(&status(abort()), last.as_ref(), None, NOW);
        assert_eq!(
            unknown,
            status(abort()).migration_state,
            "the guest may have left a launcher that is gone"
        );
    }
}

#[test]
fn a_source_writes_begin_progress_and_end_and_leaves_the_arrival_to_virt_controller() {
    let told = |phase, more| source_state(&status(more), Some(&telling(phase)), None, NOW).unwrap();
    let running = told(MigrationPhase::Running, ready());
    assert_eq!(running.start_timestamp.as_deref(), Some("2026-12-01T09:59:00Z"));
    assert_eq!((running.mode, running.end_timestamp), (Some(MigrationMode::PreCopy), None));
    for phase in [MigrationPhase::Succeeded, MigrationPhase::Unknown] {
        let gone = told(phase, ready());
        assert_eq!(gone.end_timestamp.as_deref(), Some("2026-12-01T09:59:30Z"));
        assert_eq!((gone.completed, gone.failed), (None, None), "{phase:?}");
    }
    let failed = told(MigrationPhase::Failed, ready());
    assert_eq!((failed.completed, failed.failed), (Some(true), Some(true)));
    assert_eq!(failed.failure_reason.as_deref(), Some("no way"));
    let aborted = told(MigrationPhase::Aborted, with(ready(), json!({"abortRequested": true})));
    assert_eq!((aborted.failed, aborted.abort_status), (Some(true), Some(AbortStatus::Succeeded)));
    let late = told(MigrationPhase::Succeeded, with(ready(), json!({"abortRequested": true})));
    assert_eq!(late.abort_status, Some(AbortStatus::Failed), "it had gone already");
    let limit = source_state(
        &status(json!({"abortStatus": "Aborting"})),
        Some(&telling(MigrationPhase::Failed)),
        None,
        NOW,
    );
    assert_eq!(limit.unwrap().abort_status, Some(AbortStatus::Succeeded), "a limit was over");
    let refused = end(Stage::Refused("no tunnel".into()));
    let told = source_state(&status(ready()), Some(&launcher(Life::Running)), Some(&refused), NOW).unwrap();
    assert_eq!(told.failure_reason.as_deref(), Some("no tunnel"));
    assert_eq!(told.source_certificate.as_deref(), Some("own"));
    let foreign = with(ready(), json!({"migrationUid": "another"}));
    let told = source_state(&status(foreign.clone()), Some(&telling(MigrationPhase::Failed)), None, NOW);
    assert_eq!(told, status(foreign).migration_state, "an earlier migration of the launcher");
}

#[test]
fn progress_is_written_each_ten_seconds_and_at_the_end() {
    let telling = |remaining: u64, phase| {
        let mut state = telling(phase);
        if let Some(told) = &mut state.migration {
            (told.progress.total, told.progress.remaining) = (200, remaining);
        }
        state
    };
    let percent = |end: &MigrationEnd| end.progress.as_ref().and_then(|(_, progress)| progress.percent);
    let (mut end, begin) = (end(Stage::Ordered), Instant::now());
    end.hear(&launcher(Life::Running), begin);
    assert_eq!(percent(&end), None);
    end.hear(&telling(150, MigrationPhase::Running), begin);
    end.hear(&telling(100, MigrationPhase::Running), begin + Duration::from_secs(9));
    assert_eq!(percent(&end), Some(25));
    end.hear(&telling(50, MigrationPhase::Running), begin + Duration::from_secs(10));
    assert_eq!(percent(&end), Some(75));
    end.hear(&telling(0, MigrationPhase::Succeeded), begin + Duration::from_secs(11));
    assert_eq!(percent(&end), Some(100));
}

#[test]
fn a_target_opens_when_its_launcher_receives_and_again_for_another_source() {
    let announced = || json!({"sourceCertificate": "of source"});
    let receives = launcher::State { receives: true, ..launcher(Life::Preparing) };
    let next = |more, launcher: &launcher::State, end: Option<&MigrationEnd>| {
        next_of_target(&status(more), launcher, end)
    };
    let open = || Some(Next::Open { uid: "m".into(), source: "of source".into() });
    assert_eq!(next(json!({}), &receives, None), None, "the source is not known yet");
    assert_eq!(next(announced(), &launcher(Life::Preparing), None), None);
    assert_eq!(next(announced(), &receives, None), open());
    let stage = |expects: &str| Stage::Open {
        address: "10.0.0.2".into(),
        ports: [("41".to_owned(), 0)].into(),
        expects: expects.into(),
    };
    assert_eq!(next(announced(), &receives, Some(&end(stage("of source")))), None);
    assert_eq!(next(announced(), &receives, Some(&end(stage("of an earlier one")))), open());
    let told = target_state(&status(announced()), Some(&receives), Some(&end(stage("of source"))), None, NOW)
        .unwrap();
    assert_eq!(told.target_certificate.as_deref(), Some("own"));
    assert_eq!(told.target_node_address.as_deref(), Some("10.0.0.2"));
    assert_eq!((told.target_node_domain_detected, told.target_node_domain_ready_timestamp), (None, None));
    for life in [Life::Running, Life::Paused] {
        let told = target_state(&status(announced()), Some(&launcher(life)), None, None, NOW).unwrap();
        assert_eq!(told.target_node_domain_detected, Some(true));
        assert_eq!(told.target_node_domain_ready_timestamp.as_deref(), Some(NOW));
    }
    let mut held = launcher(Life::Paused);
    held.reason = Some(launcher::AWAITS_RELEASE.to_owned());
    let told = target_state(&status(announced()), Some(&held), None, None, NOW).unwrap();
    assert_eq!(
        (told.target_node_domain_detected, told.target_node_domain_ready_timestamp),
        (Some(true), None)
    );
}

#[test]
fn a_guest_has_moved_where_its_launcher_says_so_of_the_migration_in_the_status() {
    let gone = |reason: &str, phase| {
        let mut state = telling(phase);
        (state.life, state.reason) = (Life::Succeeded, Some(reason.to_owned()));
        state
    };
    let here = status(json!({}));
    assert!(has_moved(&here, &gone(launcher::MIGRATED, MigrationPhase::Succeeded)));
    assert!(has_moved(&here, &gone(launcher::MIGRATION_UNKNOWN, MigrationPhase::Unknown)));
    assert!(!has_moved(&here, &gone("Shutdown", MigrationPhase::Failed)));
    let other = status(json!({"migrationUid": "another"}));
    assert!(!has_moved(&other, &gone(launcher::MIGRATED, MigrationPhase::Succeeded)));
    // Of a pod whose folders the kubelet has removed, the termination message is left.
    for (change, reason, expected) in [
        (json!({}), launcher::MIGRATED, true),
        (json!({}), launcher::MIGRATION_UNKNOWN, true),
        (json!({}), "Shutdown", false),
        (json!({"completed": true}), launcher::MIGRATED, false),
        (json!({"sourceNode": "another"}), launcher::MIGRATED, false),
    ] {
        let ending = Ending { life: Life::Succeeded, reason: Some(reason.to_owned()), message: None };
        assert_eq!(has_moved(&status(change.clone()), &ending.state()), expected, "{change} {reason}");
    }
}

fn closed(why: &str) -> Findings {
    Findings { failure: Some(why.to_owned()), is_closed: true }
}

fn broken(why: &str) -> Findings {
    Findings { failure: Some(why.to_owned()), is_closed: false }
}

#[test]
fn a_source_tells_what_its_connections_know_behind_what_libvirt_says() {
    let why = "the target node 10.0.0.2:42 has another certificate than the VMI's targetCertificate";
    let ordered = MigrationEnd { findings: broken(why), ..end(Stage::Ordered) };
    let told = |phase, end: &MigrationEnd| {
        source_state(&status(ready()), Some(&telling(phase)), Some(end), NOW).unwrap().failure_reason
    };
    assert_eq!(told(MigrationPhase::Failed, &ordered), Some(format!("no way; {why}")));
    assert_eq!(told(MigrationPhase::Failed, &end(Stage::Ordered)).as_deref(), Some("no way"));
    assert_eq!(told(MigrationPhase::Succeeded, &ordered), None, "its connections ended with it");
    assert_eq!(told(MigrationPhase::Aborted, &ordered).as_deref(), Some(ABORTED));
    let of_another = MigrationEnd { uid: "another".into(), ..ordered };
    assert_eq!(told(MigrationPhase::Failed, &of_another).as_deref(), Some("no way"));
}

#[test]
fn an_abort_keeps_the_reason_that_virt_controller_has_for_it() {
    let late = || json!({"abortRequested": true, "failureReason": "The migration waited 360 s"});
    let told = |launcher: &launcher::State| {
        source_state(&status(with(ready(), late())), Some(launcher), None, NOW).unwrap()
    };
    for launcher in [launcher(Life::Running), telling(MigrationPhase::Aborted)] {
        let told = told(&launcher);
        assert_eq!((told.failed, told.abort_status), (Some(true), Some(AbortStatus::Succeeded)));
        assert_eq!(told.failure_reason.as_deref(), Some("The migration waited 360 s"));
    }
    assert_eq!(told(&telling(MigrationPhase::Failed)).failure_reason.as_deref(), Some("no way"));
}

#[test]
fn a_target_gives_up_once_no_source_can_come_any_more_and_it_has_no_guest() {
    let why = "the source did not connect within 300 s";
    let stage = || Stage::Open { address: "10.0.0.2".into(), ports: BTreeMap::new(), expects: "x".into() };
    let told = |launcher: &launcher::State, findings, trouble| {
        let end = MigrationEnd { findings, ..end(stage()) };
        target_state(&status(json!({})), Some(launcher), Some(&end), trouble, NOW)
            .unwrap()
            .target_failure_reason
    };
    let receives = launcher::State { receives: true, ..launcher(Life::Preparing) };
    assert_eq!(told(&receives, closed(why), None).as_deref(), Some(why));
    assert_eq!(told(&receives, broken(why), None), None, "a stream broke: the source tells the end");
    assert_eq!(told(&launcher(Life::Running), closed(why), None), None);
    assert_eq!(told(&launcher(Life::Preparing), closed(why), None), None, "its reception has ended");
    assert_eq!(told(&launcher(Life::Empty), Findings::default(), Some("no")).as_deref(), Some("no"));
    let other = MigrationEnd { uid: "another".into(), findings: closed(why), ..end(stage()) };
    let told = target_state(&status(json!({})), Some(&receives), Some(&other), None, NOW).unwrap();
    assert_eq!(told.target_failure_reason, None);
}
