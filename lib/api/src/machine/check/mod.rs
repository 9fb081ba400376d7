//! The check: from a forgiving object to a strict [`Machine`], or to every fault.
//!
//! ```text
//! VirtualMachineInstance ─┬─ volumes ─► disks ─┐
//!                         ├─ networks ► interfaces
//!                         ├─ memory, cpu, firmware, …   ├─► Machine, if there is no fault
//!                         └─ pod (checked only, for the pod and the scheduler)
//! ```
//!
//! One file a noun. Every function destructures a struct completely, without `..`: a new field of an object
//! does not compile until its effect is decided here. A function that finds a fault records it and goes on
//! with any value that fits. That value is never seen, because a [`Machine`] with faults is not returned.

mod alias;
mod cloudinit;
mod cpu;
mod credentials;
mod dedicated;
mod devices;
mod disk;
mod downward;
mod filesystem;
mod firmware;
mod hook;
mod host_device;
mod hyperv;
mod interface;
mod memory;
mod network;
mod platform;
mod pod;
mod resource_claim;
mod settings;
mod text;
mod volume;

pub(super) use cpu::MOST as MOST_VCPUS;
pub use cpu::topology;
pub(super) use memory::MOST as MOST_MEMORY;
pub use memory::guest_memory;
pub use settings::{Files, Gates, OPEN_BY_DEFAULT, Settings, Site};
pub use text::{is_clean, not_plain, uuid};

use super::{Arch, Chipset, Machine, refused};
use crate::fault::{Fault, Reason};
use crate::vmi::{self, VirtualMachineInstance};
use crate::wire::Path;
use std::fmt::Display;

impl Machine {
    /// The checked description of `vmi`, or all its faults.
    pub fn check(vmi: &VirtualMachineInstance, settings: &Settings) -> Result<Machine, Vec<Fault>> {
        let namespace = text::non_empty(&vmi.metadata.namespace).unwrap_or("default");
        let mut check = Check { settings, namespace, faults: Vec::new() };
        let machine = machine(vmi, &mut check);
        refused::explain(&mut check.faults, &settings.at);
        if check.faults.is_empty() { Ok(machine) } else { Err(check.faults) }
    }

    /// The description of a VMI that was checked before. Only a value that makes a domain impossible is a
    /// fault, whatever the cluster permits. For a launcher, whose VMI virt-handler has checked, and for the
    /// status of a running VMI. A program that creates something from a VMI calls [`Machine::check`].
    pub fn check_again(vmi: &VirtualMachineInstance) -> Result<Machine, Vec<Fault>> {
        Machine::check(vmi, &Settings::of_checked())
    }
}

/// State of a check: its settings, and the faults so far.
struct Check<'a> {
    settings: &'a Settings,
    /// Namespace of the VMI.
    namespace: &'a str,
    faults: Vec<Fault>,
}

impl Check<'_> {
    fn invalid(&mut self, at: impl Display, message: impl Into<String>) {
        self.faults.push(Fault::new(at, Reason::Invalid, message));
    }

    fn required(&mut self, at: impl Display, message: impl Into<String>) {
        self.faults.push(Fault::new(at, Reason::Required, message));
    }

    fn duplicate(&mut self, at: impl Display, message: impl Into<String>) {
        self.faults.push(Fault::new(at, Reason::Duplicate, message));
    }

    fn not_found(&mut self, at: impl Display, message: impl Into<String>) {
        self.faults.push(Fault::new(at, Reason::NotFound, message));
    }

    fn not_supported(&mut self, at: impl Display, message: impl Into<String>) {
        self.faults.push(Fault::new(at, Reason::NotSupported, message));
    }

    fn not_yet(&mut self, at: impl Display) {
        self.faults.push(Fault::not_yet(at));
    }

    /// Refuses a field that is set and not supported yet.
    fn not_yet_some<T>(&mut self, value: &Option<T>, at: impl Display) {
        if value.is_some() {
            self.not_yet(at);
        }
    }

    /// Refuses a field that is not supported yet, with a remedy.
    fn not_yet_or(&mut self, at: impl Display, hint: &str) {
        self.faults.push(Fault::not_yet(at).hint(hint));
    }

    /// Refuses a field that this site does not support yet, with a remedy.
    fn not_yet_at(&mut self, lacking: &[Site], at: impl Display, hint: &str) {
        if lacking.contains(&self.settings.site) {
            self.not_yet_or(at, hint);
        }
    }

    /// Refuses a switch that is on and not supported yet.
    fn not_yet_on(&mut self, value: Option<bool>, at: impl Display) {
        if value == Some(true) {
            self.not_yet(at);
        }
    }

    /// Refuses each entry of a list that is not supported yet.
    fn not_yet_each<T>(&mut self, list: &[T], at: &Path) {
        for i in 0..list.len() {
            self.not_yet(at.index(i));
        }
    }
}

