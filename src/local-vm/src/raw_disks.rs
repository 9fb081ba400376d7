//! Disk files that VMs have used as raw disks: their first bytes may be those of a guest, so they are raw for every next VM.
//!
//! ```text
//!  vms/NAME/vm.json     the raw disks of a VM; a volume without a source yet is a file that the launcher makes, a raw one
//!      │ keep: before the record is removed, or replaced by that of the next start
//!      ▼
//!  raw-disks.json       those of VMs that are gone
//! ```
//!
//! A VM's record is written before its launcher is started, and removed only after its disks are kept durably. So a process
//! that is killed at any point leaves every raw disk in one of the two files.

use crate::error::{Error, Result};
use crate::host_file::{HostDisks, HostFile, paths};
use crate::place::{Home, Lock};
use crate::whole_file::write_whole;
use api::launcher::{Format, Source, Sync};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// Version of the file's schema.
const SCHEMA: &str = "coracle.raw-disks/v1";
/// Number of disks from which on those are dropped whose file is gone. Until then storage that is not there now may come back.
const MANY: usize = 1000;

/// Content of the file `raw-disks.json`.
#[derive(Debug, Serialize, Deserialize)]
struct RawDisks {
    schema: String,
    disks: Vec<RawDisk>,
}

/// A raw disk as it was at the last start of its VM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RawDisk {
    path: PathBuf,
    pub(crate) file: HostFile,
}

/// Keeps the raw disks of a record that is about to be removed or replaced.
pub(crate) fn keep(home: &Home, sync: &Sync, host_disks: &HostDisks) -> Result<()> {
    let disks = of_record(sync, host_disks)?;
    if disks.is_empty() {
        return Ok(());
    }
    let path = home.raw_disks();
    home.make(path.parent().unwrap_or(Path::new("/")))?;
    let _lock = Lock::wait(&path.with_extension("lock"))?;
    let mut kept = RawDisks::read(home)?;
    if disks.iter().all(|disk| kept.disks.contains(disk)) {
        return Ok(());
    }
    kept.disks.retain(|old| !disks.iter().any(|disk| disk.file.is_same(&old.file)));
    kept.disks.extend(disks);
    if kept.disks.len() > MANY {
        kept.disks.retain(RawDisk::is_there);
    }
    kept.write(&path)
}

/// The raw disks of VMs that are gone.
pub(crate) fn kept(home: &Home) -> Result<Vec<RawDisk>> {
    RawDisks::read(home).map(|kept| kept.disks)
}

/// The raw disks of a record. Those without a file in it (a record of an earlier version, a start that was interrupted) are
/// the files that are at their paths now.
pub(crate) fn of_record(sync: &Sync, host_disks: &HostDisks) -> Result<Vec<RawDisk>> {
    let volumes = &sync.resolved.volumes;
    let mut disks = vec![];
    let mut unknown: Vec<PathBuf> = vec![];
    for (volume, path) in paths(&sync.vmi) {
        match host_disks.get(volume) {
            Some(disk) => disks.extend(disk.raw_file().map(|file| RawDisk { path, file: file.clone() })),
            None if !volumes.contains_key(volume) => unknown.push(path),
            None => {}
        }
    }
    unknown.extend(volumes.iter().filter_map(|(volume, source)| match source {
        Source::File { path, format: Format::Raw, .. } if !host_disks.contains_key(volume) => {
            Some(path.clone())
        }
        _ => None,
    }));
    for path in unknown {
        disks.extend(HostFile::find(&path)?.map(|file| RawDisk { path, file }));
    }
    Ok(disks)
}

impl RawDisk {
    /// True unless its path is free or leads to another file.
    fn is_there(&self) -> bool {
        match HostFile::find(&self.path) {
            Ok(now) => now.is_some_and(|now| now.is_same(&self.file)),
            Err(_) => true,
        }
    }
}

impl RawDisks {
    fn read(home: &Home) -> Result<RawDisks> {
        let path = home.raw_disks();
        let bytes = match std::fs::read(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok(RawDisks { schema: SCHEMA.into(), disks: vec![] });
            }
            other => other.map_err(|e| Error::io(format!("cannot read {}", path.display()), e))?,
        };
        serde_json::from_slice(&bytes).map_err(|e| {
            let what = format!("{} is not what coracle wrote: the list of raw disks", path.display());
            let hint =
                "restore that file; without it, a raw disk of a removed VM is told by what its guest wrote";
            Error::refused(what).because(e).with_hint(hint)
        })
    }

    fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self)
            .map_err(|e| Error::failed("cannot write the list of raw disks").because(e))?;
        write_whole(path, &text)
    }
}

#[cfg(test)]
#[path = "raw_disks_tests.rs"]
mod tests;
