//! Dedicated CPUs of a VM (`dedicatedCpuPlacement`), and their assignment to vCPUs.
//!
//! ```text
//!  /proc/self/status ─────────────► CPUs and NUMA nodes of this launcher ───────────┐
//!  /sys/devices/system/{cpu,node} ► core and NUMA node of each CPU ─────────────────┴─► pin (pure) ─► Pinning
//! ```
//!
//! The kubelet gives whole CPUs to the launcher's container (CPU manager, policy `static`), and the launcher
//! runs on them. vCPUs are assigned core by core: the threads of a guest's core are those of one core of the
//! host, as far as there are whole cores. The last CPU is that of the emulator threads, if they have their
//! own.
//!
//! Without a kubelet (`coracle run`) other processes use these CPUs too.

use crate::domain::host::{Cell, Pinning};
use crate::error::{Error, Result};
use api::cpus;
use api::machine::Machine;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Folder in which the kernel lists CPUs and NUMA nodes.
const SYSTEM: &str = "/sys/devices/system";
/// File with the CPUs and NUMA nodes of this process.
const STATUS: &str = "/proc/self/status";
/// Field of the spec.
const FIELD: &str = "spec.domain.cpu.dedicatedCpuPlacement";

/// A CPU of the host, in the order in which CPUs are assigned to vCPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cpu {
    node: u32,
    package: u32,
    core: u32,
    number: u32,
}

/// CPUs of a VM's vCPUs; `None` for a VM that shares CPUs with others.
pub(super) fn pinning(machine: &Machine) -> Result<Option<Pinning>> {
    if !machine.cpu.dedicated {
        return Ok(None);
    }
    let status = fs::read_to_string(STATUS).map_err(|e| Error::io(format!("cannot read {STATUS}"), e))?;
    let list = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).and_then(cpus::read);
    let own = list("Cpus_allowed_list:")
        .ok_or_else(|| Error::refused(format!("{STATUS} does not list the CPUs of this process")))?;
    let places = topology(Path::new(SYSTEM), &own);
    pin(machine, &places, &list("Mems_allowed_list:").unwrap_or_default()).map(Some)
}

/// True if threads of this process may have real-time priority.
pub(super) fn may_be_realtime() -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Rtprio).current;
    // A missing number means no limit.
    rustix::process::geteuid().is_root() || limit.is_none_or(|limit| limit > 0)
}

/// Core and NUMA node of each CPU. A CPU that the kernel does not list has its own core, and node 0.
fn topology(system: &Path, own: &BTreeSet<u32>) -> Vec<Cpu> {
    let mut nodes: BTreeMap<u32, u32> = BTreeMap::new();
    for entry in fs::read_dir(system.join("node")).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let node = name.to_str().and_then(|name| name.strip_prefix("node")?.parse().ok());
        let list = fs::read_to_string(entry.path().join("cpulist")).ok();
        if let (Some(node), Some(list)) = (node, list.as_deref().and_then(cpus::read)) {
            nodes.extend(list.into_iter().map(|cpu| (cpu, node)));
        }
    }
    let place = |&number: &u32| {
        let topology = system.join(format!("cpu/cpu{number}/topology"));
        let read = |file: &str| fs::read_to_string(topology.join(file)).ok()?.trim().parse().ok();
        Cpu {
            node: nodes.get(&number).copied().unwrap_or(0),
            package: read("physical_package_id").unwrap_or(0),
            core: read("core_id").unwrap_or(number),
            number,
        }
    };
    let mut found: Vec<Cpu> = own.iter().map(place).collect();
    found.sort_unstable();
    found
}

