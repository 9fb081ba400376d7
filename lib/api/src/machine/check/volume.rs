//! Volumes: each has one source, and a device that uses it.

use super::super::Volume;
use super::super::host_folders::HOST_DISK_FOLDERS;
use super::super::volume::ConfigMapOrSecret;
use super::cloudinit::{self, Seed};
use super::firmware::image_of;
use super::{Check, Site, downward, text};
use crate::meta::LocalReference;
use crate::vmi;
use crate::wire::Path;
use std::collections::BTreeMap;

/// Folders of the launcher pod that must not be exposed to guests.
const RESERVED: [&str; 11] = [
    "/proc",
    "/sys",
    "/dev",
    "/etc",
    "/usr",
    "/lib",
    "/lib64",
    "/run",
    "/var/lock",
    "/var/run/kubevirt",
    "/var/run/libvirt",
];
/// Longest label of an ISO image.
const LABEL: usize = 32;

/// Volumes by name. One with a fault in its source has `None`, so that its disk has no fault of its own.
pub(super) type Volumes<'a> = BTreeMap<&'a str, Option<Volume>>;

pub(super) fn volumes<'a>(
    volumes: &'a [vmi::Volume],
    devices: &vmi::Devices,
    at: &Path,
    check: &mut Check<'_>,
) -> Volumes<'a> {
    let disks = devices.disks.iter().map(|disk| disk.name.as_str());
    let filesystems = devices.filesystems.iter().map(|filesystem| filesystem.name.as_str());
    let used: std::collections::BTreeSet<&str> = disks.chain(filesystems).collect();
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    let mut result = Volumes::new();
    if volumes.iter().filter(|volume| volume.downward_metrics.is_some()).count() > 1 {
        let at = at.child("volumes");
        check.invalid(&at, format!("{at} must have max one downwardMetric volume set"));
    }
    for (i, volume) in volumes.iter().enumerate() {
        let here = at.child("volumes").index(i);
        let name = volume.name.as_str();
        if let Some(why) = text::not_a_label(name) {
            let at = here.child("name");
            check.invalid(&at, format!("{at} does not conform to the kubernetes DNS_LABEL rules : {why}"));
        }
        if let Some(&other) = first.get(name) {
            let other = at.child("volumes").index(other);
            check.invalid(here.child("name"), format!("{here} and {other} must not have the same Name."));
            continue;
        }
        first.insert(name, i);
        if !used.contains(name) {
            let at = at.child("domain").child("volumes").index(i).child("name");
            check.invalid(&at, format!("{at} '{name}' not found."));
        }
        result.insert(name, volume_of(volume, &here, check));
    }
    result
}

