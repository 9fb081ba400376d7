//! DataVolumes: validation of their spec, and of annotations for exports.

use super::{NAME, claim, judged, name_fits, source, target};
use crate::rules::{AdmissionResponse, Request};
use api::data_volume::{DataVolume, Spec};
use api::fault::Fault;

/// Validates a new or changed DataVolume.
pub(crate) fn judge(request: &Request) -> AdmissionResponse {
    let refusal = ("spec", "Cannot update DataVolume Spec");
    let answer = judged::<DataVolume>(request, stays, refusal, |volume| {
        name_fits(volume.metadata.name.as_deref(), NAME)?;
        spec(&volume.spec, "spec")
    });
    // Annotations can change while the spec stays.
    match claim::exports(request) {
        faults if answer.faults.is_empty() && !faults.is_empty() => AdmissionResponse::no(faults),
        _ => answer,
    }
}

/// True if an update changes nothing, or only the checkpoints of a multi-stage import.
fn stays(old: &DataVolume, new: &DataVolume) -> bool {
    let source = new.spec.source.as_ref();
    let is_staged = source.is_some_and(|source| source.vddk.is_some() || source.imageio.is_some());
    if !is_staged || new.spec.checkpoints.is_empty() {
        return old.spec == new.spec;
    }
    let bare = |spec: &Spec| Spec { checkpoints: Vec::new(), final_checkpoint: None, ..spec.clone() };
    bare(&old.spec) == bare(&new.spec)
}

/// Validates a spec at the path `at`.
pub(super) fn spec(spec: &Spec, at: &str) -> Result<(), Vec<Fault>> {
    target::check(spec, at)?;
    if target::is_filled_otherwise(spec) {
        return target::check_population(spec, at);
    }
    source::check(spec, at)
}
