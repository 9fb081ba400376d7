//! A file system: a volume whose files the guest mounts, without a disk between.

use super::volume::Volume;

/// A file system.
#[derive(Clone, Debug, PartialEq)]
pub struct Filesystem {
    /// Its name, which is its volume's and the tag by which the guest mounts it.
    pub name: String,
    /// Where its files are: a PVC, a config map, a secret, fields of the VMI, or a service account.
    pub volume: Volume,
}

impl Filesystem {
    /// The guest cannot write to it.
    pub fn is_readonly(&self) -> bool {
        !matches!(self.volume, Volume::Claim { readonly: false, .. } | Volume::DataVolume { .. })
    }
}
