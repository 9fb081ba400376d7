//! Sums over all pods, by the names that upstream's dashboards and alerts use, including names that upstream
//! has deprecated. Those about virt-operator are virt-controller's, which does its work here. Those about
//! snapshots stay empty while there are none; those about containers and PVCs need the metrics of the kubelet
//! and kube-state-metrics.

use serde_json::{Value, json};

/// All rules, for a control plane in this namespace.
pub(super) fn all(namespace: &str) -> Vec<Value> {
    let mut rules = Vec::new();
    for program in ["api", "controller", "handler"] {
        let up = format!("sum(up{{namespace=\"{namespace}\",pod=~\"virt-{program}-.*\"}}) or vector(0)");
        let ready = format!("sum(kubevirt_virt_{program}_ready_status) or vector(0)");
        rules.push(rule(&format!("cluster:kubevirt_virt_{program}_up:sum"), &up));
        rules.push(rule(&format!("kubevirt_virt_{program}_up"), &up));
        rules.push(rule(&format!("cluster:kubevirt_virt_{program}_ready:sum"), &ready));
        let running = format!(
            "count(kube_pod_status_phase{{namespace=\"{namespace}\",pod=~\"virt-{program}-.*\",phase=\"Running\"}} == 1) or vector(0)"
        );
        rules.push(rule(&format!("cluster:kubevirt_virt_{program}_pods_running:count"), &running));
    }
    rules.extend(SUMS.iter().map(|(name, expression)| rule(name, expression)));
    for (reason, metric) in [("memory_working_set", "working_set_bytes"), ("memory_rss", "rss")] {
        let mut beyond = rule("container:kubevirt_memory_delta_from_requested_bytes:max", &beyond(metric));
        beyond["labels"] = json!({"reason": format!("{reason}_delta_from_request")});
        rules.push(beyond);
    }
    rules.extend(OTHER_NAMES.iter().map(|(name, expression)| rule(name, expression)));
    rules
}

/// Memory usage of our containers beyond their requests: the highest for each container name.
fn beyond(metric: &str) -> String {
    const OURS: &str = "container=~\"virt-controller|virt-api|virt-handler|compute\"";
    format!(
        "topk by (container) (1, max by (container, namespace, node, pod) (\
         container_memory_{metric}{{{OURS},pod=~\"virt-.*\"}} - \
         on (pod, container, namespace) group_left (node) \
         kube_pod_container_resource_requests{{{OURS},resource=\"memory\"}}))"
    )
}

fn rule(name: &str, expression: &str) -> Value {
    json!({"record": name, "expr": expression})
}

