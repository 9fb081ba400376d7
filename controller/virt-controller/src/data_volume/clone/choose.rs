//! The way of a clone whose PVC is about to be made, and the annotations that keep it.

use super::super::claim::RequestedClaim;
use super::super::outcome::Outcome;
use super::super::request::Request;
use super::announcement::announce;
use super::serve::in_use;
use super::{CloneMethod, Cloned, Stop, method};
use api::claim::DataReference;
use api::data_volume::ConditionType;
use cluster_model::clones::{CLONE_FALLBACK, CLONE_REQUEST, CLONE_TYPE};
use cluster_model::objects::PersistentVolumeClaim;
use cluster_model::plan::Plan;

/// A way, as the PVC has it.
#[derive(Debug, Default)]
pub(in super::super) struct ChosenWay {
    /// Annotations of the PVC: its source, and the way.
    pub(in super::super) annotations: Vec<(&'static str, String)>,
    /// The object that the storage makes the PVC from.
    pub(in super::super) data_source: Option<DataReference>,
    pub(in super::super) outcome: Outcome,
}

/// Chooses how the PVC that is about to be made is cloned.
pub(in super::super) fn choose_way(
    request: &Request<'_>,
    cloned: &Cloned<'_>,
    requested: &RequestedClaim<'_>,
) -> Result<ChosenWay, Stop> {
    let way = method::choose(request.world, request.namespace(), cloned, requested)?;
    let mut outcome = Outcome::default();
    if let (CloneMethod::Csi, Some(source)) = (&way, cloned.claim) {
        outcome = outcome.after_status(require_no_writer(request, source)?);
    }
    let mut annotations = vec![(CLONE_REQUEST, cloned.display_name()), (CLONE_TYPE, way.name().to_owned())];
    if let CloneMethod::Copy(why) = &way
        && !why.is_empty()
    {
        annotations.push((CLONE_FALLBACK, why.clone()));
    }
    let outcome = outcome.condition(ConditionType::Cloning, "True", way.name(), &way.description());
    Ok(ChosenWay { annotations, data_source: way.data_source(&cloned.name), outcome })
}

/// Plan that requires that no pod writes to a PVC which the storage is about to clone, also later.
fn require_no_writer(request: &Request<'_>, source: &PersistentVolumeClaim) -> Result<Plan, Stop> {
    if let Some(stop) = in_use(request, source) {
        return Err(stop);
    }
    let failed = request.world.failures.get(&request.key());
    // During a pause before the next attempt nothing is created, so the check is not needed.
    match failed.is_none_or(|failed| failed.retry <= request.now) {
        true => Ok(announce(request, source)),
        false => Ok(Plan::default()),
    }
}
