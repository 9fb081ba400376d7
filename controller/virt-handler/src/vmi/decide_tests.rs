use super::*;
use api::launcher::{AGENT_OFFLINE, Credentials, NO_SPACE, START_FAILED};
use cluster_model::conditions::SYNC_FAILED;
use serde_json::{Value, json};

const UUID: &str = "5d307ca9-b3ef-428c-8861-06e72d69f223";

fn vmi(phase: &str, more: Value) -> VirtualMachineInstance {
    let mut object = json!({
        "metadata": {"name": "a", "namespace": "test", "resourceVersion": "7", "generation": 1},
        "spec": {
            "domain": {"memory": {"guest": "128Mi"}, "firmware": {"uuid": UUID}, "devices": {"disks": [{"name": "data", "disk": {}}]}},
            "volumes": [{"name": "data", "emptyDisk": {"capacity": "1Gi"}}]
        },
        "status": {"phase": phase, "runtimeUser": 107, "conditions": [{"type": "Ready", "status": "False"}]}
    });
    if let (Value::Object(metadata), Value::Object(more)) = (&mut object["metadata"], more) {
        metadata.extend(more);
    }
    api::wire::read(object).unwrap()
}

fn state(life: Life) -> State {
    State {
        number: 3,
        generation: 1,
        life,
        reason: None,
        message: None,
        since: "2026-11-21T10:00:00Z".into(),
        doing: None,
        grace: None,
        qemu_pid: None,
        qemu_started: None,
        frozen: false,
        selinux: None,
        kernel_boot: None,
        agent: false,
        credentials: None,
        receives: false,
        migration: None,
        targets: [("data".to_owned(), "vda".to_owned())].into(),
        sizes: std::collections::BTreeMap::new(),
        links: [].into(),
        phases: Vec::new(),
    }
}

fn speaks(life: Life) -> Launcher {
    Launcher::Speaks(Box::new(state(life)))
}

fn now() -> Now {
    Now { text: "2026-11-21T10:00:40Z".into() }
}

fn seen<'a>(vmi: &'a VirtualMachineInstance, launcher: &'a Launcher) -> DecisionInput<'a> {
    DecisionInput { emulated: true, ..DecisionInput::new(vmi, launcher) }
}

fn phase(plan: &Actions) -> Option<Phase> {
    plan.status.as_ref()?.phase.clone()
}

