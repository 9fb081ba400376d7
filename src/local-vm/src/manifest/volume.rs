//! Limits of DataVolumes without a cluster: their sources are those that an import serves.

use api::data_volume::{ContentType, DataVolume};
use api::fault::{Fault, Reason};
use api::job;

/// All faults of a DataVolume.
pub(super) fn judge(volume: &DataVolume) -> Vec<Fault> {
    let source = volume.spec.source.as_ref();
    // No upload server exists without a cluster.
    let upload =
        source.filter(|source| source.upload.is_some()).map(|_| Fault::not_yet("spec.source.upload"));
    let archive = volume.spec.content_type == Some(ContentType::Archive);
    let archive = archive.then(|| {
        Fault::not_yet("spec.contentType").hint("here a DataVolume is the disk of a VM: name a disk image")
    });
    job::check(volume).into_iter().chain(upload).map(advised).chain(archive).collect()
}

/// The fault, with a list of the supported sources if its source is not one of them.
fn advised(fault: Fault) -> Fault {
    let source = fault.field.strip_prefix("spec.source.").is_some_and(|source| !source.contains('.'));
    match (fault.reason, source) {
        (Reason::NotSupported, true) => {
            fault.hint("with coracle run a disk comes from http, s3, gcs, registry or blank")
        }
        _ => fault,
    }
}
