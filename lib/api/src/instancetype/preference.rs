//! Preferences: values of an operating system for fields that a VM leaves unset. Those of devices have their
//! own file.

use crate::instancetype::DevicePreferences;
use crate::meta::ObjectMeta;
use crate::quantity::Quantity;
use crate::vmi::{
    Apic, CpuFeature, Efi, FeatureState, Hyperv, KvmFeatures, LaunchSecurity, Timers, UtcOffset,
};
use crate::{object, string_enum};
use std::collections::BTreeMap;

object! {
    /// Preference for the VMs of its namespace: values for fields that a VM leaves unset.
    pub struct VirtualMachinePreference {
        /// API version of this object: `instancetype.kubevirt.io/v1beta1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `VirtualMachinePreference`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the preference: name, namespace, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// Values for fields that a VM leaves unset, and requirements for the VM.
        pub spec: PreferenceSpec = "spec",
    }
}

object! {
    /// Preference for the VMs of all namespaces: values for fields that a VM leaves unset.
    pub struct VirtualMachineClusterPreference {
        /// API version of this object: `instancetype.kubevirt.io/v1beta1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `VirtualMachineClusterPreference`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the preference: name, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// Values for fields that a VM leaves unset, and requirements for the VM.
        pub spec: PreferenceSpec = "spec",
    }
}

object! {
    /// Values for fields that a VM leaves unset, and requirements for the VM.
    pub struct PreferenceSpec {
        /// Clock and timers of a VM that sets none.
        pub clock: Option<ClockPreferences> = "clock",
        /// Topology of the vCPUs of the instance type, and CPU features.
        pub cpu: Option<CpuPreferences> = "cpu",
        /// Devices, buses and models of a VM that leaves them unset.
        pub devices: Option<DevicePreferences> = "devices",
        /// Hypervisor features of a VM that leaves them unset.
        pub features: Option<FeaturePreferences> = "features",
        /// Boot loader firmware of a VM that sets neither BIOS nor EFI.
        pub firmware: Option<FirmwarePreferences> = "firmware",
        /// QEMU machine type of a VM that sets none.
        pub machine: Option<MachinePreferences> = "machine",
        /// Storage of DataVolume templates that set no StorageClass.
        pub volumes: Option<VolumePreferences> = "volumes",
        /// Subdomain of a guest that sets none. Unset: no preference.
        pub preferred_subdomain: Option<String> = "preferredSubdomain",
        /// Seconds that the guest has to shut down, for a VM that does not set them. Unset: no preference.
        pub preferred_termination_grace_period_seconds: Option<i64> = "preferredTerminationGracePeriodSeconds",
        /// Least resources and the architecture of a VM with this preference. A VM with less is refused.
        pub requirements: Option<PreferenceRequirements> = "requirements",
        /// Annotations of the VMI that the VM does not set.
        pub annotations: BTreeMap<String, String> = "annotations",
        /// Deprecated, use `cpu.spreadOptions.ratio`: cores per socket with the topology `spread`. Default:
        /// 2.
        pub prefer_spread_socket_to_core_ratio: Option<u32> = "preferSpreadSocketToCoreRatio",
        /// CPU architecture of a VM that sets none. Unset: no preference.
        pub preferred_architecture: Option<String> = "preferredArchitecture",
        /// Confidential computing technology of a VM that sets none. Unset: no preference.
        pub preferred_launch_security: Option<LaunchSecurity> = "preferredLaunchSecurity",
    }
}

object! {
    /// Clock and timers of a VM that sets none.
    pub struct ClockPreferences {
        /// Offset of the hardware clock. Unset: no preference.
        pub preferred_clock_offset: Option<ClockOffset> = "preferredClockOffset",
        /// Timer devices of the guest. Unset: no preference.
        pub preferred_timer: Option<Timers> = "preferredTimer",
    }
}

object! {
    /// Offset of the hardware clock: either UTC or a time zone.
    pub struct ClockOffset {
        /// Sets the hardware clock to UTC. Excludes `timezone`.
        pub utc: Option<UtcOffset> = "utc",
        /// Time zone of the hardware clock from the tz database, for example `Europe/Berlin`. Excludes `utc`.
        pub timezone: Option<String> = "timezone",
    }
}

object! {
    /// Topology of the vCPUs of the instance type, and CPU features.
    pub struct CpuPreferences {
        /// Topology of the vCPUs that the instance type gives. `spread` follows `spreadOptions`. Default:
        /// `sockets`.
        pub preferred_cpu_topology: Option<Topology> = "preferredCPUTopology",
        /// Distribution of the vCPUs with the topology `spread`.
        pub spread_options: Option<SpreadOptions> = "spreadOptions",
        /// CPU features that the VM does not name itself.
        pub preferred_cpu_features: Vec<CpuFeature> = "preferredCPUFeatures",
    }
}

object! {
    /// Distribution of the vCPUs with the topology `spread`.
    pub struct SpreadOptions {
        /// Levels of the topology that share the vCPUs. Default: `SocketsCores`.
        pub across: Option<SpreadAcross> = "across",
        /// Cores per socket, or threads per core with `CoresThreads`. Default: 2.
        pub ratio: Option<u32> = "ratio",
    }
}

