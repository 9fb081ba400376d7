//! Claims of the block devices that a guest writes to. While the launcher holds one, the kernel refuses a mount of the device,
//! a conversion to it, and the claim of its disk or of a partition of it. QEMU itself opens the device without a claim.

use super::prepare::PrepareMode;
use crate::error::{Error, ErrorKind, Result};
use api::machine::Disk;
use std::fs::File;
use std::path::Path;
use storage::{Access, Claim, claim_device, is_only_mapped};

/// The claims of a VM. They end with the value, which lives as long as its QEMU.
#[derive(Debug, Default)]
pub struct Claims(Vec<File>);

impl Claims {
    /// Claims a device. A VM that runs goes on without a claim.
    pub(super) fn take(&mut self, disk: &Disk, path: &Path, how: PrepareMode<'_>) -> Result<()> {
        let shown = format!("the disk '{}' ({})", disk.name, path.display());
        match claim_device(path, Access::Reads) {
            Ok(Claim::Taken(file)) => self.0.push(file),
            // Maps and arrays of the guest's own write nothing. Their users were looked for before.
            Ok(Claim::InUse(by)) if !how.is_start() || is_only_mapped(path).unwrap_or(false) => {
                tracing::warn!("{shown} cannot be kept from other programs of this host: {by}");
            }
            Ok(Claim::InUse(by)) => {
                let what = format!("{shown} is in use: {by}; end that first");
                return Err(Error::new(ErrorKind::Busy, what));
            }
            Err(e) if !how.is_start() => tracing::warn!("{shown} cannot be kept from other programs: {e}"),
            Err(e) => return Err(Error::io(format!("cannot claim {shown}"), e)),
        }
        Ok(())
    }
}
