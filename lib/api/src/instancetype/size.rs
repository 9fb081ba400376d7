//! Instance types: resources of a VM.

use crate::meta::ObjectMeta;
use crate::object;
use crate::quantity::Quantity;
use crate::vmi::{Gpu, HostDevice, Hugepages, IoThreads, IoThreadsPolicy, LaunchSecurity, Numa, Realtime};
use std::collections::BTreeMap;

object! {
    /// Instance type for the VMs of its namespace: vCPUs, memory and devices.
    pub struct VirtualMachineInstancetype {
        /// API version of this object: `instancetype.kubevirt.io/v1beta1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `VirtualMachineInstancetype`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the instance type: name, namespace, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// Resources and placement that each VM of this instance type is given.
        pub spec: InstancetypeSpec = "spec",
    }
}

object! {
    /// Instance type for the VMs of all namespaces: vCPUs, memory and devices.
    pub struct VirtualMachineClusterInstancetype {
        /// API version of this object: `instancetype.kubevirt.io/v1beta1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `VirtualMachineClusterInstancetype`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the instance type: name, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// Resources and placement that each VM of this instance type is given.
        pub spec: InstancetypeSpec = "spec",
    }
}

object! {
    /// Resources and placement that each VM of this instance type is given. A VM that sets one of these
    /// fields too is refused.
    pub struct InstancetypeSpec {
        /// Labels that a node must have to run the VMI. Unset: those of the VM.
        pub node_selector: BTreeMap<String, String> = "nodeSelector",
        /// Name of the scheduler that assigns the launcher pod to a node. Unset: that of the VM.
        pub scheduler_name: Option<String> = "schedulerName",
        /// Number of vCPUs and settings of the CPU.
        pub cpu: CpuInstancetype = "cpu",
        /// Size of the guest memory and its pages.
        pub memory: MemoryInstancetype = "memory",
        /// GPUs of the node to assign to the guest. Unset: those of the VM.
        pub gpus: Vec<Gpu> = "gpus",
        /// PCI, mediated or USB devices of the node to assign to the guest. Unset: those of the VM.
        pub host_devices: Vec<HostDevice> = "hostDevices",
        /// Assignment of disks to IOThreads. Unset: that of the VM.
        pub io_threads_policy: Option<IoThreadsPolicy> = "ioThreadsPolicy",
        /// Size of the IOThread pool for the policy `supplementalPool`. Unset: that of the VM.
        pub io_threads: Option<IoThreads> = "ioThreads",
        /// Deprecated, use a preference: confidential computing technology that encrypts the memory of the
        /// guest.
        pub launch_security: Option<LaunchSecurity> = "launchSecurity",
        /// Annotations of the VMI. A VM with another value for one of the keys is refused.
        pub annotations: BTreeMap<String, String> = "annotations",
    }
}

object! {
    /// Number of vCPUs and settings of the CPU.
    pub struct CpuInstancetype {
        /// Number of vCPUs of the guest, at least 1. The topology is that of the preference. Default: one
        /// socket for each.
        pub guest: u32 = "guest",
        /// CPU model: `host-model`, `host-passthrough` or a libvirt model name. Unset: that of the VM.
        pub model: Option<String> = "model",
        /// Pins each vCPU to a CPU of the node that no other workload uses. Unset: as the VM says.
        pub dedicated_cpu_placement: Option<bool> = "dedicatedCPUPlacement",
        /// NUMA topology of the guest. Unset: that of the VM.
        pub numa: Option<Numa> = "numa",
        /// Reserves one more dedicated CPU for the emulator threads of QEMU. Unset: as the VM says.
        pub isolate_emulator_thread: Option<bool> = "isolateEmulatorThread",
        /// Real-time scheduling of the vCPUs. Unset: that of the VM.
        pub realtime: Option<Realtime> = "realtime",
        /// Maximum number of CPU sockets after hotplug. Unset: that of the VM.
        pub max_sockets: Option<u32> = "maxSockets",
    }
}

object! {
    /// Size of the guest memory and its pages.
    pub struct MemoryInstancetype {
        /// Size of the guest memory, for example `2Gi`.
        pub guest: Quantity = "guest",
        /// Hugepages that back the guest memory. Unset: those of the VM.
        pub hugepages: Option<Hugepages> = "hugepages",
        /// Percentage of the guest memory that the launcher pod does not request, from 0 to 100. Default: 0.
        pub overcommit_percent: Option<i64> = "overcommitPercent",
        /// Maximum size of the guest memory after hotplug. Unset: that of the VM.
        pub max_guest: Option<Quantity> = "maxGuest",
    }
}
