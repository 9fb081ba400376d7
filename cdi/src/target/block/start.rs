//! The start of a run to a device, as `file/claim.rs` for a file. No file can lie beside a device, so its
//! journal is in a folder that the caller names ([`crate::plan::ConvertOptions::journals`]) and that no other program
//! uses: an emptyDir of a pod.
//!
//! **Guarantee.** A journal is followed only for the device that it was written for: its number, its size,
//! and the kernel's sequence number of disks (`diskseq`); and only for one owner, as that of a file. A run
//! that keeps no journal removes an existing one before it writes.

use super::BlockTarget;
use crate::device;
use crate::journal::{self, Conversion, Journal, Mode, Resume, decide_resume};
use crate::target::disk::Folder;
use crate::target::file::Started;
use crate::target::real_folder::RealFolder;
use crate::{Error, ErrorKind, Result};
use rustix::fs::{major, minor};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

impl BlockTarget {
    /// Continues the earlier run that has its journal in `folder`, if that is safe and requested, or starts
    /// anew.
    pub fn start(self, folder: &Path, job: &Conversion, mode: Mode) -> Result<Started<BlockTarget>> {
        let (identity, name) = self.identity()?;
        let folder: Arc<dyn Folder> = Arc::new(RealFolder::open(folder)?);
        let before = Journal::read(&*folder, &name, &identity)?;
        match decide_resume(&before, job, mode, None) {
            Resume::Go(mark) => {
                let journal = Journal::reopen(folder, &name, &identity)?;
                Ok(Started { target: self, journal, mark: Some(mark), anew: None })
            }
            Resume::Anew(anew) => {
                remove(&*folder, &name)?;
                let journal = Journal::create(folder.clone(), &name, job, identity)?;
                let synced = folder.sync();
                let path = folder.path(&name);
                synced.map_err(|e| Error::io(format!("cannot sync the folder of {}", path.display()), e))?;
                Ok(Started { target: self, journal, mark: None, anew })
            }
            Resume::Refuse(why) => {
                let what = format!(
                    "cannot go on with what an earlier run wrote to {}: {why}; nothing was changed: without --resume the run \
                     is begun anew",
                    self.path.display()
                );
                Err(Error::new(ErrorKind::Usage, what))
            }
        }
    }

    /// An ID that no other device has, and the name of the journal.
    fn identity(&self) -> Result<(String, OsString)> {
        let cannot = |e| Error::io(format!("cannot examine {}", self.path.display()), e);
        let rdev = self.file.metadata().map_err(cannot)?.rdev();
        let sequence = device::sequence(rdev).unwrap_or_default();
        let identity = format!("device {}:{} {} {sequence}", major(rdev), minor(rdev), self.capacity);
        Ok((identity, name(rdev)))
    }
}

/// Removes the journal of a device, if there is one.
pub fn forget(device: &Path, folder: &Path) -> Result<()> {
    let meta = std::fs::metadata(device);
    let meta = meta.map_err(|e| Error::io(format!("cannot examine {}", device.display()), e))?;
    remove(&RealFolder::open(folder)?, &name(meta.rdev()))
}

fn remove(folder: &dyn Folder, name: &OsString) -> Result<()> {
    journal::forget(folder, name).map_err(|e| {
        let path = folder.path(name);
        Error::io(format!("cannot remove {}, which is in the way", path.display()), e)
    })
}

fn name(rdev: u64) -> OsString {
    format!("device-{}-{}.journal", major(rdev), minor(rdev)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::sim::{Rng, SimFolder};

    /// A run without a journal writes other bytes behind it.
    #[test]
    fn a_journal_that_was_removed_does_not_come_back_with_the_power() {
        let name = name(rustix::fs::makedev(7, 0));
        for luck in 0..16 {
            let folder = SimFolder::new();
            folder.create(&name).unwrap();
            folder.sync().unwrap();
            remove(&folder, &name).unwrap();
            let left = folder.after_power_cut(&mut Rng(luck)).names();
            assert!(left.is_empty(), "luck {luck}: {left:?}");
        }
    }
}
