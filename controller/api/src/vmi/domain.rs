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
        pub r#type: String = "type" (optional),
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
    pub struct Chassis {
        /// Its maker.
        pub manufacturer: Option<String> = "manufacturer",
        /// Its version.
        pub version: Option<String> = "version",
        /// Its serial number.
        pub serial: Option<String> = "serial",
        /// Its number in the owner's books.
        pub asset: Option<String> = "asset",
        /// The number it is ordered by.
        pub sku: Option<String> = "sku",
    }
}

object! {
    /// Memory that the host cannot read.
    pub struct LaunchSecurity {
        /// AMD's first way.
        pub sev: Option<Sev> = "sev",
        /// AMD's newer way.
        pub snp: Option<Empty> = "snp",
        /// Intel's way.
        pub tdx: Option<Empty> = "tdx",
    }
}

object! {
    /// AMD's way.
    pub struct Sev {
        /// What it demands.
        pub policy: Option<SevPolicy> = "policy",
        /// The machine waits until somebody has looked at what it starts.
        pub attestation: Option<Empty> = "attestation",
        /// What the owner and the platform agreed on, in base64.
        pub session: Option<String> = "session",
        /// The owner's key, in base64.
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
