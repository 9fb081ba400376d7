//! Expansion of a PVC that is too small for its image.
//!
//! ```text
//!  worker: DataVolumeTooSmall, required ─► may it grow? ─► PVC: request, storage.grownFor ─► the pod goes ─► ExpansionInProgress
//!                                            │ no                │ refused: quota; said, and tried again      │ capacity is there
//!                                            ▼                   ▼                                            ▼
//!                                          Failed, with the bytes that are missing                         the next pod
//! ```
//!
//! | expanded | not expanded |
//! |---|---|
//! | `spec.storage`, whose size is that of the disk | `spec.pvc`, which is used unchanged |
//! | the StorageClass has `allowVolumeExpansion` | the StorageClass does not have it |
//! | the first time | a second time: the worker found another size, or the volume did not reach the requested size |
//! | up to `resources.limits` of the DataVolume, or else 4 times the request; and to what quotas admit | beyond that |
//!
//! **Guarantees.** A PVC never shrinks, and is expanded once, to the size that the worker found in the image
//! and not beyond. The next pod inspects the image and the volume again.
//! **Assumptions.** The worker's number comes from the tenant's namespace, like the size in a DataVolume:
//! quotas and `limits` bound both. Not every namespace has a quota, an image states its size in eight bytes
//! regardless of its content, and a PVC never shrinks. So without `limits` a PVC grows to 4 times its request
//! at most. That is enough for a misjudged size, and too little for a size that an image made up.

use super::claim_name;
use super::fill::Target;
use super::outcome::Outcome;
use super::request::Request;
use super::size::Overhead;
use api::cdi::annotations::GROWN_FOR;
use api::data_volume::{ConditionType, Phase};
use api::job::Report;
use api::quantity::Quantity;
use cluster_model::objects::{Attempt, Kind, PersistentVolumeClaim, Pod};
use cluster_model::plan::Plan;
use serde_json::json;

/// Sizes are whole ones of these.
const MIB: u64 = 1 << 20;
/// Largest growth of a PVC without `limits`, as a multiple of its request.
const TIMES: u64 = 4;

/// Makes the PVC large enough for the image of a worker that ended; or the reason why it does not grow, where that is of interest.
pub(super) fn grows(
    target: &Target<'_, '_>,
    pod: Option<&Pod>,
    report: &Report,
) -> Result<Outcome, Option<String>> {
    let Target { request, claim, .. } = *target;
    let (Some(required), Some(pod)) = (report.required, pod) else { return Err(None) };
    let uid = pod.meta.uid.as_deref().unwrap_or_default();
    let grown_for = claim.meta.annotations.get(GROWN_FOR).map(String::as_str);
    let bytes = match grown_for {
        None => Some(growth_target(target, required)?),
        Some(one) if one == uid => None,
        Some(_) => return Err(Some("the PVC was expanded once already".to_owned())),
    };
    let name = claim_name(claim);
    if let Some(failed) = request.world.failures.get(&request.key())
        && failed.about == Attempt::Make(Kind::PersistentVolumeClaim)
        && failed.retry > request.now
    {
        let reason = super::claim_refused(&failed.message);
        let message = format!("PVC {name} cannot be expanded: {}", failed.message);
        let outcome = Outcome::default().wait(reason, &message).retry_at(failed.retry);
        return Ok(outcome.enter_phase(Phase::ExpansionInProgress, true, reason, message));
    }
    let mut expand = Plan::default();
    if let Some(bytes) = bytes {
        let requests = |bytes: &str| json!({"spec": {"resources": {"requests": {"storage": bytes}}}});
        let is = requests(claim.spec.storage().map_or("0", Quantity::as_str));
        let mut should = requests(Quantity::of_bytes(bytes).as_str());
        should["metadata"] = json!({"annotations": {GROWN_FOR: uid}});
        expand.update(Kind::PersistentVolumeClaim, &claim.meta, &is, &should, false);
    }
    let message = format!("PVC {name} is expanded, for a disk of {required} bytes");
    let outcome = Outcome::default()
        // Before the pod is deleted: the next pod would find the PVC too small again.
        .before_status(expand)
        .wait("ExpansionInProgress", &message)
        .condition(ConditionType::Transferring, "False", "ExpansionInProgress", &message)
        .enter_phase(Phase::ExpansionInProgress, false, "ExpansionInProgress", message)
        .deletes(Some(pod));
    Ok(outcome)
}

