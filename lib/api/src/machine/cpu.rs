//! Processors, memory, the platform's switches and clocks.

use super::Hyperv;

/// The feature of a time stamp counter whose frequency never changes.
const INVARIANT_TSC: &str = "invtsc";

/// The processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// From 1.
    pub sockets: u32,
    /// In each socket, from 1.
    pub cores: u32,
    /// In each core, from 1.
    pub threads: u32,
    /// Sockets that may be there one day; at least `sockets`.
    pub max_sockets: Option<u32>,
    /// What the guest sees.
    pub model: Model,
    /// Single features, in the order of the spec; names are unique.
    pub features: Vec<Feature>,
    /// Each vCPU has a CPU of the node for itself.
    pub dedicated: bool,
    /// The other threads of QEMU have one more; only with `dedicated`.
    pub isolated_emulator: bool,
    /// The guest sees the NUMA nodes of its CPUs; only with `dedicated` and huge pages.
    pub numa_of_host: bool,
    /// The frequency of the time stamp counter in Hz, where virt-controller has chosen one; only with
    /// [`wants_invariant_tsc`](Cpu::wants_invariant_tsc).
    pub tsc: Option<u64>,
    /// vCPUs with real-time scheduling, each below [`count`](Cpu::count), in order; only with `numa_of_host`.
    pub realtime: Vec<u32>,
}

impl Cpu {
    /// How many processors the guest starts with.
    pub fn count(&self) -> u32 {
        self.sockets.saturating_mul(self.cores).saturating_mul(self.threads)
    }

    /// How many it may have after hotplug.
    pub fn most(&self) -> u32 {
        let sockets = self.max_sockets.map_or(self.sockets, |most| most.max(self.sockets));
        sockets.saturating_mul(self.cores).saturating_mul(self.threads)
    }

    /// The guest relies on a time stamp counter whose frequency never changes.
    pub fn wants_invariant_tsc(&self) -> bool {
        let is_it = |feature: &Feature| feature.name == INVARIANT_TSC && feature.policy == Policy::Require;
        self.features.iter().any(is_it)
    }

    /// How many CPUs of the node are its own; 0 where it shares them with others.
    pub fn own(&self) -> u32 {
        match self.dedicated {
            true => self.count().saturating_add(u32::from(self.isolated_emulator)),
            false => 0,
        }
    }
}

/// The model of a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Model {
    /// The host's, as far as the guest may move to another host of the kind.
    HostModel,
    /// The host's own.
    HostPassthrough,
    /// A name that libvirt knows.
    Named(String),
}

/// One feature of a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// As libvirt calls it.
    pub name: String,
    /// How much it is wanted.
    pub policy: Policy,
}

/// How much a feature is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Force,
    Require,
    Optional,
    Disable,
    Forbid,
}

/// The memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What the guest has, in bytes; at least 1 MiB.
    pub guest: u64,
    /// The size of a huge page in bytes, where the memory is made of those; it divides `guest`.
    pub hugepage: Option<u64>,
    /// What it may have after hotplug, in bytes; more than `guest`.
    pub most: Option<u64>,
    /// The launcher may lock all of it, and what is beside it: `memLock: Required`.
    pub locked: bool,
}

/// Switches of the platform; `None` leaves it to libvirt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// ACPI; on unless the spec says otherwise.
    pub acpi: bool,
    /// The APIC, and whether it has end-of-interrupt.
    pub apic: Option<Apic>,
    /// System management mode.
    pub smm: Option<bool>,
    /// Hide from the guest that it runs on KVM.
    pub kvm_hidden: Option<bool>,
    /// Para-virtual spin locks.
    pub pvspinlock: Option<bool>,
    /// Hyper-V enlightenments.
    pub hyperv: Hyperv,
}

/// The APIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apic {
    /// `endOfInterrupt`.
    pub eoi: Option<bool>,
}

/// The clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    /// What the guest's hardware clock shows.
    pub offset: Offset,
    /// Timers in the order of their names.
    pub timers: Vec<Timer>,
}

/// What a hardware clock shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offset {
    /// UTC, and so many seconds more or less; no number follows what the guest sets.
    Utc(Option<i64>),
    /// The time of a zone of the tz database.
    Timezone(String),
}

/// One timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timer {
    /// As libvirt calls it: `hpet`, `kvmclock`, `pit`, `rtc`, `hypervclock`.
    pub name: &'static str,
    /// Whether the guest has it.
    pub present: bool,
    /// What happens to ticks that were missed: `delay`, `catchup`, `merge`, `discard`.
    pub tick_policy: Option<String>,
    /// What the rtc follows: `guest`, `wall`.
    pub track: Option<String>,
}
