//! The domain of a VMI as libvirt has it, for `virsh` in a launcher pod.

use serde::{Deserialize, Serialize};

/// The domain of a VMI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// Name: namespace and name of the VMI, joined by `_`.
    pub name: String,
    /// Number of a running domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    pub uuid: String,
    /// OS type of libvirt, always `hvm`.
    pub os_type: String,
    /// State, as `virDomainState` counts: 1 is running, 3 paused, 5 shut off.
    pub state: u32,
    /// Reason of the state, as libvirt counts those of this state.
    pub reason: i32,
    pub vcpus: u32,
    /// CPU time in nanoseconds.
    pub cpu_ns: u64,
    /// Memory limit in KiB.
    pub max_memory_kib: u64,
    /// Memory in KiB, which the balloon changes.
    pub memory_kib: u64,
    /// True if libvirt keeps the definition of a domain that does not run.
    pub persistent: bool,
    /// True if libvirt starts the domain by itself.
    pub autostart: bool,
    /// True if libvirt holds a saved image of the domain's memory.
    pub managed_save: bool,
    /// Security model and its domain of interpretation, where libvirt has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<(String, String)>,
    /// Notes of libvirt: deprecated features, reasons why the domain is tainted.
    #[serde(default)]
    pub messages: Vec<String>,
    pub qemu: String,
    /// XML of the domain as it runs, without secrets.
    pub xml: String,
    /// XML of the definition for the next start, without secrets.
    pub inactive_xml: String,
}

/// A command for QEMU's monitor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MonitorCommand {
    /// The command: a JSON text for QMP, or words for the human monitor.
    pub command: String,
    /// True for the human monitor (HMP).
    #[serde(default)]
    pub human: bool,
}
