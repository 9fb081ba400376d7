//! Network policies for our pods, for clusters whose network enforces them.
//!
//! | program | listens on | clients | from |
//! |---|---|---|---|
//! | virt-api | 8443 | the API server, for webhooks and subresources | outside of the pods' network, so anywhere |
//! | virt-handler | 8443 | virt-api, for subresources of VMIs | the pods of virt-api |
//! | virt-handler | four free ports for each live migration | the source's virt-handler | the pods of virt-handler |
//! | cdi-uploadproxy | 8443 | clients that upload a disk, with a token | anywhere: pods, an Ingress, a `kubectl port-forward` |
//! | all | 8443 | the kubelet, for its probes | its own node, which policies do not restrict |
//! | all | 8443 | Prometheus, which also needs RBAC rights | namespaces with the label [`SCRAPES`] |
//!
//! Other clients are blocked. Outgoing connections are not restricted: they go to the API server, whose
//! addresses and port differ between clusters and cannot be selected; for virt-api also to virt-handler and
//! to forwarded ports of VMIs; and for cdi-uploadproxy to the upload pods, in every namespace. (virt-handler
//! talks to launchers and the kubelet through Unix sockets, and configures the networks of pods through
//! netlink.) A pod on the host network would not be restricted; none of ours is. Pods of users, including
//! launchers, are the users' own to restrict.

use super::InstallOptions;
use cluster_model::servers::{API, HANDLER, PORT, PROXY, SERVERS};
use serde_json::{Value, json};

/// The label of namespaces whose pods may read our metrics.
const SCRAPES: (&str, &str) = ("kubevirt.io/metrics", "true");

pub(super) fn objects(options: &InstallOptions) -> [Value; 5] {
    let (label, value) = SCRAPES;
    let all = json!({"matchExpressions": [
        {"key": "kubevirt.io", "operator": "In", "values": SERVERS.map(|server| server.program)},
    ]});
    let measures = json!({
        "from": [{"namespaceSelector": {"matchLabels": {label: value}}}],
        "ports": [{"port": PORT, "protocol": "TCP"}],
    });
    let anybody = json!({"ports": [{"port": PORT, "protocol": "TCP"}]});
    let subresources = json!({
        "from": [{"podSelector": {"matchLabels": {"kubevirt.io": API.program}}}],
        "ports": [{"port": PORT, "protocol": "TCP"}],
    });
    // The kernel chooses the ports of a migration, from a range that a node's administrator can set.
    let migrations = json!({
        "from": [{"podSelector": {"matchLabels": {"kubevirt.io": HANDLER.program}}}],
        "ports": [{"port": 1024, "endPort": 65535, "protocol": "TCP"}],
    });
    [
        policy(options, "kubevirt-allow-ingress-to-metrics", all, measures),
        policy(
            options,
            "kubevirt-allow-ingress-to-virt-api-webhook-server",
            json!({"matchLabels": {"kubevirt.io": API.program}}),
            anybody.clone(),
        ),
        policy(
            options,
            "cdi-allow-ingress-to-uploadproxy",
            json!({"matchLabels": {"kubevirt.io": PROXY.program}}),
            anybody,
        ),
        policy(
            options,
            "kubevirt-allow-ingress-to-virt-handler",
            json!({"matchLabels": {"kubevirt.io": HANDLER.program}}),
            subresources,
        ),
        policy(
            options,
            "kubevirt-allow-handler-to-handler",
            json!({"matchLabels": {"kubevirt.io": HANDLER.program}}),
            migrations,
        ),
    ]
}

fn policy(options: &InstallOptions, name: &str, pods: Value, lets_in: Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": options.namespace, "labels": {"kubevirt.io": ""}},
        "spec": {"podSelector": pods, "policyTypes": ["Ingress"], "ingress": [lets_in]},
    })
}
