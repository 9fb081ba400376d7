//! Metrics of virt-handler: resource usage of the node's VMIs, which is read from their launchers when the
//! metrics page is requested.
//!
//! ```text
//!  keepers ──► launchers ── all at once, each within its time ──► stats        ──► the page
//!                                                             └─► filesystems ─┘   (of the guest agent)
//!     └─ when they last asked the guest agent ──────────► load ──► the page
//!     └─ what they heard of panics ─────────────────────► panics ─► the page
//!     └─ progress and connections of migrations ────► migrations ─► the page
//!  the kernel, the kubelet ── what pods have of the node ► host ──► the page
//!  node-info ── machine types that are deprecated ────────────────► the page
//! ```
//!
//! A launcher belongs to a tenant. A launcher that does not answer is left out, and does not delay the
//! others. Of one that reports too much, only as many values are exported as a VMI can have, and only under
//! names of its spec: monitoring systems keep names for ever. A VMI has at most [`MOST`] disks and
//! interfaces, [`VCPUS`] vCPUs, and as many file system names as `filesystems` permits.

mod host;
mod migrations;
mod panics;
#[cfg(test)]
mod tests;

pub(crate) use host::Host;
pub(crate) use migrations::{observe_migration, observe_streams};
pub(crate) use panics::count_panic;

use super::bounds;
use super::filesystems::FilesystemUsage;
use super::launchers::{Entry, Launchers, Names};
use super::machine_types;
use api::launcher::{DiskStats, GuestLoad, InterfaceStats, MemoryStats, Stats, VcpuState, VcpuStats};
use cluster_client::metrics::Page;
use cluster_model::metrics::cut;
use host::{Gpu, PreviousSample};
use migrations::MigrationSample;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Most disks, and most interfaces, of a VMI.
const MOST: usize = 256;
/// Most vCPUs of a VMI.
const VCPUS: u32 = 512;
/// Time limit of a launcher.
const PATIENCE: Duration = Duration::from_secs(2);

/// Number of VMIs that launchers accepted, since the start of this program.
static SYNCS: AtomicU64 = AtomicU64::new(0);

/// Counts a VMI that was handed to its launcher.
pub(crate) fn synced() {
    SYNCS.fetch_add(1, Ordering::Relaxed);
}

/// Usage of each VMI whose launcher answers in time.
async fn ask(launchers: &Launchers) -> Vec<Used> {
    let mut asked = JoinSet::new();
    for entry in launchers.all() {
        asked.spawn(async move {
            // A guest agent that hangs costs its own VMI only the file systems.
            let filesystems = async {
                if !entry.agent {
                    return Vec::new();
                }
                let said = timeout(PATIENCE, entry.client.filesystems()).await;
                said.map(Result::unwrap_or_default).unwrap_or_default()
            };
            let (stats, said) = tokio::join!(timeout(PATIENCE, entry.client.stats()), filesystems);
            let filesystems = entry.filesystems.to_metrics(said);
            Some(Used { stats: bounded(stats.ok()?.ok()?), filesystems, entry })
        });
    }
    let mut used: Vec<Used> = asked.join_all().await.into_iter().flatten().collect();
    used.sort_by(|one, other| {
        (&one.entry.namespace, &one.entry.name).cmp(&(&other.entry.namespace, &other.entry.name))
    });
    used
}

/// Resource usage of a VMI.
#[derive(Debug)]
struct Used {
    entry: Entry,
    stats: Stats,
    filesystems: FilesystemUsage,
}

/// Stats within the limits of a VMI, each device with a valid name.
fn bounded(mut stats: Stats) -> Stats {
    fn limit_devices<T>(all: &mut BTreeMap<String, T>) {
        all.retain(|name, _| bounds::is_device(name));
        while all.len() > MOST {
            all.pop_last();
        }
    }
    limit_devices(&mut stats.disks);
    limit_devices(&mut stats.interfaces);
    stats.vcpus.retain(|id, _| *id < VCPUS);
    stats
}

/// Metrics page of a node's virt-handler.
pub(crate) async fn page(node: &str, launchers: &Launchers, host: &Host) -> String {
    let (used, had) = tokio::join!(ask(launchers), host.read_usage(launchers.all()));
    let listed = launchers.all();
    let paused = listed.iter().filter(|entry| entry.is_paused_for_disk()).count();
    page_of(node, &used, &had, paused, &migrations::samples(&listed))
}

