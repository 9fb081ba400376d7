//! The small ISO images from which a guest reads its configuration. They are written by our own code, without
//! any other program.
//!
//! ```text
//!  Machine, Resolved                        texts and keys, from the spec or from folders of secrets
//!      │
//!      ├─ nocloud      cidata               meta-data, user-data, network-config        ┐
//!      ├─ configdrive  config-2             openstack/latest/…                          ├─► Files ─► iso ─► iso_file
//!      ├─ files        cfgdata, or its own  all keys of a config map or a secret, files │   (a value)       (.partial,
//!      │                                    of a service account, fields of the VMI     │
//!      └─ sysprep      unattendCD           the same, with answers for Windows' setup   ┘                    renamed)
//! ```
//!
//! Called by `vm::prepare`, once for each such volume before the VM starts. A folder may be filled by another
//! user than the VM's owner. So links are followed only inside the folder, and everything is bounded (see the
//! constants of `tree`). Only the owner may read an image, since it holds passwords.

pub mod cloud_init;
pub mod configdrive;
pub mod files;
pub mod folder;
pub mod iso;
pub mod iso_file;
pub mod nocloud;
pub mod sysprep;
pub mod tree;

use crate::domain;
use crate::domain::host_device::HostAddress;
use crate::error::{Error, Result};
use api::launcher::{Resolved, Source};
use api::machine::{Credential, Disk, Machine, Volume};
use cloud_init::{CloudInitData, Identity, SeedFormat};
use std::path::Path;
use tree::Files;

/// Contents of an ISO image.
#[derive(Debug)]
pub struct Seed {
    /// Label of the ISO 9660 volume.
    pub label: String,
    pub files: Files,
}

/// A change of the texts of cloud-init before they are written, by the hooks of a VM.
pub type Change<'a> = &'a dyn Fn(SeedFormat, &Identity<'_>, CloudInitData) -> Result<CloudInitData>;

/// The seed of a volume, with changed texts of cloud-init; `None` for volumes of other kinds.
pub fn for_volume(
    identity: &Identity<'_>,
    credentials: &[Credential],
    name: &str,
    volume: &Volume,
    resolved: &Resolved,
    change: Change<'_>,
) -> Result<Option<Seed>> {
    let seed = |label: &str, files| Ok(Some(Seed { label: label.to_owned(), files }));
    let named = |e| cannot(name, e);
    let files = |source| files::read(name, source, resolved.volumes.get(name)).map_err(named);
    let texts_of = |texts, format| {
        let given = CloudInitData::gather(credentials, texts, format, resolved).map_err(named)?;
        change(format, identity, given).map_err(named)
    };
    match volume {
        Volume::NoCloud(texts) => {
            let given = texts_of(texts, SeedFormat::NoCloud)?;
            seed(nocloud::LABEL, nocloud::files(identity, &given).map_err(named)?)
        }
        Volume::ConfigDrive(texts) => {
            let given = texts_of(texts, SeedFormat::ConfigDrive)?;
            seed(configdrive::LABEL, configdrive::files(identity, &given).map_err(named)?)
        }
        Volume::ConfigMap { name, label, .. } => {
            seed(label.as_deref().unwrap_or(files::LABEL), files(&format!("config map {name:?}"))?)
        }
        Volume::Secret { name, label, .. } => {
            seed(label.as_deref().unwrap_or(files::LABEL), files(&format!("secret {name:?}"))?)
        }
        Volume::DownwardApi { label, .. } => {
            seed(label.as_deref().unwrap_or(files::LABEL), files("fields of the VMI")?)
        }
        Volume::ServiceAccount { name } => seed(files::LABEL, files(&format!("service account {name:?}"))?),
        Volume::Sysprep { source } => {
            let files = files(&sysprep::source_name(source))?;
            sysprep::check(&files, source).map_err(named)?;
            seed(sysprep::LABEL, files)
        }
        Volume::ContainerDisk { .. }
        | Volume::Claim { .. }
        | Volume::DataVolume { .. }
        | Volume::Ephemeral { .. }
        | Volume::Empty { .. }
        | Volume::NoDisc
        | Volume::ContainerPath { .. }
        | Volume::DownwardMetrics
        | Volume::Host { .. } => Ok(None),
    }
}

/// Creates the ISO image of a disk's volume at `path`, dated `seconds` after 1970. Returns false for volumes
/// of other kinds. `host_devices`: host devices of the VM.
pub fn make(
    machine: &Machine,
    Disk { name, volume, .. }: &Disk,
    resolved: &Resolved,
    host_devices: &[Vec<HostAddress>],
    change: Change<'_>,
    path: &Path,
    seconds: u64,
) -> Result<bool> {
    let devices = domain::tagged(machine, &resolved.interfaces, host_devices);
    let devices = devices.map_err(|e| cannot(name, Error::refused(e.to_string())))?;
    let identity = Identity { devices: &devices, ..Identity::of(machine) };
    match for_volume(&identity, &machine.credentials, name, volume, resolved, change)? {
        Some(seed) => iso_file::write(&seed, path, seconds).map(|()| true).map_err(|e| cannot(name, e)),
        None => Ok(false),
    }
}

fn cannot(volume: &str, e: Error) -> Error {
    Error::new(e.kind(), format!("cannot create the ISO image of the volume {volume:?}")).because(e)
}

/// Name of a source's kind in errors.
fn source_name(source: &Source) -> &'static str {
    match source {
        Source::Image { .. } => "an image",
        Source::File { .. } => "a file",
        Source::Block { .. } => "a block device",
        Source::Folder { .. } => "a folder",
        Source::Absent => "nothing",
    }
}

#[cfg(test)]
mod tests;
