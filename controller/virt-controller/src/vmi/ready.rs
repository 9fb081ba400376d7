//! The condition `Ready`: true where a VMI serves clients.

use super::outcome::Outcome;
use api::vmi::{ConditionType, Phase};
use cluster_model::objects::Pod;

/// Condition Ready of a VMI in this phase: that of its pod, once it runs.
pub(super) fn ready_condition(pod: Option<&Pod>, phase: &Phase) -> Outcome {
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

#[cfg(test)]
mod tests {
    use super::*;
    use cluster_model::objects::StoredObject as _;
    use serde_json::{Value, json};

    fn pod(status: &Value, is_going: bool) -> Pod {
        let going = is_going.then_some("2027-01-01T00:00:00Z");
        Pod::parse(json!({
            "metadata": {"namespace": "n", "name": "p", "uid": "u", "deletionTimestamp": going},
            "status": {"conditions": [status]},
        }))
        .unwrap()
    }

    /// A Service sends its clients to a VMI that is ready.
    #[test]
    fn a_vmi_is_ready_only_where_its_guest_runs_in_a_pod_that_is_ready() {
        let yes = json!({"type": "Ready", "status": "True"});
        let no = json!({"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "no"});
        let other = json!({"type": "Initialized", "status": "True"});
        let (there, unready, silent) = (pod(&yes, false), pod(&no, false), pod(&other, false));
        let going = pod(&yes, true);
        let (begins, ends, lost, missing) =
            ("GuestNotRunning", "PodTerminating", "PodNotExists", "PodConditionMissing");
        for (phase, pod, status, reason) in [
            ("Scheduling", None, "False", begins),
            ("Scheduled", Some(&there), "False", begins),
            ("Scheduled", Some(&going), "False", ends),
            ("Running", Some(&there), "True", ""),
            ("Running", Some(&unready), "False", "ContainersNotReady"),
            ("Running", Some(&silent), "False", missing),
            ("Running", Some(&going), "False", ends),
            ("Running", None, "False", lost),
            ("Failed", None, "False", lost),
            ("Succeeded", Some(&there), "False", begins),
            ("Succeeded", Some(&going), "False", ends),
        ] {
            let (is, why, message) = state(pod, &Phase::from(phase));
            assert_eq!((is.as_str(), why.as_deref().unwrap_or_default()), (status, reason), "{phase}");
            assert_eq!(message.is_empty(), reason.is_empty(), "{phase}: {message}");
        }
    }
}
