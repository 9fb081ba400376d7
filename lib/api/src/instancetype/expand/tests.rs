//! What comes of a template, an instance type and a preference.

use super::*;
use crate::wire::{self, Wire};
use serde_json::{Value, json};

fn made(template: Value, instancetype: Value, preference: Value) -> Result<Value, Vec<String>> {
    let template = wire::read(template).unwrap();
    let read = |value: Value| (!value.is_null()).then_some(value);
    let instancetype = read(instancetype).map(|value| wire::read::<InstancetypeSpec>(value).unwrap());
    let preference = read(preference).map(|value| wire::read::<PreferenceSpec>(value).unwrap());
    let found = expand(
        &template,
        instancetype.as_ref(),
        preference.as_ref(),
        "spec.template.spec",
        Some(Binding::Bridge),
    );
    let told = |found: Vec<Conflict>| found.into_iter().map(|conflict| conflict.field).collect();
    found.map(|made| made.write()).map_err(told)
}

fn size() -> Value {
    json!({"cpu": {"guest": 2}, "memory": {"guest": "1Gi"}})
}

#[test]
fn an_instance_type_sizes_a_vm_that_says_nothing() {
    let whole = json!({
        "nodeSelector": {"disk": "fast"}, "schedulerName": "mine",
        "cpu": {"guest": 2, "model": "host-model", "dedicatedCPUPlacement": true, "maxSockets": 4},
        "memory": {"guest": "1Gi", "overcommitPercent": 25, "maxGuest": "2Gi"},
        "ioThreadsPolicy": "auto", "annotations": {"a": "b"},
        "gpus": [{"name": "g", "deviceName": "example.com/g"}],
        "hostDevices": [{"name": "h", "deviceName": "example.com/h"}],
    });
    let found = made(json!({"spec": {"domain": {"devices": {}}}}), whole, Value::Null).unwrap();
    let wanted = json!({
        "metadata": {"annotations": {"a": "b"}},
        "spec": {
            "nodeSelector": {"disk": "fast"}, "schedulerName": "mine",
            "domain": {
                "cpu": {
                    "sockets": 2, "cores": 1, "threads": 1, "model": "host-model", "dedicatedCpuPlacement": true,
                    "maxSockets": 4,
                },
                "memory": {"guest": "1Gi", "maxGuest": "2Gi"},
                "resources": {"requests": {"memory": "805306368"}},
                "ioThreadsPolicy": "auto",
                "devices": {
                    "gpus": [{"name": "g", "deviceName": "example.com/g"}],
                    "hostDevices": [{"name": "h", "deviceName": "example.com/h"}],
                },
            },
        },
    });
    assert_eq!(found, wanted);
}

/// Each field by itself: what the VM sets, beside an instance type that sets all there is.
#[test]
fn a_field_that_both_set_is_a_conflict_by_its_path() {
    let whole = json!({
        "nodeSelector": {"a": "b"}, "schedulerName": "mine",
        "cpu": {
            "guest": 2, "model": "host-model", "dedicatedCPUPlacement": true, "numa": {}, "isolateEmulatorThread": true,
            "realtime": {}, "maxSockets": 4,
        },
        "memory": {"guest": "1Gi", "hugepages": {"pageSize": "2Mi"}, "maxGuest": "2Gi"},
        "gpus": [{"name": "g"}], "hostDevices": [{"name": "h"}], "ioThreadsPolicy": "auto",
        "ioThreads": {"supplementalPoolThreadCount": 2}, "launchSecurity": {}, "annotations": {"a": "b"},
    });
    for (pointer, value, field) in [
        ("/nodeSelector", json!({"c": "d"}), "nodeSelector"),
        ("/schedulerName", json!("other"), "schedulerName"),
        ("/domain/resources/requests/cpu", json!("1"), "domain.resources.requests.cpu"),
        ("/domain/resources/limits/cpu", json!("1"), "domain.resources.limits.cpu"),
        ("/domain/resources/requests/memory", json!("1Gi"), "domain.resources.requests.memory"),
        ("/domain/resources/limits/memory", json!("1Gi"), "domain.resources.limits.memory"),
        ("/domain/cpu/sockets", json!(1), "domain.cpu.sockets"),
        ("/domain/cpu/cores", json!(1), "domain.cpu.cores"),
        ("/domain/cpu/threads", json!(1), "domain.cpu.threads"),
        ("/domain/cpu/model", json!("host-passthrough"), "domain.cpu.model"),
        ("/domain/cpu/dedicatedCpuPlacement", json!(true), "domain.cpu.dedicatedCPUPlacement"),
        ("/domain/cpu/isolateEmulatorThread", json!(true), "domain.cpu.isolateEmulatorThread"),
        ("/domain/cpu/numa", json!({}), "domain.cpu.numa"),
        ("/domain/cpu/realtime", json!({}), "domain.cpu.realtime"),
        ("/domain/cpu/maxSockets", json!(8), "domain.cpu.maxSockets"),
        ("/domain/memory/guest", json!("1Gi"), "domain.memory.guest"),
        ("/domain/memory/hugepages", json!({}), "domain.memory.hugepages"),
        ("/domain/memory/maxGuest", json!("2Gi"), "domain.memory.maxGuest"),
        ("/domain/ioThreadsPolicy", json!("shared"), "domain.ioThreadsPolicy"),
        ("/domain/ioThreads", json!({}), "domain.ioThreads"),
        ("/domain/launchSecurity", json!({}), "domain.launchSecurity"),
        ("/domain/devices/gpus", json!([{"name": "x"}]), "domain.devices.gpus"),
        ("/domain/devices/hostDevices", json!([{"name": "x"}]), "domain.devices.hostDevices"),
    ] {
        let mut spec = json!({"domain": {"devices": {}}});
        let mut at = &mut spec;
        for part in pointer.split('/').skip(1) {
            at = &mut at[part];
        }
        *at = value;
        let found = made(json!({"spec": spec}), whole.clone(), Value::Null).unwrap_err();
        assert_eq!(found, [format!("spec.template.spec.{field}")], "{pointer}");
    }
    let annotated =
        |value: &str| json!({"metadata": {"annotations": {"a": value}}, "spec": {"domain": {"devices": {}}}});
    assert_eq!(made(annotated("c"), whole.clone(), Value::Null).unwrap_err(), ["annotations.a"]);
    assert!(made(annotated("b"), whole, Value::Null).is_ok(), "they say the same");
    // What a Go client writes for not said.
    let zeros =
        json!({"spec": {"domain": {"cpu": {"sockets": 0, "dedicatedCpuPlacement": false}, "devices": {}}}});
    assert!(made(zeros, size(), Value::Null).is_ok());
}

