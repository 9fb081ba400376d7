//! A file system: a volume that the guest mounts through virtiofs, without a disk.

use super::volume::Volume;

#[derive(Clone, Debug, PartialEq)]
pub struct Filesystem {
    /// Name of the file system: that of its volume, and the tag by which the guest mounts it.
    pub name: String,
    /// Source of the files: a PVC, a ConfigMap, a Secret, fields of the VMI, or a service account.
    pub volume: Volume,
}

impl Filesystem {
    /// True if the guest cannot write to the volume.
    pub fn is_readonly(&self) -> bool {
        !matches!(self.volume, Volume::Claim { readonly: false, .. } | Volume::DataVolume { .. })
    }
}