fn condition(plan: &Actions, kind: &str) -> Option<(String, Option<String>, Option<String>)> {
    let conditions = &plan.status.as_ref()?.conditions;
    let found = conditions.iter().find(|condition| condition.r#type.as_str() == kind)?;
    Some((found.status.clone(), found.reason.clone(), found.message.clone()))
}

#[test]
fn a_link_that_is_not_as_the_spec_says_is_changed() {
    let mut vmi = vmi("Running", json!({}));
    let interfaces = json!([
        {"name": "first", "bridge": {}}, {"name": "second", "bridge": {}, "state": "down"},
        {"name": "gone", "bridge": {}, "state": "absent"}, {"name": "user", "bridge": {}, "state": "down"},
    ]);
    vmi.spec.domain.devices = api::wire::read(json!({"interfaces": interfaces})).unwrap();
    let asked = |vmi: &VirtualMachineInstance, life: Life, links: &[(&str, bool)]| {
        let links = links.iter().map(|(name, up)| ((*name).to_owned(), *up)).collect();
        let launcher = Launcher::Speaks(Box::new(State { links, ..state(life) }));
        decide(&seen(vmi, &launcher), &now()).request
    };
    let link = |name: &str, up| Some(Request::Link { interface: name.into(), up });
    assert_eq!(asked(&vmi, Life::Running, &[("first", true), ("second", true)]), link("second", false));
    assert_eq!(asked(&vmi, Life::Paused, &[("first", false), ("second", true)]), link("first", true));
    assert_eq!(asked(&vmi, Life::Running, &[("first", true), ("second", false), ("gone", true)]), None);
    assert_eq!(asked(&vmi, Life::Running, &[]), None, "an older launcher tells of none");
    assert_eq!(asked(&vmi, Life::Stopping, &[("first", false)]), None);
    vmi.metadata.deletion_timestamp = Some("2026-11-21T10:00:39Z".into());
    let request = asked(&vmi, Life::Running, &[("first", false)]);
    assert!(matches!(request, Some(Request::Shutdown { .. })), "{request:?}");
}

/// A decision on the decided status is empty.
fn is_settled(vmi: &VirtualMachineInstance, launcher: &Launcher, plan: &Actions) {
    let mut after = vmi.clone();
    if let Some(status) = &plan.status {
        after.status = Some((**status).clone());
    }
    let again = decide(&DecisionInput { may_begin: false, ..seen(&after, launcher) }, &now());
    assert_eq!(Actions { request: None, events: Vec::new(), ..again }, Actions::default());
}

#[test]
fn a_vmi_is_handed_over_once_its_launcher_listens() {
    let vmi = vmi("Scheduled", json!({}));
    assert_eq!(decide(&seen(&vmi, &Launcher::NotYet), &now()), Actions::default());
    let empty = speaks(Life::Empty);
    let plan = decide(&seen(&vmi, &empty), &now());
    assert_eq!(plan, Actions { begin: true, ..Actions::default() });
    assert_eq!(decide(&DecisionInput { may_begin: false, ..seen(&vmi, &empty) }, &now()), Actions::default());
}

/// After a restore of etcd, a kubelet may restart a pod whose guest ran once, and may run in another pod by
/// now.
#[test]
fn a_launcher_that_began_anew_under_a_vmi_that_ran_is_handed_nothing() {
    let never = HandOverFailure { message: "the claim a has no disk".into(), hopeless: true };
    let going = json!({"deletionTimestamp": "2026-11-21T10:00:30Z"});
    for (more, trouble) in [(json!({}), None), (json!({}), Some(&never)), (going, None)] {
        let (vmi, empty) = (vmi("Running", more), speaks(Life::Empty));
        let plan = decide(&DecisionInput { trouble, ..seen(&vmi, &empty) }, &now());
        assert_eq!((phase(&plan), plan.begin, &plan.request), (Some(Phase::Failed), false, &None));
        let (status, reason, message) = condition(&plan, "Synchronized").unwrap();
        assert_eq!((status.as_str(), reason.as_deref()), ("False", Some(SYNC_FAILED)));
        assert!(message.unwrap().starts_with("the launcher began anew"));
        is_settled(&vmi, &empty, &plan);
    }
}

#[test]
fn a_phase_that_is_not_ours_is_let_be() {
    for phase in ["", "Pending", "Scheduling", "Succeeded", "Failed", "Unknown", "WaitingForSync"] {
        let vmi = vmi(phase, json!({}));
        for launcher in [Launcher::NotYet, speaks(Life::Empty), speaks(Life::Running), speaks(Life::Failed)] {
            assert_eq!(decide(&seen(&vmi, &launcher), &now()), Actions::default(), "{phase}");
        }
    }
}

#[test]
fn each_life_is_a_phase_and_phases_go_forward_only() {
    for (before, life, after) in [
        ("Scheduled", Life::Preparing, "Scheduled"),
        ("Scheduled", Life::Running, "Running"),
        ("Scheduled", Life::Failed, "Failed"),
        ("Running", Life::Paused, "Running"),
        ("Running", Life::Stopping, "Running"),
        ("Running", Life::Preparing, "Running"),
        ("Running", Life::Succeeded, "Succeeded"),
        ("Running", Life::Failed, "Failed"),
    ] {
        let (vmi, launcher) = (vmi(before, json!({})), speaks(life));
        let plan = decide(&seen(&vmi, &launcher), &now());
        let phase = phase(&plan).unwrap_or_else(|| vmi.status.clone().unwrap().phase.unwrap());
        assert_eq!(phase.as_str(), after, "{before}, {life:?}");
        is_settled(&vmi, &launcher, &plan);
    }
}

#[test]
fn a_vmi_that_runs_is_told_with_all_that_is_ours() {
    let (vmi, launcher) = (vmi("Scheduled", json!({})), speaks(Life::Running));
    let plan = decide(&seen(&vmi, &launcher), &now());
    let status = api::wire::Wire::write(&**plan.status.as_ref().unwrap());
    assert_eq!(
        status,
        json!({
            "migrationMethod": "BlockMigration", "phase": "Running", "runtimeUser": 107,
            "phaseTransitionTimestamps": [
                {"phase": "Running", "phaseTransitionTimestamp": "2026-11-21T10:00:40Z"}
            ],
            "conditions": [
                {"type": "Ready", "status": "False"},
                {"type": "LiveMigratable", "status": "True", "lastTransitionTime": "2026-11-21T10:00:40Z"},
                {"type": "SoftwareEmulation", "status": "True", "reason": "NoKvm",
                 "message": "the guest's processors are emulated: this is slow",
                 "lastTransitionTime": "2026-11-21T10:00:40Z"}
            ],
            "volumeStatus": [{"name": "data", "target": "vda"}],
            "currentCPUTopology": {"cores": 1, "sockets": 1, "threads": 1},
            "memory": {"guestAtBoot": "128Mi", "guestCurrent": "128Mi", "guestRequested": "128Mi"}
        })
    );
    assert_eq!(plan.events, [Event::normal("Started", "VirtualMachineInstance started.")]);
}

#[test]
fn what_a_launcher_finds_is_told_with_a_vmi_that_runs() {
    let mut of_launcher = state(Life::Running);
    of_launcher.frozen = true;
    of_launcher.selinux = Some("system_u:system_r:container_t:s0:c1,c2".to_owned());
    of_launcher.kernel_boot = Some(api::launcher::KernelChecksums { kernel: 7, initrd: Some(8) });
    let launcher = |state: &State| Launcher::Speaks(Box::new(state.clone()));
    let mut vmi = vmi("Running", json!({}));
    // virt-controller has written its part of the memory before.
    let overhead = api::quantity::Quantity::of_bytes(1 << 20);
    let memory = api::vmi::MemoryStatus { memory_overhead: Some(overhead), ..Default::default() };
    vmi.status.as_mut().unwrap().memory = Some(memory);
    let status = *decide(&seen(&vmi, &launcher(&of_launcher)), &now()).status.unwrap();
    let told = api::wire::Wire::write(&status);
    assert_eq!(told["fsFreezeStatus"], "frozen");
    assert_eq!(told["selinuxContext"], "system_u:system_r:container_t:s0:c1,c2");
    assert_eq!(
        told["kernelBootStatus"],
        json!({"kernelInfo": {"checksum": 7}, "initrdInfo": {"checksum": 8}})
    );
    let wanted = json!({"guestAtBoot": "128Mi", "guestCurrent": "128Mi", "guestRequested": "128Mi", "memoryOverhead": "1048576"});
    assert_eq!(told["memory"], wanted);
    // The API server's policy refuses a change of any other field.
    let before = api::wire::Wire::write(vmi.status.as_ref().unwrap());
    for (field, _) in
        told.as_object().unwrap().iter().filter(|(field, value)| before.get(field) != Some(value))
    {
        assert!(cluster_model::objects::HANDLER_STATUS_FIELDS.contains(&field.as_str()), "{field}");
    }
    // Thawed file systems have no value.
    vmi.status = Some(status);
    of_launcher.frozen = false;
    let status = decide(&seen(&vmi, &launcher(&of_launcher)), &now()).status.unwrap();
    assert_eq!(status.fs_freeze_status, None);
}

#[test]
fn a_vmi_with_a_device_of_its_node_says_why_it_stays_there() {
    let (mut vmi, launcher) = (vmi("Scheduled", json!({})), speaks(Life::Running));
    vmi.spec.domain.devices.gpus =
        vec![api::vmi::Gpu { name: "g".into(), device_name: Some("v.io/gpu".into()), ..Default::default() }];
    let plan = decide(&seen(&vmi, &launcher), &now());
    let status = api::wire::Wire::write(&**plan.status.as_ref().unwrap());
    let conditions = status["conditions"].as_array().unwrap();
    let said = conditions.iter().find(|condition| condition["type"] == "LiveMigratable").unwrap();
    assert_eq!(said["reason"], "HostDeviceNotLiveMigratable");
}

#[test]
fn a_deletion_asks_for_the_end_within_the_grace_period() {
    let deleted = |life| {
        let vmi = vmi("Running", json!({"deletionTimestamp": "2026-11-21T10:00:30Z"}));
        decide(&seen(&vmi, &speaks(life)), &now()).request
    };
    assert_eq!(deleted(Life::Running), Some(Request::Shutdown { grace: Some(30) }));
    assert_eq!(deleted(Life::Paused), Some(Request::Shutdown { grace: Some(30) }));
    for life in [Life::Succeeded, Life::Failed] {
        assert_eq!(deleted(life), None, "{life:?}");
    }
    let vmi = vmi("Scheduled", json!({"deletionTimestamp": "2026-11-21T10:00:30Z"}));
    let plan = decide(&seen(&vmi, &speaks(Life::Empty)), &now());
    assert_eq!((phase(&plan), plan.begin), (Some(Phase::Failed), false));
}

/// Neither a virt-handler that was away nor a changed clock shortens the guest's time: only the spec does.
#[test]
fn a_clock_that_jumps_by_ten_minutes_and_a_late_virt_handler_cut_no_guest_off() {
    let times = ["10:00:31", "10:00:30", "10:01:01", "10:10:30", "09:50:30", "23:59:59"];
    for (seconds, told) in [(None, 30), (Some(900), 900), (Some(1), 1), (Some(0), 0)] {
        let mut vmi = vmi("Running", json!({"deletionTimestamp": "2026-11-21T10:00:30Z"}));
        vmi.spec.termination_grace_period_seconds = seconds;
        for time in times {
            let now = Now { text: format!("2026-11-21T{time}Z") };
            let asked = decide(&seen(&vmi, &speaks(Life::Running)), &now).request;
            assert_eq!(asked, Some(Request::Shutdown { grace: Some(told) }), "{seconds:?} at {time}");
        }
    }
}

#[test]
fn a_stop_by_force_cuts_off_a_guest_that_is_ending() {
    let mut vmi = vmi("Running", json!({"deletionTimestamp": "2026-11-21T10:00:30Z"}));
    // The grace period that the launcher reports, and the one that this virt-handler remembers.
    let asked = |vmi: &VirtualMachineInstance, says: Option<u64>, remembers: Option<u64>| {
        let stopping = Launcher::Speaks(Box::new(State { grace: says, ..state(Life::Stopping) }));
        let plan = decide(&DecisionInput { told_grace: remembers, ..seen(vmi, &stopping) }, &now());
        assert!(plan.events.iter().all(|event| event.reason != SHUTTING_DOWN), "it was signaled before");
        plan.request
    };
    let tells = |grace| Some(Request::Shutdown { grace: Some(grace) });
    for seconds in [0, 15, 899] {
        vmi.spec.termination_grace_period_seconds = Some(seconds);
        let seconds = u64::try_from(seconds).unwrap();
        assert_eq!(
            asked(&vmi, Some(900), None),
            tells(seconds),
            "another virt-handler has told it the old one"
        );
        assert_eq!(asked(&vmi, None, Some(900)), tells(seconds), "an older launcher does not say");
        assert_eq!(asked(&vmi, None, None), tells(seconds), "nobody knows what it was told");
        assert_eq!(asked(&vmi, Some(seconds), None), None, "once");
        assert_eq!(asked(&vmi, None, Some(seconds)), None, "once");
        assert_eq!(
            asked(&vmi, Some(900), Some(seconds)),
            None,
            "a launcher that does not do it is not told for ever"
        );
    }
    vmi.spec.termination_grace_period_seconds = Some(1000);
    assert_eq!(asked(&vmi, Some(900), None), None, "no guest is given longer");
    assert_eq!(asked(&vmi, None, Some(900)), None);
}

#[test]
fn a_launcher_that_is_gone_is_judged_by_its_last_words() {
    for (last, after, said) in [
        (None, Phase::Failed, "the launcher ended before the VMI did: OOMKilled, exit code 137"),
        (Some(Life::Running), Phase::Failed, "the launcher ended"),
        (Some(Life::Succeeded), Phase::Succeeded, ""),
        (Some(Life::Failed), Phase::Failed, "QEMU ended by itself"),
    ] {
        let vmi = vmi("Running", json!({}));
        let last = last.map(|life| {
            let message = (life == Life::Failed).then(|| "QEMU ended by itself".to_owned());
            Box::new(State { message, ..state(life) })
        });
        let gone = Launcher::Gone { last, why: Some("OOMKilled, exit code 137".into()) };
        let plan = decide(&seen(&vmi, &gone), &now());
        assert_eq!(phase(&plan), Some(after));
        let message =
            condition(&plan, "Synchronized").and_then(|(_, _, message)| message).unwrap_or_default();
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn a_vmi_that_cannot_start_says_why() {
    let (vmi, empty) = (vmi("Scheduled", json!({})), speaks(Life::Empty));
    let trouble = |hopeless| HandOverFailure { message: "the claim a has no disk".into(), hopeless };
    let (later, never) = (trouble(false), trouble(true));
    let plan =
        decide(&DecisionInput { trouble: Some(&later), may_begin: false, ..seen(&vmi, &empty) }, &now());
    assert_eq!(phase(&plan), Some(Phase::Scheduled));
    assert_eq!(condition(&plan, "Synchronized").unwrap().2.unwrap(), "the claim a has no disk");
    assert_eq!(plan.events, [Event::warning("SyncFailed", "the claim a has no disk")]);

    let plan = decide(&DecisionInput { trouble: Some(&never), ..seen(&vmi, &empty) }, &now());
    assert_eq!(phase(&plan), Some(Phase::Failed));
    assert_eq!(condition(&plan, "Synchronized").unwrap().2.unwrap(), "the claim a has no disk");

    let failed = State {
        message: Some("no such disk".into()),
        reason: Some(START_FAILED.into()),
        ..state(Life::Failed)
    };
    let plan = decide(&seen(&vmi, &Launcher::Speaks(Box::new(failed))), &now());
    assert_eq!(condition(&plan, "Synchronized").unwrap().2.unwrap(), "no such disk");
}

/// The launcher retries the start itself.
#[test]
fn a_start_that_waits_for_room_is_told_and_has_not_failed() {
    let vmi = vmi("Scheduled", json!({}));
    let said = "cannot make the disk /r/data.qcow2: No space left on device";
    let why = &format!("{said}; the start is tried again until there is space");
    let waits = State { reason: Some(NO_SPACE.into()), message: Some(said.into()), ..state(Life::Preparing) };
    let waits = Launcher::Speaks(Box::new(waits));
    let plan = decide(&seen(&vmi, &waits), &now());
    assert_eq!((phase(&plan), plan.begin, &plan.request), (Some(Phase::Scheduled), false, &None));
    let told = ("False".to_owned(), Some(SYNC_FAILED.to_owned()), Some(why.clone()));
    assert_eq!(condition(&plan, "Synchronized"), Some(told));
    assert_eq!(plan.events, [Event::warning("SyncFailed", why)]);

    let mut told = vmi.clone();
    told.status = plan.status.map(|status| *status);
    assert_eq!(decide(&seen(&told, &waits), &now()), Actions::default(), "it is told once");
    let plan = decide(&seen(&told, &speaks(Life::Running)), &now());
    assert_eq!((phase(&plan), condition(&plan, "Synchronized")), (Some(Phase::Running), None));
    told.metadata.deletion_timestamp = Some("2026-11-21T10:00:30Z".into());
    let plan = decide(&seen(&told, &waits), &now());
    assert_eq!(plan.request, Some(Request::Shutdown { grace: Some(30) }), "the launcher is asked to end");
}

#[test]
fn a_pause_comes_and_goes_and_the_agent_too() {
    let vmi = vmi("Running", json!({}));
    let paused =
        State { reason: Some("PausedIOError".into()), message: Some("full".into()), ..state(Life::Paused) };
    let paused = Launcher::Speaks(Box::new(paused));
    let plan = decide(&seen(&vmi, &paused), &now());
    assert_eq!(
        condition(&plan, "Paused").unwrap(),
        ("True".into(), Some("PausedIOError".into()), Some("full".into()))
    );
    let mut after = vmi.clone();
    after.status = plan.status.map(|status| *status);
    let agent = Launcher::Speaks(Box::new(State { agent: true, ..state(Life::Running) }));
    let info: GuestInfo = serde_json::from_value(json!({
        "os": {"id": "debian", "pretty-name": "Debian"},
        "interfaces": [{"name": "lo", "ips": ["127.0.0.1"]}, {"name": "eth0", "mac": "52:54:00:00:00:01", "ips": ["10.0.2.2"]}]
    }))
    .unwrap();
    let plan = decide(&DecisionInput { guest: Some(&info), ..seen(&after, &agent) }, &now());
    assert_eq!(condition(&plan, "Paused"), None);
    assert_eq!(condition(&plan, "AgentConnected").unwrap().0, "True");
    let status = plan.status.unwrap();
    assert_eq!(status.guest_os_info.as_ref().unwrap().pretty_name.as_deref(), Some("Debian"));
    assert_eq!(status.interfaces.len(), 1);
    assert_eq!(status.interfaces[0].ip_address.as_deref(), Some("10.0.2.2"));
    after.status = Some(*status);
    let again = decide(&DecisionInput { guest: Some(&info), ..seen(&after, &agent) }, &now());
    assert_eq!(again, Actions::default());
    let plan = decide(&seen(&after, &speaks(Life::Running)), &now());
    assert_eq!(plan.status.unwrap().interfaces, []);
}

#[test]
fn keys_and_passwords_are_told_as_the_launcher_has_them() {
    let vmi = vmi("Running", json!({}));
    let with = |synchronized, reason: &str, message: &str| {
        let (reason, message) = (reason.to_owned(), message.to_owned());
        let credentials = Some(Credentials { synchronized, reason, message });
        Launcher::Speaks(Box::new(State { credentials, agent: true, ..state(Life::Running) }))
    };
    const KIND: &str = "AccessCredentialsSynchronized";
    let none = decide(&seen(&vmi, &speaks(Life::Running)), &now());
    assert_eq!(condition(&none, KIND), None);
    let mut after = vmi.clone();
    let steps = [
        (with(false, AGENT_OFFLINE, "Guest agent is offline"), "False", None),
        (
            with(false, "GuestAgentFailed", "no such user"),
            "False",
            Some("Access credentials sync failed: no such user"),
        ),
        (with(true, "", ""), "True", Some("Access credentials sync successful.")),
    ];
    for (launcher, is, event) in steps {
        let plan = decide(&seen(&after, &launcher), &now());
        assert_eq!(condition(&plan, KIND).unwrap().0, is);
        let told = plan.events.iter().find(|event| event.reason.starts_with("AccessCredentialsSync"));
        assert_eq!(told.map(|event| event.message.as_str()), event);
        after.status = plan.status.map(|status| *status);
        assert_eq!(decide(&seen(&after, &launcher), &now()), Actions::default());
    }
}

#[test]
fn a_guest_agent_that_lacks_commands_is_told() {
    let vmi = vmi("Running", json!({}));
    let agent = Launcher::Speaks(Box::new(State { agent: true, ..state(Life::Running) }));
    const KIND: &str = "AgentVersionNotSupported";
    let old: GuestInfo =
        serde_json::from_value(json!({"commands": [{"name": "guest-ping", "enabled": true}]})).unwrap();
    let plan = decide(&DecisionInput { guest: Some(&old), ..seen(&vmi, &agent) }, &now());
    let (is, reason, message) = condition(&plan, KIND).unwrap();
    assert_eq!(
        (is.as_str(), reason.as_deref()),
        ("True", Some("This guest agent doesn't support required basic commands"))
    );
    assert!(message.unwrap().contains("guest-get-osinfo"));
    let mut after = vmi.clone();
    after.status = plan.status.map(|status| *status);
    // Another virt-handler has not queried the agent yet.
    let plan = decide(&seen(&after, &agent), &now());
    assert!(plan.status.is_none() || condition(&plan, KIND).is_some());
    let plan = decide(&seen(&after, &speaks(Life::Running)), &now());
    assert_eq!(condition(&plan, KIND), None, "there is no guest agent");
}

#[test]
fn a_vmi_that_runs_is_told_with_the_addresses_of_its_pod() {
    let spec: Vec<InterfaceStatus> = vec![
        api::wire::read(json!({"name": "default", "mac": "02:00:00:00:00:01", "ipAddress": "10.1.0.7", "ipAddresses": ["10.1.0.7"]}))
            .unwrap(),
    ];
    let (vmi, running) = (vmi("Scheduled", json!({})), speaks(Life::Running));
    let plan = decide(&DecisionInput { interfaces: &spec, ..seen(&vmi, &running) }, &now());
    let status = plan.status.unwrap();
    assert_eq!(status.interfaces.len(), 1);
    assert_eq!(status.interfaces[0].ip_address.as_deref(), Some("10.1.0.7"));
    assert_eq!(status.interfaces[0].info_source.as_deref(), Some("domain"));
    // A new keeper that has not made the links itself removes no information.
    let mut after = vmi.clone();
    after.status = Some(*status);
    let unknown: Vec<InterfaceStatus> = vec![api::wire::read(json!({"name": "default"})).unwrap()];
    let again =
        decide(&DecisionInput { interfaces: &unknown, may_begin: false, ..seen(&after, &running) }, &now());
    assert_eq!(again, Actions::default());
}

#[path = "status_tests.rs"]
mod status_tests;

/// A VMI that runs on node1 and migrates to node2.
fn migrating(more: Value) -> VirtualMachineInstance {
    let mut vmi = vmi("Running", json!({}));
    let mut state = json!({
        "migrationUid": "m", "sourceNode": "node1", "sourcePod": "s", "targetNode": "node2", "targetPod": "t",
    });
    if let (Value::Object(state), Value::Object(more)) = (&mut state, more) {
        state.extend(more);
    }
    let status = vmi.status.as_mut().unwrap();
    status.node_name = Some("node1".into());
    status.migration_state = Some(api::wire::read(state).unwrap());
    vmi
}

/// The launcher says this of migration `m`.
fn migrates(life: Life, reason: Option<&str>, phase: api::launcher::MigrationPhase) -> Launcher {
    let migration = api::launcher::Migration { id: "m".into(), phase, ..Default::default() };
    let reason = reason.map(str::to_owned);
    Launcher::Speaks(Box::new(State { reason, migration: Some(migration), ..state(life) }))
}

#[test]
fn a_guest_that_has_gone_ends_its_vmi_neither_by_its_launcher_nor_by_the_end_of_that() {
    use api::launcher::{MIGRATED, MIGRATION_UNKNOWN, MigrationPhase};
    for (life, reason, told) in [
        (Life::Succeeded, MIGRATED, MigrationPhase::Succeeded),
        (Life::Failed, MIGRATION_UNKNOWN, MigrationPhase::Unknown),
    ] {
        let vmi = migrating(json!({}));
        let Launcher::Speaks(last) = migrates(life, Some(reason), told) else { unreachable!() };
        let gone = Launcher::Gone { last: Some(last.clone()), why: None };
        for launcher in [Launcher::Speaks(last), gone] {
            let plan = decide(&seen(&vmi, &launcher), &now());
            assert_eq!(phase(&plan), Some(Phase::Running), "{reason}");
            let told = plan.status.unwrap().migration_state.unwrap();
            assert!(told.end_timestamp.is_some() && told.completed.is_none(), "{reason}");
            assert_eq!(plan.events, [], "{reason}");
        }
    }
    let silent = Launcher::Gone { last: None, why: Some("killed".into()) };
    assert_eq!(decide(&seen(&migrating(json!({})), &silent), &now()), Actions::default(), "both ends decide");
    let over = migrating(json!({"completed": true}));
    assert_eq!(phase(&decide(&seen(&over, &silent), &now())), Some(Phase::Failed));
    let other = migrating(json!({"migrationUid": "another"}));
    let plan =
        decide(&seen(&other, &migrates(Life::Succeeded, Some(MIGRATED), MigrationPhase::Succeeded)), &now());
    assert_eq!(phase(&plan), Some(Phase::Succeeded), "its guest is nowhere else");
}

#[test]
fn a_vmi_that_migrates_to_the_node_is_handed_over_and_nothing_but_its_migration_is_written() {
    let vmi = migrating(json!({}));
    fn target<'a>(vmi: &'a VirtualMachineInstance, launcher: &'a Launcher) -> DecisionInput<'a> {
        DecisionInput { role: Role::Target, ..seen(vmi, launcher) }
    }
    let empty = speaks(Life::Empty);
    assert_eq!(decide(&target(&vmi, &empty), &now()), Actions { begin: true, ..Actions::default() });
    let waits = DecisionInput { may_begin: false, ..target(&vmi, &empty) };
    assert_eq!(decide(&waits, &now()), Actions::default());
    let never = HandOverFailure { message: "the claim a has no disk".into(), hopeless: true };
    let plan = decide(&DecisionInput { trouble: Some(&never), ..target(&vmi, &empty) }, &now());
    assert!(!plan.begin);
    let told = plan.status.unwrap().migration_state.unwrap();
    assert_eq!(told.target_failure_reason, Some(never.message));
    for life in [Life::Preparing, Life::Failed] {
        let launcher = speaks(life);
        assert_eq!(decide(&target(&vmi, &launcher), &now()), Actions::default(), "{life:?}");
    }
    let gone = Launcher::Gone { last: None, why: Some("killed".into()) };
    assert_eq!(decide(&target(&vmi, &gone), &now()), Actions::default());
    let launcher = speaks(Life::Running);
    let plan = decide(&target(&vmi, &launcher), &now());
    let status = plan.status.unwrap();
    assert_eq!(status.migration_state.as_ref().unwrap().target_node_domain_detected, Some(true));
    let old = vmi.status.clone().unwrap();
    assert_eq!(Status { migration_state: old.migration_state.clone(), ..*status }, old);
}
