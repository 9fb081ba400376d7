//! Disks of the pool: how a record knows one again, and which files are disks of it.

use crate::error::Result;
use crate::path::{entries, file_at};
use crate::place::{Home, POOL};
use serde::{Deserialize, Serialize};
use std::io::Read as _;
use std::path::Path;
use storage::FileId;

/// Name of the disk in its folder.
pub(crate) const DISK: &str = "disk.img";
/// Name of its record.
pub(crate) const RECORD: &str = "disk.json";
/// Name of the mark of a removal that has not ended: the record that the disk had.
pub(crate) const REMOVING: &str = "removing";

/// Name of the mark of an import that has not ended.
pub(crate) const IMPORTING: &str = "importing";

/// Value of `schema` in the record.
pub(crate) const SCHEMA: &str = "coracle.disk/v1";
/// Longest record that is read.
const LONGEST: u64 = 64 << 10;

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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
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
        if differ(&self.address, &now.address).is_some() {
            return Some(format!("is made from {is} with another query or user than it was"));
        }
        differ(&self.id, &now.id).map(|_| "was made anew, and is not the one that it had".to_owned())
    }
}

/// True for a disk of the pool, of this home or of another one. It is raw: a guest may have written its first bytes, whichever VMs
/// are known.
pub(crate) fn is_pool_disk(home: &Home, path: &Path, here: FileId) -> Result<bool> {
    let is_here = |folder: &Path| matches!(file_at(&folder.join(DISK)), Ok(Some(disk)) if disk == here);
    let marks = |folder: &Path| {
        [RECORD, REMOVING].map(|mark| folder.join(mark)).into_iter().filter(|mark| mark.is_file())
    };
    let pool = home.pool();
    let own = if pool.is_dir() { entries(&pool)? } else { vec![] };
    if own.iter().any(|folder| is_here(folder) && marks(folder).next().is_some()) {
        return Ok(true);
    }
    // The disk itself may be a link.
    let named = path.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned));
    let folders = named.into_iter().chain(path.parent().and_then(|folder| folder.canonicalize().ok()));
    Ok(folders.into_iter().any(|folder| is_here(&folder) && marks(&folder).any(|mark| is_record(&mark))))
}

/// True for a folder with the record of a disk, or with the mark of its import or removal.
pub(crate) fn is_marked(folder: &Path) -> bool {
    [RECORD, REMOVING].map(|mark| folder.join(mark)).iter().any(|mark| mark.is_file() && is_record(mark))
        || folder.join(IMPORTING).is_file()
}

/// True for the record of a disk, also for one that cannot be read, if the folder above has the name of a pool. A user's own `disk.json` is
/// none.
fn is_record(mark: &Path) -> bool {
    let in_pool = || mark.ancestors().nth(2).and_then(Path::file_name).is_some_and(|name| name == POOL);
    let read = || -> Option<serde_json::Value> {
        let mut text = Vec::new();
        std::fs::File::open(mark).ok()?.take(LONGEST).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    };
    read().map_or_else(in_pool, |record| record["schema"] == SCHEMA)
}
