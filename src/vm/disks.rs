//! The disks and kernels that came out of images (`disks/sha256-…`): what goes when nobody needs it any more.
//!
//! A folder stays while a VM that is known here has something in it, and while the store has the manifest that it came out
//! of (or the layer, of folders that older versions made): unpacking is what makes a second run quick. Who starts a VM
//! [`hold`]s all of them until its record says which it needs.

use crate::vm::place::{Home, Lock};
use crate::vm::record::Vm;
use api::launcher::Source;
use cdi::{Error, Result};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What has gone.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pruned {
    /// Disks and kernels.
    pub(crate) disks: u64,
    /// Bytes.
    pub(crate) freed: u64,
}

/// Keeps all of them, until the lock is dropped.
pub(crate) fn hold(home: &Home) -> Result<Lock> {
    home.make(&home.disks())?;
    Lock::share(&lock(home))
}

/// Removes those that nobody needs. `store` is the store's folder.
pub(crate) fn prune(home: &Home, store: &Path) -> Result<Pruned> {
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

/// The folders that VMs have something in.
fn needed(home: &Home) -> Result<BTreeSet<PathBuf>> {
    let mut needed = BTreeSet::new();
    for (_, vm) in Vm::all(home)? {
        // What a VM needs whose record cannot be read, nobody knows: its error says how to remove it.
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

/// How many disks and kernels are in a folder, and the room that all of it takes.
fn weigh(folder: &Path) -> Result<(u64, u64)> {
    let cannot = |e| Error::io(format!("cannot read {}", folder.display()), e);
    let (mut disks, mut bytes) = (0, 0);
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let facts = entry.metadata().map_err(cannot)?;
        bytes += facts.blocks() * 512;
        // What is unpacked whole is only read from then on; notes, locks and halves are not.
        disks += u64::from(facts.is_file() && facts.permissions().readonly());
    }
    Ok((disks, bytes))
}
