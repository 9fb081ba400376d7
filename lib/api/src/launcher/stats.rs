//! Resource usage of a VMI.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Resource usage of a VMI since it started; a new start counts from zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Stats {
    /// CPU time in nanoseconds.
    pub cpu_ns: u64,
    /// Part of `cpu_ns` in user mode, and …
    pub cpu_user_ns: Option<u64>,
    /// … in system mode; `None` if libvirt does not report them separately.
    pub cpu_system_ns: Option<u64>,
    /// vCPUs by their numbers.
    pub vcpus: BTreeMap<u32, VcpuStats>,
    /// Memory. Values that only a driver in the guest knows are `None` without that driver.
    pub memory: MemoryStats,
    /// Bytes of memory that the guest dirties per second, measured since the previous request; `None` without
    /// a measurement.
    pub dirty_bytes_per_second: Option<u64>,
    /// Disks, by their target name (`vda`).
    pub disks: BTreeMap<String, DiskStats>,
    /// Interfaces, by the device on the host (`tap0`).
    pub interfaces: BTreeMap<String, InterfaceStats>,
}

/// Usage of a vCPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VcpuStats {
    pub state: VcpuState,
    /// CPU time in nanoseconds.
    pub ns: u64,
    /// Nanoseconds of waiting for I/O.
    pub wait_ns: Option<u64>,
    /// Nanoseconds of waiting for a processor of the host.
    pub delay_ns: Option<u64>,
}

/// State of a vCPU.
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
    /// Maximum memory of the domain.
    pub domain: u64,
    /// Memory that the balloon leaves to the guest.
    pub balloon: Option<u64>,
    /// Resident memory of the QEMU process.
    pub resident: Option<u64>,
    pub unused: Option<u64>,
    pub available: Option<u64>,
    pub usable: Option<u64>,
    pub cached: Option<u64>,
    pub swapped_in: Option<u64>,
    pub swapped_out: Option<u64>,
    /// Page faults of the guest that read from a disk, …
    pub major_faults: Option<u64>,
    /// … and from elsewhere.
    pub minor_faults: Option<u64>,
}

/// Traffic of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiskStats {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    pub flushes: u64,
    /// Total time of all reads, in nanoseconds, …
    pub read_ns: u64,
    /// … all writes, …
    pub write_ns: u64,
    /// … and all flushes.
    pub flush_ns: u64,
}

/// Traffic of an interface, from the view of the guest.
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
