//! What is said of every fault: the field, and the sentence that tools know.

use crate::base::{base, check, set};
use api::machine::{Gates, Settings};
use api::vmi::VirtualMachineInstance;
use api::wire;
use serde_json::{Value, json};

/// What is changed in the base VMI, and the one fault that this is.
struct Case<'a> {
    changes: Vec<(&'a str, &'a str)>,
    field: &'a str,
    message: &'a str,
}

/// The cases of `messages.txt`: changes, then the field and the sentence, then an empty line.
fn cases() -> Vec<Case<'static>> {
    let blocks = include_str!("messages.txt").split("\n\n").filter(|block| block.contains("> "));
    blocks
        .map(|block| {
            let lines = || block.lines().filter(|line| !line.starts_with('#'));
            let mut said = lines().filter_map(|line| line.strip_prefix("> "));
            Case {
                changes: lines()
                    .filter_map(|line| line.split_once(" = "))
                    .filter(|c| !c.0.starts_with('>'))
                    .collect(),
                field: said.next().unwrap(),
                message: said.next().unwrap(),
            }
        })
        .collect()
}

#[test]
fn every_fault_has_its_field_and_its_sentence() {
    let cases = cases();
    assert!(cases.len() > 80);
    for Case { changes, field, message } in cases {
        assert_eq!(
            faults(&changes, &Settings::of_checked()),
            [(field.to_string(), message.to_string())],
            "{changes:?}"
        );
    }
}

#[test]
fn a_vm_has_its_own_paths() {
    let settings = Settings::of_checked().at_path(wire::Path::of("spec.template.spec"));
    let cases = cases();
    assert!(cases.len() > 80);
    for Case { changes, field, message } in cases {
        // Bare `spec.`, and not the annotation's key.
        let inside = |text: &str| match field.starts_with("metadata.") {
            true => text.replace("metadata.annotations", "spec.template.metadata.annotations"),
            false => text.replace("spec.", "spec.template.spec."),
        };
        let expected = [(inside(field), inside(message))];
        assert_eq!(faults(&changes, &settings), expected, "{changes:?}");

        // A VM that stands in another object has its metadata there already.
        if field.starts_with("metadata.") {
            continue;
        }
        let bare = faults_of(&changes, &Settings::of_checked());
        let prefixed = api::fault::prefixed(bare, "spec.template.");
        let found: Vec<_> = prefixed.into_iter().map(|fault| (fault.field, fault.message)).collect();
        assert_eq!(found, expected, "{changes:?}");
    }
}

#[test]
fn a_long_text_for_cloud_init_must_be_a_secret() {
    let long = format!("{:?}", "a".repeat(2049));
    for (field, message) in [
        ("userData", "userdata exceeds 2048 byte limit. Should use UserDataSecretRef for larger data."),
        (
            "networkData",
            "networkdata exceeds 2048 byte limit. Should use NetworkDataSecretRef for larger data.",
        ),
    ] {
        let mut object = base();
        set(&mut object, "spec.volumes[1].cloudInitNoCloud", json!({}));
        set(
            &mut object,
            &format!("spec.volumes[1].cloudInitNoCloud.{field}"),
            serde_json::from_str(&long).unwrap(),
        );
        let faults = check(&object, &Settings::of_laptop()).unwrap_err();
        assert_eq!(faults[0].message, format!("spec.volumes[1].cloudInitNoCloud {message}"));
        set(&mut object, &format!("spec.volumes[1].cloudInitNoCloud.{field}"), json!("a".repeat(2048)));
        check(&object, &Settings::of_laptop()).unwrap();
    }
}

#[test]
fn an_interface_that_is_absent_is_not_there_and_its_network_neither() {
    let mut object = base();
    set(
        &mut object,
        "spec.domain.devices.interfaces[1]",
        json!({"name": "far", "bridge": {}, "state": "down"}),
    );
    set(&mut object, "spec.networks[1]", json!({"name": "far", "multus": {"networkName": "far"}}));
    let names = |object: &Value| {
        let machine = check(object, &Settings::of_checked()).unwrap();
        machine.interfaces.iter().map(|one| (one.name.clone(), one.up)).collect::<Vec<_>>()
    };
    assert_eq!(names(&object), [("net".to_owned(), true), ("far".to_owned(), false)]);
    set(&mut object, "spec.domain.devices.interfaces[1].state", json!("absent"));
    assert_eq!(names(&object), [("net".to_owned(), true)]);
}

