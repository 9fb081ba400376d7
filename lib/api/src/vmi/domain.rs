//! Virtual hardware of a VMI, and the parts of it that have no file of their own.

use crate::meta::Empty;
use crate::quantity::Quantity;
use crate::vmi::{Clock, Cpu, Devices, Features, Firmware, Memory};
use crate::{object, string_enum};
use std::collections::BTreeMap;

object! {
    /// Virtual hardware of a VMI: CPU, memory, firmware and devices.
    pub struct Domain {
        /// Compute resources of the launcher pod. `requests.memory` sizes the guest memory if `memory.guest`
        /// is unset.
        pub resources: Option<Resources> = "resources",
        /// CPU topology, model and features of the guest.
        pub cpu: Option<Cpu> = "cpu",
        /// Guest memory: its size and its page size.
        pub memory: Option<Memory> = "memory",
        /// QEMU machine type of the guest.
        pub machine: Option<MachineType> = "machine",
        /// Firmware of the guest: boot loader, SMBIOS identity and direct kernel boot.
        pub firmware: Option<Firmware> = "firmware",
        /// Hardware clock and timers of the guest.
        pub clock: Option<Clock> = "clock",
        /// Hypervisor features of the guest, for example ACPI and Hyper-V enlightenments.
        pub features: Option<Features> = "features",
        /// Devices of the guest: disks, interfaces, consoles and others.
        pub devices: Devices = "devices",
        /// Assignment of disks to IOThreads. Unset: disks without `dedicatedIOThread` use the main thread of
        /// QEMU.
        pub io_threads_policy: Option<IoThreadsPolicy> = "ioThreadsPolicy",
        /// Size of the IOThread pool for the policy `supplementalPool`.
        pub io_threads: Option<IoThreads> = "ioThreads",
        /// Chassis information in the SMBIOS tables of the guest.
        pub chassis: Option<Chassis> = "chassis",
        /// Confidential computing technology that encrypts the memory of the guest.
        pub launch_security: Option<LaunchSecurity> = "launchSecurity",
        /// Reaction to a reboot by the guest: `Reboot` resets the guest, `Terminate` ends the VMI. Default:
        /// `Reboot`.
        pub reboot_policy: Option<RebootPolicy> = "rebootPolicy",
    }
}

object! {
    /// Compute resources of the launcher pod.
    pub struct Resources {
        /// Minimum of each resource that the scheduler reserves, for example `cpu` and `memory`. Overhead of
        /// QEMU is added.
        pub requests: BTreeMap<String, Quantity> = "requests",
        /// Maximum of each resource that the launcher pod can use. Unset: no limit.
        pub limits: BTreeMap<String, Quantity> = "limits",
        /// Leaves the memory overhead of QEMU out of the memory request. Default: false.
        pub overcommit_guest_overhead: Option<bool> = "overcommitGuestOverhead",
    }
}

object! {
    /// QEMU machine type of the guest.
    pub struct MachineType {
        /// QEMU machine type, for example `q35` or `pc-q35-7.2`. A name of RHEL or Ubuntu
        /// (`pc-q35-rhel9.4.0`, `pc-q35-jammy`) stands for the nearest QEMU machine type. Default: `q35` on
        /// amd64, `virt` on arm64.
        pub r#type: String = "type" (optional),
    }
}

object! {
    /// IOThread pool of the guest.
    pub struct IoThreads {
        /// Number of IOThreads in the pool, from 1 to 4096. Required with the policy `supplementalPool`.
        pub supplemental_pool_thread_count: Option<u32> = "supplementalPoolThreadCount",
    }
}

object! {
    /// Chassis information in the SMBIOS tables of the guest.
    pub struct Chassis {
        /// Manufacturer of the chassis in the SMBIOS. Unset: QEMU's default.
        pub manufacturer: Option<String> = "manufacturer",
        /// Version of the chassis in the SMBIOS. Unset: QEMU's default.
        pub version: Option<String> = "version",
        /// Serial number of the chassis in the SMBIOS. Unset: none.
        pub serial: Option<String> = "serial",
        /// Asset tag of the chassis in the SMBIOS. Unset: none.
        pub asset: Option<String> = "asset",
        /// Stock keeping unit (SKU) of the chassis in the SMBIOS. Unset: none.
        pub sku: Option<String> = "sku",
    }
}

object! {
    /// Confidential computing technology that encrypts the memory of the guest.
    pub struct LaunchSecurity {
        /// AMD Secure Encrypted Virtualization (SEV).
        pub sev: Option<Sev> = "sev",
        /// AMD Secure Nested Paging (SEV-SNP).
        pub snp: Option<Empty> = "snp",
        /// Intel Trust Domain Extensions (TDX).
        pub tdx: Option<Empty> = "tdx",
    }
}

object! {
    /// Settings of AMD Secure Encrypted Virtualization (SEV).
    pub struct Sev {
        /// SEV guest policy that the platform enforces.
        pub policy: Option<SevPolicy> = "policy",
        /// Holds the guest before its first instruction until its owner has attested the launch measurement.
        pub attestation: Option<Empty> = "attestation",
        /// Session blob of the guest owner for the SEV launch, base64-encoded.
        pub session: Option<String> = "session",
        /// Diffie-Hellman certificate of the guest owner for the SEV launch, base64-encoded.
        pub dh_cert: Option<String> = "dhCert",
    }
}

object! {
    /// SEV guest policy that the platform enforces.
    pub struct SevPolicy {
        /// Requires SEV-ES, which encrypts the CPU registers too. Default: false.
        pub encrypted_state: Option<bool> = "encryptedState",
    }
}

string_enum! {
    /// Assignment of disks to IOThreads.
    pub enum IoThreadsPolicy {
        Shared = "shared",
        Auto = "auto",
        SupplementalPool = "supplementalPool",
    }
}

string_enum! {
    /// Reaction to a reboot by the guest.
    pub enum RebootPolicy {
        Reboot = "Reboot",
        Terminate = "Terminate",
    }
}
