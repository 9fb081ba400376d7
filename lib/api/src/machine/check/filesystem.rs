//! File systems: volumes that the guest mounts through virtiofs.

use super::super::{Filesystem, Volume};
use super::volume::Volumes;
use super::{Check, Site};
use crate::meta::Empty;
use crate::vmi;
use crate::wire::Path;
use std::collections::BTreeMap;

/// Longest tag by which a guest mounts a file system.
const TAG: usize = 36;
/// Most file systems, bounded by the slots of the PCI bus.
const MOST: usize = 8;

pub(super) fn filesystems(
    devices: &vmi::Devices,
    volumes: &Volumes<'_>,
    at: &Path,
    check: &mut Check<'_>,
) -> Vec<Filesystem> {
    let list = at.child("filesystems");
    if devices.filesystems.len() > MOST {
        check.invalid(&list, format!("{list} must have no more than {MOST} entries"));
    }
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    let mut result = Vec::new();
    for (i, vmi::Filesystem { name, virtiofs, other: _ }) in devices.filesystems.iter().enumerate() {
        let here = list.index(i);
        let hint = "share files by a configMap or secret volume with a disk, or by the network";
        check.not_yet_at(&[Site::Laptop], &here, hint);
        let name_at = here.child("name");
        if let Some(&other) = first.get(name.as_str()) {
            let other = list.index(other);
            check.invalid(&name_at, format!("{here} and {other} must not have the same Name."));
            continue;
        }
        first.insert(name, i);
        if devices.disks.iter().any(|disk| disk.name == *name) {
            check.invalid(
                &name_at,
                format!("{name_at} '{name}' must not be a disk too: a volume is used once"),
            );
        }
        if name.len() > TAG {
            let message =
                format!("{name_at} must be no more than {TAG} letters: the guest mounts it by this tag");
            check.invalid(&name_at, message);
        }
        match virtiofs {
            Some(Empty { other: _ }) => {}
            None => check.required(here.child("virtiofs"), format!("{here}.virtiofs is a required field")),
        }
        match volumes.get(name.as_str()) {
            None => check.invalid(&name_at, format!("{here}.Name '{name}' not found.")),
            // The fault of its source was reported before.
            Some(None) => {}
            Some(Some(volume)) if has_files(volume) => {
                result.push(Filesystem { name: name.clone(), volume: volume.clone() });
            }
            Some(Some(_)) => {
                let message = format!(
                    "{here} must be mapped to a persistentVolumeClaim, dataVolume, configMap, secret, downwardAPI, \
                     serviceAccount or containerPath volume: others have no files to share"
                );
                check.invalid(&here, message);
            }
        }
    }
    result
}

/// True if the volume is a folder of files when it is mounted.
fn has_files(volume: &Volume) -> bool {
    match volume {
        Volume::Claim { .. }
        | Volume::DataVolume { .. }
        | Volume::ConfigMap { .. }
        | Volume::Secret { .. }
        | Volume::DownwardApi { .. }
        | Volume::ServiceAccount { .. }
        | Volume::ContainerPath { .. } => true,
        Volume::ContainerDisk { .. }
        | Volume::Ephemeral { .. }
        | Volume::Empty { .. }
        | Volume::Host { .. }
        | Volume::NoCloud(_)
        | Volume::ConfigDrive(_)
        | Volume::NoDisc
        | Volume::DownwardMetrics
        | Volume::Sysprep { .. } => false,
    }
}
