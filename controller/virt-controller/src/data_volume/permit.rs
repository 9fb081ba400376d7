//! Permit of an importer pod to write to a block device, on which no mark says that the disk is complete.
//!
//! The request that created the pod may have been delayed, so its permit follows from the cluster as it is when the pod is there. Until
//! then the pod waits, and the conditions say for what.

use super::clone::{IN_USE, Stop};
use super::fill::{Target, in_use_message, wait_for_readers};
use super::outcome::Outcome;
use super::{users, worker};
use cluster_model::objects::{Kind, Pod, Work, key};
use cluster_model::plan::{Plan, Step};
use cluster_model::worker::PERMIT;
use jiff::SignedDuration;
use serde_json::json;

/// Permits a pod to write, unless there is a reason against it.
pub(super) fn permit(target: &Target<'_, '_>, pod: Option<&Pod>) -> Outcome {
    let Some(pod) = pod.filter(|pod| needs_permit(target, pod)) else { return Outcome::default() };
    if why_refused(target).is_some() {
        // The end of a launcher pod does not touch this key.
        let next = target.request.now.checked_add(SignedDuration::from_secs(worker::PAUSE.0)).ok();
        return next.into_iter().fold(Outcome::default(), Outcome::retry_at);
    }
    let step = Step::Patch {
        key: key(Kind::Pod, &pod.meta),
        version: pod.meta.resource_version.clone().unwrap_or_default(),
        change: json!({"metadata": {"annotations": {PERMIT: pod.meta.uid}}}),
        part: Some("status"),
    };
    Outcome::default().after_status(Plan { steps: vec![step], ..Plan::default() })
}

/// The conditions while a pod that runs is not permitted to write; an empty outcome otherwise.
pub(super) fn refused(target: &Target<'_, '_>, pod: Option<&Pod>) -> Outcome {
    let why = pod.filter(|pod| needs_permit(target, pod)).and_then(|_| why_refused(target));
    why.map_or_else(Outcome::default, |why| Outcome::default().wait_without_pod(target.request, IN_USE, &why))
}

fn needs_permit(target: &Target<'_, '_>, pod: &Pod) -> bool {
    let is_asked = target.request.work == Work::Import && target.claim.is_block();
    is_asked && !pod.has_permit() && !pod.is_going() && !pod.has_ended()
}

/// Reason why the pod must not write to the PVC: another VM or pod uses it. `None` if none does.
fn why_refused(target: &Target<'_, '_>) -> Option<String> {
    let Target { request, claim, .. } = *target;
    if let Some(vmi) = users::user(request.world, claim) {
        return Some(in_use_message(claim, &vmi));
    }
    match wait_for_readers(request, claim)? {
        Stop::Waits(_, message) | Stop::Never(_, message) => Some(message),
    }
}
