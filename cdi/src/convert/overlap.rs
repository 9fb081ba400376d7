//! Overlap of source and target: a source below the device that is written, through loop devices and
//! partitions, or around the folder of a file. Checked before the first byte is written, since the first ones
//! are the source's tables. That a target file is the source itself, or is where the source lies, is compared by
//! [`Inputs`].

use super::Request;
use crate::source::Source;
use crate::{Error, Result};
use container_disk::inputs::Inputs;
use storage::Storage;

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

/// Files that the conversion reads, which a target must not replace or remove. The open source counts, since
/// standard input has no path.
pub(super) fn inputs(request: &Request, source: &dyn Source) -> Result<Inputs> {
    let inputs = match source.file() {
        Some(file) => {
            let opened = Inputs::default().with_open(file);
            opened.map_err(|e| Error::io(format!("cannot examine {}", source.facts().name), e))?
        }
        None => Inputs::default(),
    };
    Ok(match request.source.local() {
        Some(path) => inputs.with_path(path)?,
        None => inputs,
    })
}
