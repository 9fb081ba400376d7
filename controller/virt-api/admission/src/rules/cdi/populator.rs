//! Sources of PVCs without a DataVolume: VolumeImportSources, VolumeUploadSources and VolumeCloneSources.
//!
//! A VolumeCloneSource of a VolumeSnapshot is refused too: there is no DataVolume whose condition
//! could report it, and a PVC can be created from a VolumeSnapshot directly.

use super::{LABEL, judged, name_fits, source, wrong};
use crate::rules::{AdmissionResponse, Request};
use api::cdi::{VolumeCloneSource, VolumeImportSource, VolumeImportSourceSpec, VolumeUploadSource};
use api::fault::Fault;

/// Validates a new or changed source.
pub(crate) fn judge(request: &Request) -> AdmissionResponse {
    if request.kind == "VolumeUploadSource" {
        let refusal = ("spec", "Cannot update VolumeUploadSource Spec");
        return judged::<VolumeUploadSource>(
            request,
            |old, new| old.spec == new.spec,
            refusal,
            |upload| {
                name_fits(upload.metadata.name.as_deref(), LABEL)?;
                source::content_type(upload.spec.content_type.as_ref(), "spec")
            },
        );
    }
    if request.kind == "VolumeCloneSource" {
        let refusal = ("spec", "Cannot update VolumeCloneSource Spec");
        return judged::<VolumeCloneSource>(
            request,
            |old, new| old.spec == new.spec,
            refusal,
            |clone| {
                name_fits(clone.metadata.name.as_deref(), LABEL)?;
                match clone.spec.unserved() {
                    Some((field, why)) => Err(wrong(field, why)),
                    None => Ok(()),
                }
            },
        );
    }
    let refusal = ("spec", "Cannot update VolumeImportSource Spec");
    judged::<VolumeImportSource>(request, stays, refusal, |import| {
        name_fits(import.metadata.name.as_deref(), LABEL)?;
        spec(&import.spec)
    })
}

/// True if an update changes nothing, or only the checkpoints of a multi-stage import.
fn stays(old: &VolumeImportSource, new: &VolumeImportSource) -> bool {
    let source = new.spec.source.as_ref();
    let is_staged = source.is_some_and(|source| source.vddk.is_some() || source.imageio.is_some());
    if !is_staged || new.spec.checkpoints.is_empty() {
        return old.spec == new.spec;
    }
    let bare = |spec: &VolumeImportSourceSpec| VolumeImportSourceSpec {
        checkpoints: Vec::new(),
        final_checkpoint: None,
        ..spec.clone()
    };
    bare(&old.spec) == bare(&new.spec)
}

fn spec(spec: &VolumeImportSourceSpec) -> Result<(), Vec<Fault>> {
    source::content_type(spec.content_type.as_ref(), "spec")?;
    let source = spec.source.clone().unwrap_or_default().of_data_volume();
    source::check_single_source(&source, "VolumeImport", "spec")?;
    source::one(&source, spec.content_type.as_ref(), "spec")?;
    let mut refused = source::foreign(Some(&source), "spec");
    if !spec.checkpoints.is_empty() {
        refused.push(source::stage("checkpoints", "spec"));
    }
    if spec.final_checkpoint == Some(true) {
        refused.push(source::stage("finalCheckpoint", "spec"));
    }
    if refused.is_empty() { Ok(()) } else { Err(refused) }
}
