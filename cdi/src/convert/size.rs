//! The size of the target, and the zeros behind a smaller disk.

use super::execute::Run;
use crate::target::Target;
use crate::{Result, plan};

/// Bytes that a device is told to zero by one call, which cannot be interrupted.
const ZEROED_AT_ONCE: u64 = 1 << 30;

impl Run<'_> {
    /// Zeroes the rest behind the disk. On a device that may take long, and the run may be stopped meanwhile.
    pub(super) fn zero_rest(&self, target: &dyn Target, disk: u64, size: u64) -> Result<()> {
        let mut at = disk;
        while at < size {
            self.watch.check()?;
            let len = (size - at).min(ZEROED_AT_ONCE);
            target.zero(at, len)?;
            at += len;
        }
        Ok(())
    }

    /// The target's size for a disk of this size: whole sectors, and no less than requested.
    pub(super) fn final_size(&self, disk: u64) -> Result<u64> {
        if disk == 0 {
            return Err(plan::empty(&self.plan.facts.source.name));
        }
        plan::target_size(&self.plan.facts, &self.request.convert_options, disk)
    }
}
