//! Defaults of the virtual hardware by CPU architecture.

use crate::object;
use crate::quantity::Quantity;

object! {
    /// Firmware path and QEMU machine types of each CPU architecture.
    pub struct Architectures {
        /// Settings of VMs on amd64 (Intel, AMD).
        pub amd64: Option<Architecture> = "amd64",
        /// Settings of VMs on arm64 (AArch64).
        pub arm64: Option<Architecture> = "arm64",
        /// Settings of VMs on ppc64le, discontinued.
        pub ppc64le: Option<Architecture> = "ppc64le",
        /// Settings of VMs on s390x (IBM Z).
        pub s390x: Option<Architecture> = "s390x",
        /// CPU architecture of VMs that set none. Default: that of the control plane.
        pub default_architecture: Option<String> = "defaultArchitecture",
    }
}

object! {
    /// Firmware path and QEMU machine types of one CPU architecture.
    pub struct Architecture {
        /// Directory of the EFI firmware (OVMF) in the launcher image. Unset: the directories of common
        /// distributions.
        pub ovmf_path: Option<String> = "ovmfPath",
        /// Permitted QEMU machine types, as VMs write them; `*` matches any text. Default on amd64: `q35*`
        /// and `pc-q35*`.
        pub emulated_machines: Vec<String> = "emulatedMachines",
        /// QEMU machine type of VMs that set none. Default on amd64: `q35`.
        pub machine_type: Option<String> = "machineType",
    }
}

object! {
    /// Manufacturer and product in the SMBIOS tables of guests.
    pub struct SmBios {
        /// Manufacturer of the system in the SMBIOS.
        pub manufacturer: Option<String> = "manufacturer",
        /// Product name of the system in the SMBIOS.
        pub product: Option<String> = "product",
        /// Version of the product in the SMBIOS.
        pub version: Option<String> = "version",
        /// Stock keeping unit (SKU) of the system in the SMBIOS.
        pub sku: Option<String> = "sku",
        /// Product family of the system in the SMBIOS.
        pub family: Option<String> = "family",
    }
}

object! {
    /// Limits for CPU and memory hotplug of running VMIs.
    pub struct LiveUpdate {
        /// Maximum ratio of CPU sockets and memory after hotplug to those at boot. Default: 4.
        pub max_hotplug_ratio: Option<u32> = "maxHotplugRatio",
        /// Maximum number of CPU sockets after hotplug. Unset: `maxHotplugRatio` decides.
        pub max_cpu_sockets: Option<u32> = "maxCpuSockets",
        /// Maximum guest memory after hotplug. Unset: `maxHotplugRatio` decides.
        pub max_guest: Option<Quantity> = "maxGuest",
    }
}
