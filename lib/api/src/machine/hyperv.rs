//! Hyper-V enlightenments: paravirtual interfaces of the hypervisor for Windows guests.

/// The enlightenments of a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Hyperv {
    #[default]
    None,
    /// All enlightenments that the node supports.
    Passthrough,
    /// Named enlightenments, with those that they require.
    These(Box<Enlightenments>),
}

/// Single enlightenments, by the names of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are the switches of the spec")]
pub struct Enlightenments {
    pub relaxed: bool,
    pub vapic: bool,
    /// Attempts to take a spinlock before the hypervisor is notified.
    pub spinlocks: Option<u32>,
    pub vpindex: bool,
    pub runtime: bool,
    pub synic: bool,
    pub synictimer: Option<SynicTimer>,
    pub reset: bool,
    /// Vendor ID, of 1 to 12 letters. Unset: the default of the hypervisor.
    pub vendor_id: Option<String>,
    pub frequencies: bool,
    pub reenlightenment: bool,
    pub tlbflush: Option<TlbFlush>,
    pub ipi: bool,
    pub evmcs: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SynicTimer {
    /// The timers raise interrupts instead of messages.
    pub direct: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlbFlush {
    /// Flushes of nested guests.
    pub direct: bool,
    /// Flushes of several address ranges at once.
    pub extended: bool,
}

/// Default of [`Enlightenments::spinlocks`], in attempts.
pub const SPINLOCKS: u32 = 4096;
/// The CPU feature that the enlightened VMCS requires: nested virtualization on CPUs of Intel.
pub const VMX: &str = "vmx";

/// Prefix of the labels of a node with its enlightenments.
pub const LABEL: &str = "hyperv.node.kubevirt.io/";

/// Enlightenments that not every host supports, by their names in labels of nodes.
pub const OF_HOSTS: [&str; 9] = [
    "vpindex",
    "runtime",
    "reset",
    "synic",
    "synictimer",
    "frequencies",
    "reenlightenment",
    "tlbflush",
    "ipi",
];

impl Hyperv {
    /// Enlightenments that the host must support, in the order of [`OF_HOSTS`].
    pub fn of_host(&self) -> Vec<&'static str> {
        let Hyperv::These(these) = self else { return Vec::new() };
        let on = [
            these.vpindex,
            these.runtime,
            these.reset,
            these.synic,
            these.synictimer.is_some(),
            these.frequencies,
            these.reenlightenment,
            these.tlbflush.is_some(),
            these.ipi,
        ];
        OF_HOSTS.into_iter().zip(on).filter(|(_, on)| *on).map(|(name, _)| name).collect()
    }

    /// True for an enlightened VMCS, which only CPUs of Intel have.
    pub fn has_evmcs(&self) -> bool {
        matches!(self, Hyperv::These(these) if these.evmcs)
    }

    /// True for synthetic timers, which need the reference time counter.
    pub fn has_timers(&self) -> bool {
        matches!(self, Hyperv::These(these) if these.synictimer.is_some())
    }
}
