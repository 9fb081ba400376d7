//! Disks of the pool: how a record knows one again, and which files are disks of it.

use crate::error::Result;
use crate::path::{entries, file_at};
use crate::place::Home;
use serde::{Deserialize, Serialize};
use std::path::Path;
use storage::FileId;

/// Name of the disk in its folder.
pub(crate) const DISK: &str = "disk.img";
/// Name of its record.
pub(crate) const RECORD: &str = "disk.json";
/// Name of the mark of a removal that has not ended: the record that the disk had.
pub(crate) const REMOVING: &str = "removing";

/// A disk of the pool as the record of its VM keeps it: another disk may have come under its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolDisk {
    pub(crate) from: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) vm: Option<String>,
}

impl PoolDisk {
    /// Difference from `now`, the disk that has the name today, as the end of a sentence; `None` if they may be the same disk. A record of
    /// an earlier version lacks some fields, which then count as equal.
    pub(crate) fn difference(&self, now: &PoolDisk) -> Option<String> {
        let differ = |one: &Option<String>, other: &Option<String>| match (one, other) {
            (Some(one), Some(other)) if one != other => {
                Some((printable::line(one).to_string(), printable::line(other).to_string()))
            }
            _ => None,
        };
        if let Some((was, is)) = differ(&self.namespace, &now.namespace) {
            return Some(format!("is one of the namespace {is}, and was one of the namespace {was}"));
        }
        if let Some((was, is)) = differ(&self.vm, &now.vm) {
            return Some(format!("is one of the VM {is}, and was one of the VM {was}"));
        }
        let (was, is) = (cdi::source::shown(&self.from), cdi::source::shown(&now.from));
        let (was, is) = (printable::line(&was), printable::line(&is));
        if was != is {
            return Some(format!("is made from {is}, and was made from {was}"));
        }
        differ(&self.address, &now.address)
            .map(|_| format!("is made from {is} with another query or user than it was"))
    }
}

/// True for a disk of the pool, of this home or of another one. It is raw: a guest may have written its first bytes, whichever VMs
/// are known.
pub(crate) fn is_pool_disk(home: &Home, path: &Path, here: FileId) -> Result<bool> {
    let pool = home.pool();
    let own = if pool.is_dir() { entries(&pool)? } else { vec![] };
    let named = path.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned));
    for folder in own.into_iter().chain(named) {
        if [RECORD, REMOVING].iter().any(|mark| folder.join(mark).is_file())
            && matches!(file_at(&folder.join(DISK)), Ok(Some(disk)) if disk == here)
        {
            return Ok(true);
        }
    }
    Ok(false)
}