#[test]
fn ranges_of_ports_are_for_a_masquerade_alone_and_one_that_runs_goes_on() {
    let mut object = base();
    let range = json!({"protocol": "TCP", "start": 1, "end": 2});
    set(&mut object, "spec.domain.devices.interfaces[0].portRanges", json!([range]));
    check(&object, &Settings::of_laptop()).unwrap();
    set(
        &mut object,
        "spec.domain.devices.interfaces[0]",
        json!({"name": "net", "bridge": {}, "portRanges": [range]}),
    );
    let faults = check(&object, &Settings::of_laptop()).unwrap_err();
    let [fault] = faults.as_slice() else { panic!("{faults:?}") };
    assert_eq!(fault.field, "spec.domain.devices.interfaces[0].name");
    assert_eq!(fault.message, "portRanges are only supported on masquerade interfaces");
    check(&object, &Settings::of_checked()).unwrap();
}

#[test]
fn an_interface_names_so_many_ports_and_no_more() {
    let at = "spec.domain.devices.interfaces[0]";
    let port = |number: usize| json!({"port": number});
    let range = |number: usize| json!({"protocol": "TCP", "start": number, "end": number});
    for (ports, ranges, field) in [(257, 0, "ports"), (256, 1, "portRanges"), (0, 257, "portRanges")] {
        let mut object = base();
        let ports: Vec<Value> = (1..=ports).map(port).collect();
        let ranges: Vec<Value> = (1..=ranges).map(|number| range(number + 1000)).collect();
        set(&mut object, &format!("{at}.ports"), json!(ports));
        set(&mut object, &format!("{at}.portRanges"), json!(ranges));
        let faults = check(&object, &Settings::of_laptop()).unwrap_err();
        assert_eq!((faults.len(), faults[0].field.as_str()), (1, format!("{at}.{field}").as_str()));
        let said = &faults[0].message;
        assert!(said.contains("have 257 entries, and at most 256 are served"), "{said}");
        let fewer = if ports.is_empty() { ("portRanges", &ranges[1..]) } else { ("ports", &ports[1..]) };
        set(&mut object, &format!("{at}.{}", fewer.0), json!(fewer.1));
        check(&object, &Settings::of_laptop()).unwrap();
    }
}

