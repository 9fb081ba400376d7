//! CPUs, memory, features and clocks.

use super::Hyperv;

/// CPU feature of a time stamp counter with a constant frequency.
const INVARIANT_TSC: &str = "invtsc";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Number of sockets, from 1.
    pub sockets: u32,
    /// Number of cores in each socket, from 1.
    pub cores: u32,
    /// Number of threads in each core, from 1.
    pub threads: u32,
    /// Maximum number of sockets after hotplug; at least `sockets`.
    pub max_sockets: Option<u32>,
    /// CPU model that the guest sees.
    pub model: Model,
    /// CPU features, in the order of the spec; names are unique.
    pub features: Vec<Feature>,
    /// Each vCPU has a dedicated CPU of the node.
    pub dedicated: bool,
    /// The emulator threads of QEMU have one more dedicated CPU; only with `dedicated`.
    pub isolated_emulator: bool,
    /// The guest sees the NUMA nodes of its CPUs; only with `dedicated` and huge pages.
    pub numa_of_host: bool,
    /// Frequency of the time stamp counter in Hz, if virt-controller has chosen one; only with
    /// [`wants_invariant_tsc`](Cpu::wants_invariant_tsc).
    pub tsc: Option<u64>,
    /// vCPUs with real-time scheduling, each below [`count`](Cpu::count), in order; only with `numa_of_host`.
    pub realtime: Vec<u32>,
}

impl Cpu {
    /// Number of vCPUs at the start.
    pub fn count(&self) -> u32 {
        self.sockets.saturating_mul(self.cores).saturating_mul(self.threads)
    }

    /// Number of vCPUs that the guest may have after hotplug.
    pub fn max_count(&self) -> u32 {
        let sockets = self.max_sockets.map_or(self.sockets, |most| most.max(self.sockets));
        sockets.saturating_mul(self.cores).saturating_mul(self.threads)
    }

    /// True if the guest relies on a time stamp counter with a constant frequency.
    pub fn wants_invariant_tsc(&self) -> bool {
        let is_it = |feature: &Feature| feature.name == INVARIANT_TSC && feature.policy == Policy::Require;
        self.features.iter().any(is_it)
    }

    /// Number of dedicated CPUs of the node; 0 if the VMI shares CPUs with others.
    pub fn dedicated_count(&self) -> u32 {
        match self.dedicated {
            true => self.count().saturating_add(u32::from(self.isolated_emulator)),
            false => 0,
        }
    }
}

/// CPU model that the guest sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Model {
    /// The model of the host, restricted to features that other hosts of the kind have.
    HostModel,
    /// The model of the host.
    HostPassthrough,
    /// A model of libvirt.
    Named(String),
}

/// A feature of the CPU model that is set explicitly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// libvirt's name of the feature.
    pub name: String,
    pub policy: Policy,
}

/// Policy of a CPU feature, as libvirt has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Force,
    Require,
    Optional,
    Disable,
    Forbid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Memory of the guest in bytes; at least 1 MiB.
    pub guest: u64,
    /// Size of a huge page in bytes, if the memory consists of huge pages; it divides `guest`.
    pub hugepage: Option<u64>,
    /// Maximum memory after hotplug in bytes; more than `guest`.
    pub most: Option<u64>,
    /// The launcher may lock all memory of the guest and its own: `memLock: Required`.
    pub locked: bool,
}

/// Features of the platform; `None` leaves the default to libvirt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// True if the guest has ACPI tables. Default: on.
    pub acpi: bool,
    /// The APIC, with its end-of-interrupt feature.
    pub apic: Option<Apic>,
    pub smm: Option<bool>,
    /// Hide from the guest that it runs on KVM.
    pub kvm_hidden: Option<bool>,
    pub pvspinlock: Option<bool>,
    pub hyperv: Hyperv,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apic {
    /// Value of `endOfInterrupt` in the spec.
    pub eoi: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Time of the guest's hardware clock at the start.
    pub offset: Offset,
    /// Timers in the order of their names.
    pub timers: Vec<Timer>,
}

/// Time of a hardware clock at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offset {
    /// UTC plus this many seconds; changes by the guest survive its reboots. `None`: UTC, and a reboot resets
    /// changes.
    Utc(Option<i64>),
    /// Time of a zone of the tz database.
    Timezone(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timer {
    /// libvirt's name of the timer: `hpet`, `kvmclock`, `pit`, `rtc`, `hypervclock`.
    pub name: &'static str,
    /// True if the guest has the timer.
    pub present: bool,
    /// Policy for missed ticks: `delay`, `catchup`, `merge`, `discard`.
    pub tick_policy: Option<String>,
    /// Clock that the rtc follows: `guest`, `wall`.
    pub track: Option<String>,
}