fn page_of(
    node: &str,
    all: &[Used],
    had: &PreviousSample,
    paused: usize,
    migrations: &[MigrationSample],
) -> String {
    let mut page = Page::default();
    let version = env!("CARGO_PKG_VERSION");
    page.family("kubevirt_info").sample(&[("kubeversion", version)], 1.0);
    page.family("kubevirt_virt_handler_ready_status").sample(&[], 1.0);
    let syncs = SYNCS.load(Ordering::Relaxed) as f64;
    page.family("kubevirt_vmi_sync_total").sample(&[("node", node)], syncs);
    page.family("coracle_vmis_paused_for_disk_pressure").sample(&[("node", node)], paused as f64);
    page.requests();
    for (name, value) in VMI {
        let mut family = page.family(name);
        for used in all {
            if let Some(value) = value(&used.stats) {
                family.sample(&used.names(node), value);
            }
        }
    }
    for (name, value) in LOAD {
        let mut family = page.family(name);
        for used in all {
            if let Some(load) = used.entry.load.as_ref().and_then(value) {
                family.sample(&used.names(node), load);
            }
        }
    }
    for (name, value) in VCPU {
        let mut family = page.family(name);
        for used in all {
            for (id, stats) in &used.stats.vcpus {
                let (id, mut labels) = (id.to_string(), used.names(node).to_vec());
                labels.push(("id", &id));
                if let Some(value) = value(stats) {
                    family.sample(&labels, value);
                }
            }
        }
    }
    let mut family = page.family("kubevirt_vmi_vcpu_seconds_total");
    for used in all {
        for (id, stats) in &used.stats.vcpus {
            let (id, mut labels) = (id.to_string(), used.names(node).to_vec());
            labels.extend([("id", id.as_str()), ("state", vcpu_state(stats.state))]);
            family.sample(&labels, seconds(stats.ns));
        }
    }
    for (name, value) in DISK {
        let mut family = page.family(name);
        for used in all {
            for (name, stats) in by_name(&used.entry.disks, &used.stats.disks) {
                let mut labels = used.names(node).to_vec();
                labels.push(("drive", &name));
                family.sample(&labels, value(stats));
            }
        }
    }
    for (name, value) in NETWORK {
        let mut family = page.family(name);
        for used in all {
            for (name, stats) in by_name(&used.entry.taps, &used.stats.interfaces) {
                let mut labels = used.names(node).to_vec();
                labels.push(("interface", &name));
                family.sample(&labels, value(stats) as f64);
            }
        }
    }
    let mut family = page.family("kubevirt_vmi_network_traffic_bytes_total");
    for used in all {
        for (name, stats) in by_name(&used.entry.taps, &used.stats.interfaces) {
            for (way, bytes) in [("rx", stats.received_bytes), ("tx", stats.sent_bytes)] {
                let mut labels = used.names(node).to_vec();
                labels.extend([("interface", name.as_str()), ("type", way)]);
                family.sample(&labels, bytes as f64);
            }
        }
    }
    filesystems(&mut page, node, all);
    of_node(&mut page, node, all, had);
    migrations::write(&mut page, node, migrations);
    page.text()
}

/// Metrics of the node's resources that VMIs have.
fn of_node(page: &mut Page, node: &str, all: &[Used], had: &PreviousSample) {
    let mut family = page.family("kubevirt_vmi_node_cpu_affinity");
    for used in all {
        // Number of CPUs that each vCPU may run on: one, or those of the launcher.
        let each = if used.entry.has_own_cpus { Some(1) } else { had.cpus.get(&used.entry.uid).copied() };
        let online = used.stats.vcpus.values().filter(|vcpu| vcpu.state != VcpuState::Offline).count();
        if let Some(each) = each {
            family.sample(&used.names(node), online as f64 * each as f64);
        }
    }
    let mut family = page.family("kubevirt_vmi_gpu_info");
    for Gpu { namespace, pod, resource, uuid } in &had.gpus {
        family.sample(
            &[("node", node), ("namespace", namespace), ("pod", pod), ("resource", resource), ("uuid", uuid)],
            1.0,
        );
    }
    let mut family = page.family("kubevirt_vmi_guest_os_panic_total");
    for ((namespace, name), count) in panics::all() {
        let unknown = "unknown";
        let labels =
            [("namespace", &*namespace), ("name", &*name), ("type", unknown), ("bugcheck_code", unknown)];
        family.sample(&labels, count as f64);
    }
    let mut family = page.family("kubevirt_node_deprecated_machine_types");
    for machine_type in &machine_types::deprecated() {
        family.sample(&[("machine_type", machine_type), ("node", node)], 1.0);
    }
}

fn filesystems(page: &mut Page, node: &str, all: &[Used]) {
    for (name, is_capacity) in
        [("kubevirt_vmi_filesystem_capacity_bytes", true), ("kubevirt_vmi_filesystem_used_bytes", false)]
    {
        let mut family = page.family(name);
        for used in all {
            for ([disk, mount, kind], (total, used_bytes)) in &used.filesystems {
                let mut labels = used.names(node).to_vec();
                labels.extend([
                    ("disk_name", disk.as_str()),
                    ("mount_point", mount.as_str()),
                    ("file_system_type", kind.as_str()),
                ]);
                if let Some(bytes) = if is_capacity { total } else { used_bytes } {
                    family.sample(&labels, *bytes as f64);
                }
            }
        }
    }
}

impl Used {
    fn names<'a>(&'a self, node: &'a str) -> [(&'static str, &'a str); 3] {
        [("node", node), ("namespace", &self.entry.namespace), ("name", &self.entry.name)]
    }
}

