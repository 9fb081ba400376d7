//! Host devices: GPUs and other devices of the node. They come from resources that the KubeVirt object
//! permits, or from ResourceClaims, whose devices the administrator of the DRA driver restricts by
//! DeviceClasses.

use super::super::host_device::{Claimed, Display, HostDevice, List, MOST, Origin};
use super::super::permitted::is_resource;
use super::{Check, Site, text};
use crate::vmi::{self, Devices, FeatureState};
use crate::wire::Path;
use std::collections::{BTreeMap, BTreeSet};

/// The longest name of a device.
const NAME: usize = 63;
/// Message on a laptop.
const NOT_HERE: &str = "only a cluster has device plugins, which choose the device of the node";

/// Fields that entries of both lists have.
struct Entry<'a> {
    list: List,
    name: &'a str,
    device_name: Option<&'a str>,
    claim_name: Option<&'a str>,
    request_name: Option<&'a str>,
    tag: &'a Option<String>,
    /// Options of the display, for a GPU.
    options: Option<Option<&'a vmi::VgpuOptions>>,
}

/// Checks the host devices. `told`: status of the devices of ResourceClaims; `at`: path of the domain's
/// devices.
pub(super) fn host_devices(
    devices: &Devices,
    told: Option<&vmi::DeviceStatus>,
    at: &Path,
    check: &mut Check<'_>,
) -> Vec<HostDevice> {
    let gpus = devices.gpus.iter().map(|gpu| {
        let vmi::Gpu { name, device_name, claim_name, request_name, virtual_gpu_options, tag, other: _ } =
            gpu;
        Entry {
            list: List::Gpus,
            name,
            device_name: text::non_empty(device_name),
            claim_name: text::non_empty(claim_name),
            request_name: text::non_empty(request_name),
            tag,
            options: Some(virtual_gpu_options.as_ref()),
        }
    });
    let others = devices.host_devices.iter().map(|device| {
        let vmi::HostDevice { name, device_name, claim_name, request_name, tag, other: _ } = device;
        Entry {
            list: List::HostDevices,
            name,
            device_name: text::non_empty(device_name),
            claim_name: text::non_empty(claim_name),
            request_name: text::non_empty(request_name),
            tag,
            options: None,
        }
    });
    if !devices.host_devices.is_empty() && !check.settings.gate("HostDevices") {
        check.invalid(at.child("hostDevices"), "Host Devices feature gate is not enabled in kubevirt-config");
    }
    if devices.gpus.len() + devices.host_devices.len() > MOST {
        check.invalid(
            at.child("hostDevices"),
            format!("{at} must have no more than {MOST} gpus and hostDevices: each takes a root port"),
        );
        return Vec::new();
    }
    let screen = devices.autoattach_graphics_device.unwrap_or(true);
    let ramfb = devices.video.as_ref().and_then(|video| video.r#type.as_deref()) == Some("ramfb");
    let mut screens = Screens { there: screen, ramfb };
    let mut aliases = BTreeSet::new();
    let mut all = Vec::new();
    let mut claims = Claims { told, at, pairs: BTreeMap::new(), shut: BTreeSet::new() };
    let entries = gpus.enumerate().chain(others.enumerate());
    for (n, entry) in entries {
        let here = at.child(entry.list.field()).index(n);
        if check.settings.site == Site::Laptop {
            check.not_yet_or(&here, NOT_HERE);
            continue;
        }
        let is_claimed = entry.claim_name.is_some() || entry.request_name.is_some();
        let device = HostDevice {
            name: entry.name.to_owned(),
            list: entry.list,
            origin: match is_claimed {
                true => Origin::Claim(claims.claimed(&entry, n, check)),
                false => Origin::Resource(resource(&entry, &here, check)),
            },
            display: screens.display(&entry, &here, check),
            tag: text::tag(entry.tag, &here, check),
        };
        check_name(&device, &here, &mut aliases, check);
        all.push(device);
    }
    all
}

fn check_name(device: &HostDevice, here: &Path, aliases: &mut BTreeSet<String>, check: &mut Check<'_>) {
    let (at, name) = (here.child("name"), &device.name);
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    if name.is_empty() {
        check.required(&at, format!("{at} is a required field"));
    } else if name.len() > NAME || !name.chars().all(is_letter) {
        let message = format!("{at} must be no more than {NAME} letters, digits, '-', '_' and '.'");
        check.invalid(&at, message);
    } else if !aliases.insert(device.alias()) {
        let message =
            format!("{at} '{name}' must be unique in its list: libvirt knows it as {}", device.alias());
        check.duplicate(&at, message);
    }
}

/// Devices of ResourceClaims that were checked so far.
struct Claims<'a> {
    told: Option<&'a vmi::DeviceStatus>,
    /// Path of the domain's devices.
    at: &'a Path,
    /// Requests in use, each by one device: its list, and its index there.
    pairs: BTreeMap<(&'a str, &'a str), (List, usize)>,
    /// Lists whose feature gate is disabled, to report each once.
    shut: BTreeSet<&'static str>,
}

