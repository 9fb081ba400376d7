//! The pod's volumes, and where the launcher finds them.

use super::Surroundings;
use super::image_containers::{self, ImageContainers};
use super::{hooks, virtiofs};
use api::machine::firmware::Image;
use api::machine::volume::{ConfigMapOrSecret, Text};
use api::machine::{CloudInit, Filesystem, Machine, Volume};
use api::vmi::VirtualMachineInstance;
use cluster_model::launcher::{HELD_KERNEL, KERNEL, held};
use cluster_model::objects::names;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Folder of the launcher, and its subfolders.
pub(super) const PRIVATE: &str = "/var/run/kubevirt-private";
/// The folder of the launcher's socket.
pub(super) const SOCKETS: &str = "/var/run/kubevirt/sockets";
/// Mount path of huge pages.
const HUGEPAGES: &str = "/dev/hugepages";
/// Folder of image volumes.
const IMAGES: &str = "/var/run/kubevirt-image-volume";

/// Both ways to an image.
struct ImageAccess<'a> {
    /// The pod's volume and its path, where it is mounted.
    volume: &'a str,
    path: String,
    /// Name of the container that provides the image, where the cluster cannot mount it. `held` is the name of the image's socket.
    container: String,
    held: String,
}

/// The pod's volumes, and how the compute container sees them.
pub(super) struct Volumes {
    pub(super) volumes: Vec<Value>,
    pub(super) mounts: Vec<Value>,
    pub(super) devices: Vec<Value>,
    /// The one with the launcher's own folder.
    pub(super) private: String,
    pub(super) pull_secrets: BTreeSet<String>,
    /// Containers that hold images out.
    pub(super) beside: ImageContainers,
    /// Containers of file systems.
    pub(super) virtiofs: Vec<Value>,
    /// Folder of the sockets of virtiofsd.
    pub(super) virtiofs_sockets: Option<String>,
    /// Containers of hook sidecars.
    pub(super) hooks: Vec<Value>,
    /// The pod is of the class `Guaranteed`.
    pub(super) guaranteed: bool,
    taken: BTreeSet<String>,
}

impl Volumes {
    /// A name that no volume has, like `wanted`.
    pub(super) fn free(&mut self, wanted: &str) -> String {
        let wanted = names::dns_label(wanted);
        let mut name = wanted.clone();
        let mut count = 0;
        while !self.taken.insert(name.clone()) {
            count += 1;
            let start: String = wanted.chars().take(55).collect();
            name = format!("{start}-{count}");
        }
        name
    }

    pub(super) fn add(&mut self, name: &str, mut volume: Value) {
        volume["name"] = json!(name);
        self.volumes.push(volume);
    }

    pub(super) fn mount(&mut self, name: &str, path: &str, only_read: bool) {
        let mut mount = json!({"name": name, "mountPath": path});
        if only_read {
            mount["readOnly"] = json!(true);
        }
        self.mounts.push(mount);
    }

    /// An image: mounted, or held out by a container of its own where the cluster cannot mount it.
    fn image(&mut self, image: &Image, way: &ImageAccess<'_>, around: &Surroundings<'_>) {
        self.pull_secrets.extend(image.pull_secret.clone().filter(|secret| !secret.is_empty()));
        if !around.image_volumes {
            return image_containers::add_container(self, &way.container, image, &way.held, around.config);
        }
        let mut volume = json!({"image": {"reference": image.name}});
        if let Some(policy) = image.pull_policy.as_deref().filter(|policy| !policy.is_empty()) {
            volume["image"]["pullPolicy"] = json!(policy);
        }
        self.add(way.volume, volume);
        self.mount(way.volume, &way.path, true);
    }

    /// A folder that containers of the pod share.
    pub(super) fn add_shared_folder(&mut self, wanted: &str) -> String {
        let name = self.free(wanted);
        self.add(&name, json!({"emptyDir": {}}));
        name
    }

