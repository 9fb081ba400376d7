//! The machine as hardware, and what does not fit under one device.

use crate::meta::Empty;
use crate::quantity::Quantity;
use crate::vmi::{Clock, Cpu, Devices, Features, Firmware, Memory};
use crate::{object, words};
use std::collections::BTreeMap;

object! {
    /// The machine as hardware.
    pub struct Domain {
        /// What the pod asks for; memory, where it says nothing itself.
        pub resources: Option<Resources> = "resources",
        /// Processors.
        pub cpu: Option<Cpu> = "cpu",
        /// Memory.
        pub memory: Option<Memory> = "memory",
        /// The board.
        pub machine: Option<MachineType> = "machine",
        /// What starts it.
        pub firmware: Option<Firmware> = "firmware",
        /// The hardware clock.
        pub clock: Option<Clock> = "clock",
        /// Switches of the platform.
        pub features: Option<Features> = "features",
        /// Devices.
        pub devices: Devices = "devices",
        /// How the work of disks is spread over threads.
        pub io_threads_policy: Option<IoThreadsPolicy> = "ioThreadsPolicy",
        /// How many threads a pool has.
        pub io_threads: Option<IoThreads> = "ioThreads",
        /// What the guest reads of its case.
        pub chassis: Option<Chassis> = "chassis",
        /// Memory that the host cannot read.
        pub launch_security: Option<LaunchSecurity> = "launchSecurity",
        /// What a reboot of the guest becomes.
        pub reboot_policy: Option<RebootPolicy> = "rebootPolicy",
    }
}

object! {
    /// What the pod asks for.
    pub struct Resources {
        /// What it needs.
        pub requests: BTreeMap<String, Quantity> = "requests",
        /// What it may have.
        pub limits: BTreeMap<String, Quantity> = "limits",
        /// What runs beside the guest is not asked for.
        pub overcommit_guest_overhead: Option<bool> = "overcommitGuestOverhead",
    }
}

object! {
    /// The board.
    pub struct MachineType {
        /// `q35`, `pc-q35-7.2`, `pc-i440fx-7.2`, ….
        pub r#type: String = "type",
    }
}

object! {
    /// Threads that do the work of disks.
    pub struct IoThreads {
        /// How many threads; for the policy `supplementalPool`.
        pub supplemental_pool_thread_count: Option<u32> = "supplementalPoolThreadCount",
    }
}

object! {
    /// What the guest reads of its case in the SMBIOS.
    #[allow(missing_docs)]
    pub struct Chassis {
        pub manufacturer: Option<String> = "manufacturer",
        pub version: Option<String> = "version",
        pub serial: Option<String> = "serial",
        pub asset: Option<String> = "asset",
        pub sku: Option<String> = "sku",
    }
}

object! {
    /// Memory that the host cannot read.
    #[allow(missing_docs)]
    pub struct LaunchSecurity {
        pub sev: Option<Sev> = "sev",
        pub snp: Option<Empty> = "snp",
        pub tdx: Option<Empty> = "tdx",
    }
}

object! {
    /// AMD's way.
    #[allow(missing_docs)]
    pub struct Sev {
        pub policy: Option<SevPolicy> = "policy",
        pub attestation: Option<Empty> = "attestation",
        pub session: Option<String> = "session",
        pub dh_cert: Option<String> = "dhCert",
    }
}

object! {
    /// What AMD's way demands.
    pub struct SevPolicy {
        /// Registers too.
        pub encrypted_state: Option<bool> = "encryptedState",
    }
}

words! {
    /// How the work of disks is spread over threads.
    #[allow(missing_docs)]
    pub enum IoThreadsPolicy {
        Shared = "shared",
        Auto = "auto",
        SupplementalPool = "supplementalPool",
    }
}

words! {
    /// What a reboot of the guest becomes.
    #[allow(missing_docs)]
    pub enum RebootPolicy {
        Reboot = "Reboot",
        Terminate = "Terminate",
    }
}
