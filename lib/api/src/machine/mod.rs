//! `Machine`: the checked description of the VMI that a launcher runs, strict and complete. Admission creates
//! one to check a spec, the launcher to define the domain.
//!
//! ```text
//! VirtualMachineInstance (forgiving) ──► Machine::check ──► Machine
//!                            settings ─────────┘     └──► every fault, each with its field path
//! ```
//!
//! A `Machine` cannot be deserialized: only the check creates one, so a caller may rely on the documentation
//! of its fields. Fields about placement (selectors, affinities, tolerations, probes) are not here. Neither
//! are values of the host (paths, taps), which are in [`crate::launcher::Resolved`].

mod check;
pub mod cpu;
pub mod devices;
pub mod disk;
pub mod filesystem;
pub mod firmware;
pub mod hardware;
pub mod hook;
pub mod host_device;
pub mod host_folders;
pub mod hyperv;
mod label;
pub mod machine_type_map;
pub mod mediated;
pub mod network;
pub mod non_domain;
pub mod permitted;
pub mod refused;
pub mod resource_claim;
pub mod volume;
pub mod warnings;

pub use crate::architecture::Arch;
pub use check::{
    Files, Gates, OPEN_BY_DEFAULT, Settings, Site, guest_memory, is_clean, not_plain, topology, uuid,
};
pub use cpu::{Clock, Cpu, Features, Memory, Timer};
pub use devices::{Input, Panic, Sound, SoundModel, Tpm, Video, Watchdog};
pub use disk::{BlockSize, Bus, Cache, Disk, ErrorPolicy, Io, Target, is_of_one_node};
pub use filesystem::Filesystem;
pub use firmware::{Boot, Chassis, Firmware, KernelBoot};
pub use hook::HookSidecar;
pub use host_device::HostDevice;
pub use hyperv::Hyperv;
pub use network::{Binding, Interface, Nic, PciAddress, Port, Protocol};
pub use resource_claim::ResourceClaim;
pub use volume::{CloudInit, Volume};

/// The VMI that a launcher runs, as its spec describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Name of the VMI; a DNS label or subdomain.
    pub name: String,
    pub namespace: String,
    /// Uid of the VMI object, if it has one.
    pub uid: Option<String>,
    /// `spec.hostname`, or the name up to its first dot.
    pub hostname: String,
    /// Value of `spec.subdomain`, the Service for the DNS name of the guest.
    pub subdomain: Option<String>,
    /// CPU architecture of the guest.
    pub arch: Arch,
    /// Machine type of libvirt: `q35`, `pc-q35-7.2`, `pc-i440fx-7.2`, …; never a distribution's name.
    pub machine_type: String,
    /// Chipset of the machine type.
    pub chipset: Chipset,
    pub memory: Memory,
    pub cpu: Cpu,
    pub firmware: Firmware,
    /// Chassis fields of the SMBIOS.
    pub chassis: Chassis,
    pub features: Features,
    /// The clock, if the spec sets it.
    pub clock: Option<Clock>,
    /// Disks in the order of the spec, each with its volume. Names are unique.
    pub disks: Vec<Disk>,
    /// File systems in the order of the spec. Names are unique, also among those of disks.
    pub filesystems: Vec<Filesystem>,
    /// Interfaces in the order of the spec. Names are unique.
    pub interfaces: Vec<Interface>,
    /// Devices of the node: GPUs in the order of the spec, then the others.
    pub host_devices: Vec<HostDevice>,
    /// ResourceClaims of the pod, in the order of the spec. Names are unique; each device of a claim refers
    /// to one of these.
    pub resource_claims: Vec<ResourceClaim>,
    /// Input devices in the order of the spec.
    pub inputs: Vec<Input>,
    /// Ports for USB devices of clients (`clientPassthrough`), as many as [`devices::REDIRECTIONS`].
    pub usb_redirection: bool,
    /// Channel by which the guest reads metrics of the node and of the VMI.
    pub downward_metrics: bool,
    /// A VSOCK device. The node chooses its context ID.
    pub vsock: bool,
    /// True if the guest has a virtio random number generator.
    pub rng: bool,
    pub watchdog: Option<Watchdog>,
    pub tpm: Option<Tpm>,
    /// True if the guest has a memory balloon.
    pub balloon: bool,
    /// A serial console, and whether its output is kept in a log.
    pub serial: Option<Serial>,
    /// Video device, shown by VNC.
    pub video: Option<Video>,
    pub sound: Option<Sound>,
    /// Devices by which a guest reports a panic.
    pub panics: Vec<Panic>,
    /// `useVirtioTransitional`: old guests see virtio 0.9 devices.
    pub virtio_transitional: bool,
    /// `disableHotplug`: no controllers for hotplugged devices.
    pub no_hotplug: bool,
    /// Each virtio disk has a queue for each vCPU.
    pub block_multi_queue: bool,
    /// Each virtio interface has a queue for each vCPU.
    pub network_multi_queue: bool,
    /// Istio redirects the pod's traffic.
    pub mesh: bool,
    /// Assignment of disks to I/O threads (`ioThreadsPolicy`).
    pub io_threads: IoThreads,
    /// True if the vCPUs stay stopped at the start (`startStrategy: Paused`).
    pub start_paused: bool,
    /// Effect of a reboot of the guest.
    pub reboot: Reboot,
    /// Seconds that a shutdown may take before the domain is destroyed.
    pub grace_period: u64,
    /// SSH keys and passwords for the guest.
    pub credentials: Vec<Credential>,
    /// Hook sidecars in the order of the annotation.
    pub hooks: Vec<HookSidecar>,
}