#[test]
fn conflicts_are_told_in_one_sentence_of_upstream() {
    let both = json!({"spec": {"domain": {"cpu": {"cores": 1}, "memory": {"guest": "1Gi"}, "devices": {}}}});
    let size = wire::read(size()).unwrap();
    let found =
        expand(&wire::read(both).unwrap(), Some(&size), None, "spec.template.spec", Some(Binding::Bridge));
    assert_eq!(
        Conflict::sentence(&found.unwrap_err()),
        "VM field(s) spec.template.spec.domain.cpu.cores, spec.template.spec.domain.memory.guest conflicts with selected \
         instance type"
    );
}

#[test]
fn a_preference_fills_in_what_is_open() {
    let template = json!({"spec": {
        "domain": {"devices": {"disks": [{"name": "cd", "cdrom": {}}, {"name": "lun", "lun": {}}]}},
        "volumes": [{"name": "root", "containerDisk": {"image": "a"}}, {"name": "cd"}, {"name": "lun"}],
    }});
    let preference = json!({
        "preferredSubdomain": "sub", "preferredTerminationGracePeriodSeconds": 90, "annotations": {"a": "b"},
        "clock": {"preferredClockOffset": {"utc": {}}, "preferredTimer": {"hpet": {"present": false}}},
        "cpu": {"preferredCPUFeatures": [{"name": "vmx"}]},
        "firmware": {"preferredEfi": {"secureBoot": true}},
        "machine": {"preferredMachineType": "pc-q35-7.2"},
        "features": {"preferredSmm": {}, "preferredHyperv": {"relaxed": {}}},
        "preferredArchitecture": "amd64",
        "devices": {
            "preferredDiskBus": "virtio", "preferredCdromBus": "scsi", "preferredLunBus": "scsi",
            "preferredDiskDedicatedIoThread": true, "preferredDiskCache": "none", "preferredDiskIO": "native",
            "preferredInterfaceModel": "e1000e", "preferredRng": {}, "preferredTPM": {}, "preferredAutoattachInputDevice": true,
            "preferredInputBus": "virtio", "preferredInputType": "tablet", "preferredInterfaceMasquerade": {},
            "preferredAutoattachMemBalloon": false, "preferredPanicDeviceModel": "hyperv", "preferredVideoType": "bochs",
            "preferredBlockMultiQueue": true,
        },
    });
    let found = made(template, Value::Null, preference).unwrap();
    let wanted = json!({
        "metadata": {"annotations": {"a": "b"}},
        "spec": {
            "architecture": "amd64", "subdomain": "sub", "terminationGracePeriodSeconds": 90,
            "domain": {
                "clock": {"utc": {}, "timer": {"hpet": {"present": false}}},
                "cpu": {"features": [{"name": "vmx"}]},
                "features": {"smm": {}, "hyperv": {"relaxed": {}}},
                "firmware": {"bootloader": {"efi": {"secureBoot": true}}},
                "machine": {"type": "pc-q35-7.2"},
                "devices": {
                    "autoattachInputDevice": true, "autoattachMemBalloon": false, "blockMultiQueue": true,
                    "disks": [
                        {"name": "cd", "cdrom": {"bus": "scsi"}},
                        {"name": "lun", "lun": {"bus": "scsi"}},
                        {"name": "root", "disk": {"bus": "virtio"}, "dedicatedIOThread": true, "cache": "none", "io": "native"},
                    ],
                    "inputs": [{"name": "default-0", "bus": "virtio", "type": "tablet"}],
                    "interfaces": [{"name": "default", "masquerade": {}, "model": "e1000e"}],
                    "panicDevices": [{"model": "hyperv"}], "rng": {}, "tpm": {}, "video": {"type": "bochs"},
                },
            },
            "networks": [{"name": "default", "pod": {}}],
            "volumes": [{"name": "root", "containerDisk": {"image": "a"}}, {"name": "cd"}, {"name": "lun"}],
        },
    });
    assert_eq!(found, wanted);
}