/// Assigns CPUs to the vCPUs. `cpus`: in order. `memories`: NUMA nodes whose memory this process may have.
fn pin(machine: &Machine, cpus: &[Cpu], memories: &BTreeSet<u32>) -> Result<Pinning> {
    let needed = machine.cpu.dedicated_count();
    let mut order = in_order(cpus, machine.cpu.threads).into_iter();
    if u32::try_from(cpus.len()).is_ok_and(|has| has < needed) {
        let has = cpus::write(cpus.iter().map(|cpu| cpu.number).collect::<BTreeSet<_>>());
        return Err(Error::refused(format!(
            "{FIELD}: {needed} CPUs are needed, and the launcher has {has}: the kubelet of its node must have the CPU manager \
             policy static, and its pod the class Guaranteed; on your own computer, use fewer vCPUs"
        )));
    }
    let vcpus: Vec<Cpu> =
        order.by_ref().take(usize::try_from(machine.cpu.count()).unwrap_or(usize::MAX)).collect();
    let emulator = order.next().filter(|_| machine.cpu.isolated_emulator).map(|cpu| cpu.number);
    let cells = if machine.cpu.numa_of_host { cells(machine, &vcpus)? } else { Vec::new() };
    let nodes: BTreeSet<u32> = cells.iter().map(|cell| cell.node).collect();
    // If the kernel permits memory of these nodes only, and there is one, nothing has to be bound.
    let bound = nodes.len() > 1 || memories.iter().any(|node| !nodes.contains(node));
    Ok(Pinning {
        vcpus: vcpus.iter().map(|cpu| cpu.number).collect(),
        emulator,
        bound: bound && !cells.is_empty(),
        cells,
    })
}

/// The CPUs in the order of whole cores first, if a guest's core has more than one thread.
fn in_order(cpus: &[Cpu], threads: u32) -> Vec<Cpu> {
    let threads = usize::try_from(threads.max(1)).unwrap_or(1);
    let (mut whole, mut rest) = (Vec::new(), Vec::new());
    for core in cpus.chunk_by(|a, b| (a.node, a.package, a.core) == (b.node, b.package, b.core)) {
        for part in core.chunks(threads) {
            if part.len() == threads { whole.extend(part) } else { rest.extend(part) }
        }
    }
    whole.into_iter().chain(rest).copied().collect()
}

