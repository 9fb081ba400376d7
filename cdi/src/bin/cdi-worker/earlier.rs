//! Results of an earlier pod of the same PVC: they are looked up first, so that no source is read twice.

use crate::protocol::Disk;
use api::job::{Import, Target};
use cdi::done_marker::DoneMarker;
use cdi::{Result, unpack};

/// The disk, or the files of an archive, that an earlier pod has completed. Unpublished names of an archive
/// are published.
pub(crate) fn find(job: &Import, owner: &str) -> Result<Option<Disk>> {
    let Some(mark) = DoneMarker::of(&job.target, owner) else { return Ok(None) };
    if let Target::Folder(folder) = &job.target {
        unpack::go_on(folder, owner)?;
    }
    let size = mark.found()?;
    if size.is_some() {
        tracing::info!("an earlier pod of this PVC has done all of it");
    }
    Ok(size.map(|size| Disk { size, ..Disk::default() }))
}

/// True if the next pod will find a result although an attempt has failed: the disk has its mark, or an
/// archive is complete with unpublished names.
pub(crate) fn is_left(job: &Import, owner: &str) -> bool {
    let is_whole = match &job.target {
        Target::Folder(folder) => unpack::is_left_whole(folder, owner),
        Target::File(_) | Target::Device(_) => Ok(false),
    };
    let is_done =
        || Ok(DoneMarker::of(&job.target, owner).map(|mark| mark.found()).transpose()?.flatten().is_some());
    is_whole.and_then(|is_whole| if is_whole { Ok(true) } else { is_done() }).unwrap_or_else(
        |e: cdi::Error| {
            tracing::warn!("{}", printable::line(&e.chain()));
            false
        },
    )
}
