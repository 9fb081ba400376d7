//! Overlap of source and target: a source below the device that is written, through loop devices and
//! partitions, or around the folder of a file. Checked before the first byte is written, since the first ones
//! are the source's tables.

use super::Request;
use crate::source::Source;
use crate::target::storage::Storage;
use crate::{Error, Result};

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