/// The size that the PVC is to ask for, in bytes; or the reason why it does not grow.
fn growth_target(target: &Target<'_, '_>, required: u64) -> Result<u64, Option<String>> {
    let Target { request, claim, requested, .. } = *target;
    let Some(storage) = &request.volume.spec.storage else {
        let why =
            "a PVC of spec.pvc is not expanded; a PVC of spec.storage is, if its StorageClass allows it";
        return Err(Some(why.to_owned()));
    };
    let class = requested.class.ok_or_else(|| Some("the PVC has no StorageClass".to_owned()))?;
    if !class.may_grow {
        let name = class.meta.name.as_deref().unwrap_or_default();
        return Err(Some(format!("the StorageClass {name} has no allowVolumeExpansion")));
    }
    let bytes = match claim.is_block() {
        true => required.checked_next_multiple_of(MIB),
        false => {
            Overhead::for_class(request.world, claim.spec.storage_class_name.as_deref()).claim_for(required)
        }
    };
    // A quantity is a signed number.
    let bytes = bytes.filter(|&bytes| bytes <= i64::MAX.unsigned_abs());
    let bytes = bytes.ok_or_else(|| Some("a PVC cannot be that large".to_owned()))?;
    let limit = storage.resources.as_ref().and_then(|resources| resources.limits.get("storage"));
    if let Some(limit) = limit.filter(|limit| limit.bytes().is_none_or(|limit| limit < bytes)) {
        let limit = limit.as_str();
        return Err(Some(format!("spec.storage.resources.limits.storage permits {limit}")));
    }
    let asked = claim.spec.storage().and_then(Quantity::bytes).unwrap_or(0);
    if bytes <= asked {
        return Err(Some(format!("the PVC requests {asked} bytes already")));
    }
    if limit.is_none() && bytes > asked.saturating_mul(TIMES) {
        return Err(Some(format!(
            "a PVC of {asked} bytes is not expanded to more than {TIMES} times its size by default, and the disk \
             needs {bytes} bytes: if you trust the image, create the DataVolume again with \
             spec.storage.resources.limits.storage: \"{bytes}\", or request that size"
        )));
    }
    Ok(bytes)
}

/// The PVC was made larger, and its volume is not yet; `None` where the next pod may start. The last step of a file system is made
/// under the next pod.
pub(super) fn awaits_growth(request: &Request<'_>, claim: &PersistentVolumeClaim) -> Option<Outcome> {
    if request.phase != Phase::ExpansionInProgress {
        return None;
    }
    let asked = claim.spec.storage().and_then(Quantity::bytes);
    let has = claim.status.capacity.get("storage").and_then(Quantity::bytes);
    let conditions = || claim.status.conditions.iter();
    let is_last_step =
        conditions().any(|said| said["type"] == "FileSystemResizePending" && said["status"] == "True");
    if is_last_step || has >= asked {
        return None;
    }
    let name = claim_name(claim);
    let said = conditions().filter_map(|said| said["message"].as_str()).find(|text| !text.is_empty());
    let said = said.map(|text| format!(": {text}")).unwrap_or_default();
    let message =
        format!("PVC {name} has {} bytes and waits for {}{said}", has.unwrap_or(0), asked.unwrap_or(0));
    Some(Outcome::default().wait("ExpansionInProgress", &message).phase(Phase::ExpansionInProgress))
}
