//! The common part of all pods of cdi-worker: no rights, no token, no access to the node, and the settings of the cluster.

use super::settings;
use cluster_model::launcher::USER;
use cluster_model::objects::World;
use cluster_model::worker::{APP, ATTEMPT, PORT, WORK, WORKER};
use serde_json::{Map, Value, json};

/// Memory of a worker, unless an input needs more.
pub(super) const MEMORY: &str = "128Mi";

/// The parts that differ between pods.
pub(crate) struct BasePod<'a> {
    /// With the settings of the cluster.
    pub(crate) world: &'a World,
    pub(crate) name: &'a str,
    pub(crate) namespace: Option<&'a str>,
    /// Owner reference of the pod.
    pub(crate) owner: Value,
    /// The work, as the label has it.
    pub(crate) work: &'a str,
    /// The pod fetches from servers that a tenant names, through the proxy of imports.
    pub(crate) fetches: bool,
    pub(crate) attempt: i64,
    /// Labels in addition to those of all workers.
    pub(crate) labels: Map<String, Value>,
    pub(crate) container: Value,
    pub(crate) volumes: Vec<Value>,
}

/// The container of a pod, without mounts of volumes.
pub(crate) fn container(world: &World, name: &str, verb: &str, mut env: Vec<Value>) -> Value {
    env.push(json!({"name": "MEMORY_LIMIT", "valueFrom": {"resourceFieldRef": {
        "containerName": name, "resource": "limits.memory"}}}));
    let mut container = json!({
        "name": name,
        "image": world.facts.worker_image,
        "args": [verb],
        "env": env,
        "ports": [{"name": "metrics", "containerPort": PORT, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "100m", "memory": "60M"}, "limits": {"memory": MEMORY}},
        "securityContext": {
            "runAsUser": USER,
            "runAsGroup": USER,
            "runAsNonRoot": true,
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
    });
    let policy = world.disk_settings().workers.pull_policy.as_ref();
    if let Some(policy) = policy.or(world.config().image_pull_policy.as_ref()) {
        container["imagePullPolicy"] = json!(policy);
    }
    container
}

/// Pod with the settings that all worker pods share.
pub(crate) fn pod(parts: BasePod<'_>) -> Value {
    let BasePod { world, name, namespace, owner, work, fetches, attempt, mut labels, container, volumes } =
        parts;
    let mut spec = json!({
        "restartPolicy": "Never",
        "enableServiceLinks": false,
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 10,
        "securityContext": {
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            // The kubelet need not walk a volume with a million files if its group is already right.
            "fsGroupChangePolicy": "OnRootMismatch",
            "runAsNonRoot": true,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
    });
    let secrets = &world.config().image_pull_secrets;
    if !secrets.is_empty() {
        spec["imagePullSecrets"] = json!(secrets);
    }
    settings::apply(&mut spec, fetches, &world.disk_settings().imports);
    settings::apply_placement(&mut spec, &world.disk_settings().workers);
    for (label, value) in [
        WORKER,
        APP,
        (WORK.0, work),
        ("app.kubernetes.io/managed-by", "cdi-controller"),
        ("app.kubernetes.io/component", "storage"),
    ] {
        labels.insert(label.to_owned(), json!(value));
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": {
                ATTEMPT: attempt.to_string(),
                // A mesh's sidecar outlives the work, and the pod would never end.
                "sidecar.istio.io/inject": "false",
                "linkerd.io/inject": "disabled",
            },
            "ownerReferences": [owner],
        },
        "spec": spec,
    })
}
