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
    pub struct Hyperv {
        /// The guest does not fail when a timer is late.
        pub relaxed: Option<FeatureState> = "relaxed",
        /// Quicker access to the interrupt controller.
        pub vapic: Option<FeatureState> = "vapic",
        /// How often a lock is tried before the host is told.
        pub spinlocks: Option<Spinlocks> = "spinlocks",
        /// Each processor knows its number.
        pub vpindex: Option<FeatureState> = "vpindex",
        /// The guest sees how long each processor has run.
        pub runtime: Option<FeatureState> = "runtime",
        /// A synthetic interrupt controller.
        pub synic: Option<FeatureState> = "synic",
        /// Synthetic timers.
        pub synictimer: Option<SynicTimer> = "synictimer",
        /// The guest can reset itself through the hypervisor.
        pub reset: Option<FeatureState> = "reset",
        /// The name of the hypervisor that the guest reads.
        pub vendorid: Option<VendorId> = "vendorid",
        /// The guest reads the frequencies of its clocks.
        pub frequencies: Option<FeatureState> = "frequencies",
        /// The guest is told when its clocks have changed.
        pub reenlightenment: Option<FeatureState> = "reenlightenment",
        /// Flushes of the TLB that the host does.
        pub tlbflush: Option<TlbFlush> = "tlbflush",
        /// Interrupts between processors that the host sends.
        pub ipi: Option<FeatureState> = "ipi",
        /// Quicker virtual machines inside the guest.
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
    pub struct SynicTimer {
        /// Whether it is on; not said is on, where the whole stands there.
        pub enabled: Option<bool> = "enabled",
        /// They need no message.
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
    pub struct TlbFlush {
        /// Whether it is on; not said is on, where the whole stands there.
        pub enabled: Option<bool> = "enabled",
        /// Also those of machines inside the guest.
        pub direct: Option<FeatureState> = "direct",
        /// More than one range at once.
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
