//! Metrics of the programs themselves.

use super::{Metric, counter, gauge, histogram};

/// Requests to the API server.
pub(super) const ALL: &[Metric] = &[
    counter(
        "kubevirt_rest_client_requests_total",
        &["verb", "code", "host"],
        "Requests to the API server; the code `<error>` is of those that had no answer.",
    ),
    histogram(
        "kubevirt_rest_client_request_latency_seconds",
        &["verb"],
        "Seconds until the answer to a request to the API server.",
    ),
    histogram(
        "kubevirt_rest_client_rate_limiter_duration_seconds",
        &["verb", "url"],
        "Seconds that a request to the API server waited for the rate that the KubeVirt object sets; the url is without names.",
    ),
    gauge("kubevirt_info", &["kubeversion"], "Version of virt-controller and virt-handler."),
];

const VMI: &[&str] = &["namespace", "vmi"];

pub(super) const API: &[Metric] = &[
    gauge("kubevirt_virt_api_ready_status", &[], "1 if this replica answers."),
    counter(
        "kubevirt_vm_created_by_pod_total",
        &["namespace"],
        "VMs that this replica admitted as new ones.",
    ),
    gauge("kubevirt_console_active_connections", VMI, "Open streams of serial consoles."),
    gauge("kubevirt_vnc_active_connections", VMI, "Open streams of VNC."),
    gauge("kubevirt_usbredir_active_connections", VMI, "Open streams of USB redirection."),
    gauge("kubevirt_portforward_active_tunnels", VMI, "Open streams of forwarded ports."),
    gauge(
        "kubevirt_vmi_last_api_connection_timestamp_seconds",
        VMI,
        "Time of the last opened console, VNC, USB redirection or forwarded port; of the 1024 VMIs that were opened last.",
    ),
    histogram(
        "kubevirt_virt_api_admission_duration_seconds",
        &["webhook", "operation", "result"],
        "Seconds until the answer to an admission review.",
    ),
    gauge("kubevirt_virt_api_connections", &[], "Connections that are open."),
    counter("kubevirt_virt_api_connections_total", &[], "Connections that came."),
    counter(
        "kubevirt_virt_api_connections_ended_total",
        &["reason"],
        "Connections that virt-api ended: for others that came, for a client that was slow, or at once.",
    ),
    gauge("kubevirt_virt_api_requests_bytes", &[], "Memory that requests and answers hold."),
    counter(
        "kubevirt_virt_api_requests_cut_total",
        &[],
        "Requests that were cut because others needed the memory.",
    ),
    gauge(
        "kubevirt_virt_api_certificate_expiration_timestamp_seconds",
        &[],
        "Time at which the certificate of virt-api expires.",
    ),
];

pub(super) const CONTROLLER: &[Metric] = &[
    gauge("kubevirt_virt_controller_ready_status", &[], "1 if this replica can lead."),
    gauge("kubevirt_virt_controller_leading_status", &[], "1 if this replica leads."),
    gauge("kubevirt_workqueue_depth", &["name"], "Objects that wait for a decision."),
    counter("kubevirt_workqueue_adds_total", &["name"], "Decisions taken."),
    counter("kubevirt_workqueue_retries_total", &["name"], "Plans that failed and are decided anew."),
    gauge(
        "kubevirt_workqueue_longest_running_processor_seconds",
        &["name"],
        "Seconds since the oldest plan that is being carried out was begun.",
    ),
    gauge(
        "kubevirt_workqueue_unfinished_work_seconds",
        &["name"],
        "The same of all plans that are being carried out, together.",
    ),
    histogram(
        "kubevirt_workqueue_queue_duration_seconds",
        &["name"],
        "Seconds that an object waited for a decision.",
    ),
    histogram(
        "kubevirt_workqueue_work_duration_seconds",
        &["name"],
        "Seconds until a plan was carried out or had failed.",
    ),
    gauge("kubevirt_allocatable_nodes", &[], "Nodes that take VMIs and are not cordoned."),
    gauge("kubevirt_nodes_with_kvm", &[], "Nodes that offer KVM."),
    gauge(
        "kubevirt_configuration_emulation_enabled",
        &[],
        "1 where the KubeVirt object permits guests on nodes without KVM (useEmulation).",
    ),
];

pub(super) const HANDLER: &[Metric] = &[
    gauge("kubevirt_virt_handler_ready_status", &[], "1 while virt-handler serves its node."),
    counter("kubevirt_vmi_sync_total", &["node"], "VMIs that were handed to their launchers."),
    gauge(
        "kubevirt_node_deprecated_machine_types",
        &["machine_type", "node"],
        "1 for each machine type of a node that QEMU is about to give up.",
    ),
    gauge(
        "coracle_vmis_paused_for_disk_pressure",
        &["node"],
        "VMIs that are paused because the disk of their node is nearly full.",
    ),
];
