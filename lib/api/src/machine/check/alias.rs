//! Aliases: the unique names of the devices of a domain in libvirt and QEMU.

use super::super::Machine;
use super::super::network::Binding;
use super::Check;
use crate::wire::Path;
use std::collections::BTreeMap;

/// Channels of USB redirection.
const REDIRECTIONS: usize = 4;

/// Refuses an alias that two devices have, since libvirt could not define the domain.
pub(super) fn aliases(machine: &Machine, devices: &Path, check: &mut Check<'_>) {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for (alias, at) in all(machine, devices) {
        if !is_kept(&alias) {
            continue;
        }
        let other = known.get(&alias).or_else(|| {
            let (device, number) = alias.rsplit_once("_usb")?;
            let is_of_unit = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            known.get(device).filter(|_| is_of_unit && is_of_node(machine, device))
        });
        match other {
            Some(other) => {
                let message = format!(
                    "{at} and {other} must not both be called '{alias}': libvirt knows a device by its name"
                );
                check.duplicate(&at, message);
            }
            None => drop(known.insert(alias, at)),
        }
    }
}

/// True if libvirt keeps the alias. It replaces one with other characters by its own.
fn is_kept(alias: &str) -> bool {
    alias.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// True if a host device has this alias. It may be several USB devices, whose aliases are this one with `_usb` and a number.
fn is_of_node(machine: &Machine, alias: &str) -> bool {
    machine.host_devices.iter().any(|device| device.alias() == alias)
}

/// The aliases, with the fields that they come from; fixed ones first, then those of host devices.
fn all<'a>(machine: &'a Machine, devices: &'a Path) -> impl Iterator<Item = (String, String)> + 'a {
    let at = |list: &str| devices.child(list).to_string();
    let entry = move |list: &str, n: usize, name: &str| {
        (name.to_owned(), devices.child(list).index(n).child("name").to_string())
    };
    let redirections = (0..REDIRECTIONS).filter(|_| machine.usb_redirection);
    let redirections = redirections.map(move |n| (format!("usbredir_{n}"), at("clientPassthrough")));
    let panics = machine.panics.iter().take(1).map(move |_| ("panic".to_owned(), at("panicDevices")));
    let of_node = machine.host_devices.iter().map(move |device| (device.alias(), at(device.list.field())));
    let disks = machine.disks.iter().enumerate().map(move |(n, disk)| entry("disks", n, &disk.name));
    let filesystems = machine.filesystems.iter().enumerate();
    let filesystems = filesystems.map(move |(n, filesystem)| entry("filesystems", n, &filesystem.name));
    let interfaces = machine.interfaces.iter().enumerate().map(move |(n, interface)| {
        let prefix = if interface.binding == Binding::Sriov { "sriov-" } else { "" };
        entry("interfaces", n, &format!("{prefix}{}", interface.name))
    });
    let inputs = machine.inputs.iter().enumerate().map(move |(n, input)| entry("inputs", n, &input.name));
    let watchdog = machine.watchdog.iter().map(move |watchdog| (watchdog.name.clone(), at("watchdog")));
    let sound = machine.sound.iter().map(move |sound| (sound.name.clone(), at("sound")));
    redirections
        .chain(panics)
        .chain(of_node)
        .chain(disks)
        .chain(filesystems)
        .chain(interfaces)
        .chain(inputs)
        .chain(watchdog)
        .chain(sound)
}

#[cfg(test)]
mod tests {
    use crate::machine::{Machine, Settings};
    use serde_json::{Value, json};

    fn refused(devices: &Value, volumes: &Value, settings: &Settings) -> Vec<String> {
        let vmi = json!({
            "metadata": {"name": "vm", "namespace": "n"},
            "spec": {
                "domain": {
                    "memory": {"guest": "128Mi"},
                    "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                    "devices": devices,
                },
                "networks": [{"name": devices["interfaces"][0]["name"], "pod": {}}],
                "volumes": volumes,
            },
        });
        let told = Machine::check(&crate::wire::read(vmi).unwrap(), settings);
        told.err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn two_devices_of_one_name_are_refused_and_both_are_named() {
        let settings = Settings::of_cluster(&json!({"spec": {"configuration": {
            "developerConfiguration": {"featureGates": ["HostDevices", "PanicDevices"]},
            "permittedHostDevices": {"pciHostDevices": [{"pciVendorSelector": "10de:1eb8", "resourceName": "v.io/gpu"}]},
        }}}));
        // The name of a volume has no `_`.
        let with = |name: &str, more: &Value| {
            let (disk, interface) = if name.contains('_') { ("root", name) } else { (name, "default") };
            let mut devices = json!({
                "disks": [{"name": disk, "disk": {}}],
                "interfaces": [{"name": interface, "masquerade": {}}],
            });
            devices.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            refused(&devices, &json!([{"name": disk, "emptyDisk": {"capacity": "1Mi"}}]), &settings)
        };
        let gpu = |name: &str| json!({"gpus": [{"name": name, "deviceName": "v.io/gpu"}]});
        for (name, more, first, second) in [
            ("default", json!({}), "disks[0]", "interfaces[0]"),
            ("usbredir_0", json!({"clientPassthrough": {}}), "clientPassthrough", "interfaces[0]"),
            ("panic", json!({"panicDevices": [{"model": "pvpanic"}]}), "panicDevices", "disks[0]"),
            ("gpu-a", gpu("a"), "gpus", "disks[0]"),
            ("gpu-a_usb1", gpu("a"), "gpus", "interfaces[0]"),
            ("in", json!({"inputs": [{"name": "in", "type": "tablet"}]}), "disks[0]", "inputs[0]"),
            ("ring", json!({"sound": {"name": "ring"}}), "disks[0]", "sound"),
            ("dog", json!({"watchdog": {"name": "dog", "i6300esb": {}}}), "disks[0]", "watchdog"),
        ] {
            let told = with(name, &more);
            let [told] = told.as_slice() else { panic!("{name}: {told:?}") };
            assert!(
                told.contains(&format!("devices.{first}")) && told.contains(&format!("devices.{second}")),
                "{told}"
            );
            assert!(told.contains(&format!("'{name}'")), "{told}");
        }
        for (name, more) in [
            ("root", json!({"clientPassthrough": {}})),
            ("usbredir_4", json!({"clientPassthrough": {}})),
            ("usbredir_0", json!({})),
            ("gpu-a_usb", gpu("a")),
        ] {
            assert_eq!(with(name, &more), [""; 0], "{name}");
        }
    }

    #[test]
    fn a_name_with_a_line_break_is_refused_where_it_stands() {
        for (devices, field) in [
            (json!({"inputs": [{"name": "a\nb", "type": "tablet"}]}), "inputs[0].name"),
            (json!({"sound": {"name": "a\u{1}"}}), "sound.name"),
            (json!({"watchdog": {"name": "a\u{7f}", "i6300esb": {}}}), "watchdog.name"),
        ] {
            let mut devices = devices;
            devices["interfaces"] = json!([{"name": "default", "masquerade": {}}]);
            let told = refused(&devices, &json!([]), &Settings::of_laptop());
            assert!(told.iter().any(|told| told.contains(&format!("devices.{field} must not"))), "{told:?}");
        }
    }
}
