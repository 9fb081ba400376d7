//! From a user's manifest to libvirt's XML, the whole way: object, defaults, check, domain.

use super::fixture::{Fixture, overlay, raw, user};
use super::golden;
use crate::domain::{render, targets};
use api::defaults::{DefaultsContext, apply};
use api::machine::Machine;
use api::vmi::VirtualMachineInstance;
use serde_json::json;

fn machine(spec: &serde_json::Value) -> Machine {
    let object = json!({
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm", "namespace": "default"},
        "spec": spec,
    });
    let mut vmi: VirtualMachineInstance = serde_json::from_value(object).unwrap();
    apply(&mut vmi, &DefaultsContext::new("5d307ca9-b3ef-428c-8861-06e72d69f223"));
    Machine::check_again(&vmi).unwrap()
}

#[test]
fn a_common_manifest() {
    let machine = machine(&json!({
        "domain": {
            "memory": {"guest": "128Mi"},
            "devices": {
                "disks": [
                    {"name": "root", "disk": {"bus": "virtio"}},
                    {"name": "seed", "disk": {}},
                ],
                "interfaces": [{"name": "default", "masquerade": {}}],
                "rng": {},
            },
        },
        "networks": [{"name": "default", "pod": {}}],
        "volumes": [
            {"name": "root", "containerDisk": {"image": "registry.example/os:1"}},
            {"name": "seed", "cloudInitNoCloud": {"userData": "#cloud-config\n"}},
        ],
    }));
    let fixture = Fixture::bare().on(|host| {
        host.disks.insert("root".into(), overlay("root"));
        host.disks.insert("seed".into(), raw("seed"));
        host.links.insert("default".into(), user(1));
    });
    golden("whole/manifest", &render(&machine, &fixture.host).unwrap());
    let targets: Vec<_> = targets(&machine).into_iter().collect();
    assert_eq!(targets, [("root".into(), "vda".into()), ("seed".into(), "sda".into())]);
}