    fn claim(&mut self, volume: &str, claim: &str, only_read: bool, around: &Surroundings<'_>) {
        // A read-only user of a claim may still be its first one, so the claim is not marked read-only; the
        // mount is.
        let mut source = json!({"claimName": claim});
        if only_read {
            source["readOnly"] = json!(true);
        }
        self.add(volume, json!({"persistentVolumeClaim": source}));
        if around.claims.get(claim).is_some_and(cluster_model::objects::PersistentVolumeClaim::is_block) {
            self.devices.push(json!({"name": volume, "devicePath": format!("/dev/{volume}")}));
        } else {
            self.mount(volume, &format!("{PRIVATE}/vmi-disks/{volume}"), only_read);
        }
    }

    /// The files of a secret or a config map.
    fn files(&mut self, name: &str, named: &ConfigMapOrSecret, optional: bool, path: &str) {
        self.add(name, files(named, optional));
        self.mount(name, path, true);
    }

    /// A volume whose files the guest mounts: the container that serves it sees it, and the launcher does not.
    fn filesystem(&mut self, filesystem: &Filesystem, around: &Surroundings<'_>) {
        let volume = match &filesystem.volume {
            Volume::Claim { name, readonly: true } => {
                json!({"persistentVolumeClaim": {"claimName": name, "readOnly": true}})
            }
            Volume::Claim { name, .. } | Volume::DataVolume { name } => {
                json!({"persistentVolumeClaim": {"claimName": name}})
            }
            Volume::ConfigMap { name, optional, .. } => {
                files(&ConfigMapOrSecret::ConfigMap(name.clone()), *optional)
            }
            Volume::Secret { name, optional, .. } => {
                files(&ConfigMapOrSecret::Secret(name.clone()), *optional)
            }
            Volume::DownwardApi { fields, .. } => facts(fields),
            Volume::ServiceAccount { .. } => token(),
            // The path is not a volume of the pod's spec: webhooks of other systems fill it.
            Volume::ContainerPath { path } => return virtiofs::serve(self, filesystem, Some(path), around),
            // The check lets no other through.
            _ => return,
        };
        self.add(&filesystem.name, volume);
        virtiofs::serve(self, filesystem, None, around);
    }
}

/// The files of a secret or a config map, as a volume of a pod.
fn files(named: &ConfigMapOrSecret, optional: bool) -> Value {
    let mut volume = match named {
        ConfigMapOrSecret::Secret(secret) => json!({"secret": {"secretName": secret}}),
        ConfigMapOrSecret::ConfigMap(map) => json!({"configMap": {"name": map}}),
    };
    if optional {
        let kind = if matches!(named, ConfigMapOrSecret::Secret(_)) { "secret" } else { "configMap" };
        volume[kind]["optional"] = json!(true);
    }
    volume
}

/// Fields of the pod, whose labels and annotations are the VMI's.
fn facts(fields: &[Value]) -> Value {
    json!({"downwardAPI": {"items": fields}})
}