fn volume_of(volume: &vmi::Volume, at: &Path, check: &mut Check<'_>) -> Option<Volume> {
    let vmi::Volume {
        name: _,
        host_disk,
        persistent_volume_claim,
        cloud_init_no_cloud,
        cloud_init_config_drive,
        sysprep,
        container_disk,
        ephemeral,
        empty_disk,
        data_volume,
        config_map,
        secret,
        downward_api,
        service_account,
        downward_metrics,
        memory_dump,
        container_path,
        other: _,
    } = volume;
    let mut found: Vec<Option<Volume>> = Vec::new();
    if memory_dump.is_some() {
        check.not_yet(at.child("memoryDump"));
        found.push(None);
    }
    found.extend(host_disk.as_ref().map(|source| host(source, at, check)));
    found.extend(
        persistent_volume_claim
            .as_ref()
            .map(|source| claim(source, &at.child("persistentVolumeClaim"), check))
            .map(|(name, readonly)| Some(Volume::Claim { name, readonly })),
    );
    found.extend(
        cloud_init_no_cloud
            .as_ref()
            .map(|source| cloudinit::cloud_init(source, Seed::NoCloud, at, check).map(Volume::NoCloud)),
    );
    found.extend(
        cloud_init_config_drive.as_ref().map(|source| {
            cloudinit::cloud_init(source, Seed::ConfigDrive, at, check).map(Volume::ConfigDrive)
        }),
    );
    found.extend(sysprep.as_ref().map(|source| answers(source, &at.child("sysprep"), check)));
    found.extend(container_disk.as_ref().map(|source| container(source, &at.child("containerDisk"), check)));
    found.extend(ephemeral.as_ref().map(|source| on_top(source, &at.child("ephemeral"), check)));
    found.extend(empty_disk.as_ref().map(|source| empty(source, &at.child("emptyDisk"), check)));
    found.extend(data_volume.as_ref().map(|vmi::DataVolumeSource { name, hotpluggable, other: _ }| {
        refuse_hotpluggable(*hotpluggable, &at.child("dataVolume"), check);
        if name.is_empty() {
            check.required(at, "DataVolume 'name' must be set");
        } else {
            object_name(name, &at.child("dataVolume").child("name"), check);
        }
        Some(Volume::DataVolume { name: name.clone() })
    }));
    found.extend(config_map.as_ref().map(
        |vmi::ConfigMapSource { name, optional, volume_label, other: _ }| {
            let at = at.child("configMap");
            Some(Volume::ConfigMap {
                name: required_name(name, &at.child("name"), check),
                optional: optional.unwrap_or(false),
                label: label(volume_label, &at, check),
            })
        },
    ));
    found.extend(secret.as_ref().map(
        |vmi::SecretSource { secret_name, optional, volume_label, other: _ }| {
            let at = at.child("secret");
            Some(Volume::Secret {
                name: required_name(secret_name, &at.child("secretName"), check),
                optional: optional.unwrap_or(false),
                label: label(volume_label, &at, check),
            })
        },
    ));
    found.extend(downward_api.as_ref().map(|source| {
        let at = at.child("downwardAPI");
        check.not_yet_at(&[Site::Laptop], &at, "write the same texts into a configMap volume");
        let vmi::DownwardApi { fields, volume_label, other: _ } = source;
        Some(Volume::DownwardApi {
            fields: downward::fields(fields, &at.child("fields"), check),
            label: label(volume_label, &at, check),
        })
    }));
    found.extend(service_account.as_ref().map(|source| {
        let at = at.child("serviceAccount");
        check.not_yet_at(&[Site::Laptop], &at, "leave it out: only a cluster has service accounts");
        let vmi::ServiceAccount { service_account_name, other: _ } = source;
        let name = required_name(service_account_name, &at.child("serviceAccountName"), check);
        Some(Volume::ServiceAccount { name })
    }));
    if downward_metrics.is_some() && !check.settings.gate("DownwardMetrics") {
        let message = "downwardMetrics disks are not allowed: DownwardMetrics feature gate is not enabled.";
        check.invalid(at, message);
    }
    found.extend(
        downward_metrics.as_ref().map(|crate::meta::Empty { other: _ }| Some(Volume::DownwardMetrics)),
    );
    found.extend(
        container_path.as_ref().map(|source| in_container(source, &at.child("containerPath"), check)),
    );
    if found.len() != 1 {
        check.invalid(at, format!("{at} must have exactly one source type set"));
        return None;
    }
    found.pop().flatten()
}

fn host(source: &vmi::HostDisk, volume: &Path, check: &mut Check<'_>) -> Option<Volume> {
    let vmi::HostDisk { path, r#type, capacity, shared, other: _ } = source;
    let is_open = check.settings.gate("HostDisk");
    if !is_open {
        check.invalid(volume, "HostDisk feature gate is not enabled");
    }
    let at = volume.child("hostDisk");
    let path_at = at.child("path");
    if path.is_empty() {
        check.not_found(&path_at, format!("{path_at} is required for hostDisk volume"));
    } else if !text::is_clean(path) {
        let message = format!("{path_at} must be an absolute path to a file without relative components");
        check.invalid(&path_at, message);
    } else if let Some(folders) = &check.settings.host_folders
        && is_open
        && !folders.permits(path, check.namespace)
    {
        let message = format!(
            "{path_at} {path} is not in a folder that the annotation {HOST_DISK_FOLDERS} of the KubeVirt object permits to the \
             namespace {} ({})",
            check.namespace,
            folders.display_names(check.namespace)
        );
        check.invalid(&path_at, message);
    }
    let (type_at, capacity_at) = (at.child("type"), at.child("capacity"));
    let create = match r#type {
        vmi::HostDiskType::DiskOrCreate => match capacity {
            None => {
                check.required(&capacity_at, format!("{capacity_at} is required for hostDisk volume"));
                None
            }
            Some(capacity) => size(capacity, &capacity_at, check),
        },
        vmi::HostDiskType::Disk => {
            if capacity.as_ref().is_some_and(|capacity| !capacity.is_zero()) {
                check.invalid(
                    &capacity_at,
                    format!("{capacity_at} is allowed to pass only with {type_at} equal to 'DiskOrCreate'"),
                );
            }
            None
        }
        vmi::HostDiskType::Other(word) => {
            check.invalid(
                &type_at,
                format!("{type_at} has invalid value '{word}', allowed are 'Disk' or 'DiskOrCreate'"),
            );
            None
        }
    };
    Some(Volume::Host { path: path.clone(), create, shared: shared.unwrap_or(false) })
}

