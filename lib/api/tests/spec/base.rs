//! A VMI to begin with, and how to change it.

use api::fault::Fault;
use api::machine::{Machine, Settings};
use api::vmi::VirtualMachineInstance;
use serde_json::{Value, json};

/// A VMI with every part that others are tried on.
pub(crate) fn base() -> Value {
    json!({
        "metadata": {"name": "one", "namespace": "here"},
        "spec": {
            "domain": {
                "memory": {"guest": "256Mi"},
                "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                "devices": {
                    "disks": [
                        {"name": "root", "disk": {"bus": "virtio"}},
                        {"name": "seed", "cdrom": {"bus": "sata"}},
                        {"name": "claim", "lun": {"bus": "scsi"}},
                    ],
                    "interfaces": [{"name": "net", "masquerade": {}}],
                },
            },
            "volumes": [
                {"name": "root", "containerDisk": {"image": "registry.example/os:1"}},
                {"name": "seed", "cloudInitNoCloud": {"userData": "#cloud-config\n"}},
                {"name": "claim", "persistentVolumeClaim": {"claimName": "claim"}},
            ],
            "networks": [{"name": "net", "pod": {}}],
        },
    })
}

/// Puts `value` where `path` (`spec.domain.devices.disks[0].disk.bus`) says, and makes what is missing on the way.
pub(crate) fn set(object: &mut Value, path: &str, value: Value) {
    *place(object, path) = value;
}

fn place<'a>(object: &'a mut Value, path: &str) -> &'a mut Value {
    let mut at = object;
    for part in path.split('.') {
        let (key, indices) = part.split_once('[').unwrap_or((part, ""));
        if at.is_null() {
            *at = json!({});
        }
        at = &mut at[key];
        for index in indices.split('[').filter(|index| !index.is_empty()) {
            let index: usize = index.trim_end_matches(']').parse().unwrap();
            if at.is_null() {
                *at = json!([]);
            }
            let list = at.as_array_mut().unwrap();
            while list.len() <= index {
                list.push(json!({}));
            }
            at = &mut list[index];
        }
    }
    at
}

pub(crate) fn check(object: &Value, settings: &Settings) -> Result<Machine, Vec<Fault>> {
    let vmi: VirtualMachineInstance = api::wire::read(object.clone())?;
    Machine::check(&vmi, settings)
}

#[test]
fn the_base_vmi_has_no_fault() {
    let machine = check(&base(), &Settings::of_laptop()).unwrap();
    assert_eq!(machine.domain_name(), "here_one");
    assert_eq!((machine.disks.len(), machine.interfaces.len()), (3, 1));
}
