//! The programs: two replicas of virt-controller, one of which acts; two of virt-api and cdi-uploadproxy,
//! which both serve; virt-handler on every node. virt-controller creates their certificates, the key of
//! upload tokens, and the webhooks and APIServices of virt-api.
//!
//! ```text
//!  Secret cdi-api-signing-key ───────► virt-api, optional                  ConfigMap cdi-api-signing-key ─► cdi-uploadproxy
//!  Secret cdi-uploadserver-client-cert, ConfigMap cdi-uploadserver-signer-bundle ──────────────────────────► cdi-uploadproxy
//! ```
//!
//! cdi-uploadproxy needs the three objects that it mounts: its pod starts when they exist.

use super::{InstallOptions, PRIORITY};
use cluster_model::components::{self, PRISTINE};
use cluster_model::objects::Program;
use cluster_model::servers::{HANDLER, HANDLERS, MEASURES, PORT, PROXY, SERVICE};
use cluster_model::uploads::{CLIENT_CERTIFICATE, SERVER_SIGNER, SIGNING_KEY};
use serde_json::{Value, json};

/// Folder in which `virt-launcher node-info` leaves its results for virt-handler.
const FINDINGS: &str = "/var/lib/kubevirt-node-labeller";
/// The label by which Prometheus finds our pods. Their port is named `metrics`.
const MEASURED: (&str, &str) = ("prometheus.kubevirt.io", "true");
/// Mount path of the key that signs upload tokens in virt-api, and of the volumes of cdi-uploadproxy.
const KEY_OF_TOKENS: &str = "/etc/virt-api/signing-key";
const OF_PROXY: &str = "/etc/cdi-uploadproxy";
/// Seconds that uploads may continue when a cdi-uploadproxy is stopped, and seconds for telling its clients
/// and exiting.
const UPLOADS_END: (u64, u64) = (600, 30);
/// Seconds that an upgrade of virt-controller or virt-api may take: each waits up to 1800 for its predecessor
/// in the order.
const UPGRADE: u64 = 2400;
/// Root directory of the kubelet.
const KUBELET: &str = "/var/lib/kubelet";

pub(super) fn objects(options: &InstallOptions) -> Vec<Value> {
    let two = |name: &str, template: Value| {
        let mut spec = json!({
            "replicas": 2, "selector": {"matchLabels": {"kubevirt.io": name}}, "template": template,
        });
        if name != PROXY.program {
            spec["progressDeadlineSeconds"] = json!(UPGRADE);
        }
        [workload(options, "Deployment", name, spec), disruption(options, name)]
    };
    let [controllers, some_controller] = two("virt-controller", controller(options));
    let [apis, some_api] = two("virt-api", api(options));
    let [proxies, some_proxy] = two(PROXY.program, proxy(options));
    vec![
        controllers,
        some_controller,
        apis,
        some_api,
        service(options, SERVICE),
        proxies,
        some_proxy,
        service(options, (PROXY.program, SERVICE.1)),
        handlers(options),
        measures(options),
        workload(
            options,
            "DaemonSet",
            "virt-handler",
            json!({
                "selector": {"matchLabels": {"kubevirt.io": "virt-handler"}},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
                "template": handler(options),
            }),
        ),
    ]
}

fn controller(options: &InstallOptions) -> Value {
    let name = "virt-controller";
    let mut container = container(options, name, "100m", "64Mi");
    container["env"] = json!([
        of_pod("POD_NAMESPACE", "metadata.namespace"),
        of_pod("POD_NAME", "metadata.name"),
        {"name": "LAUNCHER_IMAGE", "value": options.image("virt-launcher")},
        {"name": "WORKER_IMAGE", "value": options.image("cdi-worker")},
    ]);
    template(name, anywhere(options, name, Program::Controller.account(), container))
}

fn api(options: &InstallOptions) -> Value {
    let name = "virt-api";
    let mut container = container(options, name, "50m", "32Mi");
    container["env"] = json!([of_pod("POD_NAMESPACE", "metadata.namespace")]);
    container["volumeMounts"] = json!([mounted("signing-key", KEY_OF_TOKENS)]);
    let mut spec = anywhere(options, name, Program::Api.account(), container);
    // VMs do not depend on uploads, so the Secret is optional.
    let key = json!({"secretName": SIGNING_KEY, "optional": true});
    spec["volumes"] = json!([{"name": "signing-key", "secret": key}]);
    template(name, spec)
}

