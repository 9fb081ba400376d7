//! The status of a VM.

use super::disks::Disks;
use super::printable::{PrintableInput, status};
use super::strategy::Act;
use super::trouble::VmProblem;
use super::{change, revision};
use crate::vmi::volume_update::{self, VolumeUpdate};
use api::vm::{Condition, ConditionType, PrintableStatus, RunStrategy, StateChange, VirtualMachine};
use api::vmi::{self, VirtualMachineInstance};
use cluster_model::conditions::{self, stamp};
use jiff::Timestamp;

/// Conditions of the VMI that a VM has itself, or that mean nothing without a VMI.
const NOT_COPIED: [vmi::ConditionType; 1] = [vmi::ConditionType::Ready];

/// Bound of conditions that are copied from a VMI, and of the characters of their texts: a compromised node
/// may write these.
const TAKEN: usize = 32;
const LONGEST: usize = 1024;

/// Writes the status. `vm` has its requests and failures already. `trouble`: the current problem.
pub(super) fn write(
    vm: &mut VirtualMachine,
    strategy: &RunStrategy,
    vmi: Option<&VirtualMachineInstance>,
    (disks, update): (&Disks, &VolumeUpdate),
    trouble: Option<VmProblem<'_>>,
    now: Timestamp,
) {
    let act = super::strategy::decide(vm, strategy, vmi, now);
    let starts = matches!(act, Act::Start { .. } | Act::Run)
        || vmi.is_none()
            && change::next_request(vm, &StateChange::Start).is_some()
            && !matches!(act, Act::Wait { .. });
    let seen = PrintableInput { vm, strategy, vmi, disks, starts, stops: act == Act::Stop };
    let word = status(&seen);
    let runs = vmi.filter(|vmi| !crate::vmi::phase(vmi).is_final());
    let restart = runs.and_then(|vmi| volume_update::restart_reason(vm, vmi, update));
    let generation = vm.metadata.generation;
    let status = vm.status.get_or_insert_default();
    status.printable_status = Some(word);
    // A new VM has no `created`; later it has `created: false`.
    status.created = vmi.is_some().then_some(true);
    status.ready = vmi.and_then(is_ready);
    status.desired_generation = generation;
    let of_vmi = vmi.and_then(|vmi| vmi.metadata.annotations.get(revision::GENERATION)?.parse().ok());
    status.observed_generation = of_vmi.or(generation);
    let remembers = matches!(strategy, RunStrategy::Once | RunStrategy::RerunOnFailure);
    if vmi.is_some() || !remembers {
        status.run_strategy = Some(strategy.clone());
    }
    copy_conditions(&mut status.conditions, vmi, now);
    failure(&mut status.conditions, trouble, now);
    recovery(&mut status.conditions, disks, trouble, now);
    if let Some((reason, message)) = restart {
        set(
            &mut status.conditions,
            ConditionType::RestartRequired,
            "True",
            Some(reason),
            Some(&message),
            now,
        );
    } else {
        conditions::remove(&mut status.conditions, &ConditionType::RestartRequired);
    }
}

