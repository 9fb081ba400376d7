//! VMs of a pool that fail to start.
//!
//! The duration of a failure is counted from the time at which virt-controller first saw it. That time is an
//! annotation of the VM, which is removed with the failure. The conditions of a VM cannot tell it: a VM that
//! was stopped for a day is not ready since yesterday.
//!
//! A VM that finds no node does not count as failing: its node is full or gone, another VM would find none
//! either, and its disks would be lost. If many fail, the VMs are seldom the cause. So a replacement has to
//! be ready, or to have had its time, before the next VM is replaced.

use super::AT_ONCE;
use api::pool::{Autohealing, FAILING, FAILING_SINCE, FAILURES};
use api::vm::{PrintableStatus, VirtualMachine};
use api::wire::Wire;
use cluster_model::objects::Kind;
use cluster_model::plan::Plan;
use jiff::{SignedDuration, Timestamp};

/// VMs to replace now. The plan looks again at the time when the next one is due.
pub(super) fn ill<'a>(
    alive: &[&'a VirtualMachine],
    healing: &Autohealing,
    now: Timestamp,
    plan: &mut Plan,
) -> Vec<&'a VirtualMachine> {
    let mut ill = Vec::new();
    for vm in alive {
        let said = vm.metadata.annotations.get(FAILING_SINCE);
        let since: Option<Timestamp> = said.and_then(|said| said.parse().ok());
        if has_failed(vm, healing) {
            ill.push(*vm);
            continue;
        }
        if !is_failing(vm) {
            if said.is_some() {
                stamp(vm, None, plan);
            }
            continue;
        }
        let began = since.filter(|since| *since <= now).unwrap_or_else(|| {
            stamp(vm, Some(now), plan);
            now
        });
        match until(began, healing) {
            Some(time) if time <= now => ill.push(*vm),
            Some(time) => plan.look_again(time),
            None => {}
        }
    }
    ill
}

/// VMs of the failing ones that are replaced now, the oldest first. `most`: VMs that may be on their way at a
/// time; `going`: number of VMs that are being deleted.
pub(super) fn healed<'a>(
    mut ill: Vec<&'a VirtualMachine>,
    alive: &[&VirtualMachine],
    healing: &Autohealing,
    (most, going): (usize, usize),
    now: Timestamp,
    plan: &mut Plan,
) -> Vec<&'a VirtualMachine> {
    if ill.is_empty() {
        return ill;
    }
    let is_ill = |vm: &VirtualMachine| ill.iter().any(|ill| std::ptr::eq(*ill, vm));
    let end = |vm: &VirtualMachine| -> Option<Timestamp> {
        until(vm.metadata.creation_timestamp.as_deref()?.parse().ok()?, healing)
    };
    let waits = |vm: &&&VirtualMachine| !super::is_ready(vm) && !is_ill(vm);
    let ends = alive.iter().filter(waits).filter_map(|vm| end(vm));
    let young: Vec<Timestamp> = ends.filter(|end| *end > now).collect();
    let free = most.saturating_sub(going + young.len()).min(AT_ONCE);
    young.into_iter().for_each(|end| plan.look_again(end));
    ill.sort_by_key(|vm| vm.metadata.creation_timestamp.clone());
    ill.truncate(free);
    ill
}

/// True if its starts failed so often in succession that it is replaced at once.
fn has_failed(vm: &VirtualMachine, healing: &Autohealing) -> bool {
    let most = healing.start_up_failure_threshold.unwrap_or(FAILURES);
    let failure = vm.status.as_ref().and_then(|status| status.start_failure.as_ref());
    failure.and_then(|failure| failure.consecutive_fail_count).is_some_and(|failures| failures >= most)
}

fn is_failing(vm: &VirtualMachine) -> bool {
    let word = vm.status.as_ref().and_then(|status| status.printable_status.as_ref());
    matches!(
        word,
        Some(
            PrintableStatus::CrashLoopBackOff
                | PrintableStatus::DataVolumeError
                | PrintableStatus::ErrorPvcNotFound
                | PrintableStatus::ErrImagePull
                | PrintableStatus::ImagePullBackOff
        )
    )
}

/// Time at which a VM that fails since `began` is replaced.
fn until(began: Timestamp, healing: &Autohealing) -> Option<Timestamp> {
    let least = healing.min_failing_to_start_duration.as_ref().map_or(FAILING, |least| least.nanos());
    began.checked_add(SignedDuration::from_nanos(least)).ok()
}

fn stamp(vm: &VirtualMachine, since: Option<Timestamp>, plan: &mut Plan) {
    let mut next = vm.clone();
    match since {
        Some(since) => next.metadata.annotations.insert(FAILING_SINCE.to_owned(), since.to_string()),
        None => next.metadata.annotations.remove(FAILING_SINCE),
    };
    plan.update(Kind::VirtualMachine, &vm.metadata, &vm.write(), &next.write(), true);
}
