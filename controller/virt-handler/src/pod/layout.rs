//! Locations of a VMI's parts in its pod, from the pod's spec. Pure.

use super::object::{Container, Pod, Volume};
use crate::error::{Error, Result};
use api::machine::hook;
use cluster_model::launcher::{KERNEL, VIRTIOFS};
use cluster_model::state::MOUNT as STATE;
use std::collections::BTreeMap;

/// Container of virt-launcher and QEMU.
pub const COMPUTE: &str = "compute";
/// Resource that permits a pod to use KVM.
pub const KVM: &str = "devices.kubevirt.io/kvm";

/// Paths in a launcher pod: socket and root folder of the launcher, mounts, block devices, Secrets and sockets of sidecars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// UID of the pod.
    pub uid: String,
    /// Socket of the launcher.
    pub socket: PodPath,
    /// Root folder of the launcher.
    pub root: PodPath,
    /// Path of the root folder in the container.
    pub folder: String,
    /// Mount paths in the container, by pod volume.
    pub mounts: BTreeMap<String, String>,
    /// Block device paths in the container, by pod volume.
    pub devices: BTreeMap<String, String>,
    /// PVCs by pod volume.
    pub claims: BTreeMap<String, String>,
    /// Folders of Secrets by the Secret's name.
    pub secrets: BTreeMap<String, String>,
    /// Images that are not mounted, but provided by a container of the image itself, by the last part of its
    /// socket's path (`disk_3`, `kernel-boot`).
    pub beside: BTreeMap<String, ImageContainer>,
    /// Socket paths of the virtiofsd containers in the launcher, by file system.
    pub filesystems: BTreeMap<String, String>,
    /// Socket folders of hook sidecars in the launcher, in the order of their containers' names.
    pub hooks: Vec<String>,
    /// Mount path of a kernel image in the container.
    pub kernel: Option<String>,
    /// Mount path of the PVC with EFI variables and the TPM in the container.
    pub state: Option<String>,
    /// True if the pod may use KVM.
    pub kvm: bool,
}

/// An image that a container beside the launcher provides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageContainer {
    /// Socket by which the container's process is found.
    pub socket: PodPath,
    /// Name of the image: the last part of the socket's path.
    pub name: String,
}

/// A path in an emptyDir.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPath {
    pub volume: String,
    /// Path below the volume.
    pub path: String,
}

impl Layout {
    /// Layout of a launcher pod. An error names the missing part.
    pub fn parse(pod: &Pod) -> Result<Layout> {
        let name = &pod.metadata.name;
        let wrong =
            |what: &str| Error::refused(format!("the pod {name} is not a launcher pod: it has no {what}"));
        let uid = Some(pod.metadata.uid.clone()).filter(|uid| is_uid(uid)).ok_or_else(|| wrong("uid"))?;
        let compute = pod.spec.containers.iter().find(|container| container.name == COMPUTE);
        let compute = compute.ok_or_else(|| wrong("container 'compute'"))?;
        let volumes = &pod.spec.volumes;
        let inside = |option: &str| {
            let path = argument(compute, option).ok_or_else(|| wrong(option))?;
            in_empty_dir(compute, volumes, path).ok_or_else(|| {
                Error::refused(format!("{option} {path} of the pod {name} is not in an emptyDir of the pod"))
            })
        };
        let whole = compute.volume_mounts.iter().filter(|mount| mount.sub_path.is_none());
        let mounts: BTreeMap<String, String> =
            whole.map(|mount| (mount.name.clone(), mount.mount_path.clone())).collect();
        let secrets = volumes.iter().filter_map(|volume| {
            let secret = volume.secret.as_ref()?.secret_name.clone()?;
            Some((secret, mounts.get(&volume.name)?.clone()))
        });
        let claims = volumes.iter().filter_map(|volume| {
            let claim = volume.persistent_volume_claim.as_ref()?;
            Some((volume.name.clone(), claim.claim_name.clone()))
        });
        let devices = compute.volume_devices.iter();
        let at = |path: &str| {
            let mount = compute.volume_mounts.iter().find(|mount| mount.mount_path == path);
            mount.map(|mount| mount.mount_path.clone())
        };
        // Arguments of a tenant's sidecar are not trusted for locations.
        let is_ours =
            |container: &&Container| container.name != COMPUTE && !hook::is_container(&container.name);
        let beside = pod.spec.containers.iter().filter(is_ours).filter_map(|container| {
            let path = argument(container, "--copy-path")?;
            Some(image_container(container, volumes, path).ok_or_else(|| {
                Error::refused(format!(
                    "the socket {path} of the container {} in the pod {name} is not in an emptyDir of the pod",
                    container.name
                ))
            }))
        });
        let served = pod.spec.containers.iter().filter(is_ours).filter_map(|container| {
            let path = argument(container, VIRTIOFS)?;
            let name = path.rsplit('/').next()?.strip_suffix(".sock")?.to_owned();
            Some(match in_empty_dir(compute, volumes, path) {
                Some(inside) if !inside.path.contains('/') => Ok((name, path.to_owned())),
                _ => Err(Error::refused(format!(
                    "the socket {path} of the container {} of the pod {pod_name} is not in an emptyDir that the \
                     launcher sees",
                    container.name,
                    pod_name = pod.metadata.name
                ))),
            })
        });
        let names = || (0..).map(hook::container);
        let is_there = |name: &String| pod.spec.containers.iter().any(|container| container.name == *name);
        let hooks = match in_empty_dir(compute, volumes, &format!("{}/{}", hook::SOCKETS, hook::container(0)))
        {
            Some(_) => names().take_while(is_there).collect(),
            None => Vec::new(),
        };
        Ok(Layout {
            uid,
            socket: inside("--socket")?,
            root: inside("--root")?,
            folder: argument(compute, "--root").unwrap_or_default().to_owned(),
            claims: claims.collect(),
            secrets: secrets.collect(),
            devices: devices.map(|device| (device.name.clone(), device.device_path.clone())).collect(),
            kvm: compute.resources.limits.contains_key(KVM),
            beside: beside.collect::<Result<_>>()?,
            filesystems: served.collect::<Result<_>>()?,
            hooks,
            kernel: at(KERNEL),
            state: at(STATE),
            mounts,
        })
    }
}

