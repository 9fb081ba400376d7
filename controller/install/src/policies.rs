//! Who may reach our pods, for clusters whose network enforces it.
//!
//! | program | listens on | who comes | from where |
//! |---|---|---|---|
//! | virt-api | 8443 | the API server, to ask its webhooks and to hand over requests for subresources | outside of the pods' network, so from anywhere |
//! | virt-handler | 8443 | virt-api, which asks something of a VMI | the pods of virt-api |
//! | cdi-uploadproxy | 8443 | whoever uploads a disk, with a token | anywhere: pods, an Ingress, a `kubectl port-forward` |
//! | all | 8443 | the kubelet, for its probes | its own node, which no policy keeps out |
//! | all | 8443 | Prometheus, which also needs the right to | namespaces with the label [`SCRAPES`] |
//!
//! Nobody else comes in. What they dial is not limited: it is the API server, whose addresses and port are each cluster's
//! own, and which no selector can name; for virt-api also virt-handler, and the ports of VMIs that users have forwarded; and
//! for cdi-uploadproxy the upload pods, in every namespace.
//! (virt-handler speaks to launchers and the kubelet by sockets in folders, and works in the networks of pods by netlink.) A
//! pod on its node's network would not be held by any of this; none of ours is. Users' pods, launchers among them, are their
//! owners' to close.

use super::Wishes;
use cluster_model::servers::{API, HANDLER, PORT, PROXY, SERVERS};
use serde_json::{Value, json};

/// The label of namespaces that may read what we measure.
const SCRAPES: (&str, &str) = ("kubevirt.io/metrics", "true");

pub(super) fn objects(wishes: &Wishes) -> [Value; 4] {
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
    [
        policy(wishes, "kubevirt-allow-ingress-to-metrics", all, measures),
        policy(
            wishes,
            "kubevirt-allow-ingress-to-virt-api-webhook-server",
            json!({"matchLabels": {"kubevirt.io": API.program}}),
            anybody.clone(),
        ),
        policy(
            wishes,
            "cdi-allow-ingress-to-uploadproxy",
            json!({"matchLabels": {"kubevirt.io": PROXY.program}}),
            anybody,
        ),
        policy(
            wishes,
            "kubevirt-allow-ingress-to-virt-handler",
            json!({"matchLabels": {"kubevirt.io": HANDLER.program}}),
            subresources,
        ),
    ]
}

fn policy(wishes: &Wishes, name: &str, pods: Value, lets_in: Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": wishes.namespace, "labels": {"kubevirt.io": ""}},
        "spec": {"podSelector": pods, "policyTypes": ["Ingress"], "ingress": [lets_in]},
    })
}