object! {
    /// Hypervisor features of a VM that leaves them unset.
    pub struct FeaturePreferences {
        /// ACPI tables and power management. Unset: no preference.
        pub preferred_acpi: Option<FeatureState> = "preferredAcpi",
        /// Advanced Programmable Interrupt Controller (APIC). Unset: no preference.
        pub preferred_apic: Option<Apic> = "preferredApic",
        /// Hyper-V enlightenments, each for itself. Without effect if the VM enables `hypervPassthrough`.
        pub preferred_hyperv: Option<Hyperv> = "preferredHyperv",
        /// Features of the KVM hypervisor. Unset: no preference.
        pub preferred_kvm: Option<KvmFeatures> = "preferredKvm",
        /// Paravirtual spinlocks of the guest. Unset: no preference.
        pub preferred_pvspinlock: Option<FeatureState> = "preferredPvspinlock",
        /// System Management Mode (SMM), required by EFI secure boot. Unset: no preference.
        pub preferred_smm: Option<FeatureState> = "preferredSmm",
    }
}

object! {
    /// Boot loader firmware of a VM that sets neither BIOS nor EFI.
    pub struct FirmwarePreferences {
        /// Boots the guest with BIOS (SeaBIOS). Default: false.
        pub preferred_use_bios: Option<bool> = "preferredUseBios",
        /// Writes the messages of the BIOS to the serial console too. Unset: no preference.
        pub preferred_use_bios_serial: Option<bool> = "preferredUseBiosSerial",
        /// Deprecated, use `preferredEfi`: boots the guest with EFI (OVMF). Default: false.
        pub preferred_use_efi: Option<bool> = "preferredUseEfi",
        /// Deprecated, use `preferredEfi`: secure boot of a guest with EFI. Unset: no preference.
        pub preferred_use_secure_boot: Option<bool> = "preferredUseSecureBoot",
        /// Boots the guest with EFI (OVMF) and these settings. Unset: no preference.
        pub preferred_efi: Option<Efi> = "preferredEfi",
    }
}

object! {
    /// QEMU machine type of a VM that sets none.
    pub struct MachinePreferences {
        /// QEMU machine type, for example `q35` or `pc-q35-7.2`. Unset: no preference.
        pub preferred_machine_type: Option<String> = "preferredMachineType",
    }
}

object! {
    /// Storage of DataVolume templates that set no StorageClass.
    pub struct VolumePreferences {
        /// Name of the StorageClass. Unset: no preference.
        pub preferred_storage_class_name: Option<String> = "preferredStorageClassName",
    }
}

object! {
    /// Least resources and the architecture of a VM with this preference.
    pub struct PreferenceRequirements {
        /// Least number of vCPUs of the VM. Unset: any.
        pub cpu: Option<CpuPreferenceRequirement> = "cpu",
        /// Least guest memory of the VM. Unset: any.
        pub memory: Option<MemoryPreferenceRequirement> = "memory",
        /// CPU architecture of the VM. Unset: any.
        pub architecture: Option<String> = "architecture",
    }
}

object! {
    /// Least number of vCPUs of a VM.
    pub struct CpuPreferenceRequirement {
        /// Number of vCPUs that the VM must have at least.
        pub guest: u32 = "guest",
    }
}

object! {
    /// Least guest memory of a VM.
    pub struct MemoryPreferenceRequirement {
        /// Size of the guest memory that the VM must have at least.
        pub guest: Quantity = "guest",
    }
}

string_enum! {
    /// Topology of the vCPUs of an instance type; the words with `prefer` are deprecated.
    pub enum Topology {
        PreferCores = "preferCores",
        PreferSockets = "preferSockets",
        PreferThreads = "preferThreads",
        PreferSpread = "preferSpread",
        PreferAny = "preferAny",
        Cores = "cores",
        Sockets = "sockets",
        Threads = "threads",
        Spread = "spread",
        Any = "any",
    }
}

string_enum! {
    /// Levels of the topology that share the vCPUs with the topology `spread`.
    pub enum SpreadAcross {
        SocketsCoresThreads = "SocketsCoresThreads",
        SocketsCores = "SocketsCores",
        CoresThreads = "CoresThreads",
    }
}

/// Default number of cores per socket.
const RATIO: u32 = 2;

impl Topology {
    /// The topology in its current word, if this one is deprecated.
    #[must_use]
    pub fn current(&self) -> Topology {
        match self {
            Topology::PreferCores => Topology::Cores,
            Topology::PreferSockets => Topology::Sockets,
            Topology::PreferThreads => Topology::Threads,
            Topology::PreferSpread => Topology::Spread,
            Topology::PreferAny => Topology::Any,
            other => other.clone(),
        }
    }
}

impl PreferenceSpec {
    /// The topology, in its current word.
    pub fn topology(&self) -> Topology {
        let said = self.cpu.as_ref().and_then(|cpu| cpu.preferred_cpu_topology.as_ref());
        said.map_or(Topology::Sockets, Topology::current)
    }

    /// Topology of spread vCPUs: the ratio, and the levels that share them.
    pub fn spread(&self) -> (u32, SpreadAcross) {
        let options = self.cpu.as_ref().and_then(|cpu| cpu.spread_options.as_ref());
        let old = self.prefer_spread_socket_to_core_ratio.filter(|&ratio| ratio > 0);
        let ratio = options.and_then(|options| options.ratio).or(old).unwrap_or(RATIO);
        let across = options.and_then(|options| options.across.clone());
        (ratio, across.unwrap_or(SpreadAcross::SocketsCores))
    }
}
