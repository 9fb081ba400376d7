//! Switches of the platform.

use crate::object;

object! {
    /// Switches of the platform.
    pub struct Features {
        /// ACPI; on.
        pub acpi: Option<FeatureState> = "acpi",
        /// The APIC; on.
        pub apic: Option<Apic> = "apic",
        /// Every enlightenment that the host has.
        pub hyperv_passthrough: Option<HypervPassthrough> = "hypervPassthrough",
        /// Enlightenments for Windows.
        pub hyperv: Option<Hyperv> = "hyperv",
        /// System management mode.
        pub smm: Option<FeatureState> = "smm",
        /// Switches of KVM.
        pub kvm: Option<KvmFeatures> = "kvm",
        /// Para-virtual spin locks.
        pub pvspinlock: Option<FeatureState> = "pvspinlock",
    }
}

object! {
    /// A switch; there and empty, it is on.
    pub struct FeatureState {
        /// Whether it is on; not said is on, where the whole stands there.
        pub enabled: Option<bool> = "enabled",
    }
}

object! {
    /// The APIC.
    pub struct Apic {
        /// Whether it is on; not said is on, where the whole stands there.
        pub enabled: Option<bool> = "enabled",
        /// End of interrupt without leaving the guest.
        pub end_of_interrupt: Option<bool> = "endOfInterrupt",
    }
}

object! {
    /// Every enlightenment that the host has.
    pub struct HypervPassthrough {
        /// Whether it is on; not said is on, where the whole stands there.
        pub enabled: Option<bool> = "enabled",
    }
}

object! {
    /// Enlightenments for Windows.
    #[allow(missing_docs)]
    pub struct Hyperv {
        pub relaxed: Option<FeatureState> = "relaxed",
        pub vapic: Option<FeatureState> = "vapic",
        pub spinlocks: Option<Spinlocks> = "spinlocks",
        pub vpindex: Option<FeatureState> = "vpindex",
        pub runtime: Option<FeatureState> = "runtime",
        pub synic: Option<FeatureState> = "synic",
        pub synictimer: Option<SynicTimer> = "synictimer",
        pub reset: Option<FeatureState> = "reset",
        pub vendorid: Option<VendorId> = "vendorid",
        pub frequencies: Option<FeatureState> = "frequencies",
        pub reenlightenment: Option<FeatureState> = "reenlightenment",
        pub tlbflush: Option<TlbFlush> = "tlbflush",
        pub ipi: Option<FeatureState> = "ipi",
        pub evmcs: Option<FeatureState> = "evmcs",
    }
}

object! {
    /// How often a lock is tried before the host is told.
    pub struct Spinlocks {
        /// Whether it is on; not said is on, where the whole stands there.
        pub enabled: Option<bool> = "enabled",
        /// How often.
        pub spinlocks: Option<u32> = "spinlocks",
    }
}

object! {
    /// Synthetic timers.
    #[allow(missing_docs)]
    pub struct SynicTimer {
        /// Whether it is on; not said is on, where the whole stands there.
        pub enabled: Option<bool> = "enabled",
        pub direct: Option<FeatureState> = "direct",
    }
}

object! {
    /// The name of the hypervisor that the guest reads.
    pub struct VendorId {
        /// Whether it is on; not said is on, where the whole stands there.
        pub enabled: Option<bool> = "enabled",
        /// The name, at most 12 letters.
        pub vendorid: Option<String> = "vendorid",
    }
}

object! {
    /// Flushes of the TLB that the host does.
    #[allow(missing_docs)]
    pub struct TlbFlush {
        /// Whether it is on; not said is on, where the whole stands there.
        pub enabled: Option<bool> = "enabled",
        pub direct: Option<FeatureState> = "direct",
        pub extended: Option<FeatureState> = "extended",
    }
}

object! {
    /// Switches of KVM.
    pub struct KvmFeatures {
        /// Hide from the guest that it runs on KVM.
        pub hidden: Option<bool> = "hidden",
    }
}