/// Volume with the usual content of `/var/run/secrets` for a service account. The API server recognizes the
/// expiry of 3607 seconds as that of a client that may read the token only once, and keeps the token valid
/// for a year.
fn token() -> Value {
    json!({"projected": {"sources": [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}})
}

pub(super) fn volumes(vmi: &VirtualMachineInstance, machine: &Machine, around: &Surroundings<'_>) -> Volumes {
    let mut all = Volumes {
        volumes: Vec::new(),
        mounts: Vec::new(),
        devices: Vec::new(),
        private: String::new(),
        pull_secrets: BTreeSet::new(),
        beside: ImageContainers::default(),
        virtiofs: Vec::new(),
        virtiofs_sockets: None,
        hooks: Vec::new(),
        guaranteed: super::resources::is_guaranteed(vmi),
        taken: vmi.spec.volumes.iter().map(|volume| volume.name.clone()).collect(),
    };
    all.private = all.add_shared_folder("private");
    all.mount(&all.private.clone(), PRIVATE, false);
    let sockets = all.add_shared_folder("sockets");
    all.mount(&sockets, SOCKETS, false);
    if machine.memory.hugepage.is_some() {
        let name = all.free("hugepages");
        all.add(&name, json!({"emptyDir": {"medium": "HugePages"}}));
        all.mount(&name, HUGEPAGES, false);
    }
    let mut secrets = BTreeSet::new();
    for disk in &machine.disks {
        let name = &disk.name;
        let below = |folder: &str| format!("{PRIVATE}/{folder}/{name}");
        match &disk.volume {
            Volume::ContainerDisk { image, .. } => {
                let index = vmi.spec.volumes.iter().position(|volume| volume.name == *name).unwrap_or(0);
                let path = format!("{IMAGES}/{}", held(index));
                let way =
                    ImageAccess { volume: name, path, container: format!("volume{name}"), held: held(index) };
                all.image(image, &way, around);
            }
            Volume::Claim { name: claim, readonly } => all.claim(name, claim, *readonly, around),
            Volume::DataVolume { name: claim } => all.claim(name, claim, false, around),
            Volume::Ephemeral { claim } => all.claim(name, claim, true, around),
            // All of the folder is in reach of the pod: `HostFolders` permits only folders of the namespace.
            Volume::Host { path, create, .. } => {
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                let folder = if folder.is_empty() { "/" } else { folder };
                let kind = if create.is_some() { "DirectoryOrCreate" } else { "Directory" };
                all.add(name, json!({"hostPath": {"path": folder, "type": kind}}));
                all.mount(name, &below("vmi-disks"), false);
            }
            Volume::ConfigMap { name: map, optional, .. } => {
                all.files(name, &ConfigMapOrSecret::ConfigMap(map.clone()), *optional, &below("config-map"));
            }
            Volume::Secret { name: secret, optional, .. } => {
                all.files(name, &ConfigMapOrSecret::Secret(secret.clone()), *optional, &below("secret"));
            }
            Volume::DownwardApi { fields, .. } => {
                all.add(name, facts(fields));
                all.mount(name, &below("downwardapi"), true);
            }
            Volume::ServiceAccount { .. } => {
                all.add(name, token());
                all.mount(name, &below("service-account"), true);
            }
            Volume::Sysprep { source } => all.files(name, source, false, &below("sysprep")),
            Volume::NoCloud(seed) | Volume::ConfigDrive(seed) => secrets.extend(seed_secrets(seed)),
            Volume::Empty { .. }
            | Volume::NoDisc
            | Volume::DownwardMetrics
            | Volume::ContainerPath { .. } => {}
        }
    }
    for filesystem in &machine.filesystems {
        all.filesystem(filesystem, around);
    }
    for credential in &machine.credentials {
        secrets.insert(credential.secret().to_owned());
    }
    for secret in secrets {
        let name = all.free(&format!("named-{secret}"));
        all.files(
            &name,
            &ConfigMapOrSecret::Secret(secret.clone()),
            false,
            &format!("{PRIVATE}/named/{secret}"),
        );
    }
    if let Some(claim) = around.state {
        let name = all.free("vm-state");
        all.add(&name, json!({"persistentVolumeClaim": {"claimName": claim}}));
        all.mount(&name, cluster_model::state::MOUNT, false);
    }
    if let Some(image) = machine.firmware.kernel.as_ref().and_then(|kernel| kernel.image.as_ref()) {
        let name = all.free("kernel-boot");
        let (container, held) = ("kernel-boot-volume".to_owned(), HELD_KERNEL.to_owned());
        all.image(image, &ImageAccess { volume: &name, path: KERNEL.to_owned(), container, held }, around);
    }
    hooks::add(&mut all, &machine.hooks, around);
    all
}

/// The secrets that hold texts of a seed.
fn seed_secrets(seed: &CloudInit) -> impl Iterator<Item = String> + '_ {
    [&seed.user_data, &seed.network_data].into_iter().filter_map(|text| match text {
        Some(Text::Secret(name)) => Some(name.clone()),
        _ => None,
    })
}