/// Image that a container provides.
fn image_container(
    container: &Container,
    volumes: &[Volume],
    path: &str,
) -> Option<(String, ImageContainer)> {
    let PodPath { volume, path } = in_empty_dir(container, volumes, path)?;
    let plain = !path.is_empty() && path != ".." && path != "." && !path.contains('/');
    plain.then(|| {
        let socket = PodPath { volume, path: format!("{path}.sock") };
        (path.clone(), ImageContainer { socket, name: path })
    })
}

/// Value of an option in a container's arguments.
fn argument<'a>(container: &'a Container, option: &str) -> Option<&'a str> {
    let words: Vec<&str> = container.command.iter().chain(&container.args).map(String::as_str).collect();
    let with_sign = || words.iter().find_map(|word| word.strip_prefix(option)?.strip_prefix('='));
    let at = words.iter().position(|word| *word == option);
    at.and_then(|at| words.get(at + 1).copied()).or_else(with_sign)
}

/// The emptyDir that contains a path, by the longest mount path.
fn in_empty_dir(container: &Container, volumes: &[Volume], path: &str) -> Option<PodPath> {
    let mounts = container.volume_mounts.iter().filter_map(|mount| {
        let rest = path.strip_prefix(mount.mount_path.trim_end_matches('/'))?.strip_prefix('/')?;
        Some((mount, rest))
    });
    let (mount, rest) = mounts.max_by_key(|(mount, _)| mount.mount_path.len())?;
    let volume = volumes.iter().find(|volume| volume.name == mount.name)?;
    let plain = mount.sub_path.is_none() && mount.sub_path_expr.is_none() && volume.empty_dir.is_some();
    plain.then(|| PodPath { volume: volume.name.clone(), path: rest.to_owned() })
}

