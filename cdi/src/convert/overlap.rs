//! Overlap of source and target: a source below the device that is written, through loop devices and
//! partitions, or around the folder of a file. Checked before the first byte is written, since the first ones
//! are the source's tables.

use super::Request;
use crate::source::Source;
use crate::target::partial;
use crate::target::storage::Storage;
use crate::{Error, ErrorKind, Result};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Refuses a target whose writing would change the source.
pub(super) fn refuse(request: &Request, source: &dyn Source, target: &Storage) -> Result<()> {
    let name = &source.facts().name;
    let read = match (source.file(), request.source.local()) {
        (Some(file), _) => Storage::of(file, name),
        (None, Some(path)) => Storage::of_path(path),
        (None, None) => return Ok(()),
    };
    let read = read.map_err(|e| Error::io(format!("cannot examine {name}"), e))?;
    read.shared_with(target).map_or(Ok(()), |how| {
        let target = &request.target;
        Err(Error::refused(format!(
            "cannot write {target} while {name} is read: {how}; write to another place"
        )))
    })
}

/// Refuses a source that is the `.partial` of the target file: a run that begins anew removes that, and the
/// disk in it would be lost with the run.
pub(super) fn refuse_partial(request: &Request, source: &dyn Source, target: &Path) -> Result<()> {
    let name = &source.facts().name;
    let partial = partial(target);
    let read = match (source.file(), request.source.local()) {
        (Some(file), _) => file.try_clone_to_owned().and_then(|file| fs::File::from(file).metadata()),
        (None, Some(path)) => fs::metadata(path),
        (None, None) => return Ok(()),
    };
    let read = read.map_err(|e| Error::io(format!("cannot examine {name}"), e))?;
    let is_same = fs::symlink_metadata(&partial)
        .is_ok_and(|found| (found.dev(), found.ino()) == (read.dev(), read.ino()));
    if !is_same {
        return Ok(());
    }
    let (partial, target) = (partial.display(), target.display());
    let what = format!(
        "the source is {partial}, where the disk for {target} would be written; where it is whole, rename it to \
         {target}, otherwise give it another name"
    );
    Err(Error::new(ErrorKind::Usage, what))
}
