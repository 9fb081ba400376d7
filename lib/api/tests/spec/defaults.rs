//! What is filled in, and that twice is the same as once.

use crate::inventory::Inventory;
use api::defaults::{Binding, DefaultsContext, apply, apply_to_vm, vmi_of};
use api::machine::Machine;
use api::machine::machine_type_map::{MACHINE_TYPES, MachineTypeMap};
use api::vm::VirtualMachine;
use api::vmi::VirtualMachineInstance;
use serde_json::{Value, json};

const UUID: &str = "5d307ca9-b3ef-428c-8861-06e72d69f223";

fn completed(spec: &Value, given: &DefaultsContext) -> Value {
    let object = json!({"metadata": {"name": "one"}, "spec": spec});
    let mut vmi: VirtualMachineInstance = serde_json::from_value(object).unwrap();
    apply(&mut vmi, given);
    let once = vmi.clone();
    apply(&mut vmi, given);
    assert_eq!(vmi, once, "twice is the same");
    apply(
        &mut vmi,
        &DefaultsContext {
            socket_ratio: Some(4),
            ..DefaultsContext::new("00000000-0000-0000-0000-000000000000")
        },
    );
    let mut again = once.clone();
    again.spec.domain.cpu.as_mut().unwrap().max_sockets = vmi.spec.domain.cpu.as_ref().unwrap().max_sockets;
    assert_eq!(vmi, again, "what is there stays");
    serde_json::to_value(once).unwrap()
}

#[test]
fn little_becomes_a_whole_vmi() {
    let spec = json!({
        "domain": {"resources": {"requests": {"memory": "64Mi"}}, "devices": {}},
        "volumes": [{"name": "root", "containerDisk": {"image": "registry.example/os"}}],
    });
    let whole = completed(&spec, &DefaultsContext::new(UUID));
    assert_eq!(
        whole,
        json!({
            "metadata": {"name": "one", "finalizers": ["kubevirt.io/foregroundDeleteVirtualMachine"]},
            "spec": {
                "architecture": "amd64",
                "domain": {
                    "cpu": {"sockets": 1, "cores": 1, "threads": 1, "model": "host-model"},
                    "memory": {"guest": "64Mi"},
                    "machine": {"type": "q35"},
                    "firmware": {"uuid": UUID},
                    "resources": {"requests": {"memory": "64Mi"}},
                    "devices": {
                        "disks": [{"name": "root", "disk": {"bus": "sata"}}],
                        "interfaces": [{"name": "default", "bridge": {}}],
                    },
                },
                "networks": [{"name": "default", "pod": {}}],
                "volumes": [
                    {"name": "root", "containerDisk": {"image": "registry.example/os", "imagePullPolicy": "Always"}},
                ],
            },
            "status": {
                "phase": "Pending",
                "runtimeUser": 107,
                "currentCPUTopology": {"sockets": 1, "cores": 1, "threads": 1},
                "memory": {"guestAtBoot": "64Mi", "guestCurrent": "64Mi", "guestRequested": "64Mi"},
            },
        })
    );
    let vmi: VirtualMachineInstance = serde_json::from_value(whole).unwrap();
    let machine = Machine::check_again(&vmi).unwrap();
    assert_eq!((machine.memory.guest, machine.cpu.count()), (64 << 20, 1));
}