/// Name of a PVC, and whether it is read-only. A hotplugged PVC is like any other when the VMI starts.
fn claim(source: &vmi::ClaimSource, at: &Path, check: &mut Check<'_>) -> (String, bool) {
    let vmi::ClaimSource { claim_name, read_only, hotpluggable, other: _ } = source;
    refuse_hotpluggable(*hotpluggable, at, check);
    let at = at.child("claimName");
    if claim_name.is_empty() {
        check.required(&at, format!("{at} is a required field"));
    } else {
        object_name(claim_name, &at, check);
    }
    (claim_name.clone(), read_only.unwrap_or(false))
}

/// Refuses `hotpluggable`: a volume cannot be unplugged while the VMI runs.
fn refuse_hotpluggable(hotpluggable: Option<bool>, at: &Path, check: &mut Check<'_>) {
    if hotpluggable == Some(true) {
        let hint = "leave it out: a volume stays until the VMI stops";
        check.not_yet_at(&[Site::Cluster], at.child("hotpluggable"), hint);
    }
}

fn on_top(source: &vmi::Ephemeral, at: &Path, check: &mut Check<'_>) -> Option<Volume> {
    let vmi::Ephemeral { persistent_volume_claim, other: _ } = source;
    let at = at.child("persistentVolumeClaim");
    let Some(source) = persistent_volume_claim else {
        check.required(&at, format!("{at} is a required field"));
        return None;
    };
    let (claim, _) = claim(source, &at, check);
    Some(Volume::Ephemeral { claim })
}

fn container(source: &vmi::ContainerDisk, at: &Path, check: &mut Check<'_>) -> Option<Volume> {
    let vmi::ContainerDisk { image, image_pull_secret, path, image_pull_policy, other: _ } = source;
    if image.is_empty() {
        let at = at.child("image");
        check.required(&at, format!("{at} is a required field"));
    }
    let path = text::non_empty(path);
    let path_at = at.child("path");
    if path == Some("/") {
        check.invalid(path_at, format!("{at} must not point to root"));
    } else if path.is_some_and(|path| !text::is_clean(path)) {
        let message = format!("{at} must be an absolute path to a file without relative components");
        check.invalid(path_at, message);
    }
    let image = image_of(image, image_pull_secret, image_pull_policy, at, check);
    Some(Volume::ContainerDisk { image, path: path.map(str::to_owned) })
}

/// Checks a folder of the pod. Folders of the control plane and those that control processes are reserved.
fn in_container(source: &vmi::ContainerPath, at: &Path, check: &mut Check<'_>) -> Option<Volume> {
    let vmi::ContainerPath { path, read_only, other: _ } = source;
    check.not_yet_at(&[Site::Laptop], at, "use a configMap or secret volume");
    let path_at = at.child("path");
    if !text::is_clean(path) {
        let message = format!("{path_at} must be an absolute path without relative components");
        check.invalid(&path_at, message);
    } else if let Some(prefix) = RESERVED.iter().find(|prefix| is_below(path, prefix)) {
        check.invalid(&path_at, format!("{path_at} '{path}' must not be below {prefix}, which is reserved"));
    } else if let Some(inside) = RESERVED.iter().find(|inside| is_below(inside, path)) {
        check
            .invalid(&path_at, format!("{path_at} '{path}' must not have {inside} in it, which is reserved"));
    }
    if *read_only == Some(false) {
        check.not_supported(at.child("readOnly"), "a folder of the launcher pod is only read");
    }
    Some(Volume::ContainerPath { path: path.clone() })
}

/// True if the path begins with `prefix`: it is the folder, lies in it, or beside it with the same beginning.
/// So `/var/run/kubevirt` also covers `/var/run/kubevirt-private`.
fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| matches!(rest.chars().next(), None | Some('/' | '-')))
}

fn empty(source: &vmi::EmptyDisk, at: &Path, check: &mut Check<'_>) -> Option<Volume> {
    let vmi::EmptyDisk { capacity, other: _ } = source;
    size(capacity, &at.child("capacity"), check).map(|capacity| Volume::Empty { capacity })
}

/// Checks the size of a new disk: whole sectors, at least one, and no more than a file can have.
fn size(capacity: &crate::quantity::Quantity, at: &Path, check: &mut Check<'_>) -> Option<u64> {
    let most = i64::MAX as u64;
    let Some(bytes) = capacity.bytes().filter(|bytes| (1..=most - 511).contains(bytes)) else {
        check.invalid(at, format!("{at} '{capacity}': must be greater than 0 and less than 8Ei."));
        return None;
    };
    Some(bytes.next_multiple_of(512))
}

fn answers(source: &vmi::Sysprep, at: &Path, check: &mut Check<'_>) -> Option<Volume> {
    let vmi::Sysprep { secret, config_map, other: _ } = source;
    let mut name = |reference: &LocalReference, field: &str| {
        let LocalReference { name, other: _ } = reference;
        required_name(name, &at.child(field).child("name"), check)
    };
    let source = match (secret, config_map) {
        (Some(secret), None) => ConfigMapOrSecret::Secret(name(secret, "secret")),
        (None, Some(config_map)) => ConfigMapOrSecret::ConfigMap(name(config_map, "configMap")),
        _ => {
            check.invalid(at, format!("{at} must have exactly one source type set"));
            return None;
        }
    };
    Some(Volume::Sysprep { source })
}

