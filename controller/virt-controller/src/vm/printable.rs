//! The one word for people. The first row that fits wins; the order is the contract's.

use super::disks::Disks;
use api::vm::{PrintableStatus, RunStrategy, VirtualMachine};
use api::vmi::{Condition, ConditionType, Phase, VirtualMachineInstance};
use cluster_model::conditions;

/// Input of the printable status.
pub(super) struct PrintableInput<'a> {
    pub(super) vm: &'a VirtualMachine,
    pub(super) strategy: &'a RunStrategy,
    pub(super) vmi: Option<&'a VirtualMachineInstance>,
    pub(super) disks: &'a Disks,
    /// True if it is to be started, now or later.
    pub(super) starts: bool,
    /// True if it is to be stopped.
    pub(super) stops: bool,
}

pub(super) fn status(seen: &PrintableInput<'_>) -> PrintableStatus {
    let phase = seen.vmi.map(super::super::vmi::phase);
    let conditions =
        seen.vmi.and_then(|vmi| vmi.status.as_ref()).map_or(&[][..], |status| &status.conditions);
    let says = |kind: ConditionType, reason: &str| is_not(conditions, &kind, reason);
    let is_final = phase.as_ref().is_some_and(Phase::is_final);
    let is_running = phase == Some(Phase::Running);
    let is_paused = conditions::is_true(conditions, &ConditionType::Paused);
    let leaves = seen.vmi.is_some_and(|vmi| vmi.metadata.deletion_timestamp.is_some());
    let migrates = seen.vmi.and_then(|vmi| vmi.status.as_ref()?.migration_state.as_ref());
    let fails =
        seen.vm.status.as_ref().and_then(|status| status.start_failure.as_ref()?.consecutive_fail_count);
    let again =
        matches!(seen.strategy, RunStrategy::Always | RunStrategy::RerunOnFailure | RunStrategy::Once);
    let rows = [
        (PrintableStatus::Terminating, seen.vm.metadata.deletion_timestamp.is_some()),
        (PrintableStatus::Stopping, phase.is_some() && !is_final && (leaves || seen.stops)),
        (PrintableStatus::Migrating, seen.disks.carried),
        (PrintableStatus::Migrating, migrates.is_some_and(|state| state.completed != Some(true))),
        (PrintableStatus::Paused, is_running && is_paused),
        (PrintableStatus::Running, is_running),
        (
            PrintableStatus::ErrorPvcNotFound,
            !is_final && says(ConditionType::Synchronized, "FailedPvcNotFound"),
        ),
        (PrintableStatus::DataVolumeError, seen.disks.failed),
        (
            PrintableStatus::ErrorUnschedulable,
            !is_final && says(ConditionType::PodScheduled, "Unschedulable"),
        ),
        (PrintableStatus::Provisioning, seen.disks.filling),
        (PrintableStatus::WaitingForVolumeBinding, seen.starts && seen.disks.unbound),
        (PrintableStatus::ErrImagePull, says(ConditionType::Synchronized, "ErrImagePull")),
        (PrintableStatus::ImagePullBackOff, says(ConditionType::Synchronized, "ImagePullBackOff")),
        (
            PrintableStatus::Starting,
            phase.is_some() && !is_final && phase != Some(Phase::Unknown) || phase.is_none() && seen.starts,
        ),
        (
            PrintableStatus::CrashLoopBackOff,
            (phase.is_none() || is_final) && again && fails.is_some_and(|count| count > 0),
        ),
        (PrintableStatus::Stopped, is_final || phase.is_none()),
    ];
    rows.into_iter().find_map(|(word, fits)| fits.then_some(word)).unwrap_or(PrintableStatus::Unknown)
}