/// Sets or removes the condition of the current problem.
fn failure(list: &mut Vec<Condition>, trouble: Option<VmProblem<'_>>, now: Timestamp) {
    match trouble {
        Some(VmProblem { reason, why, .. }) => {
            set(list, ConditionType::Failure, "True", Some(reason), Some(why), now);
        }
        None => list.retain(|condition| condition.r#type != ConditionType::Failure),
    }
}

/// Sets or removes the condition of a VM whose PVC has moved.
fn recovery(list: &mut Vec<Condition>, disks: &Disks, trouble: Option<VmProblem<'_>>, now: Timestamp) {
    let kind = ConditionType::ManualRecoveryRequired;
    match trouble.filter(|_| disks.moved) {
        Some(VmProblem { reason, why, .. }) => set(list, kind, "True", Some(reason), Some(why), now),
        None => conditions::remove(list, &kind),
    }
}

/// Status of a VM that is being deleted and waits for its VMI, whose conditions give the reason.
pub(super) fn terminating(
    vm: &mut VirtualMachine,
    vmi: &VirtualMachineInstance,
    trouble: Option<VmProblem<'_>>,
    now: Timestamp,
) {
    let status = vm.status.get_or_insert_default();
    status.printable_status = Some(PrintableStatus::Terminating);
    status.ready = is_ready(vmi);
    copy_conditions(&mut status.conditions, Some(vmi), now);
    failure(&mut status.conditions, trouble, now);
}

/// `Some(true)` if the VMI is ready, and otherwise `None`.
fn is_ready(vmi: &VirtualMachineInstance) -> Option<bool> {
    let said = vmi.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let ready = conditions::find(said, &vmi::ConditionType::Ready);
    ready.is_some_and(|ready| ready.status == "True").then_some(true)
}

fn copy_conditions(list: &mut Vec<Condition>, vmi: Option<&VirtualMachineInstance>, now: Timestamp) {
    let empty = Vec::new();
    let theirs = vmi.and_then(|vmi| vmi.status.as_ref()).map_or(&empty, |status| &status.conditions);
    let ready = conditions::find(theirs, &vmi::ConditionType::Ready);
    match (vmi, ready) {
        (None, _) => {
            set(list, ConditionType::Ready, "False", Some("VMINotExists"), Some("VMI does not exist"), now);
        }
        (Some(_), None) => {
            let message = "VMI is missing the Ready condition";
            set(list, ConditionType::Ready, "False", Some("VMIConditionMissing"), Some(message), now);
        }
        (Some(_), Some(ready)) => {
            set(
                list,
                ConditionType::Ready,
                &ready.status,
                ready.reason.as_deref(),
                ready.message.as_deref(),
                now,
            );
        }
    }
    let ours = |kind: &ConditionType| {
        matches!(
            kind,
            ConditionType::Ready
                | ConditionType::Failure
                | ConditionType::RestartRequired
                | ConditionType::ManualRecoveryRequired
        )
    };
    let theirs = || theirs.iter().filter(|theirs| !NOT_COPIED.contains(&theirs.r#type)).take(TAKEN);
    let is_theirs = |kind: &ConditionType| theirs().any(|theirs| theirs.r#type.as_str() == kind.as_str());
    list.retain(|condition| ours(&condition.r#type) || is_theirs(&condition.r#type));
    for theirs in theirs() {
        let kind = ConditionType::from(theirs.r#type.as_str());
        set(list, kind, &theirs.status, theirs.reason.as_deref(), theirs.message.as_deref(), now);
    }
}

fn set(
    list: &mut Vec<Condition>,
    kind: ConditionType,
    status: &str,
    reason: Option<&str>,
    message: Option<&str>,
    now: Timestamp,
) {
    let text = |text: Option<&str>| -> String { text.unwrap_or_default().chars().take(LONGEST).collect() };
    conditions::set(list, kind, (status, &text(reason), &text(message)), &stamp(now));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_a_vmi_with_many_conditions_a_vm_takes_few_and_their_beginnings() {
        let said =
            |n: usize| json!({"type": format!("x{n}"), "status": "True", "message": "y".repeat(1 << 20)});
        let ready = json!({"type": "Ready", "status": "True", "message": "z".repeat(1 << 20)});
        let short = |n: usize| json!({"type": format!("x{n}"), "status": "True"});
        let conditions: Vec<_> = (0..5).map(said).chain((5..5500).map(short)).collect();
        let all = [vec![ready], conditions].concat();
        let vmi = json!({"metadata": {"name": "a"}, "status": {"conditions": all}});
        let vmi: VirtualMachineInstance = api::wire::read(vmi).unwrap();
        let mut list = Vec::new();
        for _ in 0..2 {
            copy_conditions(&mut list, Some(&vmi), Timestamp::UNIX_EPOCH);
            assert_eq!(list.len(), 1 + TAKEN);
            let longest =
                list.iter().filter_map(|condition| condition.message.as_ref()).map(String::len).max();
            assert_eq!(longest, Some(LONGEST));
        }
        copy_conditions(&mut list, None, Timestamp::UNIX_EPOCH);
        assert_eq!(list.len(), 1);
    }
}