/// NUMA cells of the guest: one for each node of its CPUs, with an equal part of the memory.
fn cells(machine: &Machine, vcpus: &[Cpu]) -> Result<Vec<Cell>> {
    let mut of_node: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (vcpu, cpu) in (0..).zip(vcpus) {
        of_node.entry(cpu.node).or_default().push(vcpu);
    }
    // vCPUs that are hotplugged later have neither a CPU nor their own cell.
    if let Some((_, last)) = of_node.iter_mut().next_back() {
        last.extend(machine.cpu.count()..machine.cpu.max_count());
    }
    let page = machine.memory.hugepage.unwrap_or(2 << 20).max(1);
    let pages = machine.memory.guest / page;
    let count = u64::try_from(of_node.len()).unwrap_or(1).max(1);
    if pages < count {
        return Err(Error::refused(format!(
            "spec.domain.cpu.numa.guestMappingPassthrough: the vCPUs are on {count} NUMA nodes, and {pages} huge pages of \
             memory cannot be divided among them; use more memory, or smaller pages"
        )));
    }
    let (each, more) = (pages / count, pages % count);
    let cell = |(index, (node, vcpus)): (u64, (u32, Vec<u32>))| {
        let memory = if index == 0 { each.saturating_add(more) } else { each };
        Cell { node, vcpus, memory: memory.saturating_mul(page) }
    };
    Ok((0..).zip(of_node).map(cell).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::machine::Machine;
    use serde_json::{Value, json};

    fn machine(cpu: &Value) -> Machine {
        let vmi = json!({
            "metadata": {"name": "a", "namespace": "n"},
            "spec": {"domain": {
                "cpu": cpu,
                "memory": {"guest": "22Mi", "hugepages": {"pageSize": "2Mi"}},
                "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                "devices": {},
            }},
        });
        Machine::check_again(&api::wire::read(vmi).unwrap()).unwrap()
    }

    /// Two nodes of two cores of two threads: node 0 has the CPUs 0, 1, 4 and 5; 0 and 4 are threads of one
    /// core.
    fn host(own: &[u32]) -> Vec<Cpu> {
        let system = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = system.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for cpu in 0..8 {
            write(&format!("cpu/cpu{cpu}/topology/physical_package_id"), &format!("{}\n", cpu % 4 / 2));
            write(&format!("cpu/cpu{cpu}/topology/core_id"), &format!("{}\n", cpu % 4));
        }
        write("node/node0/cpulist", "0-1,4-5\n");
        write("node/node1/cpulist", "2-3,6-7\n");
        write("node/possible", "0-1\n");
        topology(system.path(), &own.iter().copied().collect())
    }

    fn pinned(cpu: &Value, own: &[u32]) -> Pinning {
        pin(&machine(cpu), &host(own), &BTreeSet::from([0, 1])).unwrap()
    }

    #[test]
    fn each_vcpu_has_a_cpu_and_the_emulator_the_last() {
        let all = [0, 1, 2, 3, 4, 5, 6, 7];
        let shared = pinned(&json!({"cores": 3, "dedicatedCpuPlacement": true}), &all);
        assert_eq!((shared.vcpus, shared.emulator, shared.cells), (vec![0, 4, 1], None, vec![]));
        let cpu = json!({"cores": 2, "dedicatedCpuPlacement": true, "isolateEmulatorThread": true});
        let isolated = pinned(&cpu, &[1, 3, 6]);
        assert_eq!((isolated.vcpus, isolated.emulator), (vec![1, 6], Some(3)));
    }

    #[test]
    fn threads_of_a_guests_core_are_those_of_a_hosts() {
        let cpu = json!({"cores": 2, "threads": 2, "dedicatedCpuPlacement": true});
        assert_eq!(pinned(&cpu, &[0, 1, 2, 5, 6]).vcpus, [1, 5, 2, 6]);
        assert_eq!(pinned(&cpu, &[0, 1, 2, 3]).vcpus, [0, 1, 2, 3], "there are no whole cores");
    }

    #[test]
    fn too_few_cpus_are_told() {
        let cpu = json!({"cores": 2, "dedicatedCpuPlacement": true, "isolateEmulatorThread": true});
        let error = pin(&machine(&cpu), &host(&[0, 1]), &BTreeSet::new()).unwrap_err().to_string();
        assert!(error.contains("3 CPUs are needed, and the launcher has 0-1"), "{error}");
    }

    #[test]
    fn a_guest_sees_the_nodes_of_its_cpus_with_their_memory() {
        let cpu = json!({"cores": 3, "maxSockets": 2, "dedicatedCpuPlacement": true, "numa": {"guestMappingPassthrough": {}}});
        let both = pinned(&cpu, &[0, 1, 2]);
        let cell =
            |node, vcpus: &[u32], memory: u64| Cell { node, vcpus: vcpus.to_vec(), memory: memory << 20 };
        assert_eq!(both.cells, [cell(0, &[0, 1], 12), cell(1, &[2, 3, 4, 5], 10)]);
        assert!(both.bound);
        let one = |memories: &[u32]| {
            pin(&machine(&cpu), &host(&[0, 1, 4]), &memories.iter().copied().collect()).unwrap()
        };
        assert_eq!(one(&[0]).cells, [cell(0, &[0, 1, 2, 3, 4, 5], 22)]);
        assert_eq!((one(&[0]).bound, one(&[0, 1]).bound), (false, true));
    }

    #[test]
    fn this_process_has_cpus() {
        let cpu = json!({"dedicatedCpuPlacement": true});
        assert_eq!(pinning(&machine(&cpu)).unwrap().unwrap().vcpus.len(), 1);
        assert_eq!(pinning(&machine(&json!({}))).unwrap(), None);
    }
}