/// Chipset of a PC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chipset {
    Q35,
    I440fx,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serial {
    /// True if the output is kept in a log.
    pub log: bool,
}

/// Assignment of disks to I/O threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoThreads {
    /// Only disks with a dedicated I/O thread have one.
    Default,
    /// A single thread for all disks without a dedicated I/O thread.
    Shared,
    /// A pool bounded by the number of vCPUs.
    Auto,
    /// A pool of this many threads for every virtio disk.
    Pool(u32),
}

/// Effect of a reboot of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reboot {
    /// The same VMI runs on.
    Reboot,
    Terminate,
}

/// Login of a user in the guest.
#[derive(Clone, Debug, PartialEq)]
pub enum Credential {
    /// SSH public keys of a Secret.
    SshKeys { secret: String, delivery: KeyDelivery },
    /// Passwords of a Secret, which the guest agent sets. The keys of the Secret are user names.
    Passwords { secret: String },
}

impl Credential {
    /// Name of the Secret.
    pub fn secret(&self) -> &str {
        match self {
            Credential::SshKeys { secret, .. } | Credential::Passwords { secret } => secret,
        }
    }

    /// True if the guest agent sets the credential, while the guest runs.
    pub fn is_of_agent(&self) -> bool {
        match self {
            Credential::SshKeys { delivery, .. } => matches!(delivery, KeyDelivery::Agent { .. }),
            Credential::Passwords { .. } => true,
        }
    }
}

/// Delivery of SSH keys to the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyDelivery {
    /// In the NoCloud seed.
    NoCloud,
    /// In the config drive.
    ConfigDrive,
    /// By the guest agent, while the guest runs.
    Agent {
        /// Users of the guest that get the keys.
        users: Vec<String>,
    },
}

impl Machine {
    /// Name of the domain, unique on a node.
    pub fn domain_name(&self) -> String {
        format!("{}_{}", self.namespace, self.name)
    }

    /// True if a device of the node is passed through, which can access all memory of the VMI.
    pub fn has_device_of_node(&self) -> bool {
        let is_function = |interface: &Interface| interface.binding == Binding::Sriov;
        !self.host_devices.is_empty() || self.interfaces.iter().any(is_function)
    }

    /// True if a disk has this name.
    pub fn has_disk(&self, name: &str) -> bool {
        self.disks.iter().any(|disk| disk.name == name)
    }

    /// True if state outlives the VMI beside its disks: the variables of its firmware, or the state of its
    /// TPM.
    pub fn keeps_state(&self) -> bool {
        self.keeps_variables() || self.tpm.is_some_and(|tpm| tpm.persistent)
    }

    /// True if the variables of the firmware outlive the VMI.
    pub fn keeps_variables(&self) -> bool {
        matches!(self.firmware.boot, Boot::Efi { persistent: true, .. })
    }
}
