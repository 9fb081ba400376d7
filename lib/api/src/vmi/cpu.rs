//! CPU topology, model and features.

use crate::meta::Empty;
use crate::object;

object! {
    /// CPU topology, model and features of the guest.
    pub struct Cpu {
        /// Number of cores per socket. Default: 1.
        pub cores: Option<u32> = "cores",
        /// Number of CPU sockets. Default: 1; without `cores` and `threads`, the CPU limit or request rounded
        /// up.
        pub sockets: Option<u32> = "sockets",
        /// Maximum number of CPU sockets after hotplug. Unset: no socket can be added.
        pub max_sockets: Option<u32> = "maxSockets",
        /// Number of threads per core. Default: 1.
        pub threads: Option<u32> = "threads",
        /// CPU model: `host-model`, `host-passthrough` or a libvirt model name. Default: `cpuModel` of the
        /// KubeVirt object, else `host-model`.
        pub model: Option<String> = "model",
        /// CPU features to add to the model or to remove from the model.
        pub features: Vec<CpuFeature> = "features",
        /// Pins each vCPU to a CPU of the node that no other workload uses. Requires a node whose kubelet has
        /// the CPU manager policy `static` (label `cpumanager=true`). Default: false.
        pub dedicated_cpu_placement: Option<bool> = "dedicatedCpuPlacement",
        /// NUMA topology of the guest.
        pub numa: Option<Numa> = "numa",
        /// Reserves one more dedicated CPU for the emulator threads of QEMU. Requires
        /// `dedicatedCpuPlacement`. Default: false.
        pub isolate_emulator_thread: Option<bool> = "isolateEmulatorThread",
        /// Real-time scheduling of the vCPUs. Requires `dedicatedCpuPlacement`,
        /// `numa.guestMappingPassthrough` and a node with the label `kubevirt.io/realtime`.
        pub realtime: Option<Realtime> = "realtime",
    }
}

object! {
    /// CPU feature with a policy.
    pub struct CpuFeature {
        /// Name of the CPU feature in libvirt, for example `vmx`.
        pub name: String = "name",
        /// Policy of the feature: `force`, `require`, `optional`, `disable` or `forbid`. Default: `require`.
        pub policy: Option<String> = "policy",
    }
}

object! {
    /// NUMA topology of the guest.
    pub struct Numa {
        /// Gives the guest the NUMA topology of the dedicated CPUs on the node. Requires
        /// `dedicatedCpuPlacement` and `memory.hugepages`.
        pub guest_mapping_passthrough: Option<Empty> = "guestMappingPassthrough",
    }
}

object! {
    /// Real-time scheduling of the vCPUs.
    pub struct Realtime {
        /// vCPUs with real-time scheduling, for example `0-3,^1`. Unset: all vCPUs.
        pub mask: Option<String> = "mask",
    }
}
