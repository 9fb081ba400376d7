//! Paths of a record whose home was moved: a record has absolute paths, and another home may have come to the old path.
//!
//! | path of the record | |
//! |---|---|
//! | in the pool, the unpacked disks or the VMs of this home, by the identity of the folder | stays |
//! | in the folder that was moved, to a place among those | the new path |
//! | elsewhere, as with another `XDG_DATA_HOME`, or in the record of an earlier version | stays; a start refuses such a disk |
//!
//! A hostDisk is a file of the user, and keeps its path.

use crate::error::{Error, Result};
use crate::host_file::paths;
use crate::path::file_at;
use crate::place::Home;
use crate::record_folder::RecordFolder;
use api::launcher::{Source, Sync};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use storage::FileId;

/// A home that was moved with its VMs.
struct MovedHome<'a> {
    home: &'a Home,
    /// Path of the moved folder before.
    from: &'a Path,
    /// Path of the moved folder now.
    to: &'a Path,
}

impl<'a> MovedHome<'a> {
    /// `before` and `now`: the folder of one VM.
    fn new(home: &'a Home, before: &'a Path, now: &'a Path) -> MovedHome<'a> {
        let (mut from, mut to) = (before, now);
        while let (Some(above_from), Some(above_to)) = (from.parent(), to.parent())
            && from.file_name() == to.file_name()
        {
            (from, to) = (above_from, above_to);
        }
        MovedHome { home, from, to }
    }

    /// Replaces the old path of a file of the home.
    fn rebase(&self, path: &mut PathBuf) {
        // A path that cannot be looked at is not in this home.
        if matches!(is_in_home(self.home, path), Ok(true)) {
            return;
        }
        if let Ok(rest) = path.strip_prefix(self.from) {
            let moved = self.to.join(rest);
            if folders(self.home).iter().any(|folder| moved.starts_with(folder)) {
                *path = moved;
            }
        }
    }
}

/// Folders of a home with files that records name.
fn folders(home: &Home) -> [PathBuf; 3] {
    [home.pool(), home.disks(), home.vms()]
}

/// True for a path in one of these folders, by whatever path it is reached.
fn is_in_home(home: &Home, path: &Path) -> Result<bool> {
    let folders = folders(home);
    if folders.iter().any(|folder| path.starts_with(folder)) {
        return Ok(true);
    }
    let ids: Vec<FileId> =
        folders.iter().filter_map(|folder| file_at(folder).transpose()).collect::<Result<_>>()?;
    for above in path.ancestors().skip(1) {
        if file_at(above)?.is_some_and(|id| ids.contains(&id)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Names of the volumes of a record that are files of the user.
fn host_disks(sync: &Sync) -> BTreeSet<String> {
    paths(&sync.vmi).map(|(volume, _)| volume.to_owned()).collect()
}

/// Replaces the paths of a record whose VM was in the folder `before`, and is in `now`.
pub(crate) fn rebase(home: &Home, sync: &mut Sync, before: &Path, now: &Path) {
    let moved = MovedHome::new(home, before, now);
    let on_host = host_disks(sync);
    let resolved = &mut sync.resolved;
    for (volume, source) in &mut resolved.volumes {
        if let Source::Image { path, .. } | Source::File { path, .. } | Source::Folder { path } = source
            && !on_host.contains(volume)
        {
            moved.rebase(path);
        }
    }
    if let Some(kernel) = &mut resolved.kernel {
        moved.rebase(&mut kernel.kernel);
        kernel.initrd.iter_mut().for_each(|initrd| moved.rebase(initrd));
    }
    resolved.secrets.values_mut().for_each(|folder| moved.rebase(folder));
    if let Some(state) = &mut resolved.state {
        moved.rebase(&mut state.variables);
        moved.rebase(&mut state.tpm);
    }
}

/// Refuses the start of a VM whose record notes the folder `noted` where another VM has that folder now, and the start with a disk of
/// another home.
pub(crate) fn check(home: &Home, name: &str, noted: Option<&RecordFolder>, sync: &Sync) -> Result<()> {
    if let Some(noted) = noted {
        noted.check_replaced(name, &home.vm(name))?;
    }
    let on_host = host_disks(sync);
    let volumes = sync.resolved.volumes.iter().filter_map(|(volume, source)| match source {
        Source::Image { path, .. } | Source::File { path, .. } if !on_host.contains(volume) => Some(path),
        _ => None,
    });
    let kernel = sync.resolved.kernel.iter();
    let kernel = kernel.flat_map(|kernel| std::iter::once(&kernel.kernel).chain(&kernel.initrd));
    for path in volumes.chain(kernel) {
        if !is_in_home(home, path)? {
            let what = format!("{name} is not started: its disk {} is one of another home", path.display());
            return Err(Error::refused(what).with_hint(
                "set CORACLE_HOME or XDG_DATA_HOME as at its last start; 'coracle run' with what the VM was made from takes a disk \
                 of this home",
            ));
        }
    }
    Ok(())
}
