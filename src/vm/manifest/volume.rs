//! What a DataVolume on a laptop may ask for: what an import serves.

use api::datavolume::{ContentType, DataVolume};
use api::fault::{Fault, Reason};
use api::job;

/// Everything that is wrong with it.
pub(super) fn judge(volume: &DataVolume) -> Vec<Fault> {
    let source = volume.spec.source.as_ref();
    // Nobody takes an upload here.
    let upload =
        source.filter(|source| source.upload.is_some()).map(|_| Fault::not_yet("spec.source.upload"));
    let archive = volume.spec.content_type == Some(ContentType::Archive);
    let archive = archive.then(|| {
        Fault::not_yet("spec.contentType").hint("here a DataVolume is the disk of a VM: name a disk image")
    });
    job::check(volume).into_iter().chain(upload).map(advised).chain(archive).collect()
}

/// A source that is not served, with those that are.
fn advised(fault: Fault) -> Fault {
    let source = fault.field.strip_prefix("spec.source.").is_some_and(|source| !source.contains('.'));
    match (fault.reason, source) {
        (Reason::NotSupported, true) => {
            fault.hint("with coracle run a disk comes from http, s3, gcs, registry or blank")
        }
        _ => fault,
    }
}
