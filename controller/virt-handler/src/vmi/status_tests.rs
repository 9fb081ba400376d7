//! The status that a decision writes, and the events that go with it.

use super::*;
use cluster_model::conditions::OF_CONTROLLER;

const LATER: &str = "2026-11-21T10:05:00Z";

fn later() -> Now {
    Now { text: LATER.into() }
}

/// The VMI with the status of a decision about it.
fn after(vmi: &VirtualMachineInstance, plan: &Actions) -> VirtualMachineInstance {
    VirtualMachineInstance { status: plan.status.as_deref().cloned(), ..vmi.clone() }
}

fn decided(vmi: &VirtualMachineInstance, state: State) -> Actions {
    decide(&seen(vmi, &Launcher::Speaks(Box::new(state))), &now())
}

fn time(plan: &Actions, kind: &str) -> Option<String> {
    let conditions = &plan.status.as_ref().unwrap().conditions;
    conditions.iter().find(|condition| condition.r#type.as_str() == kind)?.last_transition_time.clone()
}

#[test]
fn a_condition_has_the_time_of_its_last_change_of_status() {
    let vmi = vmi("Running", json!({}));
    let with = |synchronized, message: &str| State {
        agent: true,
        credentials: Some(Credentials { synchronized, reason: "X".into(), message: message.into() }),
        ..state(Life::Running)
    };
    const KIND: &str = "AccessCredentialsSynchronized";
    let first = decided(&vmi, with(false, "one"));
    assert_eq!(time(&first, KIND), Some(now().text));
    let told = after(&vmi, &first);
    let launcher = Launcher::Speaks(Box::new(with(false, "two")));
    let same = decide(&seen(&told, &launcher), &later());
    assert_eq!(condition(&same, KIND).unwrap().2.as_deref(), Some("two"));
    assert_eq!(time(&same, KIND), Some(now().text), "only the message is another");
    let launcher = Launcher::Speaks(Box::new(with(true, "")));
    let changed = decide(&seen(&told, &launcher), &later());
    assert_eq!(time(&changed, KIND).as_deref(), Some(LATER));
}

/// It has no guest that could crash: it is killed where it is not needed any more.
#[test]
fn a_vmi_without_a_guest_that_is_deleted_has_not_crashed() {
    let noted = json!({"coracle.io/offline-migration": "u"});
    for (annotations, deletion, crashed) in [
        (noted.clone(), "2027-01-01T00:00:00Z", false),
        (noted, "", true),
        (json!({}), "2027-01-01T00:00:00Z", true),
    ] {
        let mut vmi = vmi("Running", json!({}));
        vmi.metadata.annotations = serde_json::from_value(annotations).unwrap();
        vmi.metadata.deletion_timestamp = Some(deletion.to_owned()).filter(|time| !time.is_empty());
        let events =
            decided(&vmi, State { message: Some("killed".to_owned()), ..state(Life::Failed) }).events;
        assert_eq!(events[0].warning, crashed, "{events:?}");
    }
}

#[test]
fn each_end_has_its_events() {
    assert!(Event::warning("A", "b").warning && !Event::normal("A", "b").warning);
    let stopped = |why: &str| Event::warning("Stopped", format!("The VirtualMachineInstance crashed: {why}"));
    let deleted = Event::normal("Deleted", "Signaled Deletion");
    let shut_down = Event::normal("Stopped", "The VirtualMachineInstance was shut down.");
    let ended = |phase: &str, life, message: Option<&str>| {
        decided(&vmi(phase, json!({})), State { message: message.map(str::to_owned), ..state(life) }).events
    };
    assert_eq!(ended("Running", Life::Succeeded, None), [shut_down.clone(), deleted.clone()]);
    assert_eq!(ended("Running", Life::Failed, Some("by itself")), [stopped("by itself"), deleted.clone()]);
    assert_eq!(ended("Running", Life::Failed, None), [stopped("the launcher gave no reason"), deleted]);
    assert_eq!(ended("Scheduled", Life::Failed, Some("no disk")), [stopped("no disk")], "it had no domain");
    assert_eq!(ended("Scheduled", Life::Succeeded, None), [shut_down]);
}

#[test]
fn a_pause_and_its_end_have_events() {
    let vmi = vmi("Running", json!({}));
    let paused = |reason: Option<&str>, message: Option<&str>| State {
        reason: reason.map(str::to_owned),
        message: message.map(str::to_owned),
        ..state(Life::Paused)
    };
    for (reason, message, event) in [
        (None, None, Event::normal("Paused", "VirtualMachineInstance paused: PausedByUser")),
        (Some("PausedByUser"), None, Event::normal("Paused", "VirtualMachineInstance paused: PausedByUser")),
        (
            Some("PausedIOError"),
            Some("full"),
            Event::warning("Paused", "VirtualMachineInstance paused: full"),
        ),
    ] {
        let plan = decided(&vmi, paused(reason, message));
        assert_eq!(plan.events, [event]);
        let told = after(&vmi, &plan);
        assert_eq!(
            decided(&told, state(Life::Running)).events,
            [Event::normal("Resumed", "VirtualMachineInstance resumed.")]
        );
        let ended = decided(&told, state(Life::Succeeded));
        assert!(ended.events.iter().all(|event| event.reason != "Resumed"), "{:?}", ended.events);
    }
}

#[test]
fn a_final_status_has_no_condition_of_a_guest() {
    let vmi = vmi("Running", json!({}));
    let old: GuestInfo =
        serde_json::from_value(json!({"commands": [{"name": "guest-ping", "enabled": true}]})).unwrap();
    let agent = Launcher::Speaks(Box::new(State { agent: true, ..state(Life::Paused) }));
    let running = decide(&DecisionInput { guest: Some(&old), ..seen(&vmi, &agent) }, &now());
    let kinds = ["Paused", "AgentConnected", "AgentVersionNotSupported", "LiveMigratable"];
    assert!(kinds.iter().all(|kind| condition(&running, kind).is_some()), "{running:?}");
    let ended = decided(&after(&vmi, &running), state(Life::Succeeded));
    assert!(kinds.iter().all(|kind| condition(&ended, kind).is_none()), "{ended:?}");
}

#[test]
fn a_reason_is_of_one_phase() {
    let mut vmi = vmi("Scheduled", json!({}));
    vmi.status.as_mut().unwrap().reason = Some("Evicted".into());
    let starts = decided(&vmi, State { reason: Some(NO_SPACE.into()), ..state(Life::Preparing) });
    assert_eq!(starts.status.unwrap().reason.as_deref(), Some("Evicted"));
    assert_eq!(decided(&vmi, state(Life::Running)).status.unwrap().reason, None);
}

#[test]
fn a_device_of_the_node_of_either_list_prevents_live_migration() {
    let mut vmi = vmi("Scheduled", json!({}));
    vmi.spec.domain.devices.host_devices =
        api::wire::read(json!({"hostDevices": [{"name": "h", "deviceName": "v.io/nic"}]}))
            .map(|devices: api::vmi::Devices| devices.host_devices)
            .unwrap();
    let plan = decided(&vmi, state(Life::Running));
    assert_eq!(condition(&plan, "LiveMigratable").unwrap().1.as_deref(), Some("HostDeviceNotLiveMigratable"));
}

#[test]
fn volumes_are_sorted_by_name_and_keep_what_others_wrote() {
    let mut vmi = vmi("Running", json!({}));
    let volume =
        |name: &str| api::wire::read(json!({"name": name, "emptyDisk": {"capacity": "1Gi"}})).unwrap();
    vmi.spec.volumes = ["z", "a", "unknown"].map(volume).into();
    let before = api::wire::read(json!({"name": "z", "target": "", "phase": "Bound"})).unwrap();
    vmi.status.as_mut().unwrap().volume_status = vec![before];
    let targets = [("z".to_owned(), "vda".to_owned()), ("a".to_owned(), "vdb".to_owned())].into();
    let sizes = [("a".to_owned(), 1 << 30), ("unknown".to_owned(), 1)].into();
    let plan = decided(&vmi, State { targets, sizes, ..state(Life::Running) });
    assert_eq!(
        api::wire::Wire::write(&**plan.status.as_ref().unwrap())["volumeStatus"],
        json!([{"name": "a", "target": "vdb", "size": 1 << 30}, {"name": "z", "target": "vda", "phase": "Bound"}])
    );
}

#[test]
fn a_shutdown_that_the_launcher_works_on_is_not_requested_again() {
    let vmi = vmi("Running", json!({"deletionTimestamp": "2026-11-21T10:00:30Z"}));
    let doing = |doing: &str| State { doing: Some(doing.into()), grace: Some(30), ..state(Life::Running) };
    let plan = decided(&vmi, doing("shutdown"));
    assert_eq!((&plan.request, &plan.events[..]), (&None, &[][..]));
    let plan = decided(&vmi, doing("freeze"));
    assert_eq!(plan.request, Some(Request::Shutdown { grace: Some(30) }));
    assert_eq!(plan.events, [Event::normal(SHUTTING_DOWN, "Signaled Graceful Shutdown")]);
}

#[test]
fn a_finding_of_the_launcher_stays_once_it_was_reported() {
    let vmi = vmi("Running", json!({}));
    let plan = decided(&vmi, State { selinux: Some("label".into()), ..state(Life::Running) });
    let told = after(&vmi, &plan);
    assert_eq!(told.status.as_ref().unwrap().selinux_context.as_deref(), Some("label"));
    assert_eq!(decided(&told, state(Life::Running)), Actions::default());
}

#[test]
fn the_report_of_the_guest_agent_is_unset_without_a_text_or_an_agent() {
    let vmi = vmi("Running", json!({}));
    let agent = Launcher::Speaks(Box::new(State { agent: true, ..state(Life::Running) }));
    let with = |os: Value| {
        let guest: GuestInfo =
            serde_json::from_value(json!({"os": os, "interfaces": [{"name": "x", "ips": []}]})).unwrap();
        let plan = decide(&DecisionInput { guest: Some(&guest), ..seen(&vmi, &agent) }, &now());
        after(&vmi, &plan)
    };
    assert_eq!(with(json!({"name": "", "id": ""})).status.unwrap().guest_os_info, None);
    let told = with(json!({"name": "", "id": "debian"}));
    let info = told.status.as_ref().unwrap().guest_os_info.as_ref().unwrap();
    assert_eq!(told.status.as_ref().unwrap().interfaces.len(), 1);
    assert_eq!((info.id.as_deref(), &info.name), (Some("debian"), &None));
    assert_eq!(decide(&seen(&told, &agent), &now()).status, None, "the agent was not asked yet");
    let without = decided(&told, state(Life::Running)).status.unwrap();
    assert_eq!((without.guest_os_info, without.interfaces), (None, Vec::new()));
}

#[test]
fn the_hardware_of_the_start_stays() {
    let mut vmi = vmi("Running", json!({}));
    vmi.spec.domain.machine = api::wire::read(json!({"type": "pc-q35-7.2"})).ok();
    let first = after(&vmi, &decided(&vmi, state(Life::Running)));
    let of_start = |change: &dyn Fn(&mut VirtualMachineInstance)| {
        let mut vmi = first.clone();
        vmi.spec.domain.machine = api::wire::read(json!({"type": "pc-q35-8.0"})).ok();
        vmi.spec.domain.memory = api::wire::read(json!({"guest": "256Mi"})).ok();
        vmi.spec.domain.cpu = api::wire::read(json!({"cores": 2})).ok();
        change(&mut vmi);
        let plan = decided(&vmi, state(Life::Running));
        let status = plan.status.map_or(vmi.status.unwrap(), |status| *status);
        let status = api::wire::Wire::write(&status);
        let cores = status["currentCPUTopology"]["cores"].as_u64();
        (status["machine"]["type"].clone(), status["memory"]["guestAtBoot"].clone(), cores)
    };
    let (old, new) = (json!("128Mi"), json!("256Mi"));
    let machine = json!("pc-q35-7.2");
    assert_eq!(of_start(&|_| {}), (machine.clone(), old.clone(), Some(1)));
    let without_memory = |vmi: &mut VirtualMachineInstance| vmi.status.as_mut().unwrap().memory = None;
    assert_eq!(of_start(&without_memory), (machine.clone(), new, Some(1)));
    let without_cpu =
        |vmi: &mut VirtualMachineInstance| vmi.status.as_mut().unwrap().current_cpu_topology = None;
    assert_eq!(of_start(&without_cpu), (machine, old, Some(2)));
}

#[test]
fn an_earlier_trouble_stays_until_there_is_a_domain() {
    let (vmi, empty) = (vmi("Scheduled", json!({})), speaks(Life::Empty));
    let trouble = HandOverFailure { message: "the claim a has no disk".into(), hopeless: false };
    let first = decide(&DecisionInput { trouble: Some(&trouble), ..seen(&vmi, &empty) }, &now());
    let told = after(&vmi, &first);
    assert!(condition(&first, "Synchronized").is_some());
    assert_eq!(decide(&seen(&told, &empty), &now()).status, None);
    assert_eq!(condition(&decided(&told, state(Life::Running)), "Synchronized"), None);
}

#[test]
fn the_end_replaces_a_condition_of_virt_controller() {
    let mut vmi = vmi("Running", json!({}));
    let of_controller =
        json!({"type": "Synchronized", "status": "False", "reason": OF_CONTROLLER[0], "message": "old"});
    vmi.status.as_mut().unwrap().conditions.push(api::wire::read(of_controller).unwrap());
    let message = |life| {
        let plan = decided(&vmi, State { message: Some("by itself".into()), ..state(life) });
        condition(&plan, "Synchronized").unwrap().2
    };
    assert_eq!(message(Life::Running).as_deref(), Some("old"));
    assert_eq!(message(Life::Failed).as_deref(), Some("by itself"));
}

#[test]
fn emulation_is_reported_only_where_it_is() {
    let (vmi, running) = (vmi("Scheduled", json!({})), speaks(Life::Running));
    let plan = decide(&DecisionInput::new(&vmi, &running), &now());
    assert!(condition(&plan, "LiveMigratable").is_some() && condition(&plan, "SoftwareEmulation").is_none());
}