fn is_not(list: &[Condition], kind: &ConditionType, reason: &str) -> bool {
    conditions::find(list, kind)
        .is_some_and(|condition| condition.status == "False" && condition.reason.as_deref() == Some(reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// VMI in a phase that says a reason in a condition with the status `False`.
    fn says(phase: &str, kind: &str, reason: &str) -> Value {
        json!({"phase": phase, "conditions": [{"type": kind, "status": "False", "reason": reason}]})
    }

    fn disks(failed: bool, filling: bool, unbound: bool) -> Disks {
        let mut disks = Disks::default();
        (disks.failed, disks.filling, disks.unbound) = (failed, filling, unbound);
        disks
    }

    fn word_of(
        vmi: &Value,
        strategy: &str,
        disks: &Disks,
        (starts, stops): (bool, bool),
        fails: i64,
    ) -> String {
        let vm =
            json!({"metadata": {"name": "web"}, "status": {"startFailure": {"consecutiveFailCount": fails}}});
        let vm: VirtualMachine = api::wire::read(vm).unwrap();
        let going = vmi["going"].as_str();
        let meta = json!({"name": "web", "deletionTimestamp": going});
        let vmi =
            (!vmi.is_null()).then(|| api::wire::read(json!({"metadata": meta, "status": vmi})).unwrap());
        let strategy = &RunStrategy::from(strategy);
        status(&PrintableInput { vm: &vm, strategy, vmi: vmi.as_ref(), disks, starts, stops }).to_string()
    }

    #[test]
    fn a_vm_has_one_word_for_what_its_vmi_and_its_disks_do() {
        let (none, fine) = (Value::Null, disks(false, false, false));
        let phase = |phase: &str| json!({"phase": phase});
        let paused = json!({"phase": "Running", "conditions": [{"type": "Paused", "status": "True"}]});
        let going = |phase: &str| json!({"phase": phase, "going": "2027-01-01T00:00:00Z"});
        let migrates = |done: bool| json!({"phase": "Running", "migrationState": {"completed": done}});
        let (no, starts, stops) = ((false, false), (true, false), (false, true));
        for (vmi, disks, acts, expected) in [
            (none.clone(), &fine, no, "Stopped"),
            (none.clone(), &fine, starts, "Starting"),
            (none.clone(), &disks(true, false, false), starts, "DataVolumeError"),
            (none.clone(), &disks(false, true, false), starts, "Provisioning"),
            (none.clone(), &disks(false, false, true), starts, "WaitingForVolumeBinding"),
            (none, &disks(false, false, true), no, "Stopped"),
            (phase("Pending"), &fine, no, "Starting"),
            (phase("Scheduled"), &fine, no, "Starting"),
            (phase("Scheduled"), &fine, stops, "Stopping"),
            (phase("Running"), &fine, no, "Running"),
            (phase("Running"), &fine, stops, "Stopping"),
            (going("Running"), &fine, no, "Stopping"),
            (going("Succeeded"), &fine, no, "Stopped"),
            (phase("Failed"), &fine, stops, "Stopped"),
            (paused, &fine, no, "Paused"),
            (migrates(false), &fine, no, "Migrating"),
            (migrates(true), &fine, no, "Running"),
            (phase("Unknown"), &fine, no, "Unknown"),
            (says("Pending", "Synchronized", "FailedPvcNotFound"), &fine, no, "ErrorPvcNotFound"),
            (says("Failed", "Synchronized", "FailedPvcNotFound"), &fine, no, "Stopped"),
            (says("Scheduling", "PodScheduled", "Unschedulable"), &fine, no, "ErrorUnschedulable"),
            (says("Failed", "PodScheduled", "Unschedulable"), &fine, no, "Stopped"),
            (says("Scheduling", "PodScheduled", "SchedulerError"), &fine, no, "Starting"),
            (says("Scheduling", "Synchronized", "ErrImagePull"), &fine, no, "ErrImagePull"),
            (says("Scheduling", "Synchronized", "ImagePullBackOff"), &fine, no, "ImagePullBackOff"),
        ] {
            assert_eq!(word_of(&vmi, "Manual", disks, acts, 0), expected, "{vmi} {acts:?}");
        }
    }

    /// Autohealing of a pool deletes a VM with this word, and its disks.
    #[test]
    fn a_vm_loops_only_where_its_starts_failed_and_it_is_started_again() {
        let (none, fine) = (Value::Null, Disks::default());
        let phase = |phase: &str| json!({"phase": phase});
        for (vmi, strategy, fails, expected) in [
            (&none, "Always", 1, "CrashLoopBackOff"),
            (&none, "Always", 0, "Stopped"),
            (&none, "RerunOnFailure", 2, "CrashLoopBackOff"),
            (&none, "Once", 1, "CrashLoopBackOff"),
            (&none, "Manual", 1, "Stopped"),
            (&none, "Halted", 1, "Stopped"),
            (&phase("Failed"), "Always", 1, "CrashLoopBackOff"),
            (&phase("Running"), "Always", 1, "Running"),
            (&phase("Unknown"), "Always", 1, "Unknown"),
        ] {
            let is = word_of(vmi, strategy, &fine, (false, false), fails);
            assert_eq!(is, expected, "{vmi} {strategy} {fails}");
        }
    }
}
