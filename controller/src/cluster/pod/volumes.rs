//! The pod's volumes, and where the launcher finds them.

use super::{Refusal, Surroundings};
use crate::names;
use api::machine::volume::{Named, Text};
use api::machine::{CloudInit, Credential, Machine, Volume};
use api::vmi::VirtualMachineInstance;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The launcher's own folder, and what lies below it.
pub(super) const PRIVATE: &str = "/var/run/kubevirt-private";
/// The folder of the launcher's socket.
pub(super) const SOCKETS: &str = "/var/run/kubevirt/sockets";
/// Images of disks.
const IMAGES: &str = "/var/run/kubevirt-image-volume";
/// The image of a kernel.
const KERNEL: &str = "/var/run/kubevirt-kernel-boot";

/// The pod's volumes, and how the compute container sees them.
pub(super) struct Volumes {
    pub(super) volumes: Vec<Value>,
    pub(super) mounts: Vec<Value>,
    pub(super) devices: Vec<Value>,
    pub(super) pull_secrets: BTreeSet<String>,
    taken: BTreeSet<String>,
}

impl Volumes {
    /// A name that no volume has, like `wanted`.
    fn free(&mut self, wanted: &str) -> String {
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

    fn add(&mut self, name: &str, mut volume: Value) {
        volume["name"] = json!(name);
        self.volumes.push(volume);
    }

    fn mount(&mut self, name: &str, path: &str, only_read: bool) {
        let mut mount = json!({"name": name, "mountPath": path});
        if only_read {
            mount["readOnly"] = json!(true);
        }
        self.mounts.push(mount);
    }

    fn image(
        &mut self,
        name: &str,
        image: &api::machine::firmware::Image,
        path: &str,
        around: &Surroundings<'_>,
    ) -> Result<(), Refusal> {
        if !around.image_volumes {
            let why = if around.config.image_volumes {
                "a node that could get the pod, or the API server, does not mount images \
                 (kubelet and server 1.33 with image volumes, containerd 2.1 or CRI-O 1.33)"
            } else {
                "the feature gate ImageVolume is switched off in the KubeVirt object"
            };
            return Err(Refusal(format!(
                "the image {} cannot be mounted: {why}; the other way is not supported yet",
                image.name
            )));
        }
        let mut volume = json!({"image": {"reference": image.name}});
        if let Some(policy) = image.pull_policy.as_deref().filter(|policy| !policy.is_empty()) {
            volume["image"]["pullPolicy"] = json!(policy);
        }
        self.add(name, volume);
        self.mount(name, path, true);
        self.pull_secrets.extend(image.pull_secret.clone().filter(|secret| !secret.is_empty()));
        Ok(())
    }

    fn claim(&mut self, volume: &str, claim: &str, only_read: bool, around: &Surroundings<'_>) {
        // Whoever only reads a claim may still be the first to use it; the mount is what keeps it from being written.
        let mut source = json!({"claimName": claim});
        if only_read {
            source["readOnly"] = json!(true);
        }
        self.add(volume, json!({"persistentVolumeClaim": source}));
        if around.claims.get(claim).is_some_and(crate::world::Claim::is_block) {
            self.devices.push(json!({"name": volume, "devicePath": format!("/dev/{volume}")}));
        } else {
            self.mount(volume, &format!("{PRIVATE}/vmi-disks/{volume}"), only_read);
        }
    }

    /// The files of a secret or a config map.
    fn files(&mut self, name: &str, named: &Named, optional: bool, path: &str) {
        let mut volume = match named {
            Named::Secret(secret) => json!({"secret": {"secretName": secret}}),
            Named::ConfigMap(map) => json!({"configMap": {"name": map}}),
        };
        if optional {
            let kind = if matches!(named, Named::Secret(_)) { "secret" } else { "configMap" };
            volume[kind]["optional"] = json!(true);
        }
        self.add(name, volume);
        self.mount(name, path, true);
    }
}

pub(super) fn volumes(
    vmi: &VirtualMachineInstance,
    machine: &Machine,
    around: &Surroundings<'_>,
) -> Result<Volumes, Refusal> {
    let mut all = Volumes {
        volumes: Vec::new(),
        mounts: Vec::new(),
        devices: Vec::new(),
        pull_secrets: BTreeSet::new(),
        taken: vmi.spec.volumes.iter().map(|volume| volume.name.clone()).collect(),
    };
    for (wanted, path) in [("private", PRIVATE), ("sockets", SOCKETS)] {
        let name = all.free(wanted);
        all.add(&name, json!({"emptyDir": {}}));
        all.mount(&name, path, false);
    }
    let mut secrets = BTreeSet::new();
    for disk in &machine.disks {
        let name = &disk.name;
        let below = |folder: &str| format!("{PRIVATE}/{folder}/{name}");
        match &disk.volume {
            Volume::ContainerDisk { image, .. } => {
                let index = vmi.spec.volumes.iter().position(|volume| volume.name == *name).unwrap_or(0);
                all.image(name, image, &format!("{IMAGES}/disk_{index}"), around)?;
            }
            Volume::Claim { name: claim, readonly } => all.claim(name, claim, *readonly, around),
            Volume::DataVolume { name: claim } => all.claim(name, claim, false, around),
            Volume::Ephemeral { claim } => all.claim(name, claim, true, around),
            Volume::Host { path, create, .. } => {
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                let folder = if folder.is_empty() { "/" } else { folder };
                let kind = if create.is_some() { "DirectoryOrCreate" } else { "Directory" };
                all.add(name, json!({"hostPath": {"path": folder, "type": kind}}));
                all.mount(name, &below("vmi-disks"), false);
            }
            Volume::ConfigMap { name: map, optional, .. } => {
                all.files(name, &Named::ConfigMap(map.clone()), *optional, &below("config-map"));
            }
            Volume::Secret { name: secret, optional, .. } => {
                all.files(name, &Named::Secret(secret.clone()), *optional, &below("secret"));
            }
            Volume::Sysprep { source } => all.files(name, source, false, &below("sysprep")),
            Volume::NoCloud(seed) | Volume::ConfigDrive(seed) => secrets.extend(texts(seed)),
            Volume::Empty { .. } => {}
        }
    }
    for credential in &machine.credentials {
        let (Credential::SshKeys { secret, .. } | Credential::Passwords { secret }) = credential;
        secrets.insert(secret.clone());
    }
    for secret in secrets {
        let name = all.free(&format!("named-{secret}"));
        all.files(&name, &Named::Secret(secret.clone()), false, &format!("{PRIVATE}/named/{secret}"));
    }
    if let Some(image) = machine.firmware.kernel.as_ref().and_then(|kernel| kernel.image.as_ref()) {
        let name = all.free("kernel-boot");
        all.image(&name, image, KERNEL, around)?;
    }
    Ok(all)
}

/// The secrets that hold texts of a seed.
fn texts(seed: &CloudInit) -> impl Iterator<Item = String> + '_ {
    [&seed.user_data, &seed.network_data].into_iter().filter_map(|text| match text {
        Some(Text::Secret(name)) => Some(name.clone()),
        _ => None,
    })
}
