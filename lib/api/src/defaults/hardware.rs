//! Disks for volumes, and the devices, processors and memory that the spec leaves unset.

use super::{DefaultsContext, fill};
use crate::architecture::{Arch, ArchFacts};
use crate::vmi::{
    Bootloader, Bus, Devices, Disk, DiskTarget, Domain, Efi, Input, InputBus, InputType, MachineType, Spec,
    Tray, WatchdogAction,
};

/// Highest default of the maximum number of vCPUs after hotplug.
const MOST_PROCESSORS: u32 = 512;

fn facts(architecture: &str) -> Option<&'static ArchFacts> {
    Arch::named(architecture).map(Arch::facts)
}

pub(super) fn volumes(spec: &mut Spec, architecture: &str) {
    let devices = &mut spec.domain.devices;
    for volume in &mut spec.volumes {
        let name = &volume.name;
        let is_used = devices.disks.iter().any(|disk| disk.name == *name)
            || devices.filesystems.iter().any(|filesystem| filesystem.name == *name);
        if !is_used {
            devices.disks.push(Disk { name: name.clone(), ..Disk::default() });
        }
        if let Some(container) = &mut volume.container_disk {
            fill(&mut container.image_pull_policy, pull_policy(&container.image));
        }
    }
    let default = facts(architecture).map_or(Bus::Virtio, |facts| Bus::from(facts.disk_bus));
    for disk in &mut devices.disks {
        if disk.lun.is_none() && disk.cdrom.is_none() {
            disk.disk.get_or_insert_with(DiskTarget::default);
        }
        let buses = [
            disk.disk.as_mut().map(|target| &mut target.bus),
            disk.lun.as_mut().map(|target| &mut target.bus),
            disk.cdrom.as_mut().map(|target| &mut target.bus),
        ];
        for bus in buses.into_iter().flatten() {
            if bus.as_ref().is_none_or(|bus| bus.as_str().is_empty()) {
                *bus = Some(default.clone());
            }
        }
        if let Some(cdrom) = &mut disk.cdrom {
            cdrom.readonly.get_or_insert(true);
            cdrom.tray.get_or_insert(Tray::Closed);
        }
    }
}

/// Pull policy of an image: an image whose tag may move is pulled each time. A port counts as a tag.
fn pull_policy(image: &str) -> &'static str {
    if image.ends_with(":latest") || !image.contains([':', '@']) { "Always" } else { "IfNotPresent" }
}

pub(super) fn domain(domain: &mut Domain, architecture: &str, given: &DefaultsContext) {
    machine_type(domain, architecture, given);
    // A VM keeps the machine type that was written in it.
    if let Some(machine) = &mut domain.machine
        && let Some(own) = given.machine_type_map.mapped(&machine.r#type)
    {
        own.clone_into(&mut machine.r#type);
    }
    let firmware = domain.firmware.get_or_insert_default();
    fill(&mut firmware.uuid, &given.uuid);
    if facts(architecture).is_some_and(|facts| facts.boots_efi) && firmware.bootloader.is_none() {
        firmware.bootloader = Some(Bootloader {
            efi: Some(Efi { secure_boot: Some(false), ..Efi::default() }),
            ..Bootloader::default()
        });
    }
    if let Some((_, guest)) = crate::machine::guest_memory(domain) {
        domain.memory.get_or_insert_default().guest.get_or_insert(guest);
    }
    processors(domain, architecture, given);
    devices(&mut domain.devices, architecture);
}

pub(super) fn machine_type(domain: &mut Domain, architecture: &str, given: &DefaultsContext) {
    let default = match architecture {
        "s390x" => "s390-ccw-virtio",
        other => facts(other).unwrap_or(Arch::DEFAULT.facts()).machine_type,
    };
    let machine = domain.machine.get_or_insert_with(MachineType::default);
    if machine.r#type.is_empty() {
        machine.r#type = given.machine_type.as_deref().unwrap_or(default).to_owned();
    }
}

fn processors(domain: &mut Domain, architecture: &str, given: &DefaultsContext) {
    let (sockets, cores, threads) = crate::machine::topology(domain);
    let cpu = domain.cpu.get_or_insert_default();
    (cpu.sockets, cpu.cores, cpu.threads) = (Some(sockets), Some(cores), Some(threads));
    let facts = facts(architecture);
    let default = facts.unwrap_or(Arch::DEFAULT.facts()).cpu_model;
    fill(&mut cpu.model, given.cpu_model.as_deref().unwrap_or(default));
    // CPU hotplug needs a platform that supports it.
    let has_hotplug = facts.is_some_and(|facts| facts.has_cpu_hotplug);
    if let (Some(ratio), true, None) = (given.socket_ratio, has_hotplug, cpu.max_sockets) {
        let each = cores.saturating_mul(threads).max(1);
        let most = sockets.saturating_mul(ratio).min(MOST_PROCESSORS / each);
        cpu.max_sockets = Some(most.max(sockets));
    }
    if let Some(resources) = &mut domain.resources
        && let Some(limit) = resources.limits.get("cpu")
        && !resources.requests.contains_key("cpu")
    {
        resources.requests.insert("cpu".to_owned(), limit.clone());
    }
}

fn devices(devices: &mut Devices, architecture: &str) {
    if devices.autoattach_input_device == Some(true) && devices.inputs.is_empty() {
        devices.inputs.push(Input { name: "default-0".to_owned(), ..Input::default() });
    }
    for input in &mut devices.inputs {
        if input.bus.as_ref().is_none_or(|bus| bus.as_str().is_empty()) {
            input.bus = Some(InputBus::Usb);
        }
        if input.r#type.as_str().is_empty() {
            input.r#type = InputType::Tablet;
        }
    }
    if let Some(watchdog) = &mut devices.watchdog {
        if watchdog.i6300esb.is_none() && watchdog.diag288.is_none() {
            if architecture == "s390x" {
                watchdog.diag288 = Some(Default::default());
            } else {
                watchdog.i6300esb = Some(Default::default());
            }
        }
        let actions = [
            watchdog.i6300esb.as_mut().map(|model| &mut model.action),
            watchdog.diag288.as_mut().map(|model| &mut model.action),
        ];
        for action in actions.into_iter().flatten() {
            if action.as_ref().is_none_or(|action| action.as_str().is_empty()) {
                *action = Some(WatchdogAction::Reset);
            }
        }
    }
}