impl<'a> Claims<'a> {
    /// The request of the `n`th device of its list. Faults are in upstream's words.
    fn claimed(&mut self, entry: &Entry<'a>, n: usize, check: &mut Check<'_>) -> Claimed {
        let list = entry.list.field();
        let here = self.at.child(list).index(n);
        let (what, gate) = match entry.list {
            List::Gpus => ("GPU", "GPUsWithDRA"),
            List::HostDevices => ("HostDevice", "HostDevicesWithDRA"),
        };
        if !check.settings.gate(gate) && self.shut.insert(list) {
            let message = format!(
                "vmi.spec.domain.devices.{list} contains DRA enabled {what}s but feature gate is not enabled"
            );
            check.invalid(self.at.child(list), message);
        }
        if entry.device_name.is_some() {
            let message = format!(
                "vmi.spec.domain.devices.{list} contains {what}s with both deviceName and claimRequest"
            );
            check.invalid(self.at.child(list), message);
        }
        for (field, said) in [("claimName", entry.claim_name), ("requestName", entry.request_name)] {
            if said.is_none() {
                check.required(here.child(field), format!("{field} is required for DRA {what}"));
            }
        }
        let (claim, request) = (entry.claim_name.unwrap_or_default(), entry.request_name.unwrap_or_default());
        if let Some(why) = text::not_a_label(request).filter(|_| !request.is_empty()) {
            let at = here.child("requestName");
            check.invalid(&at, format!("{at} does not conform to the kubernetes DNS_LABEL rules: {why}"));
        }
        if !claim.is_empty() && !request.is_empty() {
            self.check_unique(claim, request, (entry.list, n), check);
        }
        let (pci_address, mediated) = self.address(entry);
        Claimed { claim: claim.to_owned(), request: request.to_owned(), pci_address, mediated }
    }

    /// Checks that no other device uses the request. `own`: list of the device, and its index there.
    fn check_unique(&mut self, claim: &'a str, request: &'a str, own: (List, usize), check: &mut Check<'_>) {
        let Some((list, first)) = self.pairs.get(&(claim, request)).copied() else {
            self.pairs.insert((claim, request), own);
            return;
        };
        let (own, n) = own;
        let pair = format!("{claim}/{request}");
        let mut message = format!("duplicate claimName/requestName pair {pair:?}");
        if list != own {
            message += &format!(" between GPUs[{first}] and HostDevices[{n}]");
        }
        check.duplicate(self.at.child(own.field()).index(n), message);
    }

    /// PCI address and mediated device UUID of a device, from the status.
    fn address(&self, entry: &Entry<'_>) -> (Option<String>, Option<String>) {
        let list = self.told.map(|told| match entry.list {
            List::Gpus => &told.gpu_statuses,
            List::HostDevices => &told.host_device_statuses,
        });
        let own = list.and_then(|list| list.iter().find(|one| one.name == entry.name));
        let given = own.and_then(|own| own.device_resource_claim_status.as_ref());
        match given.and_then(|given| given.attributes.as_ref()) {
            Some(found) => (found.pci_address.clone(), found.mdev_uuid.clone()),
            None => (None, None),
        }
    }
}

/// The resource, which the KubeVirt object must permit: the name in the spec becomes a resource request of
/// the pod.
fn resource(entry: &Entry<'_>, here: &Path, check: &mut Check<'_>) -> String {
    let at = here.child("deviceName");
    let Some(resource) = entry.device_name else {
        check.required(&at, format!("{at} is a required field"));
        return String::new();
    };
    if !is_resource(resource) {
        let message =
            format!("{at} must be the name of an extended resource, for example vendor.example/card");
        check.invalid(&at, message);
        return String::new();
    }
    if check.settings.host_devices.as_ref().is_some_and(|permitted| !permitted.contains(resource)) {
        let what = match entry.list {
            List::Gpus => "GPU",
            List::HostDevices => "HostDevice",
        };
        let message = format!("{what} {resource} is not permitted in permittedHostDevices configuration");
        check.invalid(&at, message);
    }
    resource.to_owned()
}

/// Checks further resources of the pod of a VMI with devices of its node. All VFIO and USB device files that
/// the kubelet gives such a pod become the launcher's. So each resource that may bring one must be permitted.
pub(super) fn other_resources(resources: Option<&vmi::Resources>, domain: &Path, check: &mut Check<'_>) {
    let settings = check.settings;
    let (Some(resources), Some(permitted)) = (resources, &settings.host_devices) else { return };
    for (kind, list) in [("requests", &resources.requests), ("limits", &resources.limits)] {
        // A resource without a domain belongs to Kubernetes itself.
        for name in list.keys().filter(|name| name.contains('/') && !permitted.contains(*name)) {
            let message = format!(
                "resource {name} is not permitted in permittedHostDevices configuration, and the VMI has devices of its node"
            );
            check.invalid(domain.child("resources").child(kind).child(name), message);
        }
    }
}

/// Displays of virtual GPUs.
struct Screens {
    there: bool,
    /// A device already has the frame buffer in memory (ramfb), which exists once.
    ramfb: bool,
}

impl Screens {
    /// The display of a GPU, if it is a mediated device. By default the first GPU has the only one.
    fn display(&mut self, entry: &Entry<'_>, here: &Path, check: &mut Check<'_>) -> Option<Display> {
        let options = entry.options?;
        let Some(vmi::VgpuOptions { display, other: _ }) = options else {
            if !self.there || self.ramfb {
                return None;
            }
            self.ramfb = true;
            return Some(Display { ramfb: true });
        };
        let vmi::VgpuDisplay { enabled, ram_fb, other: _ } = display.as_ref()?;
        if *enabled == Some(false) {
            return None;
        }
        let at = here.child("virtualGPUOptions").child("display");
        if !self.there {
            let message = format!("{at} is not allowed when autoattachGraphicsDevice is set to false");
            check.invalid(&at, message);
        }
        let said = ram_fb.as_ref().map(|FeatureState { enabled, other: _ }| enabled.unwrap_or(true));
        let ramfb = said.unwrap_or(!self.ramfb);
        if ramfb && std::mem::replace(&mut self.ramfb, true) {
            let at = at.child("ramFB");
            let message = format!("{at}: another device has the frame buffer already, and a guest has one");
            check.invalid(&at, message);
        }
        Some(Display { ramfb })
    }
}

#[cfg(test)]
#[path = "host_device_tests.rs"]
mod tests;
