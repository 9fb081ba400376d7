//! The small discs from which a guest reads its configuration. Written by our own code, without any other program.
//!
//! ```text
//!  Machine, Resolved                        texts and keys, from the spec or from folders of secrets
//!      │
//!      ├─ nocloud      cidata               meta-data, user-data, network-config        ┐
//!      ├─ configdrive  config-2             openstack/latest/…                          ├─► Files ─► iso ─► disc
//!      ├─ files        cfgdata, or its own  all keys of a config map or a secret        │   (a value)       (.partial,
//!      └─ sysprep      unattendCD           the same, with answers for Windows' setup   ┘                    renamed)
//! ```
//!
//! Called by `vm::prepare`, once for each such volume before the machine starts. Who fills a folder may not be who runs
//! the machine: links are followed only inside the folder, and everything is bounded (see the constants of `tree`).
//! Only the owner may read a disc: it holds passwords.

pub mod cloud_init;
pub mod configdrive;
pub mod disc;
pub mod files;
pub mod folder;
pub mod iso;
pub mod nocloud;
pub mod sysprep;
pub mod tree;

use crate::error::{Error, Result};
use api::launcher::{Resolved, Source};
use api::machine::{Credential, Machine, Volume};
use cloud_init::{Given, Identity};
use std::path::Path;
use tree::Files;

/// What goes on a disc.
#[derive(Debug)]
pub struct Seed {
    /// The disc's label.
    pub label: String,
    /// Its files.
    pub files: Files,
}

/// The disc of a volume; nothing where the volume is none that we make.
pub fn of(
    identity: &Identity<'_>,
    credentials: &[Credential],
    name: &str,
    volume: &Volume,
    resolved: &Resolved,
) -> Result<Option<Seed>> {
    let seed = |label: &str, files| Ok(Some(Seed { label: label.to_owned(), files }));
    let named = |e| cannot(name, e);
    let files = |source| files::read(name, source, resolved.volumes.get(name)).map_err(named);
    match volume {
        Volume::NoCloud(texts) => {
            let given = Given::gather(credentials, texts, cloud_init::SeedFormat::NoCloud, resolved)
                .map_err(named)?;
            seed(nocloud::LABEL, nocloud::files(identity, &given).map_err(named)?)
        }
        Volume::ConfigDrive(texts) => {
            let given = Given::gather(credentials, texts, cloud_init::SeedFormat::ConfigDrive, resolved)
                .map_err(named)?;
            seed(configdrive::LABEL, configdrive::files(identity, &given).map_err(named)?)
        }
        Volume::ConfigMap { name, label, .. } => {
            seed(label.as_deref().unwrap_or(files::LABEL), files(&format!("config map {name:?}"))?)
        }
        Volume::Secret { name, label, .. } => {
            seed(label.as_deref().unwrap_or(files::LABEL), files(&format!("secret {name:?}"))?)
        }
        Volume::Sysprep { source } => {
            let files = files(&sysprep::shown(source))?;
            sysprep::check(&files, source).map_err(named)?;
            seed(sysprep::LABEL, files)
        }
        Volume::ContainerDisk { .. }
        | Volume::Claim { .. }
        | Volume::DataVolume { .. }
        | Volume::Ephemeral { .. }
        | Volume::Empty { .. }
        | Volume::NoDisc
        | Volume::Host { .. } => Ok(None),
    }
}

/// Makes the disc of a volume at `path`, dated `seconds` after 1970. False where the volume is none that we make.
pub fn make(
    machine: &Machine,
    name: &str,
    volume: &Volume,
    resolved: &Resolved,
    path: &Path,
    seconds: u64,
) -> Result<bool> {
    match of(&Identity::of(machine), &machine.credentials, name, volume, resolved)? {
        Some(seed) => disc::write(&seed, path, seconds).map(|()| true).map_err(|e| cannot(name, e)),
        None => Ok(false),
    }
}

fn cannot(volume: &str, e: Error) -> Error {
    Error::new(e.kind(), format!("the disc of the volume {volume:?} cannot be made")).because(e)
}

/// How a source is called in an error.
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
