//! Hook sidecars: containers beside the launcher that change the domain, or the texts of cloud-init, before the guest
//! starts. A VMI lists its own in an annotation; those of network binding plugins, which the KubeVirt object registers, come
//! behind them.

use crate::meta::ObjectMeta;
use serde_json::Value;

/// The annotation of a VMI that lists them.
pub const ANNOTATION: &str = "hooks.kubevirt.io/hookSidecars";
/// Folder of the sockets of sidecars. The launcher has a folder for each sidecar there, with the name of the
/// container.
pub const SOCKETS: &str = "/var/run/kubevirt-hooks";
/// The folder there, called unlike any container, in which the launcher tells sidecars of the pod's networks …
pub const NETWORK_INFO: &str = "network-info";
/// … and where a sidecar sees it, with a file of that name.
pub const POD_INFO: &str = "/etc/podinfo";
/// The word of `downwardAPI` by which a sidecar asks for it.
pub const DEVICE_INFO: &str = "device-info";
/// The word by which it asks for the labels and the annotations of its pod …
pub const OF_POD: &str = "pod-info";
/// … and where it sees them, a file of each.
pub const POD_METADATA: &str = "/var/run/kubevirt-private/downwardapi/podinfo";
/// A VMI lists no more of them.
pub const MOST: usize = 16;
/// Prefix of the containers' names, before their number.
const CONTAINER: &str = "hook-sidecar-";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookSidecar {
    pub image: String,
    /// Pull policy of the image. Unset: Kubernetes' own default.
    pub pull_policy: Option<String>,
    /// Command of the container. Empty: the image's own.
    pub command: Vec<String>,
    /// Arguments of the command.
    pub args: Vec<String>,
    /// A script that the image runs.
    pub script: Option<HookScript>,
    /// A PVC that it sees.
    pub claim: Option<HookClaim>,
    /// The network binding plugin that it is of; unset: the VMI lists it.
    pub plugin: Option<String>,
    /// The sidecar gets the devices of the pod's networks.
    pub device_info: bool,
    /// The sidecar gets the labels and the annotations of its pod.
    pub pod_info: bool,
}

/// A key of a ConfigMap, as a file of a sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookScript {
    pub config_map: String,
    pub key: String,
    /// The path of the file.
    pub path: String,
}

/// A PVC of a sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookClaim {
    pub name: String,
    /// Mount path in the sidecar.
    pub path: String,
    /// Mount path in the launcher, for QEMU, if it is mounted there too.
    pub shared: Option<String>,
}

/// The PVCs of an annotation's sidecars, judged or not.
pub fn claims(metadata: &ObjectMeta) -> Vec<String> {
    let listed =
        metadata.annotations.get(ANNOTATION).and_then(|listed| serde_json::from_str::<Value>(listed).ok());
    let entries = listed.as_ref().and_then(Value::as_array).into_iter().flatten().take(MOST);
    let names = entries.filter_map(|entry| entry["pvc"]["name"].as_str());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The name of a sidecar's container.
pub fn container(index: usize) -> String {
    format!("{CONTAINER}{index}")
}

/// True for the container of a hook sidecar, whose command belongs to a tenant.
pub fn is_container(name: &str) -> bool {
    name.starts_with(CONTAINER)
}
