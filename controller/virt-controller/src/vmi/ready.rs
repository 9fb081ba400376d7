//! The condition `Ready`: true where a VMI serves clients.

use super::outcome::Outcome;
use api::vmi::{ConditionType, Phase};
use cluster_model::objects::Pod;

/// Condition Ready of a VMI in this phase: that of its pod, once it runs.
pub(super) fn ready(pod: Option<&Pod>, phase: &Phase) -> Outcome {
    if matches!(phase.as_str(), "" | "Pending") {
        return Outcome::default();
    }
    let (status, reason, message) = state(pod, phase);
    Outcome::default().condition(ConditionType::Ready, &status, &reason.unwrap_or_default(), &message)
}

fn state(pod: Option<&Pod>, phase: &Phase) -> (String, Option<String>, String) {
    let no = |reason: &str, message: &str| ("False".to_owned(), Some(reason.to_owned()), message.to_owned());
    // A pod that was just requested is not visible yet; the guest does not run in any case.
    if *phase != Phase::Running && !(phase.is_final() && pod.is_none()) {
        if pod.is_some_and(Pod::is_going) {
            return no("PodTerminating", "virt-launcher pod is terminating");
        }
        return no("GuestNotRunning", "Guest VM is not reported as running");
    }
    let Some(pod) = pod else {
        return no("PodNotExists", "virt-launcher pod has not yet been scheduled");
    };
    if pod.is_going() {
        return no("PodTerminating", "virt-launcher pod is terminating");
    }
    match pod.condition("Ready") {
        Some(ready) => {
            (ready.status.clone(), ready.reason.clone(), ready.message.clone().unwrap_or_default())
        }
        None => no("PodConditionMissing", "virt-launcher pod is missing the Ready condition"),
    }
}
