//! Sums over what all pods tell, by the names that upstream's dashboards and alerts use.

use serde_json::{Value, json};

/// All of them, where the control plane is in this namespace.
pub(super) fn all(namespace: &str) -> Vec<Value> {
    let mut rules = Vec::new();
    for program in ["api", "controller", "handler"] {
        let up = format!("sum(up{{namespace=\"{namespace}\",pod=~\"virt-{program}-.*\"}}) or vector(0)");
        let ready = format!("sum(kubevirt_virt_{program}_ready_status) or vector(0)");
        rules.push(rule(&format!("cluster:kubevirt_virt_{program}_up:sum"), &up));
        rules.push(rule(&format!("kubevirt_virt_{program}_up"), &up));
        rules.push(rule(&format!("cluster:kubevirt_virt_{program}_ready:sum"), &ready));
    }
    rules.extend(SUMS.iter().map(|(name, expression)| rule(name, expression)));
    rules
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
        "kubevirt_vmi_guest_vcpu_queue",
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
];
