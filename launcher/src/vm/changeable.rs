//! Changes of a running VM: the media of CD-ROM drives, and the links of interfaces on taps.

use super::handle::CurrentVm;
use api::launcher::{Denial, DenialReason, Link, Request};
use api::machine::Target;
use std::collections::BTreeMap;

/// Checks that the VM has the disk or interface of the request.
pub(super) fn check(known: &CurrentVm, request: &Request) -> Result<(), Denial> {
    match request {
        Request::Eject { disk } | Request::Insert { disk, .. } => check_cdrom(known, disk),
        Request::Link { interface, .. } => check_link(known, interface),
        _ => Ok(()),
    }
}

/// State of the cable of each interface on a tap: true if it is plugged in.
pub(super) fn links(known: &CurrentVm) -> BTreeMap<String, bool> {
    let is_tap = |name: &String| matches!(known.sync.resolved.interfaces.get(name), Some(Link::Tap { .. }));
    let taps = known.machine.interfaces.iter().filter(|interface| is_tap(&interface.name));
    taps.map(|interface| (interface.name.clone(), interface.up)).collect()
}

fn check_cdrom(known: &CurrentVm, disk: &str) -> Result<(), Denial> {
    let reason = match known.machine.disks.iter().find(|known| known.name == disk) {
        None => DenialReason::NoDisk,
        Some(found) if !matches!(found.target, Target::CdRom { .. }) => DenialReason::NotCdRom,
        Some(_) if known.host.is_none() => DenialReason::DisksUnknown,
        Some(_) => return Ok(()),
    };
    Err(Denial::new(reason, &[&disk]))
}

fn check_link(known: &CurrentVm, interface: &str) -> Result<(), Denial> {
    let reason = match known.sync.resolved.interfaces.get(interface) {
        None => DenialReason::NoInterface,
        Some(Link::User { .. }) => DenialReason::UserNetwork,
        Some(Link::Device { .. }) => DenialReason::VirtualFunction,
        Some(Link::Sidecar { .. }) => DenialReason::BindingSidecar,
        Some(Link::Passt { .. }) => DenialReason::Passt,
        Some(Link::Tap { .. }) if known.host.is_none() => DenialReason::DevicesUnknown,
        Some(Link::Tap { .. }) => return Ok(()),
    };
    Err(Denial::new(reason, &[&interface]))
}
