//! What a VMI has used.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a VMI has used since it started; a new start counts from zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Stats {
    /// How long processors worked for it, in nanoseconds.
    pub cpu_ns: u64,
    /// The part of it in user mode, and …
    pub cpu_user_ns: Option<u64>,
    /// … in system mode; nothing where libvirt does not tell them apart.
    pub cpu_system_ns: Option<u64>,
    /// Its vCPUs, by number.
    pub vcpus: BTreeMap<u32, VcpuStats>,
    /// Its memory. What only a guest's driver knows is nothing where there is none.
    pub memory: MemoryStats,
    /// Bytes of its memory that it writes each second, as they were measured after the last question; nothing where they were not.
    pub dirty_bytes_per_second: Option<u64>,
    /// Its disks, by what the guest's driver calls them (`vda`).
    pub disks: BTreeMap<String, DiskStats>,
    /// Its interfaces, by the device on the host (`tap0`).
    pub interfaces: BTreeMap<String, InterfaceStats>,
}

/// What a vCPU has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VcpuStats {
    /// What it does at this moment.
    pub state: VcpuState,
    /// How long it ran, in nanoseconds.
    pub ns: u64,
    /// How long it waited for I/O.
    pub wait_ns: Option<u64>,
    /// How long it waited for a processor of the host.
    pub delay_ns: Option<u64>,
}

/// What a vCPU does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VcpuState {
    #[default]
    Offline,
    Running,
    Blocked,
}

/// The memory of a VMI, in bytes but for the faults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemoryStats {
    /// What it may have at most.
    pub domain: u64,
    /// What the balloon leaves it.
    pub balloon: Option<u64>,
    /// What its process holds.
    pub resident: Option<u64>,
    pub unused: Option<u64>,
    pub available: Option<u64>,
    pub usable: Option<u64>,
    pub cached: Option<u64>,
    pub swapped_in: Option<u64>,
    pub swapped_out: Option<u64>,
    /// How often the guest had to fetch a page from a disk, …
    pub major_faults: Option<u64>,
    /// … and from elsewhere.
    pub minor_faults: Option<u64>,
}

/// What went through a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskStats {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    pub flushes: u64,
    /// How long all reads took together, in nanoseconds, …
    pub read_ns: u64,
    /// … all writes, …
    pub write_ns: u64,
    /// … and all flushes.
    pub flush_ns: u64,
}

/// What went through an interface, as the guest sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InterfaceStats {
    pub received_bytes: u64,
    pub received_packets: u64,
    pub received_errors: u64,
    pub received_dropped: u64,
    pub sent_bytes: u64,
    pub sent_packets: u64,
    pub sent_errors: u64,
    pub sent_dropped: u64,
}
