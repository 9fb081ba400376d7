//! What the pod asks for: the guest's memory and processors, and what runs beside them.
//!
//! ```text
//! memory = guest / overcommit + (launcher + QEMU + processors + threads + screen + TPM + page tables + reserved) × ratio
//! cpu    = processors / allocation ratio, unless the spec says it
//! ```

use api::machine::{IoThreads, Machine, Nic};
use api::quantity::Quantity;
use api::vmi::VirtualMachineInstance;
use kubernetes::config::Config;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;
/// The launcher with libvirt inside: 25 MiB as measured, and what a start needs for a moment.
const LAUNCHER: u64 = 40 * MIB;
/// QEMU without its guest: code, devices, queues.
const QEMU: u64 = 64 * MIB;
/// What each of the guest's processors needs: stack, queues.
const PROCESSOR: u64 = 8 * MIB;
/// What the threads that do the work of disks need.
const THREADS: u64 = 8 * MIB;
/// The memory of a screen, and what VNC keeps of it.
const SCREEN: u64 = 32 * MIB;
/// swtpm, and what swtpm_setup needs for a moment.
const TPM: u64 = 16 * MIB;
/// Code that is translated for a guest without KVM.
const TRANSLATED: u64 = 128 * MIB;
/// One entry of 8 bytes for every 4 KiB: QEMU's own page tables are this part of the guest, and with KVM there are the
/// guest's second ones beside.
const PAGE_TABLES: u64 = 512;

/// A program that asks the guest for a probe, while it runs.
const PROBE: u64 = 16 * MIB;

/// What a VMI wants on top of what its devices need: what its spec reserves, and programs of its probes.
pub(super) fn beyond(vmi: &VirtualMachineInstance) -> u64 {
    let memory = vmi.spec.domain.memory.as_ref();
    let reserved =
        memory.and_then(|memory| memory.reserved_overhead.as_ref()?.added_overhead.as_ref()?.bytes());
    reserved.unwrap_or(0).saturating_add(super::probes::programs(vmi).saturating_mul(PROBE))
}

/// Memory beside the guest's, in bytes. `reserved`: what the VMI wants on top.
pub(crate) fn overhead(machine: &Machine, config: &Config, reserved: u64) -> u64 {
    let tables = match machine.memory.hugepage {
        // A huge page has one entry, in tables that are too small to count.
        Some(_) => 0,
        None => machine.memory.guest / PAGE_TABLES * if config.use_emulation { 1 } else { 2 },
    };
    let threads =
        machine.io_threads != IoThreads::Default || machine.disks.iter().any(|disk| disk.dedicated_io_thread);
    let sum = [
        LAUNCHER,
        QEMU,
        PROCESSOR.saturating_mul(u64::from(machine.cpu.count())),
        if threads { THREADS } else { 0 },
        if machine.video.is_some() { SCREEN } else { 0 },
        if machine.tpm.is_some() { TPM } else { 0 },
        if config.use_emulation { TRANSLATED } else { 0 },
        tables,
    ];
    let sum = sum.into_iter().fold(reserved, u64::saturating_add);
    // Only an unchanged sum stays exact: a ratio makes whole pages anyway.
    if config.overhead_ratio == 1.0 { sum } else { (sum as f64 * config.overhead_ratio) as u64 }
}

pub(super) fn resources(vmi: &VirtualMachineInstance, machine: &Machine, config: &Config) -> Value {
    let domain = &vmi.spec.domain;
    let nothing = BTreeMap::new();
    let said = domain.resources.as_ref();
    let (said_requests, said_limits) =
        said.map_or((&nothing, &nothing), |said| (&said.requests, &said.limits));
    let mut requests: BTreeMap<String, String> = BTreeMap::new();
    let mut limits: BTreeMap<String, String> = BTreeMap::new();
    // Devices and the like are handed on as they stand.
    for (list, said) in [(&mut requests, said_requests), (&mut limits, said_limits)] {
        let other = said.iter().filter(|(name, _)| !["memory"].contains(&name.as_str()));
        list.extend(other.map(|(name, amount)| (name.clone(), amount.to_string())));
    }

    let reserved = beyond(vmi);
    let beside = overhead(machine, config, reserved);
    let beside =
        if said.is_some_and(|said| said.overcommit_guest_overhead == Some(true)) { 0 } else { beside };

    let guest = machine.memory.guest;
    match machine.memory.hugepage {
        Some(page) => {
            let name = format!("hugepages-{}", page_name(page));
            requests.insert(name.clone(), guest.to_string());
            limits.insert(name, guest.to_string());
            requests.insert("memory".to_owned(), beside.to_string());
        }
        None => {
            let bytes = |list: &BTreeMap<String, Quantity>| list.get("memory").and_then(Quantity::bytes);
            let asked = bytes(said_requests).or_else(|| bytes(said_limits));
            let asked = asked
                .unwrap_or((u128::from(guest) * 100 / u128::from(config.memory_overcommit.max(1))) as u64);
            requests.insert("memory".to_owned(), asked.saturating_add(beside).to_string());
            if let Some(limit) = bytes(said_limits) {
                // The limit counts what runs beside even where it is not asked for.
                let beside = overhead(machine, config, reserved);
                limits.insert("memory".to_owned(), limit.saturating_add(beside).to_string());
            }
        }
    }
    if !requests.contains_key("cpu") && !limits.contains_key("cpu") {
        let share = config.cpu_request.clone().unwrap_or_else(|| {
            let milli = u64::from(machine.cpu.count()) * 1000 / config.cpu_allocation_ratio.max(1);
            format!("{}m", milli.max(1))
        });
        requests.insert("cpu".to_owned(), share);
    }
    requests.entry("ephemeral-storage".to_owned()).or_insert_with(|| "50M".to_owned());

    let mut device = |name: &str| limits.insert(format!("devices.kubevirt.io/{name}"), "1".to_owned());
    if !config.use_emulation {
        device("kvm");
    }
    if !machine.interfaces.is_empty() {
        device("tun");
    }
    if !config.use_emulation && machine.interfaces.iter().any(|interface| interface.model == Nic::Virtio) {
        device("vhost-net");
    }
    let mut resources = json!({"requests": requests});
    if !limits.is_empty() {
        resources["limits"] = json!(limits);
    }
    resources
}

fn page_name(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 30 && bytes.is_multiple_of(1 << 30) => format!("{}Gi", bytes >> 30),
        _ => format!("{}Mi", bytes >> 20),
    }
}