fn proxy(options: &InstallOptions) -> Value {
    let name = PROXY.program;
    let mut container = container(options, name, "50m", "32Mi");
    container["env"] = json!([of_pod("POD_NAMESPACE", "metadata.namespace")]);
    container["args"] = json!(["--grace-period", UPLOADS_END.0.to_string()]);
    let volumes = [
        ("keys", json!({"configMap": {"name": SIGNING_KEY}})),
        ("client", json!({"secret": {"secretName": CLIENT_CERTIFICATE}})),
        ("authorities", json!({"configMap": {"name": SERVER_SIGNER.1}})),
    ];
    let mounts = volumes.each_ref().map(|(name, _)| mounted(name, &format!("{OF_PROXY}/{name}")));
    container["volumeMounts"] = json!(mounts);
    let mut spec = anywhere(options, name, Program::Proxy.account(), container);
    spec["terminationGracePeriodSeconds"] = json!(UPLOADS_END.0 + UPLOADS_END.1);
    spec["volumes"] = volumes
        .into_iter()
        .map(|(name, mut volume)| {
            volume["name"] = json!(name);
            volume
        })
        .collect();
    template(name, spec)
}

fn mounted(name: &str, path: &str) -> Value {
    json!({"name": name, "mountPath": path, "readOnly": true})
}

/// A Service: that of virt-api for the API server, or that of cdi-uploadproxy for clients.
fn service(options: &InstallOptions, (name, port): (&str, u16)) -> Value {
    let mut labels = json!({"kubevirt.io": name});
    if name == PROXY.program {
        // The label by which guides for upstream's CDI find the Service.
        labels["cdi.kubevirt.io"] = json!(name);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": options.namespace, "labels": labels},
        "spec": {
            "selector": {"kubevirt.io": name},
            "ports": [{"name": "https", "port": port, "targetPort": "metrics", "protocol": "TCP"}],
        },
    })
}

/// The Service of virt-handler. virt-api finds the virt-handler of a node in its EndpointSlices, which
/// contain the node.
fn handlers(options: &InstallOptions) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": HANDLERS, "namespace": options.namespace, "labels": {"kubevirt.io": HANDLER.program}},
        "spec": {
            "clusterIP": "None",
            "selector": {"kubevirt.io": HANDLER.program},
            "ports": [{"name": "https", "port": PORT, "targetPort": "metrics", "protocol": "TCP"}],
        },
    })
}

/// The Service by which Prometheus finds the pods of all programs.
fn measures(options: &InstallOptions) -> Value {
    let (label, value) = MEASURED;
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": MEASURES,
            "namespace": options.namespace,
            "labels": {"kubevirt.io": "", label: value},
        },
        "spec": {
            "clusterIP": "None",
            "selector": {label: value},
            "ports": [{"name": "metrics", "port": 443, "targetPort": "metrics", "protocol": "TCP"}],
        },
    })
}

/// The pod spec of a program that needs nothing of its node and may run on any.
fn anywhere(options: &InstallOptions, name: &str, account: &str, mut container: Value) -> Value {
    container["securityContext"] = restricted();
    let mut spec = pod(options, account, container);
    spec["securityContext"] =
        json!({"runAsNonRoot": true, "runAsUser": 1001, "seccompProfile": {"type": "RuntimeDefault"}});
    spec["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
        "weight": 1,
        "podAffinityTerm": {
            "labelSelector": {"matchLabels": {"kubevirt.io": name}}, "topologyKey": "kubernetes.io/hostname",
        },
    }]}});
    spec["tolerations"] = json!([{"key": "CriticalAddonsOnly", "operator": "Exists"}]);
    spec
}

