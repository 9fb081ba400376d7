//! What a node can do, as `virt-launcher node-info` found out: one JSON, for people (`coracle host`), for `coracle run`
//! and for virt-handler.

use crate::launcher::Accelerator;
use serde::{Deserialize, Serialize};

/// What a node can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Whether the processor runs guests.
    pub kvm: Kvm,
    /// The processor family, in Kubernetes' words: `amd64`.
    pub arch: String,
    /// libvirt's version, where it is there.
    pub libvirt: Option<String>,
    /// QEMU's version, where it is there.
    pub qemu: Option<String>,
    /// The accelerators that QEMU has.
    pub accelerators: Vec<Accelerator>,
    /// Machine types; deprecated ones are among them.
    pub machine_types: Vec<String>,
    /// Machine types that QEMU is about to give up.
    #[serde(default)]
    pub deprecated_machine_types: Vec<String>,
    /// What processors a guest may have.
    pub cpu: Cpu,
    /// Devices of the host that VMIs use.
    pub devices: Vec<Device>,
    /// Huge pages by size.
    pub hugepages: Vec<Hugepages>,
    /// EFI firmware.
    pub firmware: Vec<Efi>,
    /// What is missing, each with the command that mends it.
    pub missing: Vec<Missing>,
}

/// Whether the processor runs guests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kvm {
    /// How well.
    pub verdict: Verdict,
    /// Why not better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How well the processor runs guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Kernels run.
    Full,
    /// Firmware runs, kernels may not.
    Limited,
    /// Not at all.
    None,
}

/// What processors a guest may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cpu {
    /// The maker of the host's.
    pub vendor: Option<String>,
    /// What `host-model` becomes.
    pub host_model: Option<String>,
    /// Named models that run here.
    pub models: Vec<String>,
    /// Features that `host-model` has.
    pub features: Vec<String>,
    /// Processors of the host.
    pub count: u32,
    /// Hyper-V enlightenments that a guest may have, by the names of the API.
    #[serde(default)]
    pub hyperv: Vec<String>,
    /// The time stamp counter of the host, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tsc: Option<Tsc>,
}

/// The time stamp counter (TSC) of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tsc {
    /// Ticks in a second.
    pub frequency: u64,
    /// A guest may have another frequency.
    pub scalable: bool,
}

/// A device of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// `kvm`, `tun`, `vhost-net`.
    pub name: String,
    /// Where it is.
    pub path: String,
    /// It can be opened by whoever asked.
    pub usable: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Huge pages of one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hugepages {
    /// The size of one in bytes.
    pub size: u64,
    /// How many there are.
    pub total: u64,
    /// How many nobody uses.
    pub free: u64,
}

/// EFI firmware.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Efi {
    /// The code.
    pub code: String,
    /// The empty variables.
    pub vars: String,
    /// Only signed loaders start.
    pub secure_boot: bool,
}

/// Something that is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// What.
    pub what: String,
    /// What does not work without it.
    pub effect: String,
    /// The command that mends it.
    pub mend: String,
}