/// Checks the name of a ConfigMap or a Secret.
pub(super) fn required_name(name: &Option<String>, at: &Path, check: &mut Check<'_>) -> String {
    let name = text::non_empty(name).unwrap_or_default();
    if name.is_empty() {
        check.invalid(at, format!("{at} is a required field"));
    } else {
        object_name(name, at, check);
    }
    name.to_owned()
}

/// Checks the name of an object, which becomes a file name.
fn object_name(name: &str, at: &Path, check: &mut Check<'_>) {
    if let Some(why) = text::not_a_subdomain(name) {
        check.invalid(at, format!("{at} does not conform to the kubernetes DNS_SUBDOMAIN rules : {why}"));
    }
}

fn label(label: &Option<String>, at: &Path, check: &mut Check<'_>) -> Option<String> {
    let label = text::non_empty(label)?;
    if label.chars().count() > LABEL || text::not_plain(label).is_some() {
        let at = at.child("volumeLabel");
        check.invalid(&at, format!("{at} must be no more than {LABEL} letters without control characters"));
    }
    Some(label.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::machine::{Machine, Settings};
    use serde_json::json;

    #[test]
    fn a_host_disk_lies_in_the_folder_of_its_own_namespace() {
        let told = |namespace: &str, path: &str, folders: &str| {
            let vmi = json!({
                "metadata": {"name": "vm", "namespace": namespace},
                "spec": {
                    "domain": {
                        "memory": {"guest": "128Mi"},
                        "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                        "devices": {"disks": [{"name": "data", "disk": {"bus": "virtio"}}]},
                    },
                    "volumes": [{"name": "data", "hostDisk": {"path": path, "type": "Disk"}}],
                },
            });
            let settings = Settings::of_cluster(&json!({
                "metadata": {"annotations": {"kubevirt.io/host-disk-folders": folders}},
                "spec": {"configuration": {"developerConfiguration": {"featureGates": ["HostDisk"]}}},
            }));
            let told = Machine::check(&crate::wire::read(vmi).unwrap(), &settings);
            told.err().map(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        };
        let folders = "/var/lib/disks,/srv";
        for path in ["/var/lib/disks/one/a.img", "/srv/one/team/a.img"] {
            assert_eq!(told("one", path, folders), None, "{path}");
        }
        // The launcher pod mounts the folder of the file as a whole, and so the disks of others in it.
        for path in
            ["/var/lib/disks/a.img", "/srv/two/a.img", "/srv/one", "/srv/one2/a.img", "/srv/team/one/a.img"]
        {
            let said = told("one", path, folders).unwrap_or_default();
            assert!(said.contains("(/var/lib/disks/one, /srv/one)"), "{path}: {said}");
        }
        // The folder of the namespace `vms` would have those of all others in it.
        let (folders, path) = ("/srv,/srv/vms", "/srv/vms/a.img");
        let said = told("vms", path, folders).unwrap_or_default();
        assert!(said.contains("(/srv/vms/vms)"), "{said}");
        assert_eq!(told("two", "/srv/vms/two/a.img", folders), None);
        assert!(told("two", path, "").unwrap_or_default().contains("(none is configured)"));
    }

    #[test]
    fn a_folder_of_the_pod_is_shown_unless_something_of_ours_is_in_it_or_above_it() {
        let told = |path: &str| {
            let vmi = json!({
                "metadata": {"name": "vm", "namespace": "n"},
                "spec": {
                    "domain": {
                        "memory": {"guest": "128Mi"},
                        "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                        "devices": {"filesystems": [{"name": "files", "virtiofs": {}}]},
                    },
                    "volumes": [{"name": "files", "containerPath": {"path": path}}],
                },
            });
            let settings = Settings::of_cluster(&json!({}));
            let told = Machine::check(&crate::wire::read(vmi).unwrap(), &settings);
            told.err().map(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        };
        for path in ["/var/run/secrets/mesh", "/var/lib/x", "/opt", "/processes", "/var/running"] {
            assert_eq!(told(path), None, "{path}");
        }
        for (path, why) in [
            ("/run/x", "below /run"),
            ("/var/run/kubevirt-private", "below /var/run/kubevirt"),
            ("/var/lock", "below /var/lock"),
            ("/var/run", "have /var/run/kubevirt in it"),
            ("/var", "have /var/"),
        ] {
            let said = told(path).unwrap_or_default();
            assert!(said.contains(why), "{path}: {said}");
        }
    }
}
