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

/// Before this, it is not started again.
pub(super) fn wait_until(vm: &VirtualMachine) -> Option<Timestamp> {
    vm.status.as_ref()?.start_failure.as_ref()?.retry_after_timestamp.as_ref()?.parse().ok()
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

    #[test]
    fn each_wait_is_longer_up_to_the_longest() {
        for (count, least, most) in [(1, 10, 15), (2, 40, 60), (3, 90, 135), (5, 250, 300), (100, 300, 300)] {
            for uid in ["a", "b", "c", "d"] {
                let delay = delay(count, uid);
                assert!((least..=most).contains(&delay), "{count} {uid}: {delay}");
            }
        }
        assert_eq!(delay(i64::MAX, "a"), LONGEST);
    }
}
