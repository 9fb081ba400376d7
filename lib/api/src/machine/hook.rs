//! Hook sidecars: containers beside the launcher that change the domain, or the texts of cloud-init, before
//! the guest starts. An annotation of the VMI lists them; those of network binding plugins, which the
//! KubeVirt object registers, follow.

use crate::meta::ObjectMeta;
use serde_json::Value;

/// Annotation of a VMI that lists hook sidecars.
pub const ANNOTATION: &str = "hooks.kubevirt.io/hookSidecars";
/// Folder of the sockets of sidecars. The launcher has a folder for each sidecar there, with the name of the
/// container.
pub const SOCKETS: &str = "/var/run/kubevirt-hooks";
/// Subfolder of [`SOCKETS`] with the networks of the pod, which the launcher writes; no container has this
/// name …
pub const NETWORK_INFO: &str = "network-info";
/// … and its mount path in a sidecar, with a file of that name.
pub const POD_INFO: &str = "/etc/podinfo";
/// Word of `downwardAPI` by which a sidecar asks for the networks.
pub const DEVICE_INFO: &str = "device-info";
/// Word by which it asks for the labels and the annotations of its pod …
pub const OF_POD: &str = "pod-info";
/// … and their mount path, with a file of each.
pub const POD_METADATA: &str = "/var/run/kubevirt-private/downwardapi/podinfo";
/// Most sidecars that a VMI may list.
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
    /// Script of a ConfigMap that the image runs.
    pub script: Option<HookScript>,
    /// PVC that is mounted in the sidecar.
    pub claim: Option<HookClaim>,
    /// Network binding plugin that brings the sidecar. Unset: the VMI lists it.
    pub plugin: Option<String>,
    /// The sidecar gets the devices of the pod's networks.
    pub device_info: bool,
    /// The sidecar gets the labels and the annotations of its pod.
    pub pod_info: bool,
}

/// A key of a ConfigMap, as a file in a sidecar.
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

/// PVCs of the sidecars in an annotation, which need not be valid.
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