/// Metrics of devices by their names in the spec; devices without such a name are left out.
fn by_name<'a, T>(names: &'a Names, stats: &'a BTreeMap<String, T>) -> impl Iterator<Item = (String, &'a T)> {
    stats.iter().filter_map(|(device, stats)| Some((cut(names.get(device)?), stats)))
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn vcpu_state(state: VcpuState) -> &'static str {
    match state {
        VcpuState::Offline => "offline",
        VcpuState::Running => "running",
        VcpuState::Blocked => "blocked",
    }
}

type Vmi = (&'static str, fn(&Stats) -> Option<f64>);

const VMI: [Vmi; 16] = [
    ("kubevirt_vmi_cpu_usage_seconds_total", |stats| Some(seconds(stats.cpu_ns))),
    ("kubevirt_vmi_cpu_user_usage_seconds_total", |stats| stats.cpu_user_ns.map(seconds)),
    ("kubevirt_vmi_cpu_system_usage_seconds_total", |stats| stats.cpu_system_ns.map(seconds)),
    ("kubevirt_vmi_memory_domain_bytes", |stats| Some(stats.memory.domain as f64)),
    ("kubevirt_vmi_memory_actual_balloon_bytes", |stats| number(stats.memory.balloon)),
    ("kubevirt_vmi_memory_resident_bytes", |stats| number(stats.memory.resident)),
    ("kubevirt_vmi_memory_unused_bytes", |stats| number(stats.memory.unused)),
    ("kubevirt_vmi_memory_available_bytes", |stats| number(stats.memory.available)),
    ("kubevirt_vmi_memory_usable_bytes", |stats| number(stats.memory.usable)),
    ("kubevirt_vmi_memory_used_bytes", |stats| number(used_memory(&stats.memory))),
    ("kubevirt_vmi_memory_cached_bytes", |stats| number(stats.memory.cached)),
    ("kubevirt_vmi_memory_swap_in_traffic_bytes", |stats| number(stats.memory.swapped_in)),
    ("kubevirt_vmi_memory_swap_out_traffic_bytes", |stats| number(stats.memory.swapped_out)),
    ("kubevirt_vmi_memory_pgmajfault_total", |stats| number(stats.memory.major_faults)),
    ("kubevirt_vmi_memory_pgminfault_total", |stats| number(stats.memory.minor_faults)),
    ("kubevirt_vmi_dirty_rate_bytes_per_second", |stats| number(stats.dirty_bytes_per_second)),
];

fn number(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

fn used_memory(memory: &MemoryStats) -> Option<u64> {
    memory.available?.checked_sub(memory.usable?)
}

type Load = (&'static str, fn(&GuestLoad) -> Option<f64>);

const LOAD: [Load; 3] = [
    ("kubevirt_vmi_guest_load_1m", |load| load.load1m),
    ("kubevirt_vmi_guest_load_5m", |load| load.load5m),
    ("kubevirt_vmi_guest_load_15m", |load| load.load15m),
];

type Vcpu = (&'static str, fn(&VcpuStats) -> Option<f64>);

const VCPU: [Vcpu; 2] = [
    ("kubevirt_vmi_vcpu_wait_seconds_total", |vcpu| vcpu.wait_ns.map(seconds)),
    ("kubevirt_vmi_vcpu_delay_seconds_total", |vcpu| vcpu.delay_ns.map(seconds)),
];

type Disk = (&'static str, fn(&DiskStats) -> f64);

const DISK: [Disk; 8] = [
    ("kubevirt_vmi_storage_read_traffic_bytes_total", |disk| disk.read_bytes as f64),
    ("kubevirt_vmi_storage_write_traffic_bytes_total", |disk| disk.written_bytes as f64),
    ("kubevirt_vmi_storage_iops_read_total", |disk| disk.reads as f64),
    ("kubevirt_vmi_storage_iops_write_total", |disk| disk.writes as f64),
    ("kubevirt_vmi_storage_flush_requests_total", |disk| disk.flushes as f64),
    ("kubevirt_vmi_storage_read_times_seconds_total", |disk| seconds(disk.read_ns)),
    ("kubevirt_vmi_storage_write_times_seconds_total", |disk| seconds(disk.write_ns)),
    ("kubevirt_vmi_storage_flush_times_seconds_total", |disk| seconds(disk.flush_ns)),
];

type Network = (&'static str, fn(&InterfaceStats) -> u64);

const NETWORK: [Network; 8] = [
    ("kubevirt_vmi_network_receive_bytes_total", |interface| interface.received_bytes),
    ("kubevirt_vmi_network_receive_packets_total", |interface| interface.received_packets),
    ("kubevirt_vmi_network_receive_errors_total", |interface| interface.received_errors),
    ("kubevirt_vmi_network_receive_packets_dropped_total", |interface| interface.received_dropped),
    ("kubevirt_vmi_network_transmit_bytes_total", |interface| interface.sent_bytes),
    ("kubevirt_vmi_network_transmit_packets_total", |interface| interface.sent_packets),
    ("kubevirt_vmi_network_transmit_errors_total", |interface| interface.sent_errors),
    ("kubevirt_vmi_network_transmit_packets_dropped_total", |interface| interface.sent_dropped),
];