#[test]
fn each_default_is_where_it_should_be() {
    let full = json!({
        "domain": {
            "resources": {"limits": {"cpu": "2500m", "memory": "1Gi"}},
            "clock": {"timer": {"hpet": {}, "rtc": {"present": false}}},
            "features": {
                "apic": {},
                "hyperv": {"spinlocks": {}, "synictimer": {"direct": {}}, "evmcs": {}, "ipi": {"enabled": false}},
            },
            "devices": {
                "autoattachInputDevice": true,
                "watchdog": {"name": "dog"},
                "disks": [
                    {"name": "disc", "cdrom": {}},
                    {"name": "lun", "lun": {"bus": "scsi"}},
                    {"name": "bare"},
                ],
            },
        },
        "livenessProbe": {"guestAgentPing": {}, "periodSeconds": 5},
    });
    let given =
        DefaultsContext { socket_ratio: Some(4), binding: Binding::Masquerade, ..DefaultsContext::new(UUID) };
    let whole = completed(&full, &given);
    for (pointer, value) in [
        ("/spec/domain/memory/guest", json!("1Gi")),
        ("/spec/domain/cpu/sockets", json!(3)),
        ("/spec/domain/cpu/maxSockets", json!(12)),
        ("/spec/domain/resources/requests/cpu", json!("2500m")),
        ("/spec/domain/clock/timer/hpet/present", json!(true)),
        ("/spec/domain/clock/timer/rtc/present", json!(false)),
        ("/spec/domain/features/apic/enabled", json!(true)),
        ("/spec/domain/features/hyperv/spinlocks", json!({"enabled": true, "spinlocks": 4096})),
        ("/spec/domain/features/hyperv/synictimer", json!({"enabled": true, "direct": {"enabled": true}})),
        ("/spec/domain/features/hyperv/synic/enabled", json!(true)),
        ("/spec/domain/features/hyperv/vpindex/enabled", json!(true)),
        ("/spec/domain/features/hyperv/vapic/enabled", json!(true)),
        ("/spec/domain/cpu/features", json!([{"name": "vmx", "policy": "require"}])),
        ("/spec/domain/features/hyperv/ipi/enabled", json!(false)),
        ("/spec/domain/devices/inputs", json!([{"name": "default-0", "type": "tablet", "bus": "usb"}])),
        ("/spec/domain/devices/watchdog", json!({"name": "dog", "i6300esb": {"action": "reset"}})),
        ("/spec/domain/devices/disks/0/cdrom", json!({"bus": "sata", "readonly": true, "tray": "closed"})),
        ("/spec/domain/devices/disks/1/lun", json!({"bus": "scsi"})),
        ("/spec/domain/devices/disks/2/disk", json!({"bus": "sata"})),
        ("/spec/domain/devices/interfaces", json!([{"name": "default", "masquerade": {}}])),
        (
            "/spec/livenessProbe",
            json!({
                "guestAgentPing": {}, "timeoutSeconds": 1, "periodSeconds": 5, "successThreshold": 1,
                "failureThreshold": 3,
            }),
        ),
    ] {
        assert_eq!(whole.pointer(pointer), Some(&value), "{pointer}");
    }
}

/// What a Windows guest is usually given: the defaults leave nothing to be refused.
#[test]
fn enlightenments_have_what_they_require() {
    for hyperv in [
        json!({"synictimer": {"direct": {}}}),
        json!({"tlbflush": {"direct": {}, "extended": {}}}),
        json!({"ipi": {}}),
        json!({"evmcs": {}}),
    ] {
        let object = json!({"metadata": {"name": "one", "namespace": "here"}, "spec": {"domain": {
            "memory": {"guest": "64Mi"}, "features": {"hyperv": hyperv}, "devices": {},
        }}});
        let mut vmi: VirtualMachineInstance = serde_json::from_value(object).unwrap();
        apply(&mut vmi, &DefaultsContext::new(UUID));
        let machine = Machine::check_again(&vmi).unwrap_or_else(|faults| panic!("{hyperv}: {faults:?}"));
        let has_counter = machine
            .clock
            .iter()
            .any(|clock| clock.timers.iter().any(|timer| timer.name == "hypervclock" && timer.present));
        assert_eq!(has_counter, hyperv.get("synictimer").is_some(), "{hyperv}");
    }
}

#[test]
fn other_architectures_have_their_own() {
    let on = |architecture: &str| {
        let given = DefaultsContext {
            architecture: architecture.to_owned(),
            socket_ratio: Some(4),
            ..DefaultsContext::new(UUID)
        };
        let spec = json!({
            "domain": {"devices": {"disks": [{"name": "a", "disk": {}}], "watchdog": {"name": "dog"}}},
            "architecture": architecture,
        });
        let object = json!({"metadata": {"name": "one"}, "spec": spec});
        let mut vmi: VirtualMachineInstance = serde_json::from_value(object).unwrap();
        apply(&mut vmi, &given);
        serde_json::to_value(vmi).unwrap()["spec"]["domain"].clone()
    };
    let arm = on("arm64");
    assert_eq!(arm["machine"]["type"], "virt");
    assert_eq!(arm["cpu"]["model"], "host-passthrough");
    assert_eq!(arm["cpu"].get("maxSockets"), None);
    assert_eq!(arm["firmware"]["bootloader"], json!({"efi": {"secureBoot": false}}));
    assert_eq!(arm["devices"]["disks"][0]["disk"]["bus"], "virtio");
    let mainframe = on("s390x");
    assert_eq!(mainframe["machine"]["type"], "s390-ccw-virtio");
    assert_eq!(mainframe["features"]["acpi"]["enabled"], false);
    assert_eq!(mainframe["devices"]["watchdog"]["diag288"]["action"], "reset");
}

