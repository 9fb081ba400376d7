//! Hook sidecars: containers beside the launcher that change the domain, or the texts of cloud-init, before the guest
//! starts.

/// The annotation of a VMI that lists them.
pub const ANNOTATION: &str = "hooks.kubevirt.io/hookSidecars";
/// Where a sidecar makes its socket. The launcher has a folder for each sidecar there, called like the container.
pub const SOCKETS: &str = "/var/run/kubevirt-hooks";
/// What the containers are called, before their number.
const CONTAINER: &str = "hook-sidecar-";

/// A hook sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookSidecar {
    /// Its image.
    pub image: String,
    /// When the image is pulled; unset: Kubernetes' own default.
    pub pull_policy: Option<String>,
    /// Its command; empty: the image's own.
    pub command: Vec<String>,
    /// The arguments of its command.
    pub args: Vec<String>,
    /// A script that the image runs.
    pub script: Option<HookScript>,
    /// A PVC that it sees.
    pub claim: Option<HookClaim>,
}

/// A key of a ConfigMap, as a file of a sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookScript {
    /// The ConfigMap.
    pub config_map: String,
    /// Its key.
    pub key: String,
    /// The path of the file.
    pub path: String,
}

/// A PVC of a sidecar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookClaim {
    /// The PVC.
    pub name: String,
    /// Where the sidecar sees it.
    pub path: String,
    /// Where the launcher and QEMU see it, too.
    pub shared: Option<String>,
}

/// The name of a sidecar's container.
pub fn container(index: usize) -> String {
    format!("{CONTAINER}{index}")
}

/// Whether a container is a hook sidecar, whose command is a tenant's.
pub fn is_container(name: &str) -> bool {
    name.starts_with(CONTAINER)
}
