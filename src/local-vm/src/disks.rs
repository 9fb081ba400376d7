//! Disks and kernels that were unpacked of images (`disks/sha256-…`), and the removal of those that are no
//! longer needed.
//!
//! A folder stays while a VM that is known here uses a file in it, and while the store has the manifest that
//! it was unpacked of (or the layer, for folders of older versions): a second run needs no unpacking then.
//! The start of a VM [`hold`]s all of them until its record names the ones it needs.

use crate::error::{Error, Result};
use crate::place::{Home, Lock};
use crate::record::Vm;
use api::launcher::Source;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Number and size of the files that [`prune`] removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Number of removed disks and kernels.
    pub disks: u64,
    /// Freed space in bytes.
    pub freed: u64,
}

/// Locks all folders against removal until the lock is dropped.
pub fn hold(home: &Home) -> Result<Lock> {
    home.make(&home.disks())?;
    Lock::share(&lock(home))
}

/// Removes the folders that neither a VM nor the store at `store` needs.
pub fn prune(home: &Home, store: &Path) -> Result<Pruned> {
    let folder = home.disks();
    let mut pruned = Pruned::default();
    if !folder.is_dir() {
        return Ok(pruned);
    }
    let _lock = Lock::take(&lock(home), "the disks of images")?;
    let needed = needed(home)?;
    let cannot = |e| Error::io(format!("cannot read {}", folder.display()), e);
    for entry in std::fs::read_dir(&folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(hash) = name.strip_prefix("sha256-") else { continue };
        if needed.contains(&path) || store.join("blobs/sha256").join(hash).exists() {
            continue;
        }
        let (disks, bytes) = weigh(&path)?;
        let cannot = |e| Error::io(format!("cannot remove {}", path.display()), e);
        std::fs::remove_dir_all(&path).map_err(cannot)?;
        pruned.disks += disks;
        pruned.freed += bytes;
    }
    Ok(pruned)
}

fn lock(home: &Home) -> PathBuf {
    home.disks().join("lock")
}

/// Folders with files that VMs use.
fn needed(home: &Home) -> Result<BTreeSet<PathBuf>> {
    let mut needed = BTreeSet::new();
    for (_, vm) in Vm::all(home)? {
        // An unreadable record does not say what its VM needs, so nothing is removed; the error says how to
        // remove the VM.
        let resolved = vm?.record.sync.resolved;
        let volumes = resolved.volumes.into_values().filter_map(|source| match source {
            Source::Image { path, .. } | Source::File { path, .. } | Source::Block { path } => Some(path),
            Source::Folder { .. } | Source::Absent => None,
        });
        let kernel = resolved.kernel.into_iter().flat_map(|kernel| [Some(kernel.kernel), kernel.initrd]);
        let files = volumes.chain(kernel.flatten());
        needed.extend(files.filter_map(|path| path.parent().map(Path::to_owned)));
    }
    Ok(needed)
}

/// Number of disks and kernels in a folder, and the disk space of all its files in bytes.
fn weigh(folder: &Path) -> Result<(u64, u64)> {
    let cannot = |e| Error::io(format!("cannot read {}", folder.display()), e);
    let (mut disks, mut bytes) = (0, 0);
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let facts = entry.metadata().map_err(cannot)?;
        bytes += facts.blocks() * 512;
        // A file that was unpacked in full is read-only; notes, locks and partial files are not.
        disks += u64::from(facts.is_file() && facts.permissions().readonly());
    }
    Ok((disks, bytes))
}