fn machine(vmi: &VirtualMachineInstance, check: &mut Check<'_>) -> Machine {
    let VirtualMachineInstance { api_version: _, kind: _, metadata, spec, status, other: _ } = vmi;
    let at = check.settings.at.clone();

    let name = pod::name(metadata, check);
    let mut hooks = pod::annotations(metadata, check);
    let vmi::Spec {
        priority_class_name: _, // scheduler
        domain,
        node_selector: _, // scheduler
        affinity: _,      // scheduler
        scheduler_name: _,
        service_account_name,
        tolerations: _,                 // scheduler
        topology_spread_constraints: _, // scheduler
        eviction_strategy,
        start_strategy,
        termination_grace_period_seconds,
        volumes,
        liveness_probe,
        readiness_probe,
        hostname,
        subdomain,
        networks,
        dns_policy,
        dns_config,
        access_credentials,
        architecture,
        resource_claims,
        utility_volumes,
        other: _,
    } = spec;

    pod::service_account(service_account_name.as_deref(), volumes, &at, check);
    pod::eviction(eviction_strategy.as_ref(), &at, check);
    pod::probes(liveness_probe.as_ref(), readiness_probe.as_ref(), networks, &at, check);
    pod::dns(dns_policy.as_deref(), dns_config.as_ref(), &at, check);
    let claims = resource_claim::resource_claims(resource_claims, &domain.devices, &at, check);
    check.not_yet_each(utility_volumes, &at.child("utilityVolumes"));

    let domain_at = at.child("domain");
    let vmi::Domain {
        resources,
        cpu: _,    // with the resources, below
        memory: _, // with the resources, below
        machine,
        firmware,
        clock,
        features,
        devices,
        io_threads_policy,
        io_threads,
        chassis,
        launch_security,
        reboot_policy,
        other: _,
    } = domain;
    pod::resources(resources.as_ref(), &domain_at, check);
    check.not_yet_some(launch_security, domain_at.child("launchSecurity"));

    let before = check.faults.len();
    let arch = architecture_of(architecture.as_deref(), &at, check);
    let is_known_arch = check.faults.len() == before;
    let machine_type = platform::machine_type(machine.as_ref(), is_known_arch, &domain_at, check);
    let chipset = if machine_type.contains("q35") { Chipset::Q35 } else { Chipset::I440fx };
    let features = platform::features(features.as_ref(), domain.cpu.as_ref(), &domain_at, check);
    let clock = platform::clock(clock.as_ref(), &features.hyperv, &domain_at, check);
    let serial = devices::serial(devices, &domain_at, check);
    let firmware = firmware::firmware(
        firmware.as_ref(),
        &firmware::FirmwareInput { chipset, smm: features.smm, serial: serial.is_some() },
        &domain_at,
        check,
    );

    let hints = status.as_ref().and_then(|status| status.topology_hints.as_ref());
    let devices_at = domain_at.child("devices");
    let volumes = volume::volumes(volumes, devices, &at, check);
    let networks = network::networks(networks, &devices.interfaces, &at, check);
    let mut taken = disk::UniqueFields::default();
    let disks = disk::disks(&devices.disks, &volumes, &mut taken, &devices_at, check);
    let filesystems = filesystem::filesystems(devices, &volumes, &devices_at, check);
    let interfaces = interface::interfaces(&devices.interfaces, &networks, &mut taken, &devices_at, check);
    hooks.extend(interface::sidecars(&interfaces));
    let credentials = credentials::credentials(access_credentials, &volumes, &at, check);
    let told = status.as_ref().and_then(|status| status.device_status.as_ref());
    let host_devices = host_device::host_devices(devices, told, &devices_at, check);
    let small = devices::small(devices, metadata, &domain_at, check);
    devices::tpm_beside(&firmware, small.tpm, &devices_at, check);

    let whole = Machine {
        hostname: pod::hostname(hostname.as_deref(), &name, &at, check),
        subdomain: pod::subdomain(subdomain.as_deref(), &at, check),
        name,
        namespace: pod::namespace(check),
        uid: text::non_empty(&metadata.uid).map(str::to_owned),
        arch,
        machine_type,
        chipset,
        memory: memory::memory(domain, &domain_at, check),
        cpu: cpu::cpu(domain, hints, &domain_at, check),
        firmware,
        chassis: platform::chassis(chassis.as_ref(), &domain_at, check),
        features,
        clock,
        disks,
        filesystems,
        interfaces,
        host_devices,
        resource_claims: claims,
        inputs: small.inputs,
        usb_redirection: small.usb_redirection,
        downward_metrics: small.downward_metrics,
        vsock: small.vsock,
        rng: devices.rng.is_some(),
        watchdog: small.watchdog,
        tpm: small.tpm,
        balloon: devices.autoattach_mem_balloon.unwrap_or(true),
        serial,
        video: small.video,
        sound: small.sound,
        panics: small.panics,
        virtio_transitional: devices.use_virtio_transitional.unwrap_or(false),
        no_hotplug: devices.disable_hotplug.unwrap_or(false),
        block_multi_queue: devices.block_multi_queue.unwrap_or(false),
        network_multi_queue: devices.network_interface_multiqueue.unwrap_or(false),
        mesh: pod::is_in_mesh(metadata),
        io_threads: platform::io_threads(io_threads_policy.as_ref(), io_threads.as_ref(), &domain_at, check),
        start_paused: pod::starts_paused(start_strategy.as_ref(), liveness_probe.is_some(), &at, check),
        reboot: platform::reboot(reboot_policy.as_ref(), &domain_at, check),
        grace_period: pod::grace_period(*termination_grace_period_seconds, &at, check),
        credentials,
        hooks,
    };
    if whole.has_device_of_node() {
        host_device::other_resources(resources.as_ref(), &domain_at, check);
    }
    pod::check_file_names(&whole, check);
    // Without faults, indexes of devices equal those of the lists in the spec.
    if check.faults.is_empty() {
        alias::aliases(&whole, &devices_at, check);
    }
    whole
}

fn architecture_of(architecture: Option<&str>, at: &Path, check: &mut Check<'_>) -> Arch {
    let Some(name) = architecture.filter(|name| !name.is_empty()) else { return Arch::DEFAULT };
    match Arch::named(name) {
        Some(arch) if arch.facts().is_served => return arch,
        known => {
            let (at, message) = (at.child("architecture"), format!("unsupported architecture: {name}"));
            // KubeVirt has s390x too.
            if known.is_some() || name == "s390x" {
                check.not_supported(at, message);
            } else {
                check.invalid(at, message);
            }
        }
    }
    Arch::DEFAULT
}
