//! VMs of a pool that fail to start.

use api::pool::{Autohealing, FAILING, FAILURES};
use api::vm::{ConditionType, PrintableStatus, VirtualMachine};
use jiff::{SignedDuration, Timestamp};
use kubernetes::plan::Plan;

/// Those that are to be replaced. Where one will be, it is looked at again then.
pub(super) fn ill<'a>(
    alive: &[&'a VirtualMachine],
    healing: &Autohealing,
    now: Timestamp,
    plan: &mut Plan,
) -> Vec<&'a VirtualMachine> {
    let mut ill = Vec::new();
    for vm in alive {
        match since(vm, healing) {
            Some(time) if time <= now => ill.push(*vm),
            Some(time) => plan.look_again(time),
            None => {}
        }
    }
    ill
}

/// From when on a VM is to be replaced.
fn since(vm: &VirtualMachine, healing: &Autohealing) -> Option<Timestamp> {
    let status = vm.status.as_ref()?;
    let most = healing.start_up_failure_threshold.unwrap_or(FAILURES);
    let failures = status.start_failure.as_ref().and_then(|failure| failure.consecutive_fail_count);
    if failures.is_some_and(|failures| failures >= most) {
        return Some(Timestamp::MIN);
    }
    let is_failing = matches!(
        status.printable_status.as_ref()?,
        PrintableStatus::CrashLoopBackOff
            | PrintableStatus::ErrorUnschedulable
            | PrintableStatus::DataVolumeError
            | PrintableStatus::ErrorPvcNotFound
            | PrintableStatus::ErrImagePull
            | PrintableStatus::ImagePullBackOff
    );
    let ready = status.conditions.iter().find(|condition| condition.r#type == ConditionType::Ready)?;
    let began: Timestamp = ready.last_transition_time.as_deref()?.parse().ok()?;
    let least = healing.min_failing_to_start_duration.as_ref().map_or(FAILING, |least| least.nanos());
    let until = began.checked_add(SignedDuration::from_nanos(least)).ok();
    until.filter(|_| is_failing && ready.status == "False")
}
