//! VMs of a pool that fail to start.
//!
//! ```text
//!  each decision on a VM ─► observe: World::failing, by the uptime of this process ─┐ the later one
//!  the annotation FAILING_SINCE, by the wall clock of any leader ───────────────────┴─► replaced
//! ```
//!
//! What a VM does is taken from its VMI, its pods and its disks as they are now: its written status may be of
//! before an outage. The conditions of a VM cannot tell how long it fails: a VM that was stopped for a day is not
//! ready since yesterday. Only the time in which this process has seen the failure counts. The annotation makes
//! the wait longer, never shorter: a wall clock may jump, and no controller may have run since it was written.
//!
//! A VM that is halted does not count as failing, whatever failed before: nothing is started that could fail, and its disks are kept.
//!
//! A VM that finds no node does not count as failing: its node is full or gone, another VM would find none
//! either, and its disks would be lost. If many fail, the VMs are seldom the cause. So a replacement has to
//! be ready, or to have had its time, before the next VM is replaced.

use super::AT_ONCE;
use crate::vm::observed;
use api::pool::{Autohealing, FAILING, FAILING_SINCE, FAILURES};
use api::vm::{PrintableStatus, RunStrategy, VirtualMachine};
use api::wire::Wire;
use cluster_model::objects::{Key, Kind, World, owner};
use cluster_model::plan::Plan;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// Records whether a VM of a pool fails to start now, and since when this process has seen it. Returns the pool, if
/// that has changed.
#[must_use]
pub(crate) fn observe(world: &mut World, namespace: &str, name: &str, now: Timestamp) -> Option<Key> {
    let vm = world.vms.get(namespace, name)?;
    let pool =
        owner::controller(&vm.metadata).filter(|owner| owner.kind == Kind::VirtualMachinePool.name())?;
    let pool = Key::new(Kind::VirtualMachinePool, namespace, &*pool.name);
    let failing = Some(vm).filter(|vm| is_failing(&observed(world, vm, now)));
    let uid = failing.and_then(|vm| vm.metadata.uid.clone());
    let at = (namespace.to_owned(), name.to_owned());
    let known = world.failing.get(&at).map(|(of, _)| of);
    if known == uid.as_ref() {
        return None;
    }
    match uid {
        Some(uid) => drop(world.failing.insert(at, (uid, world.uptime))),
        None => drop(world.failing.remove(&at)),
    }
    Some(pool)
}

/// VMs to replace now. The plan looks again at the time when the next one is due.
pub(super) fn vms_to_replace<'a>(
    world: &World,
    alive: &[&'a VirtualMachine],
    healing: &Autohealing,
    now: Timestamp,
    plan: &mut Plan,
) -> Vec<&'a VirtualMachine> {
    let mut ill = Vec::new();
    for vm in alive.iter().filter(|vm| is_suspect(world, vm)) {
        let said = vm.metadata.annotations.get(FAILING_SINCE);
        let since: Option<Timestamp> = said.and_then(|said| said.parse().ok());
        let seen = observed(world, vm, now);
        if has_failed(&seen, healing) {
            ill.push(*vm);
            continue;
        }
        if !is_failing(&seen) {
            if said.is_some() {
                stamp(vm, None, plan);
            }
            continue;
        }
        let began = since.filter(|since| *since <= now).unwrap_or_else(|| {
            stamp(vm, Some(now), plan);
            now
        });
        let left = remaining_time(world, vm, healing).and_then(|left| now.checked_add(left).ok());
        match replacement_time(began, healing).zip(left).map(|(noted, seen)| noted.max(seen)) {
            Some(time) if time <= now => ill.push(*vm),
            Some(time) => plan.look_again(time),
            None => {}
        }
    }
    ill
}

/// VMs of the failing ones that are replaced now, the oldest first. `most`: VMs that may be on their way at a
/// time; `going`: number of VMs that are being deleted, or are to be made anew.
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
        replacement_time(vm.metadata.creation_timestamp.as_deref()?.parse().ok()?, healing)
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

/// True if the VM may fail, or has a note that it did.
fn is_suspect(world: &World, vm: &VirtualMachine) -> bool {
    seen_since(world, vm).is_some()
        || vm.metadata.annotations.contains_key(FAILING_SINCE)
        || vm.status.as_ref().is_some_and(|status| status.start_failure.is_some())
}

/// True if its starts failed so often in succession that it is replaced at once.
fn has_failed(vm: &VirtualMachine, healing: &Autohealing) -> bool {
    if is_halted(vm) {
        return false;
    }
    let most = healing.start_up_failure_threshold.unwrap_or(FAILURES);
    let failure = vm.status.as_ref().and_then(|status| status.start_failure.as_ref());
    failure.and_then(|failure| failure.consecutive_fail_count).is_some_and(|failures| failures >= most)
}

fn is_halted(vm: &VirtualMachine) -> bool {
    vm.run_strategy() == RunStrategy::Halted
}

fn is_failing(vm: &VirtualMachine) -> bool {
    let word = vm.status.as_ref().and_then(|status| status.printable_status.as_ref());
    !is_halted(vm)
        && matches!(
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
fn replacement_time(began: Timestamp, healing: &Autohealing) -> Option<Timestamp> {
    began.checked_add(least(healing)).ok()
}

/// Time that this process has to see a VM fail yet. `None` if that is longer than any time.
fn remaining_time(world: &World, vm: &VirtualMachine, healing: &Autohealing) -> Option<SignedDuration> {
    let seen = seen_since(world, vm).map_or(Duration::ZERO, |since| world.uptime.saturating_sub(since));
    let left = least(healing).checked_sub(SignedDuration::try_from(seen).ok()?)?;
    Some(left.max(SignedDuration::ZERO))
}

/// Uptime since which this process has seen a VM fail.
fn seen_since(world: &World, vm: &VirtualMachine) -> Option<Duration> {
    let at = (vm.metadata.namespace.clone()?, vm.metadata.name.clone()?);
    world.failing.get(&at).filter(|(of, _)| Some(of) == vm.metadata.uid.as_ref()).map(|(_, since)| *since)
}

/// Time that a VM has to fail before it is replaced.
fn least(healing: &Autohealing) -> SignedDuration {
    let least = healing.min_failing_to_start_duration.as_ref().map_or(FAILING, |least| least.nanos());
    SignedDuration::from_nanos(least)
}

fn stamp(vm: &VirtualMachine, since: Option<Timestamp>, plan: &mut Plan) {
    let mut next = vm.clone();
    match since {
        Some(since) => next.metadata.annotations.insert(FAILING_SINCE.to_owned(), since.to_string()),
        None => next.metadata.annotations.remove(FAILING_SINCE),
    };
    plan.update(Kind::VirtualMachine, &vm.metadata, &vm.write(), &next.write(), true);
}
