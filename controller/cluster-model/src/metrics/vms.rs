//! Metrics of virt-controller about VMs.

use super::{Metric, counter, gauge};

const VM: &[&str] = &["namespace", "name"];

pub(super) const VMS: &[Metric] = &[
    gauge("kubevirt_number_of_vms", &["namespace"], "VMs of each namespace."),
    gauge(
        "kubevirt_vm_info",
        &[
            "namespace",
            "name",
            "os",
            "workload",
            "flavor",
            "instance_type",
            "preference",
            "status",
            "status_group",
        ],
        "1 for each VM, with its printable status, its instance type and the vm.kubevirt.io annotations of its template.",
    ),
    gauge(
        "kubevirt_vm_labels",
        &["namespace", "name", "label_*"],
        "1 for each VM, with those of its labels that the ConfigMap `kubevirt-vm-labels-config` lets through: the first 32 by name; characters other than letters and digits become underscores.",
    ),
    gauge("kubevirt_vm_create_date_timestamp_seconds", VM, "Creation times of VMs."),
    counter(
        "kubevirt_vm_running_status_last_transition_timestamp_seconds",
        VM,
        "Last change of the conditions Ready, Failure and Paused of a VM that runs; 0 for another.",
    ),
    counter(
        "kubevirt_vm_starting_status_last_transition_timestamp_seconds",
        VM,
        "The same of a VM that starts.",
    ),
    counter(
        "kubevirt_vm_migrating_status_last_transition_timestamp_seconds",
        VM,
        "The same of a VM that is live-migrated.",
    ),
    counter(
        "kubevirt_vm_non_running_status_last_transition_timestamp_seconds",
        VM,
        "The same of a VM that is stopped, being stopped or paused.",
    ),
    counter(
        "kubevirt_vm_error_status_last_transition_timestamp_seconds",
        VM,
        "The same of a VM that cannot start or has failed.",
    ),
    gauge(
        "kubevirt_vm_resource_requests",
        &["namespace", "name", "resource", "unit", "source"],
        "CPUs and memory that a VM asks for, by its template and its instance type.",
    ),
    gauge(
        "kubevirt_vm_resource_limits",
        &["namespace", "name", "resource", "unit"],
        "Limits of CPUs and memory in the template of a VM.",
    ),
    gauge(
        "kubevirt_vm_disk_allocated_size_bytes",
        &["namespace", "name", "persistentvolumeclaim", "volume_mode", "device"],
        "Requested size of each PVC of a VM; the device is the name of the volume.",
    ),
    gauge(
        "kubevirt_vm_vnic_info",
        &["namespace", "name", "vnic_name", "binding_type", "network", "binding_name", "model"],
        "1 for each interface in the template of a VM.",
    ),
];