fn handler(options: &InstallOptions) -> Value {
    let name = "virt-handler";
    let mut container = container(options, name, "10m", "32Mi");
    container["env"] = json!([
        of_pod("POD_NAMESPACE", "metadata.namespace"),
        of_pod("NODE_NAME", "spec.nodeName"),
        of_pod("POD_IP", "status.podIP")
    ]);
    // virt-handler enters the networks of pods, accesses their files through /proc, and creates devices that
    // they may not.
    container["securityContext"] = json!({"privileged": true});
    container["volumeMounts"] = json!([
        {"name": "kubelet", "mountPath": KUBELET, "mountPropagation": "HostToContainer"},
        {"name": "findings", "mountPath": FINDINGS},
    ]);
    let mut spec = pod(options, Program::Handler.account(), container);
    spec["hostPID"] = json!(true);
    spec["tolerations"] = json!([{"operator": "Exists"}]);
    spec["nodeSelector"] = json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": api::architecture::Arch::DEFAULT.facts().name});
    spec["initContainers"] = json!([
        // The results of libvirt depend on access to KVM. They are also needed without KVM, for emulated
        // VMIs.
        node_info(options, "node-info-emulation", "emulation", None, json!({"privileged": false})),
        node_info(options, "node-info", "kvm", Some("node.json"), json!({"privileged": true})),
    ]);
    spec["volumes"] = json!([
        {"name": "kubelet", "hostPath": {"path": KUBELET, "type": "Directory"}},
        {"name": "findings", "hostPath": {"path": FINDINGS, "type": "DirectoryOrCreate"}},
    ]);
    template(name, spec)
}

/// An init container that determines the features of the node.
fn node_info(
    options: &InstallOptions,
    name: &str,
    cache: &str,
    output: Option<&str>,
    context: Value,
) -> Value {
    let mut command = vec!["/usr/bin/virt-launcher".to_owned(), "node-info".into()];
    command.extend(["--cache".into(), format!("{FINDINGS}/cache/{cache}")]);
    if let Some(output) = output {
        command.extend(["--output".into(), format!("{FINDINGS}/{output}")]);
    }
    let mut container = json!({
        "name": name,
        "image": options.image("virt-launcher"),
        "command": command,
        "securityContext": context,
        "volumeMounts": [{"name": "findings", "mountPath": FINDINGS}],
    });
    container["securityContext"]["runAsUser"] = json!(0);
    pulled(options, container)
}

fn workload(options: &InstallOptions, kind: &str, name: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": options.namespace, "labels": {"kubevirt.io": name}},
        "spec": spec,
    });
    // The annotation keeps the fields of the manifest, so that settings of the KubeVirt object can be removed
    // again.
    let pristine = Value::Object(components::customizable_fields(&object)).to_string();
    object["metadata"]["annotations"][PRISTINE] = json!(pristine);
    object
}

fn template(name: &str, spec: Value) -> Value {
    let (label, value) = MEASURED;
    json!({"metadata": {"labels": {"kubevirt.io": name, label: value}}, "spec": spec})
}

fn pod(options: &InstallOptions, account: &str, container: Value) -> Value {
    let mut spec = json!({
        "serviceAccountName": account,
        "priorityClassName": PRIORITY,
        "containers": [container],
    });
    if let Some(secret) = &options.pull_secret {
        spec["imagePullSecrets"] = json!([{"name": secret}]);
    }
    spec
}

fn container(options: &InstallOptions, name: &str, cpu: &str, memory: &str) -> Value {
    pulled(
        options,
        json!({
            "name": name,
            "image": options.image(name),
            "resources": {"requests": {"cpu": cpu, "memory": memory}},
            // One port for all clients: the API server, the kubelet, Prometheus.
            "ports": [{"name": "metrics", "containerPort": PORT}],
            "livenessProbe": probe("/healthz"),
            "readinessProbe": probe("/readyz"),
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }),
    )
}

fn pulled(options: &InstallOptions, mut container: Value) -> Value {
    if let Some(policy) = &options.pull_policy {
        container["imagePullPolicy"] = json!(policy);
    }
    container
}

fn restricted() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": true,
    })
}

fn of_pod(name: &str, path: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
}

fn probe(path: &str) -> Value {
    let asks = json!({"path": path, "port": "metrics", "scheme": "HTTPS"});
    json!({"httpGet": asks, "periodSeconds": 5, "failureThreshold": 6})
}

/// A disruption budget: a drain evicts one of the pods at a time.
fn disruption(options: &InstallOptions, name: &str) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": options.namespace, "labels": {"kubevirt.io": name}},
        "spec": {
            // With one replica (`infra.replicas`), a drain may evict it and does not wait for ever.
            "maxUnavailable": 1,
            "selector": {"matchLabels": {"kubevirt.io": name}},
            // A pod that is not ready does not block a drain.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    })
}
