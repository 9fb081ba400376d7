//! Values of an instance type, and conflicts with fields that the VM sets itself.

use super::{Conflict, topology};
use crate::instancetype::{CpuInstancetype, InstancetypeSpec, MemoryInstancetype, PreferenceSpec};
use crate::quantity::Quantity;
use crate::vm::Template;
use crate::vmi::{Domain, Resources};
use std::collections::BTreeMap;

/// Sets the fields of the instance type. Returns the conflicts with fields that the VM sets too.
pub(super) fn apply(
    instancetype: &InstancetypeSpec,
    preference: Option<&PreferenceSpec>,
    template: &mut Template,
    at: &str,
) -> Vec<Conflict> {
    let InstancetypeSpec {
        node_selector,
        scheduler_name,
        cpu,
        memory,
        gpus,
        host_devices,
        io_threads_policy,
        io_threads,
        launch_security,
        annotations,
        other: _,
    } = instancetype;
    let mut found = SizeConflicts { at, conflicts: Vec::new() };
    let spec = &mut template.spec;
    if !node_selector.is_empty() {
        found.both(!spec.node_selector.is_empty(), "nodeSelector");
        spec.node_selector.clone_from(node_selector);
    }
    found.option(&mut spec.scheduler_name, scheduler_name, "schedulerName");
    of_cpu(cpu, preference, &mut spec.domain, &mut found);
    of_memory(memory, &mut spec.domain, &mut found);
    found.option(&mut spec.domain.io_threads_policy, io_threads_policy, "domain.ioThreadsPolicy");
    found.option(&mut spec.domain.io_threads, io_threads, "domain.ioThreads");
    found.option(&mut spec.domain.launch_security, launch_security, "domain.launchSecurity");
    found.list(&mut spec.domain.devices.gpus, gpus, "domain.devices.gpus");
    found.list(&mut spec.domain.devices.host_devices, host_devices, "domain.devices.hostDevices");
    if !annotations.is_empty() {
        let said = &mut template.metadata.get_or_insert_default().annotations;
        for (key, value) in annotations {
            if said.get(key).is_some_and(|said| said != value) {
                found.conflicts.push(Conflict::of(format!("annotations.{key}")));
            }
            said.insert(key.clone(), value.clone());
        }
    }
    found.conflicts
}

/// Fields that both set.
struct SizeConflicts<'a> {
    at: &'a str,
    conflicts: Vec<Conflict>,
}

impl SizeConflicts<'_> {
    fn both(&mut self, is_said: bool, field: &str) {
        if is_said {
            self.conflicts.push(Conflict::of(format!("{}.{field}", self.at)));
        }
    }

    fn option<T: Clone>(&mut self, said: &mut Option<T>, given: &Option<T>, field: &str) {
        if given.is_some() {
            self.both(said.is_some(), field);
            said.clone_from(given);
        }
    }

    fn list<T: Clone>(&mut self, said: &mut Vec<T>, given: &[T], field: &str) {
        if !given.is_empty() {
            self.both(!said.is_empty(), field);
            *said = given.to_vec();
        }
    }
}

fn of_cpu(
    given: &CpuInstancetype,
    preference: Option<&PreferenceSpec>,
    domain: &mut Domain,
    found: &mut SizeConflicts<'_>,
) {
    let CpuInstancetype {
        guest,
        model,
        dedicated_cpu_placement,
        numa,
        isolate_emulator_thread,
        realtime,
        max_sockets,
        other: _,
    } = given;
    of_resources(domain.resources.as_ref(), "cpu", found);
    let cpu = domain.cpu.get_or_insert_default();
    // Go clients write 0 for an unset field.
    let is_said = |count: Option<u32>| count.is_some_and(|count| count > 0);
    for (count, name) in [(cpu.sockets, "sockets"), (cpu.cores, "cores"), (cpu.threads, "threads")] {
        found.both(is_said(count), &format!("domain.cpu.{name}"));
    }
    cpu.model = cpu.model.take().filter(|model| !model.is_empty());
    found.option(&mut cpu.model, model, "domain.cpu.model");
    // False is the default, and the same as unset.
    for (said, given, field) in [
        (&mut cpu.dedicated_cpu_placement, dedicated_cpu_placement, "domain.cpu.dedicatedCPUPlacement"),
        (&mut cpu.isolate_emulator_thread, isolate_emulator_thread, "domain.cpu.isolateEmulatorThread"),
    ] {
        *said = said.filter(|said| *said);
        found.option(said, given, field);
    }
    found.option(&mut cpu.numa, numa, "domain.cpu.numa");
    found.option(&mut cpu.realtime, realtime, "domain.cpu.realtime");
    cpu.max_sockets = cpu.max_sockets.filter(|most| *most > 0);
    found.option(&mut cpu.max_sockets, max_sockets, "domain.cpu.maxSockets");
    match topology::split_vcpus(*guest, preference) {
        Ok((sockets, cores, threads)) => {
            (cpu.sockets, cpu.cores, cpu.threads) = (Some(sockets), Some(cores), Some(threads));
        }
        Err(conflict) => found.conflicts.push(conflict),
    }
}

fn of_memory(given: &MemoryInstancetype, domain: &mut Domain, found: &mut SizeConflicts<'_>) {
    let MemoryInstancetype { guest, hugepages, overcommit_percent, max_guest, other: _ } = given;
    let memory = domain.memory.get_or_insert_default();
    found.both(memory.guest.is_some(), "domain.memory.guest");
    found.option(&mut memory.hugepages, hugepages, "domain.memory.hugepages");
    found.option(&mut memory.max_guest, max_guest, "domain.memory.maxGuest");
    memory.guest = Some(guest.clone());
    of_resources(domain.resources.as_ref(), "memory", found);
    let percent = overcommit_percent.and_then(|percent| u64::try_from(percent).ok()).unwrap_or(0);
    if let Some(bytes) = guest.bytes().filter(|_| percent > 0) {
        let kept = u128::from(bytes) * u128::from(100_u64.saturating_sub(percent)) / 100;
        let request = Quantity::of_bytes(u64::try_from(kept).unwrap_or(bytes));
        domain.resources.get_or_insert_default().requests.insert("memory".to_owned(), request);
    }
}

/// Checks a resource of the launcher pod that would size the guest.
fn of_resources(resources: Option<&Resources>, name: &str, found: &mut SizeConflicts<'_>) {
    let Some(resources) = resources else { return };
    let has = |amounts: &BTreeMap<String, Quantity>| amounts.contains_key(name);
    found.both(has(&resources.requests), &format!("domain.resources.requests.{name}"));
    found.both(has(&resources.limits), &format!("domain.resources.limits.{name}"));
}