/// The VMI, which somebody runs now, has what QEMU calls it; the VM keeps what was written.
#[test]
fn a_vmi_has_the_machine_type_that_its_cluster_wants_for_one_of_a_distribution() {
    let said = json!({"metadata": {"annotations": {MACHINE_TYPES: "pc-q35-rhel9.4.0=pc-q35-8.2"}}});
    let given =
        DefaultsContext { machine_type_map: MachineTypeMap::of_cluster(&said), ..DefaultsContext::new(UUID) };
    for (written, expected) in [
        ("pc-q35-rhel9.4.0", "pc-q35-8.2"),
        // By our own table when it is started: the name may come from a cluster that goes on.
        ("pc-q35-rhel9.2.0", "pc-q35-rhel9.2.0"),
        ("pc-q35-8.2", "pc-q35-8.2"),
    ] {
        let spec = json!({"domain": {"machine": {"type": written}}});
        assert_eq!(completed(&spec, &given)["spec"]["domain"]["machine"]["type"], expected);
        let object = json!({"metadata": {"name": "one"}, "spec": {"template": {"spec": spec}}});
        let mut vm: VirtualMachine = serde_json::from_value(object).unwrap();
        apply_to_vm(&mut vm, &given);
        let whole = serde_json::to_value(&vm).unwrap();
        assert_eq!(whole["spec"]["template"]["spec"]["domain"]["machine"]["type"], written);
    }
}

#[test]
fn an_image_is_pulled_again_when_it_may_have_changed() {
    for (image, policy) in [
        ("os", "Always"),
        ("registry.example/os", "Always"),
        ("registry.example/os:latest", "Always"),
        ("registry.example/os:1", "IfNotPresent"),
        ("registry.example/os@sha256:00", "IfNotPresent"),
        ("registry.example:5000/os", "IfNotPresent"),
    ] {
        let spec = json!({"volumes": [{"name": "root", "containerDisk": {"image": image}}]});
        let whole = completed(&spec, &DefaultsContext::new(UUID));
        assert_eq!(whole["spec"]["volumes"][0]["containerDisk"]["imagePullPolicy"], policy, "{image}");
    }
}

#[test]
fn nothing_is_attached_where_nothing_is_wanted() {
    let spec = json!({"domain": {"devices": {"autoattachPodInterface": false}}});
    let whole = completed(&spec, &DefaultsContext::new(UUID));
    assert_eq!(whole["spec"].get("networks"), None);
    assert_eq!(whole["spec"]["domain"]["devices"].get("interfaces"), None);
}

#[test]
fn a_vm_completes_its_template() {
    let object = json!({
        "metadata": {"name": "one", "namespace": "here", "labels": {"not": "the VMI's"}},
        "spec": {
            "instancetype": {"name": "small"},
            "preference": {"name": "linux", "kind": "VirtualMachinePreference"},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"domain": {"devices": {}}}},
        },
    });
    let mut vm: VirtualMachine = serde_json::from_value(object).unwrap();
    let given = DefaultsContext { serial: Some("s1".to_owned()), ..DefaultsContext::new(UUID) };
    apply_to_vm(&mut vm, &given);
    let once = vm.clone();
    apply_to_vm(&mut vm, &given);
    assert_eq!(vm, once);
    let whole = serde_json::to_value(&vm).unwrap();
    assert_eq!(whole["spec"]["instancetype"]["kind"], "VirtualMachineClusterInstancetype");
    assert_eq!(whole["spec"]["preference"]["kind"], "VirtualMachinePreference");
    let vmi = serde_json::to_value(vmi_of(&vm).unwrap()).unwrap();
    assert_eq!(
        vmi,
        json!({
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "metadata": {
                "name": "one",
                "namespace": "here",
                "labels": {"a": "b"},
                "annotations": {"kubevirt.io/pci-topology-version": "v3"},
            },
            "spec": {
                "architecture": "amd64",
                "domain": {
                    "machine": {"type": "q35"},
                    "firmware": {"uuid": UUID, "serial": "s1"},
                    "devices": {},
                },
            },
        })
    );
}

#[test]
fn what_is_said_is_not_changed() {
    let spec = Inventory::read().sample("VirtualMachineInstanceSpec");
    let whole = completed(&spec, &DefaultsContext::new(UUID));
    let mut lost = Vec::new();
    compare(&spec, &whole["spec"], "spec", &mut lost);
    assert_eq!(lost, Vec::<String>::new());
}

/// Notes what stands in `before` and not in `after`.
fn compare(before: &Value, after: &Value, at: &str, lost: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                compare(value, after.get(key).unwrap_or(&Value::Null), &format!("{at}.{key}"), lost);
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for (i, value) in before.iter().enumerate() {
                compare(value, after.get(i).unwrap_or(&Value::Null), &format!("{at}[{i}]"), lost);
            }
        }
        _ if before == after => {}
        _ => lost.push(format!("{at}: {before} became {after}")),
    }
}
