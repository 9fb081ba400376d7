//! Whether a VMI serves: the condition `Ready`.

use super::Round;
use api::vmi::{ConditionType, Phase};
use cluster_model::objects::Pod;

impl Round<'_> {
    /// Says whether it serves: as its pod, once it runs.
    pub(super) fn say_ready(&mut self) {
        let phase = super::phase(&self.next);
        if matches!(phase.as_str(), "" | "Pending") {
            return;
        }
        let (status, reason, message) = state(self.pod, &phase);
        let reason = reason.unwrap_or_default();
        self.say(ConditionType::Ready, &status, &reason, &message);
    }
}

fn state(pod: Option<&Pod>, phase: &Phase) -> (String, Option<String>, String) {
    let no = |reason: &str, message: &str| ("False".to_owned(), Some(reason.to_owned()), message.to_owned());
    // The pod that was just asked for is not seen yet; the guest does not run in any case.
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
