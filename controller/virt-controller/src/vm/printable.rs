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

pub(super) fn word(seen: &PrintableInput<'_>) -> PrintableStatus {
    let phase = seen.vmi.map(super::super::vmi::phase);
    let conditions =
        seen.vmi.and_then(|vmi| vmi.status.as_ref()).map_or(&[][..], |status| &status.conditions);
    let says = |kind: ConditionType, reason: &str| is_not(conditions, &kind, reason);
    let is_final = phase.as_ref().is_some_and(Phase::is_final);
    let is_running = phase == Some(Phase::Running);
    let is_paused = conditions::is(conditions, &ConditionType::Paused);
    let leaves = seen.vmi.is_some_and(|vmi| vmi.metadata.deletion_timestamp.is_some());
    let migrates = seen.vmi.and_then(|vmi| vmi.status.as_ref()?.migration_state.as_ref());
    let fails =
        seen.vm.status.as_ref().and_then(|status| status.start_failure.as_ref()?.consecutive_fail_count);
    let again =
        matches!(seen.strategy, RunStrategy::Always | RunStrategy::RerunOnFailure | RunStrategy::Once);
    let rows = [
        (PrintableStatus::Terminating, seen.vm.metadata.deletion_timestamp.is_some()),
        (PrintableStatus::Stopping, phase.is_some() && !is_final && (leaves || seen.stops)),
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
    conditions::of(list, kind)
        .is_some_and(|condition| condition.status == "False" && condition.reason.as_deref() == Some(reason))
}
