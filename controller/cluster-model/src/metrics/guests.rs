//! Metrics of virt-handler about the VMIs of its node.

use super::{Metric, counter, gauge};

const VMI: &[&str] = &["node", "namespace", "name"];
const VCPU: &[&str] = &["node", "namespace", "name", "id"];
const DISK: &[&str] = &["node", "namespace", "name", "drive"];
const INTERFACE: &[&str] = &["node", "namespace", "name", "interface"];
const FILESYSTEM: &[&str] = &["node", "namespace", "name", "disk_name", "mount_point", "file_system_type"];

/// Metrics of running VMIs.
pub(super) const GUESTS: &[Metric] = &[
    counter("kubevirt_vmi_cpu_usage_seconds_total", VMI, "CPU time of the QEMU process of a VMI."),
    counter("kubevirt_vmi_cpu_user_usage_seconds_total", VMI, "The part of it in user mode."),
    counter("kubevirt_vmi_cpu_system_usage_seconds_total", VMI, "The part of it in system mode."),
    counter(
        "kubevirt_vmi_vcpu_seconds_total",
        &["node", "namespace", "name", "id", "state"],
        "CPU time of a vCPU; the state is the one at this moment (offline, running, blocked).",
    ),
    counter("kubevirt_vmi_vcpu_wait_seconds_total", VCPU, "Time that a vCPU waited on I/O."),
    counter("kubevirt_vmi_vcpu_delay_seconds_total", VCPU, "Time that a vCPU waited for a CPU of the node."),
    gauge("kubevirt_vmi_memory_domain_bytes", VMI, "Memory of the domain."),
    gauge("kubevirt_vmi_memory_actual_balloon_bytes", VMI, "Memory that the balloon leaves a VMI."),
    gauge("kubevirt_vmi_memory_resident_bytes", VMI, "Memory that the QEMU process of a VMI holds."),
    gauge("kubevirt_vmi_memory_unused_bytes", VMI, "Memory that a guest leaves unused."),
    gauge("kubevirt_vmi_memory_available_bytes", VMI, "Memory that a guest sees."),
    gauge("kubevirt_vmi_memory_usable_bytes", VMI, "Memory that a guest can use without swapping."),
    gauge("kubevirt_vmi_memory_used_bytes", VMI, "Memory that a guest sees and cannot use without swapping."),
    gauge("kubevirt_vmi_memory_cached_bytes", VMI, "Memory in which a guest caches its disks."),
    gauge("kubevirt_vmi_memory_swap_in_traffic_bytes", VMI, "Bytes that a guest has read from its swap."),
    gauge("kubevirt_vmi_memory_swap_out_traffic_bytes", VMI, "Bytes that a guest has written to its swap."),
    counter("kubevirt_vmi_memory_pgmajfault_total", VMI, "Page faults of a guest that needed a disk."),
    counter("kubevirt_vmi_memory_pgminfault_total", VMI, "Page faults of a guest that needed no disk."),
    gauge(
        "kubevirt_vmi_guest_load_1m",
        VMI,
        "Processes of a guest that run or wait for a CPU or a disk, on average of a minute; by guest agents of QEMU 10 and newer, asked each minute.",
    ),
    gauge("kubevirt_vmi_guest_load_5m", VMI, "The same of five minutes."),
    gauge("kubevirt_vmi_guest_load_15m", VMI, "The same of fifteen minutes."),
    counter("kubevirt_vmi_storage_read_traffic_bytes_total", DISK, "Bytes read from a disk."),
    counter("kubevirt_vmi_storage_write_traffic_bytes_total", DISK, "Bytes written to a disk."),
    counter("kubevirt_vmi_storage_iops_read_total", DISK, "Reads of a disk."),
    counter("kubevirt_vmi_storage_iops_write_total", DISK, "Writes to a disk."),
    counter("kubevirt_vmi_storage_flush_requests_total", DISK, "Flushes of a disk."),
    counter("kubevirt_vmi_storage_read_times_seconds_total", DISK, "Time that reads of a disk took."),
    counter("kubevirt_vmi_storage_write_times_seconds_total", DISK, "Time that writes to a disk took."),
    counter("kubevirt_vmi_storage_flush_times_seconds_total", DISK, "Time that flushes of a disk took."),
    counter("kubevirt_vmi_network_receive_bytes_total", INTERFACE, "Bytes that a guest received."),
    counter("kubevirt_vmi_network_receive_packets_total", INTERFACE, "Packets that a guest received."),
    counter("kubevirt_vmi_network_receive_errors_total", INTERFACE, "Packets for a guest that were broken."),
    counter(
        "kubevirt_vmi_network_receive_packets_dropped_total",
        INTERFACE,
        "Packets for a guest that were lost.",
    ),
    counter("kubevirt_vmi_network_transmit_bytes_total", INTERFACE, "Bytes that a guest sent."),
    counter("kubevirt_vmi_network_transmit_packets_total", INTERFACE, "Packets that a guest sent."),
    counter("kubevirt_vmi_network_transmit_errors_total", INTERFACE, "Packets of a guest that were broken."),
    counter(
        "kubevirt_vmi_network_transmit_packets_dropped_total",
        INTERFACE,
        "Packets of a guest that were lost.",
    ),
    counter(
        "kubevirt_vmi_network_traffic_bytes_total",
        &["node", "namespace", "name", "interface", "type"],
        "Bytes through an interface, each way (rx, tx).",
    ),
    gauge(
        "kubevirt_vmi_filesystem_capacity_bytes",
        FILESYSTEM,
        "Size of a file system, by the guest agent; of a VMI the first 64 that were seen.",
    ),
    gauge("kubevirt_vmi_filesystem_used_bytes", FILESYSTEM, "Bytes that are used of it."),
    gauge(
        "kubevirt_vmi_dirty_rate_bytes_per_second",
        VMI,
        "Bytes of its memory that a guest writes each second, measured for a second after the page before.",
    ),
    counter(
        "kubevirt_vmi_migration_data_bytes_total",
        VMI,
        "Bytes of memory and copied disks of a live migration away from the node. These numbers stay for 90 s behind its end.",
    ),
    gauge("kubevirt_vmi_migration_data_processed_bytes", VMI, "Bytes sent so far, repeated ones among them."),
    gauge(
        "kubevirt_vmi_migration_data_remaining_bytes",
        VMI,
        "Bytes still to send; more where the guest writes faster.",
    ),
    gauge(
        "kubevirt_vmi_migration_dirty_memory_rate_bytes",
        VMI,
        "Bytes of memory that the guest writes in each second.",
    ),
    gauge("kubevirt_vmi_migration_memory_transfer_rate_bytes", VMI, "Bytes of memory sent in each second."),
    gauge(
        "kubevirt_vmi_migration_disk_transfer_rate_bytes",
        VMI,
        "The same, by upstream's former name: it is not about disks.",
    ),
    counter(
        "coracle_vmi_migration_stream_bytes_total",
        &["node", "namespace", "name", "direction"],
        "Bytes of all connections of a live migration from this node (sent) and to it (received): libvirt, memory, disks. Both nodes count them.",
    ),
    gauge(
        "kubevirt_vmi_node_cpu_affinity",
        VMI,
        "CPUs of the node that each vCPU of a VMI may run on, added up over its vCPUs.",
    ),
    gauge(
        "kubevirt_vmi_gpu_info",
        &["node", "namespace", "pod", "resource", "uuid"],
        "1 for each device of a resource of nvidia.com that the launcher pod of a VMI was given.",
    ),
    counter(
        "kubevirt_vmi_guest_os_panic_total",
        &["namespace", "name", "type", "bugcheck_code"],
        "Panics that a guest reported by a panic device, of the 1024 VMIs that panicked last; type and code are not known.",
    ),
];
