//! Hypervisor features.

use crate::object;

object! {
    /// Hypervisor features of the guest, for example ACPI and Hyper-V enlightenments.
    pub struct Features {
        /// ACPI tables and power management. Default: on, off on s390x.
        pub acpi: Option<FeatureState> = "acpi",
        /// Advanced Programmable Interrupt Controller (APIC). Default: on.
        pub apic: Option<Apic> = "apic",
        /// Enables every Hyper-V enlightenment that the node supports.
        pub hyperv_passthrough: Option<HypervPassthrough> = "hypervPassthrough",
        /// Hyper-V enlightenments, which speed up Windows guests. Unset: none.
        pub hyperv: Option<Hyperv> = "hyperv",
        /// System Management Mode (SMM), required by EFI secure boot. Unset: the default of QEMU.
        pub smm: Option<FeatureState> = "smm",
        /// Features of the KVM hypervisor.
        pub kvm: Option<KvmFeatures> = "kvm",
        /// Paravirtual spinlocks of the guest. Unset: the default of KVM.
        pub pvspinlock: Option<FeatureState> = "pvspinlock",
    }
}

object! {
    /// State of a feature. An empty object enables the feature.
    pub struct FeatureState {
        /// Enables the feature. Default: true if the object is present.
        pub enabled: Option<bool> = "enabled",
    }
}

object! {
    /// Advanced Programmable Interrupt Controller (APIC).
    pub struct Apic {
        /// Enables the APIC. Default: true if the object is present.
        pub enabled: Option<bool> = "enabled",
        /// Enables the paravirtual end-of-interrupt (EOI), which avoids VM exits. Unset: the default of KVM.
        pub end_of_interrupt: Option<bool> = "endOfInterrupt",
    }
}

object! {
    /// Every Hyper-V enlightenment that the node supports.
    pub struct HypervPassthrough {
        /// Enables the passthrough of enlightenments. Default: true if the object is present.
        pub enabled: Option<bool> = "enabled",
    }
}

object! {
    /// Hyper-V enlightenments, which speed up Windows guests.
    pub struct Hyperv {
        /// Relaxes the timeouts of the guest's watchdogs (hv_relaxed).
        pub relaxed: Option<FeatureState> = "relaxed",
        /// Virtual APIC with faster memory access (hv_vapic).
        pub vapic: Option<FeatureState> = "vapic",
        /// Notifies the hypervisor of long spinlock waits (hv_spinlocks).
        pub spinlocks: Option<Spinlocks> = "spinlocks",
        /// Virtual processor index of each vCPU in a register (hv_vpindex).
        pub vpindex: Option<FeatureState> = "vpindex",
        /// Run time of each vCPU in a register (hv_runtime).
        pub runtime: Option<FeatureState> = "runtime",
        /// Synthetic interrupt controller (hv_synic); requires `vpindex`.
        pub synic: Option<FeatureState> = "synic",
        /// Synthetic timers (hv_stimer); require `synic` and the timer `hyperv` of the clock.
        pub synictimer: Option<SynicTimer> = "synictimer",
        /// Reset of the guest through a hypervisor register (hv_reset).
        pub reset: Option<FeatureState> = "reset",
        /// Vendor ID of the hypervisor in CPUID (hv_vendor_id).
        pub vendorid: Option<VendorId> = "vendorid",
        /// TSC and APIC frequencies in registers (hv_frequencies).
        pub frequencies: Option<FeatureState> = "frequencies",
        /// Notification of the guest when the TSC frequency changes (hv_reenlightenment).
        pub reenlightenment: Option<FeatureState> = "reenlightenment",
        /// Paravirtual TLB flush by the hypervisor (hv_tlbflush).
        pub tlbflush: Option<TlbFlush> = "tlbflush",
        /// Paravirtual inter-processor interrupts (hv_ipi).
        pub ipi: Option<FeatureState> = "ipi",
        /// Enlightened VMCS for nested virtualization on Intel CPUs (hv_evmcs).
        pub evmcs: Option<FeatureState> = "evmcs",
    }
}

object! {
    /// Notification of the hypervisor of long spinlock waits.
    pub struct Spinlocks {
        /// Enables the enlightenment. Default: true if the object is present.
        pub enabled: Option<bool> = "enabled",
        /// Number of attempts to take a spinlock before the hypervisor is notified, at least 4095. Default:
        /// 4096.
        pub spinlocks: Option<u32> = "spinlocks",
    }
}

object! {
    /// Synthetic timers of Hyper-V.
    pub struct SynicTimer {
        /// Enables the enlightenment. Default: true if the object is present.
        pub enabled: Option<bool> = "enabled",
        /// Direct mode: the timers raise interrupts instead of messages.
        pub direct: Option<FeatureState> = "direct",
    }
}

object! {
    /// Vendor ID of the hypervisor in CPUID.
    pub struct VendorId {
        /// Enables the enlightenment. Default: true if the object is present.
        pub enabled: Option<bool> = "enabled",
        /// Vendor ID string of at most 12 characters.
        pub vendorid: Option<String> = "vendorid",
    }
}

object! {
    /// Paravirtual TLB flush by the hypervisor.
    pub struct TlbFlush {
        /// Enables the enlightenment. Default: true if the object is present.
        pub enabled: Option<bool> = "enabled",
        /// Direct TLB flush for nested guests.
        pub direct: Option<FeatureState> = "direct",
        /// Extended TLB flush of several address ranges at once.
        pub extended: Option<FeatureState> = "extended",
    }
}

object! {
    /// Features of the KVM hypervisor.
    pub struct KvmFeatures {
        /// Hides the KVM signature in CPUID from the guest. Default: false.
        pub hidden: Option<bool> = "hidden",
    }
}
