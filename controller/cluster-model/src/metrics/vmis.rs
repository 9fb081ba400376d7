//! Metrics of virt-controller about VMIs.

use super::{Metric, gauge, histogram};

pub(super) const VMIS: &[Metric] = &[
    gauge(
        "kubevirt_vmi_phase_count",
        &[
            "node",
            "phase",
            "os",
            "workload",
            "flavor",
            "instance_type",
            "preference",
            "guest_os_kernel_release",
            "guest_os_machine",
            "guest_os_arch",
            "guest_os_name",
            "guest_os_version_id",
        ],
        "VMIs of each node and phase, and of each system: the labels that kubevirt_vmi_info has.",
    ),
    gauge(
        "kubevirt_vmi_info",
        &[
            "namespace",
            "name",
            "node",
            "phase",
            "evictable",
            "outdated",
            "vmi_pod",
            "os",
            "workload",
            "flavor",
            "instance_type",
            "preference",
            "guest_os_kernel_release",
            "guest_os_machine",
            "guest_os_arch",
            "guest_os_name",
            "guest_os_version_id",
        ],
        "1 for each VMI, with its node, its launcher pod, its annotations, its machine type and the words of its guest agent, of which 16 systems a day are told.",
    ),
    gauge(
        "kubevirt_vmi_non_evictable",
        &["namespace", "name", "node"],
        "1 for a VMI whose eviction strategy is LiveMigrate, and that cannot be live-migrated.",
    ),
    gauge(
        "kubevirt_vmi_number_of_outdated",
        &[],
        "VMIs whose launcher pods have another image than new ones would (label kubevirt.io/outdatedLauncherImage).",
    ),
    gauge(
        "kubevirt_vmi_status_addresses",
        &["namespace", "name", "node", "network_name", "address", "type"],
        "1 for each address in the status of a VMI; of a VMI 64 a day.",
    ),
    gauge(
        "kubevirt_vmi_vnic_info",
        &["namespace", "name", "vnic_name", "binding_type", "network", "binding_name", "model"],
        "1 for each interface of a VMI.",
    ),
    gauge(
        "kubevirt_vmi_launcher_memory_overhead_bytes",
        &["namespace", "name"],
        "Memory that the launcher pod of a VMI requests beside the guest's.",
    ),
    gauge(
        "kubevirt_vmi_migrations_in_pending_phase",
        &[],
        "Live migrations that wait for their turn, or for their target pod to be created (Pending).",
    ),
    gauge(
        "kubevirt_vmi_migrations_in_scheduling_phase",
        &[],
        "Live migrations whose target pod does not run yet (Scheduling).",
    ),
    gauge(
        "kubevirt_vmi_migrations_in_running_phase",
        &[],
        "Live migrations whose target pod runs (Scheduled, PreparingTarget, TargetReady, Running).",
    ),
    gauge(
        "kubevirt_vmi_migrations_in_unset_phase",
        &[],
        "Live migrations that virt-controller has not looked at yet.",
    ),
    gauge(
        "kubevirt_vmi_migration_succeeded",
        &["namespace", "vmi", "vmim"],
        "1 for each VirtualMachineInstanceMigration that has succeeded, as long as it exists.",
    ),
    gauge(
        "kubevirt_vmi_migration_failed",
        &["namespace", "vmi", "vmim"],
        "1 for each VirtualMachineInstanceMigration that has failed, as long as it exists.",
    ),
    gauge(
        "kubevirt_vmi_migration_start_time_seconds",
        &["namespace", "name", "node", "migration_name"],
        "Start of the last live migration of a VMI, in seconds since 1970. The node is that of the guest now.",
    ),
    gauge(
        "kubevirt_vmi_migration_end_time_seconds",
        &["namespace", "name", "node", "migration_name", "status"],
        "End of it (succeeded, failed; without a status while the arrival of the guest is not certain).",
    ),
    histogram(
        "kubevirt_vmi_migration_phase_transition_time_from_creation_seconds",
        &["phase"],
        "Seconds from the creation of a VirtualMachineInstanceMigration to each of its phases.",
    ),
    histogram(
        "kubevirt_vmi_phase_transition_time_seconds",
        &["phase", "last_phase"],
        "Seconds that a VMI spent in each phase.",
    ),
    histogram(
        "kubevirt_vmi_phase_transition_time_from_creation_seconds",
        &["phase"],
        "Seconds from the creation of a VMI to each of its phases.",
    ),
    histogram(
        "kubevirt_vmi_phase_transition_time_from_deletion_seconds",
        &["phase"],
        "Seconds from the deletion of a VMI to each of its phases.",
    ),
];