const SUMS: &[(&str, &str)] = &[
    ("kubevirt_virt_controller_ready", "sum(kubevirt_virt_controller_ready_status) or vector(0)"),
    (
        "cluster:kubevirt_virt_controller_leading:sum",
        "sum(kubevirt_virt_controller_leading_status) or vector(0)",
    ),
    ("cluster:kubevirt_nodes_allocatable:count", "max(kubevirt_allocatable_nodes)"),
    ("cluster:kubevirt_nodes_with_kvm:count", "max(kubevirt_nodes_with_kvm)"),
    ("namespace:kubevirt_vm:sum", "sum by (namespace) (kubevirt_number_of_vms)"),
    ("node:kubevirt_vmi_phase:sum", "sum by (node, phase) (kubevirt_vmi_phase_count)"),
    (
        "cluster:kubevirt_virt_launcher_failed:count",
        "sum(kube_pod_status_phase{phase=\"Failed\",pod=~\"virt-launcher-.*\"})",
    ),
    ("kubevirt_vm_created_total", "sum by (namespace) (kubevirt_vm_created_by_pod_total)"),
    ("vmi:kubevirt_vmi_vcpu:count", "count by (namespace, name) (kubevirt_vmi_vcpu_seconds_total)"),
    (
        "vmi:kubevirt_vmi_guest_queue_length:sum",
        "clamp_min(sum by (namespace, name) (kubevirt_vmi_guest_load_1m) - vmi:kubevirt_vmi_vcpu:count, 0)",
    ),
    ("vmi:kubevirt_vmi_memory_used_bytes:sum", "sum by (namespace, name) (kubevirt_vmi_memory_used_bytes)"),
    (
        "vmi:kubevirt_vmi_memory_available_bytes:sum",
        "sum by (namespace, name) (kubevirt_vmi_memory_available_bytes)",
    ),
    (
        "vmi:kubevirt_vmi_memory_headroom_ratio:sum",
        "sum by (namespace, name) (kubevirt_vmi_memory_usable_bytes) / \
         sum by (namespace, name) (kubevirt_vmi_memory_available_bytes)",
    ),
    (
        "vmi:kubevirt_vmi_pgmajfaults:rate5m",
        "sum by (namespace, name) (rate(kubevirt_vmi_memory_pgmajfault_total[5m]))",
    ),
    (
        "vmi:kubevirt_vmi_pgmajfaults:rate30m",
        "sum by (namespace, name) (rate(kubevirt_vmi_memory_pgmajfault_total[30m]))",
    ),
    (
        "vmi:kubevirt_vmi_swap_traffic_bytes:rate5m",
        "sum by (namespace, name) (rate(kubevirt_vmi_memory_swap_in_traffic_bytes[5m]) + \
         rate(kubevirt_vmi_memory_swap_out_traffic_bytes[5m]))",
    ),
    (
        "vmi:kubevirt_vmi_swap_traffic_bytes:rate30m",
        "sum by (namespace, name) (rate(kubevirt_vmi_memory_swap_in_traffic_bytes[30m]) + \
         rate(kubevirt_vmi_memory_swap_out_traffic_bytes[30m]))",
    ),
    (
        "cluster:kubevirt_non_schedulable_nodes:sum",
        "sum(count by (node) (kube_node_role{role=\"arbiter\"})) or vector(0)",
    ),
    (
        "cluster:kubevirt_api_request_deprecated_total:sum",
        "group by (group, version, resource, subresource) (apiserver_requested_deprecated_apis{group=\"kubevirt.io\"}) * \
         on (group, version, resource, subresource) group_right () \
         sum by (group, version, resource, subresource, verb) (apiserver_request_total)",
    ),
    (
        "pod_container:kubevirt_vm_memory_request_margin_based_on_working_set_bytes:sum",
        "sum by (pod, container, namespace) (\
         kube_pod_container_resource_requests{pod=~\"virt-launcher-.*\",container=\"compute\",resource=\"memory\"} - \
         on (pod, container, namespace) max by (pod, container, namespace) (\
         container_memory_working_set_bytes{pod=~\"virt-launcher-.*\",container=\"compute\"}))",
    ),
    (
        "pod_container:kubevirt_vm_memory_request_margin_based_on_rss_bytes:sum",
        "sum by (pod, container, namespace) (\
         kube_pod_container_resource_requests{pod=~\"virt-launcher-.*\",container=\"compute\",resource=\"memory\"} - \
         on (pod, container, namespace) max by (pod, container, namespace) (\
         container_memory_rss{pod=~\"virt-launcher-.*\",container=\"compute\"}))",
    ),
    (
        "pvc:kubevirt_suspected_orphaned_storage_bytes:info",
        "(kube_persistentvolumeclaim_info unless on (namespace, persistentvolumeclaim) \
         (kube_pod_spec_volumes_persistentvolumeclaims_info or kubevirt_vm_disk_allocated_size_bytes)) * \
         on (namespace, persistentvolumeclaim) group_left () kube_persistentvolumeclaim_resource_requests_storage_bytes",
    ),
    (
        "pvc:kubevirt_vmsnapshot_labels:info",
        "label_replace(label_replace(kube_persistentvolumeclaim_labels{\
         label_restore_kubevirt_io_source_vm_name!=\"\",label_restore_kubevirt_io_source_vm_namespace!=\"\"} == 1, \
         \"vm_namespace\", \"$1\", \"label_restore_kubevirt_io_source_vm_namespace\", \"(.*)\"), \
         \"vm_name\", \"$1\", \"label_restore_kubevirt_io_source_vm_name\", \"(.*)\")",
    ),
    (
        "vm:kubevirt_vmsnapshot_disks_restored:sum",
        "sum by (vm_name, vm_namespace) (pvc:kubevirt_vmsnapshot_labels:info)",
    ),
    (
        "vm:kubevirt_vmsnapshot_restored_bytes:sum",
        "sum by (vm_name, vm_namespace) (kube_persistentvolumeclaim_resource_requests_storage_bytes * \
         on (persistentvolumeclaim, namespace) group_left (vm_name, vm_namespace) pvc:kubevirt_vmsnapshot_labels:info)",
    ),
];

/// Aliases of other metrics: upstream's former names, and virt-operator's for virt-controller.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("cluster:kubevirt_virt_operator_up:sum", "cluster:kubevirt_virt_controller_up:sum"),
    ("cluster:kubevirt_virt_operator_ready:sum", "cluster:kubevirt_virt_controller_ready:sum"),
    ("cluster:kubevirt_virt_operator_leading:sum", "cluster:kubevirt_virt_controller_leading:sum"),
    (
        "cluster:kubevirt_virt_operator_pods_running:count",
        "cluster:kubevirt_virt_controller_pods_running:count",
    ),
    ("kubevirt_virt_operator_up", "cluster:kubevirt_virt_operator_up:sum"),
    ("kubevirt_virt_operator_ready", "cluster:kubevirt_virt_operator_ready:sum"),
    ("kubevirt_virt_operator_leading", "cluster:kubevirt_virt_operator_leading:sum"),
    ("kubevirt_api_request_deprecated_total", "cluster:kubevirt_api_request_deprecated_total:sum"),
    (
        "kubevirt_memory_delta_from_requested_bytes",
        "container:kubevirt_memory_delta_from_requested_bytes:max",
    ),
    (
        "kubevirt_vm_container_memory_request_margin_based_on_working_set_bytes",
        "pod_container:kubevirt_vm_memory_request_margin_based_on_working_set_bytes:sum",
    ),
    (
        "kubevirt_vm_container_memory_request_margin_based_on_rss_bytes",
        "pod_container:kubevirt_vm_memory_request_margin_based_on_rss_bytes:sum",
    ),
    ("kubevirt_vmi_guest_vcpu_queue", "vmi:kubevirt_vmi_guest_queue_length:sum"),
    ("kubevirt_vmi_migration_data_total_bytes", "kubevirt_vmi_migration_data_bytes_total"),
    ("kubevirt_vmsnapshot_persistentvolumeclaim_labels", "pvc:kubevirt_vmsnapshot_labels:info"),
    ("kubevirt_vmsnapshot_disks_restored_from_source", "vm:kubevirt_vmsnapshot_disks_restored:sum"),
    ("kubevirt_vmsnapshot_disks_restored_from_source_bytes", "vm:kubevirt_vmsnapshot_restored_bytes:sum"),
];