/// True for a UID. It becomes part of a path.
pub(crate) fn is_uid(uid: &str) -> bool {
    !uid.is_empty() && uid.len() <= 64 && uid.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod() -> serde_json::Value {
        json!({
            "metadata": {"name": "virt-launcher-a", "uid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
            "spec": {
                "containers": [{
                    "name": "compute",
                    "command": ["/usr/bin/virt-launcher", "run", "--root", "/var/run/kubevirt-private/vm"],
                    "args": ["--socket=/var/run/kubevirt/sockets/launcher-sock"],
                    "resources": {"limits": {"devices.kubevirt.io/kvm": "1"}},
                    "volumeMounts": [
                        {"name": "private", "mountPath": "/var/run/kubevirt-private"},
                        {"name": "public", "mountPath": "/var/run/kubevirt"},
                        {"name": "sockets", "mountPath": "/var/run/kubevirt/sockets"},
                        {"name": "data", "mountPath": "/var/run/kubevirt-private/vmi-disks/data"},
                        {"name": "keys", "mountPath": "/var/run/kubevirt-private/secret/keys"}
                    ],
                    "volumeDevices": [{"name": "block", "devicePath": "/dev/block"}]
                }],
                "volumes": [
                    {"name": "private", "emptyDir": {}}, {"name": "public", "emptyDir": {}},
                    {"name": "sockets", "emptyDir": {}},
                    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                    {"name": "keys", "secret": {"secretName": "ssh", "optional": true}}
                ]
            }
        })
    }

    fn layout(pod: serde_json::Value) -> Result<Layout> {
        Layout::parse(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn a_pod_says_where_its_parts_are() {
        let layout = layout(pod()).unwrap();
        assert_eq!(layout.socket, PodPath { volume: "sockets".into(), path: "launcher-sock".into() });
        assert_eq!(layout.root, PodPath { volume: "private".into(), path: "vm".into() });
        assert_eq!(layout.folder, "/var/run/kubevirt-private/vm");
        assert_eq!(layout.mounts["data"], "/var/run/kubevirt-private/vmi-disks/data");
        assert_eq!(layout.devices["block"], "/dev/block");
        assert_eq!(layout.claims, [("data".to_owned(), "data".to_owned())].into());
        assert_eq!(layout.secrets["ssh"], "/var/run/kubevirt-private/secret/keys");
        assert!(layout.kvm);
    }

    #[test]
    fn an_image_that_a_container_beside_holds_out_is_found_by_its_socket() {
        let mut pod = pod();
        let helper = json!({
            "name": "volumedata", "command": ["/bin/container-disk", "--copy-path", "/disks/disk_1"],
            "volumeMounts": [{"name": "shared", "mountPath": "/disks"}]
        });
        pod["spec"]["containers"].as_array_mut().unwrap().push(helper);
        assert!(layout(pod.clone()).unwrap_err().to_string().contains("volumedata"), "it is in no emptyDir");
        pod["spec"]["volumes"].as_array_mut().unwrap().push(json!({"name": "shared", "emptyDir": {}}));
        let beside = &layout(pod.clone()).unwrap().beside["disk_1"];
        assert_eq!(beside.socket, PodPath { volume: "shared".into(), path: "disk_1.sock".into() });
        assert_eq!(beside.name, "disk_1");
        pod["spec"]["containers"][1]["command"][2] = json!("/disks/../disk_1");
        assert!(layout(pod).is_err());
    }

    #[test]
    fn a_file_system_is_found_by_the_socket_of_its_container() {
        let mut pod = pod();
        let virtiofs = json!({
            "name": "virtiofs-files",
            "command": ["/usr/bin/container-disk", "--virtiofs", "/var/run/kubevirt/sockets/files.sock", "--", "virtiofsd"]
        });
        pod["spec"]["containers"].as_array_mut().unwrap().push(virtiofs);
        let found = layout(pod.clone()).unwrap().filesystems;
        assert_eq!(found, [("files".to_owned(), "/var/run/kubevirt/sockets/files.sock".to_owned())].into());
        for elsewhere in ["/etc/files.sock", "/var/run/kubevirt-private/vmi-disks/data/files.sock"] {
            pod["spec"]["containers"][1]["command"][2] = json!(elsewhere);
            let error = layout(pod.clone()).unwrap_err().to_string();
            assert!(error.contains("virtiofs-files") && error.contains("emptyDir"), "{error}");
        }
    }

    #[test]
    fn a_hook_sidecar_is_found_and_its_arguments_lead_nowhere() {
        let mut pod = pod();
        let sidecar = |n: usize| {
            json!({
                "name": format!("hook-sidecar-{n}"),
                "args": ["--copy-path", "/disks/disk_1", "--virtiofs", "/var/run/kubevirt/sockets/files.sock"],
            })
        };
        let before = layout(pod.clone()).unwrap();
        pod["spec"]["containers"].as_array_mut().unwrap().extend([sidecar(0), sidecar(1)]);
        let found = layout(pod.clone()).unwrap();
        assert_eq!((&found.beside, &found.filesystems), (&before.beside, &before.filesystems));
        assert!(found.hooks.is_empty(), "the launcher sees no sockets of theirs");
        let volumes = pod["spec"]["volumes"].as_array_mut().unwrap();
        volumes.push(json!({"name": "hooks", "emptyDir": {}}));
        let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array_mut().unwrap();
        mounts.push(json!({"name": "hooks", "mountPath": "/var/run/kubevirt-hooks"}));
        assert_eq!(layout(pod).unwrap().hooks, ["hook-sidecar-0", "hook-sidecar-1"]);
    }

    #[test]
    fn what_is_no_launcher_is_refused_by_what_it_lacks() {
        for (pointer, value, said) in [
            ("/metadata/uid", json!("../../etc"), "uid"),
            ("/spec/containers/0/name", json!("other"), "container 'compute'"),
            ("/spec/containers/0/args", json!([]), "--socket"),
            ("/spec/volumes/0", json!({"name": "private", "hostPath": {"path": "/"}}), "emptyDir"),
            ("/spec/containers/0/args", json!(["--socket=/etc/s"]), "emptyDir"),
        ] {
            let mut pod = pod();
            *pod.pointer_mut(pointer).unwrap() = value;
            let error = layout(pod).unwrap_err().to_string();
            assert!(error.contains(said), "{pointer}: {error}");
        }
    }
}