#[test]
fn a_preference_never_overrides_what_the_vm_says() {
    let template = json!({
        "metadata": {"annotations": {"a": "own"}},
        "spec": {
            "architecture": "amd64", "subdomain": "own", "terminationGracePeriodSeconds": 5,
            "domain": {
                "clock": {"timezone": "Europe/Berlin", "timer": {}},
                "cpu": {"features": [{"name": "vmx", "policy": "disable"}]},
                "features": {"acpi": {"enabled": false}, "smm": {"enabled": false}, "hyperv": {"relaxed": {"enabled": false}}},
                "firmware": {"bootloader": {"bios": {}}},
                "machine": {"type": "q35"},
                "devices": {
                    "autoattachMemBalloon": true, "disableHotplug": false,
                    "disks": [{"name": "root", "disk": {"bus": "sata"}, "cache": "writeback"}],
                    "interfaces": [{"name": "default", "bridge": {}, "model": "virtio"}],
                    "inputs": [{"name": "own", "bus": "usb", "type": "tablet"}],
                    "tpm": {"enabled": false}, "video": {"type": "vga"}, "panicDevices": [{"model": "isa"}],
                },
            },
            "networks": [{"name": "default", "pod": {}}],
            "volumes": [{"name": "root", "containerDisk": {"image": "a"}}],
        },
    });
    let preference = json!({
        "preferredSubdomain": "sub", "preferredTerminationGracePeriodSeconds": 90, "annotations": {"a": "b"},
        "clock": {"preferredClockOffset": {"utc": {}}, "preferredTimer": {"hpet": {}}},
        "cpu": {"preferredCPUFeatures": [{"name": "vmx"}]},
        "firmware": {"preferredUseEfi": true, "preferredEfi": {}},
        "machine": {"preferredMachineType": "pc-q35-7.2"},
        "features": {"preferredAcpi": {}, "preferredSmm": {}, "preferredHyperv": {"relaxed": {}}},
        "preferredArchitecture": "arm64",
        "devices": {
            "preferredDiskBus": "virtio", "preferredDiskCache": "none", "preferredInterfaceModel": "e1000e",
            "preferredInterfaceMasquerade": {}, "preferredInputBus": "virtio", "preferredTPM": {},
            "preferredAutoattachMemBalloon": false, "preferredDisableHotplug": true, "preferredVideoType": "bochs",
            "preferredPanicDeviceModel": "hyperv", "preferredDiskDedicatedIoThread": true,
        },
    });
    assert_eq!(made(template.clone(), Value::Null, preference), Ok(template));
}

#[test]
fn firmware_follows_the_newest_field_that_says_something() {
    let of = |firmware: Value| {
        let template = json!({"spec": {"domain": {"devices": {}}}});
        let found = made(template, Value::Null, json!({"firmware": firmware})).unwrap();
        found["spec"]["domain"]["firmware"]["bootloader"].clone()
    };
    assert_eq!(of(json!({})), Value::Null);
    assert_eq!(of(json!({"preferredUseEfi": true})), json!({"efi": {}}));
    assert_eq!(
        of(json!({"preferredUseEfi": true, "preferredUseSecureBoot": false})),
        json!({"efi": {"secureBoot": false}})
    );
    assert_eq!(
        of(json!({"preferredEfi": {"persistent": true}, "preferredUseSecureBoot": true})),
        json!({"efi": {"persistent": true}})
    );
    assert_eq!(
        of(json!({"preferredUseBios": true, "preferredUseBiosSerial": true, "preferredEfi": {}})),
        json!({"bios": {"useSerial": true}})
    );
}

#[test]
fn without_either_nothing_changes() {
    let template = json!({"spec": {"domain": {"devices": {}}, "volumes": [{"name": "root"}]}});
    assert_eq!(made(template.clone(), Value::Null, Value::Null), Ok(template));
}
