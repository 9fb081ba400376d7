//! Capabilities of a node, as found by `virt-launcher node-info`: one JSON document, for users (`coracle
//! host`), for `coracle run` and for virt-handler.

use crate::launcher::Accelerator;
use serde::{Deserialize, Serialize};

/// Capabilities of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Support of hardware virtualization.
    pub kvm: Kvm,
    /// Architecture in Kubernetes' words: `amd64`.
    pub arch: String,
    /// Version of libvirt, if it is installed.
    pub libvirt: Option<String>,
    /// Version of QEMU, if it is installed.
    pub qemu: Option<String>,
    /// Accelerators that this QEMU supports.
    pub accelerators: Vec<Accelerator>,
    /// Machine types of QEMU, with deprecated ones.
    pub machine_types: Vec<String>,
    /// Machine types that QEMU will drop.
    #[serde(default)]
    pub deprecated_machine_types: Vec<String>,
    /// CPU models and features for guests.
    pub cpu: Cpu,
    /// Devices of the host that VMIs need.
    pub devices: Vec<Device>,
    /// Huge pages by size.
    pub hugepages: Vec<Hugepages>,
    pub firmware: Vec<Efi>,
    /// Missing programs, devices and settings, each with the command that provides it.
    pub missing: Vec<Missing>,
}

/// Support of hardware virtualization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kvm {
    pub verdict: Verdict,
    /// Reason why the verdict is not `Full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Degree of the support of hardware virtualization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Full,
    /// Firmware runs, kernels may not.
    Limited,
    None,
}

/// CPU models and features for guests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cpu {
    /// Vendor of the host's CPU.
    pub vendor: Option<String>,
    /// Model that `host-model` stands for.
    pub host_model: Option<String>,
    /// Named models that run on this node.
    pub models: Vec<String>,
    /// Features of the model that `host-model` stands for.
    pub features: Vec<String>,
    /// Number of CPUs of the host.
    pub count: u32,
    /// Hyper-V enlightenments that a guest may have, by the names of the API.
    #[serde(default)]
    pub hyperv: Vec<String>,
    /// Time stamp counter of the host, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tsc: Option<Tsc>,
}

/// The time stamp counter (TSC) of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tsc {
    pub frequency: u64,
    /// A guest may have another frequency.
    pub scalable: bool,
}

/// A device of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Name: `kvm`, `tun`, `vhost-net`.
    pub name: String,
    pub path: String,
    /// The calling process can open the device.
    pub usable: bool,
    /// Reason why it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Huge pages of one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hugepages {
    /// Size of a page in bytes.
    pub size: u64,
    pub total: u64,
    pub free: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Efi {
    /// Path of the firmware code.
    pub code: String,
    /// Path of the empty variables.
    pub vars: String,
    /// Secure boot: only signed loaders start.
    pub secure_boot: bool,
}

/// A missing program, device or setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Name of the missing part.
    pub what: String,
    /// Features that do not work without it.
    pub effect: String,
    /// Command that provides it.
    pub mend: String,
}
