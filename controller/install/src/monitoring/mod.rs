//! Objects for a cluster with the Prometheus operator and Grafana: `coracle manifests --monitoring`.
//!
//! ```text
//!  ServiceMonitor ─► the pods behind the metrics Service               Role, RoleBinding: Prometheus finds them
//!  PrometheusRule ─► rules: sums, by upstream's names                  ClusterRoleBinding: it may read them
//!                    alerts: on these and on our metrics
//!  ConfigMaps     ─► dashboards, which Grafana loads by their label
//! ```
//!
//! Rules, alerts and panels query only metrics that we serve: a test parses them all (`promql`). Metrics of
//! other programs are: `up`, which Prometheus creates, and those of kube-state-metrics in `alerts`.

mod alerts;
#[cfg(test)]
mod promql;
mod rules;
#[cfg(test)]
mod tests;

use super::InstallOptions;
use cluster_model::servers::MEASURES;
use serde_json::{Value, json};

/// The Prometheus installation that scrapes the metrics.
#[derive(Clone, Debug)]
pub struct Monitor {
    /// Namespace of Prometheus and Grafana.
    pub namespace: String,
    /// Service account of Prometheus.
    pub account: String,
}

/// Dashboards: file name and content.
const DASHBOARDS: [(&str, &str); 3] = [
    ("coracle-cluster.json", include_str!("../../../manifests/dashboards/cluster.json")),
    ("coracle-vm.json", include_str!("../../../manifests/dashboards/vm.json")),
    ("coracle-disks.json", include_str!("../../../manifests/dashboards/disks.json")),
];

/// The monitoring objects for an installation.
pub fn objects(options: &InstallOptions, monitor: &Monitor) -> Vec<Value> {
    let mut objects = vec![service_monitor(options), rule(options)];
    objects.extend(rights(options, monitor));
    objects.extend(DASHBOARDS.iter().map(|(file, content)| dashboard(monitor, file, content)));
    objects
}

fn meta(options: &InstallOptions, name: &str) -> Value {
    json!({"name": name, "namespace": options.namespace, "labels": {"kubevirt.io": "", "prometheus.kubevirt.io": "true"}})
}

/// Names of metrics that are kept from a scrape. Since our own labels are honored, a compromised node could
/// otherwise report `up`, or metrics of kube-state-metrics, for any pod of the cluster.
const OURS: &str = "(kubevirt|coracle)_.+";
/// Maximum samples of a scrape: those of virt-controller with some 20,000 VMs.
const SAMPLES: u32 = 500_000;
/// Maximum labels of a sample: `kubevirt_vm_labels` has 34, and Prometheus adds its own.
const LABELS: u32 = 64;
/// Maximum bytes of a label's name: `label_` and a key with its domain.
const NAME: u32 = 512;
/// Maximum bytes of a label's value: a mount point in a guest has 256 characters.
const VALUE: u32 = 1024;

/// The ServiceMonitor. Our own labels are honored: `namespace` is that of a VM, not of the pod that reports
/// it. A page beyond the limits is dropped.
fn service_monitor(options: &InstallOptions) -> Value {
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": meta(options, MEASURES),
        "spec": {
            "selector": {"matchLabels": {"prometheus.kubevirt.io": "true"}},
            "sampleLimit": SAMPLES,
            "labelLimit": LABELS,
            "labelNameLengthLimit": NAME,
            "labelValueLengthLimit": VALUE,
            "endpoints": [{
                "port": "metrics",
                "scheme": "https",
                "honorLabels": true,
                "metricRelabelings": [{"sourceLabels": ["__name__"], "regex": OURS, "action": "keep"}],
                "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
                "tlsConfig": {
                    "ca": {"configMap": {"name": "kubevirt-ca", "key": "ca-bundle"}},
                    "serverName": format!("{MEASURES}.{}.svc", options.namespace),
                },
            }],
        },
    })
}

fn rule(options: &InstallOptions) -> Value {
    json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": meta(options, "prometheus-kubevirt-rules"),
        "spec": {"groups": [
            {"name": "kubevirt.rules", "rules": rules::all(&options.namespace)},
            {"name": "kubevirt.alerts", "rules": alerts::of_kubevirt(&options.namespace)},
            {"name": "cdi.alerts", "rules": alerts::of_cdi()},
        ]},
    })
}

/// Rights of Prometheus: it finds our pods by the endpoints of the namespace, and may read `/metrics`.
fn rights(options: &InstallOptions, monitor: &Monitor) -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io";
    let name = "kubevirt-monitoring";
    let subject =
        json!([{"kind": "ServiceAccount", "name": monitor.account, "namespace": monitor.namespace}]);
    vec![
        json!({
            "apiVersion": format!("{rbac}/v1"),
            "kind": "Role",
            "metadata": {"name": name, "namespace": options.namespace, "labels": {"kubevirt.io": ""}},
            "rules": [
                {"apiGroups": [""], "resources": ["services", "endpoints", "pods"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]},
            ],
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"),
            "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": options.namespace, "labels": {"kubevirt.io": ""}},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
            "subjects": subject,
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"),
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name, "labels": {"kubevirt.io": ""}},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "kubevirt.io:metrics-reader"},
            "subjects": subject,
        }),
    ]
}

/// A ConfigMap with the label that Grafana's sidecar looks for.
fn dashboard(monitor: &Monitor, file: &str, content: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": format!("grafana-dashboard-{}", file.trim_end_matches(".json")),
            "namespace": monitor.namespace,
            "labels": {"kubevirt.io": "", "grafana_dashboard": "1"},
        },
        "data": {file: content},
    })
}
