//! What machines look like, unless they say otherwise.

use crate::object;
use crate::quantity::Quantity;

object! {
    /// What machines of each architecture look like.
    pub struct Architectures {
        /// Intel's and AMD's, 64 bits.
        pub amd64: Option<Architecture> = "amd64",
        /// ARM's, 64 bits.
        pub arm64: Option<Architecture> = "arm64",
        /// Discontinued.
        pub ppc64le: Option<Architecture> = "ppc64le",
        /// IBM's mainframes.
        pub s390x: Option<Architecture> = "s390x",
        /// The architecture of a machine that says none; not said is that of the control plane.
        pub default_architecture: Option<String> = "defaultArchitecture",
    }
}

object! {
    /// What machines of one architecture look like.
    pub struct Architecture {
        /// The folder of the EFI firmware.
        pub ovmf_path: Option<String> = "ovmfPath",
        /// The boards that may be asked for, where `*` stands for anything: `q35*`.
        pub emulated_machines: Vec<String> = "emulatedMachines",
        /// The board of a machine that asks for none.
        pub machine_type: Option<String> = "machineType",
    }
}

object! {
    /// What the guest reads of its maker in the SMBIOS.
    pub struct SmBios {
        /// The maker.
        pub manufacturer: Option<String> = "manufacturer",
        /// The product.
        pub product: Option<String> = "product",
        /// The product's version.
        pub version: Option<String> = "version",
        /// The number it is ordered by.
        pub sku: Option<String> = "sku",
        /// The family it belongs to.
        pub family: Option<String> = "family",
    }
}

object! {
    /// How far machines can grow while they run.
    pub struct LiveUpdate {
        /// So many times what they have at first; not said is 4.
        pub max_hotplug_ratio: Option<u32> = "maxHotplugRatio",
        /// So many sockets.
        pub max_cpu_sockets: Option<u32> = "maxCpuSockets",
        /// So much memory.
        pub max_guest: Option<Quantity> = "maxGuest",
    }
}
