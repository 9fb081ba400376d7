//! Changes of a running VM: the media of CD-ROM drives, and the links of interfaces on taps.

use super::handle::CurrentVm;
use api::launcher::{Link, Request};
use api::machine::Target;
use std::collections::BTreeMap;

/// Checks that the VM has the disk or interface of the request. An error is the reason for a refusal.
pub(super) fn may(known: &CurrentVm, request: &Request) -> Result<(), String> {
    match request {
        Request::Eject { disk } | Request::Insert { disk, .. } => has_cdrom(known, disk),
        Request::Link { interface, .. } => has_link(known, interface),
        _ => Ok(()),
    }
}

/// State of the cable of each interface on a tap: true if it is plugged in.
pub(super) fn links(known: &CurrentVm) -> BTreeMap<String, bool> {
    let is_tap = |name: &String| matches!(known.sync.resolved.interfaces.get(name), Some(Link::Tap { .. }));
    let taps = known.machine.interfaces.iter().filter(|interface| is_tap(&interface.name));
    taps.map(|interface| (interface.name.clone(), interface.up)).collect()
}

fn has_cdrom(known: &CurrentVm, disk: &str) -> Result<(), String> {
    match known.machine.disks.iter().find(|known| known.name == disk) {
        None => Err(format!("the VM has no disk '{disk}'")),
        Some(found) if !matches!(found.target, Target::CdRom { .. }) => {
            Err(format!("the disk '{disk}' is not a CD-ROM: its media cannot be changed"))
        }
        Some(_) if known.host.is_none() => {
            Err("the locations of the VM's disks are not known; start the VM again".into())
        }
        Some(_) => Ok(()),
    }
}

fn has_link(known: &CurrentVm, interface: &str) -> Result<(), String> {
    match known.sync.resolved.interfaces.get(interface) {
        None => Err(format!("the VM has no interface '{interface}'")),
        Some(Link::User { .. }) => {
            Err(format!("the interface '{interface}' is of a user-mode network, which has no link state"))
        }
        Some(Link::Device { .. }) => Err(format!(
            "the interface '{interface}' is a virtual function, whose link is not the launcher's"
        )),
        Some(Link::Sidecar { .. }) => Err(format!(
            "the interface '{interface}' is of the sidecar of a network binding plugin, which alone knows its device"
        )),
        Some(Link::Passt { .. }) => {
            Err(format!("the interface '{interface}' is of passt (passtBinding), whose link is always up"))
        }
        Some(Link::Tap { .. }) if known.host.is_none() => {
            Err("the devices of the VM are not known; start the VM again".into())
        }
        Some(Link::Tap { .. }) => Ok(()),
    }
}
