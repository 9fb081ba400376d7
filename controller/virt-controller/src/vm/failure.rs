//! Starts that fail again and again: each waits longer than the last.

use api::vm::{StartFailure, VirtualMachine};
use api::vmi::{Phase, VirtualMachineInstance};
use cluster_model::conditions::stamp;
use cluster_model::objects::names::fnv;
use jiff::{SignedDuration, Timestamp};

/// The longest wait, in seconds.
const LONGEST: i64 = 300;

/// Counts a VMI that failed before it ran. A VMI that ran counts as a success, whatever its end.
pub(super) fn count(vm: &mut VirtualMachine, vmi: Option<&VirtualMachineInstance>, now: Timestamp) {
    let Some(vmi) = vmi else { return };
    let status = vm.status.get_or_insert_default();
    if has_run(vmi) {
        status.start_failure = None;
        return;
    }
    let uid = vmi.metadata.uid.clone().unwrap_or_default();
    // A VMI that fails by itself is counted before it is deleted. A VMI that was deleted before it ran is not
    // a failure.
    if super::super::vmi::phase(vmi) != Phase::Failed || vmi.metadata.deletion_timestamp.is_some() {
        return;
    }
    let old = status.start_failure.clone().unwrap_or_default();
    if old.last_failed_vmi_uid.as_deref() == Some(uid.as_str()) {
        return;
    }
    let count = old.consecutive_fail_count.unwrap_or(0).saturating_add(1);
    let retry = now.checked_add(SignedDuration::from_secs(delay(count, &uid))).unwrap_or(now);
    status.start_failure = Some(StartFailure {
        consecutive_fail_count: Some(count),
        last_failed_vmi_uid: Some(uid),
        retry_after_timestamp: Some(stamp(retry)),
        ..old
    });
}

/// Time before which the VM is not started again. A time that is further ahead than the longest wait does not count: it was written while
/// the clock was ahead.
pub(super) fn wait_until(vm: &VirtualMachine, now: Timestamp) -> Option<Timestamp> {
    let until = vm.status.as_ref()?.start_failure.as_ref()?.retry_after_timestamp.as_ref()?.parse().ok();
    until.filter(|until: &Timestamp| until.duration_since(now) <= SignedDuration::from_secs(LONGEST))
}

fn has_run(vmi: &VirtualMachineInstance) -> bool {
    let Some(status) = &vmi.status else { return false };
    status.phase == Some(Phase::Running)
        || status
            .phase_transition_timestamps
            .iter()
            .any(|transition| transition.phase == Some(Phase::Running))
}

/// Ten times the square, plus up to half of it, so that a thousand VMs do not restart at once. The addition
/// is derived from the uid, so that a repeated decision gives the same delay.
fn delay(count: i64, uid: &str) -> i64 {
    let base = count.saturating_mul(count).saturating_mul(10).min(LONGEST);
    let more = i64::try_from(fnv(uid) % 1000).unwrap_or(0) * base / 2000;
    (base + more).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A pool deletes a VM whose starts failed often enough, and its disks.
    #[test]
    fn only_a_vmi_that_failed_before_it_ran_counts_and_once() {
        let now = Timestamp::UNIX_EPOCH;
        let ran = json!([{"phase": "Scheduled"}, {"phase": "Running"}]);
        let began = json!([{"phase": "Scheduled"}]);
        let going = json!("2027-01-01T00:00:00Z");
        for (uid, going, status, counted) in [
            ("new", None, json!({"phase": "Failed", "phaseTransitionTimestamps": began}), Some(3)),
            ("last", None, json!({"phase": "Failed"}), Some(2)),
            ("new", None, json!({"phase": "Succeeded"}), Some(2)),
            ("new", None, json!({"phase": "Scheduling"}), Some(2)),
            ("new", Some(going), json!({"phase": "Failed"}), Some(2)),
            ("new", None, json!(null), Some(2)),
            ("new", None, json!({"phase": "Running"}), None),
            ("new", None, json!({"phase": "Failed", "phaseTransitionTimestamps": ran}), None),
        ] {
            let failure = json!({"consecutiveFailCount": 2, "lastFailedVMIUID": "last"});
            let mut vm: VirtualMachine =
                api::wire::read(json!({"metadata": {}, "status": {"startFailure": failure}})).unwrap();
            let meta = json!({"name": "web", "uid": uid, "deletionTimestamp": going});
            let vmi = api::wire::read(json!({"metadata": meta, "status": status})).unwrap();
            count(&mut vm, Some(&vmi), now);
            let failure = vm.status.as_ref().and_then(|status| status.start_failure.clone());
            let is = failure.as_ref().and_then(|failure| failure.consecutive_fail_count);
            assert_eq!(is, counted, "{uid} {status}");
            let wait = wait_until(&vm, now).map(|until| until.duration_since(now).as_secs());
            assert_eq!(wait.is_some_and(|wait| (90..=135).contains(&wait)), counted == Some(3), "{wait:?}");
        }
    }

    #[test]
    fn each_wait_is_longer_up_to_the_longest() {
        for (count, least, most) in [(1, 10, 15), (2, 40, 60), (3, 90, 135), (5, 250, 300), (100, 300, 300)] {
            for uid in ["a", "b", "c", "d"] {
                let delay = delay(count, uid);
                assert!((least..=most).contains(&delay), "{count} {uid}: {delay}");
            }
        }
        assert_eq!(delay(i64::MAX, "a"), LONGEST);
        // A node that comes back starts its VMs one after the other.
        let delays: std::collections::BTreeSet<i64> = (0..40).map(|n| delay(2, &n.to_string())).collect();
        assert!(delays.len() > 8, "{delays:?}");
    }

    /// The clock was ahead for a moment when a start failed.
    #[test]
    fn a_time_to_wait_for_that_no_failure_sets_is_not_waited_for() {
        use super::super::strategy::{Act, decide};
        let act_at = |until: &str| {
            let status = json!({"startFailure": {"consecutiveFailCount": 1, "retryAfterTimestamp": until}});
            let vm: VirtualMachine =
                api::wire::read(json!({"metadata": {}, "spec": {"runStrategy": "Always"}, "status": status}))
                    .unwrap();
            decide(&vm, &api::vm::RunStrategy::Always, None, "2026-12-01T00:00:00Z".parse().unwrap())
        };
        assert!(matches!(act_at("2026-12-01T00:00:09Z"), Act::Wait { .. }));
        let said = act_at("2027-12-01T00:00:00Z");
        assert!(!matches!(said, Act::Wait { .. }), "{said:?}");
    }
}