#[test]
fn a_closed_gate_is_said() {
    let mut settings = Settings::of_laptop();
    (settings.gates, settings.bridge_on_pod_network) = (Gates::Some([].into()), false);
    let cases = [
        (
            "spec.volumes[0]",
            r#"{"name": "root", "hostDisk": {"path": "/a.img", "type": "Disk"}}"#,
            "spec.volumes[0]",
            "HostDisk feature gate is not enabled",
        ),
        (
            "spec.domain.devices.disks[3]",
            r#"{"name": "gone", "cdrom": {}}"#,
            "spec.domain.devices.disks[3].name",
            "DeclarativeHotplugVolumes feature gate not enabled, cannot define an empty CD-ROM disk",
        ),
        (
            "spec.domain.rebootPolicy",
            r#""Reboot""#,
            "spec.domain.rebootPolicy",
            "RebootPolicy is specified but the RebootPolicy feature gate is not enabled",
        ),
        (
            "metadata.annotations",
            r#"{"hooks.kubevirt.io/hookSidecars": "[]"}"#,
            "metadata.annotations",
            "sidecar feature gate is not enabled in kubevirt-config, invalid entry \
             metadata.annotations.hooks.kubevirt.io/hookSidecars",
        ),
        (
            "metadata.annotations",
            r#"{"kubevirt.io/ignitiondata": "{}"}"#,
            "metadata.annotations",
            "ExperimentalIgnitionSupport feature gate is not enabled in kubevirt-config, invalid entry \
             metadata.annotations.kubevirt.io/ignitiondata",
        ),
        (
            "spec.domain.devices.interfaces[0]",
            r#"{"name": "net", "bridge": {}}"#,
            "spec.domain.devices.interfaces[0].name",
            "Bridge on pod network configuration is not enabled under kubevirt-config",
        ),
    ];
    let mut of_cluster = Settings::of_cluster(&json!({}));
    of_cluster.gates = Gates::Some([].into());
    let passt = ("spec.domain.devices.interfaces[0]", r#"{"name": "net", "passtBinding": {}}"#);
    let said = (
        "spec.domain.devices.interfaces[0].name".to_owned(),
        "PasstBinding feature gate is not enabled".to_owned(),
    );
    assert!(faults(&[passt], &of_cluster).contains(&said));
    for (path, value, field, message) in cases {
        assert_eq!(faults(&[(path, value)], &settings), [(field.to_owned(), message.to_owned())]);
    }
}

/// What only a person's own computer does yet, or what belongs to a cluster and is not done there.
const NOT_IN_A_CLUSTER: [(&str, &str, &str); 4] = [
    (
        "spec.volumes[2].persistentVolumeClaim.hotpluggable",
        "true",
        "spec.volumes[2].persistentVolumeClaim.hotpluggable",
    ),
    (
        "spec.volumes[0]",
        r#"{"name": "root", "dataVolume": {"name": "a", "hotpluggable": true}}"#,
        "spec.volumes[0].dataVolume.hotpluggable",
    ),
    (
        "spec.volumes[0]",
        r#"{"name": "root", "ephemeral": {"persistentVolumeClaim": {"claimName": "a", "hotpluggable": true}}}"#,
        "spec.volumes[0].ephemeral.persistentVolumeClaim.hotpluggable",
    ),
    (
        "metadata.annotations",
        r#"{"kubevirt.io/ignitiondata": "{}"}"#,
        "metadata.annotations.kubevirt.io/ignitiondata",
    ),
];

#[test]
fn a_cluster_refuses_what_it_does_not_do_yet() {
    let gates = json!(["ExperimentalIgnitionSupport", "Sidecar"]);
    let object = json!({"spec": {"configuration": {"developerConfiguration": {"featureGates": gates}}}});
    for (path, value, field) in NOT_IN_A_CLUSTER {
        let bridge = ("spec.domain.devices.interfaces[0]", r#"{"name": "net", "bridge": {}}"#);
        let found = faults(&[bridge, (path, value)], &Settings::of_cluster(&object));
        assert_eq!(found, [(field.to_owned(), "not supported yet".to_owned())], "{path} = {value}");
    }
}

#[test]
fn a_network_of_multus_is_for_a_cluster() {
    let changes = [
        ("spec.domain.devices.interfaces[0]", r#"{"name": "net", "bridge": {}}"#),
        ("spec.networks[0]", r#"{"name": "net", "multus": {"networkName": "there/far"}}"#),
    ];
    let found = faults_of(&changes, &Settings::of_laptop());
    let told: Vec<_> = found.iter().map(|fault| (fault.field.as_str(), fault.reason)).collect();
    assert_eq!(told, [("spec.networks[0].multus", api::fault::Reason::NotSupported)]);
    assert!(found[0].hint.as_ref().is_some_and(|hint| hint.contains("write pod: {}")), "{found:?}");
    let mut object = base();
    for (path, value) in changes {
        set(&mut object, path, serde_json::from_str::<Value>(value).unwrap());
    }
    let machine = check(&object, &Settings::of_cluster(&json!({}))).unwrap();
    let far = api::machine::network::Network::Multus { name: "there/far".into(), default: false };
    assert_eq!(machine.interfaces[0].network, far);
}

#[test]
fn what_upstream_accepts_is_accepted() {
    let cluster = Settings::of_cluster(&json!({}));
    for (path, value) in [
        ("spec.domain.devices.disks[1].cdrom.readonly", "false"),
        ("spec.domain.devices.disks[3]", r#"{"name": "drive", "cdrom": {}}"#),
        ("spec.domain.resources.limits.memory", r#""128Mi""#),
        ("spec.domain.rebootPolicy", r#""Terminate""#),
        ("spec.evictionStrategy", r#""None""#),
        ("spec.evictionStrategy", r#""LiveMigrateIfPossible""#),
        ("spec.evictionStrategy", r#""LiveMigrate""#),
        ("spec.evictionStrategy", r#""External""#),
        ("spec.volumes[2].persistentVolumeClaim.hotpluggable", "false"),
        ("spec.domain.firmware.bootloader.efi", r#"{"secureBoot": false, "persistent": false}"#),
        ("spec.domain.firmware.bootloader.efi", r#"{"secureBoot": false, "persistent": true}"#),
        ("spec.domain.devices.tpm", r#"{"persistent": true}"#),
        ("spec.domain.features.hyperv", r#"{"relaxed": {}, "vapic": {}, "spinlocks": {"spinlocks": 8191}}"#),
        ("spec.domain.features.hypervPassthrough", "{}"),
        ("metadata.annotations", r#"{"kubevirt.io/ignitiondata": "", "hooks.kubevirt.io/hookSidecars": ""}"#),
    ] {
        let mut object = base();
        set(&mut object, path, serde_json::from_str::<Value>(value).unwrap());
        assert_eq!(check(&object, &cluster).err(), None, "{path} = {value}");
    }
}

#[test]
fn a_machine_type_of_a_distribution_runs_as_that_of_qemu_where_it_is_permitted() {
    let with = |name: &str, settings: &Value| {
        let mut object = base();
        set(&mut object, "spec.domain.machine.type", json!(name));
        let settings = Settings::of_cluster(&json!({"spec": {"configuration": settings}}));
        check(&object, &settings)
            .map(|machine| (machine.machine_type, machine.chipset))
            .map_err(|faults| faults.len())
    };
    let q35 = |name: &str| Ok((name.to_owned(), api::machine::Chipset::Q35));
    assert_eq!(with("pc-q35-rhel9.4.0", &json!({})), q35("pc-q35-7.2"));
    let narrow = json!({"emulatedMachines": ["q35"]});
    assert_eq!(with("pc-q35-rhel9.4.0", &narrow), Err(1), "it is not permitted");
    let old = json!({"emulatedMachines": ["pc-i440fx-rhel*"]});
    let i440fx = Ok(("pc-i440fx-2.12".to_owned(), api::machine::Chipset::I440fx));
    assert_eq!(with("pc-i440fx-rhel7.6.0", &old), i440fx);
}

#[test]
fn a_drive_without_a_disc_is_a_disk_of_the_vmi() {
    let mut object = base();
    set(&mut object, "spec.domain.devices.disks[3]", json!({"name": "drive", "cdrom": {"bus": "scsi"}}));
    let machine = check(&object, &Settings::of_cluster(&json!({}))).unwrap();
    let drive = machine.disks.last().unwrap();
    assert_eq!((drive.name.as_str(), &drive.volume), ("drive", &api::machine::Volume::NoDisc));
}

#[test]
fn memory_above_its_limit_is_refused_where_changes_wait_for_a_start() {
    let limited = |rollout: &str| {
        let object = json!({"spec": {"configuration": {"vmRolloutStrategy": rollout}}});
        let mut vmi = base();
        set(&mut vmi, "spec.domain.resources.limits.memory", json!("128Mi"));
        check(&vmi, &Settings::of_cluster(&object)).err()
    };
    let faults = limited("Stage").expect("it is refused");
    assert_eq!(
        faults.iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>(),
        ["spec.domain.memory.guest '256Mi' must be equal to or less than the memory limit \
             spec.domain.resources.limits.memory '128Mi'"]
    );
    assert_eq!(limited("LiveUpdate"), None);
}

#[test]
fn a_slip_has_a_hint() {
    let mut object = base();
    set(&mut object, "spec.domain.memroy", json!(1));
    let vmi: VirtualMachineInstance = wire::read(object).unwrap();
    let told: Vec<String> =
        wire::unknown(&vmi).iter().map(|field| format!("{}: {field}", field.path)).collect();
    assert_eq!(
        told,
        ["spec.domain.memroy: this field is not known, and has no effect; did you mean memory?"]
    );
}

#[test]
fn all_faults_are_found_at_once() {
    let changes: Vec<(&str, &str)> = vec![
        ("spec.architecture", r#""arm64""#),
        ("spec.domain.devices.disks[0].cache", r#""unsafe""#),
        ("spec.domain.launchSecurity", "{}"),
        ("spec.hostname", r#""A""#),
    ];
    assert_eq!(faults(&changes, &Settings::of_laptop()).len(), 4);
}

/// Defaults give the VMI a machine type of its architecture, and that was a second fault.
#[test]
fn another_architecture_is_one_fault() {
    let mut object = base();
    set(&mut object, "spec.architecture", json!("arm64"));
    let mut vmi: VirtualMachineInstance = wire::read(object).unwrap();
    api::defaults::apply(&mut vmi, &api::defaults::DefaultsContext::new("u"));
    let faults = api::machine::Machine::check(&vmi, &Settings::of_laptop()).unwrap_err();
    let told: Vec<&str> = faults.iter().map(|fault| fault.field.as_str()).collect();
    assert_eq!(told, ["spec.architecture"], "{faults:?}");
}

fn faults(changes: &[(&str, &str)], settings: &Settings) -> Vec<(String, String)> {
    faults_of(changes, settings).into_iter().map(|fault| (fault.field, fault.message)).collect()
}

fn faults_of(changes: &[(&str, &str)], settings: &Settings) -> Vec<api::fault::Fault> {
    let mut object = base();
    for (path, value) in changes {
        set(&mut object, path, serde_json::from_str::<Value>(value).unwrap());
    }
    check(&object, settings).err().unwrap_or_else(|| panic!("no fault of {changes:?}"))
}
