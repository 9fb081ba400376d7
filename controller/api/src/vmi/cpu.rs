//! Processors.

use crate::meta::Empty;
use crate::object;

object! {
    /// The processors.
    pub struct Cpu {
        /// In each socket.
        pub cores: Option<u32> = "cores",
        /// How many.
        pub sockets: Option<u32> = "sockets",
        /// How many there may be one day.
        pub max_sockets: Option<u32> = "maxSockets",
        /// In each core.
        pub threads: Option<u32> = "threads",
        /// `host-model`, `host-passthrough`, or a name that libvirt knows.
        pub model: Option<String> = "model",
        /// Single features.
        pub features: Vec<CpuFeature> = "features",
        /// Each has a processor of the node to itself.
        pub dedicated_cpu_placement: Option<bool> = "dedicatedCpuPlacement",
        /// Nodes of memory and processors.
        pub numa: Option<Numa> = "numa",
        /// QEMU's own work has a processor to itself.
        pub isolate_emulator_thread: Option<bool> = "isolateEmulatorThread",
        /// Processors that are never disturbed.
        pub realtime: Option<Realtime> = "realtime",
    }
}

object! {
    /// One feature of a processor.
    pub struct CpuFeature {
        /// As libvirt calls it.
        pub name: String = "name",
        /// `force`, `require`, `optional`, `disable` or `forbid`; not said is `require`.
        pub policy: Option<String> = "policy",
    }
}

object! {
    /// Nodes of memory and processors.
    pub struct Numa {
        /// The guest sees the nodes that it runs on.
        pub guest_mapping_passthrough: Option<Empty> = "guestMappingPassthrough",
    }
}

object! {
    /// Processors that are never disturbed.
    pub struct Realtime {
        /// Which, like `0-3,^1`.
        pub mask: Option<String> = "mask",
    }
}
