//! A migration whose VMI was handed over: its phases follow `status.migrationState` of the VMI.

use super::hand_over::handed_over;
use super::outcome::{Change, Outcome};
use super::scheduling::{POD_ENDED, POD_REMOVED};
use super::{MigrationReconcile, VMI_SHUTDOWN};
use crate::vmi::{self, migrating};
use api::migration::{ConditionType, Phase};
use api::vmi::{MigrationState, VirtualMachineInstance};
use cluster_model::conditions;

/// Messages of failures, as upstream has them.
const CLEARED: &str = "VMI's migration state was cleared during the active migration.";
const TAKEN_OVER: &str =
    "VMI's migration state was taken over by another migration job during active migration.";
const SOURCE_FAILED: &str = "source node reported migration failed";

/// The step of a migration whose VMI was handed over to it.
pub(super) fn follow(
    input: &MigrationReconcile<'_>,
    vmi: &VirtualMachineInstance,
    state: &MigrationState,
) -> Outcome {
    let outcome = match input.phase {
        Phase::PreparingTarget | Phase::TargetReady | Phase::Running => Outcome::default(),
        // The VMI was written, and the migration was not.
        _ => handed_over(),
    };
    let outcome = match input.is_deleted() {
        true => outcome.and(abort_requested(input)),
        false => outcome,
    };
    let with_state = |outcome: Outcome| outcome.change(Change::State(Box::new(state.clone())));
    if state.completed == Some(true) {
        return with_state(match state.failed {
            Some(true) => outcome.fail(&failure(input, state)),
            Some(false) | None => outcome.phase(Phase::Succeeded).event(
                false,
                "SuccessfulMigration",
                "Source node reported migration succeeded",
            ),
        });
    }
    // The VMI ends its migration with itself.
    if vmi::phase(vmi).is_final() {
        return outcome;
    }
    outcome.phase(match state {
        MigrationState { start_timestamp: Some(_), .. } => Phase::Running,
        MigrationState { target_node_address: Some(_), .. } => Phase::TargetReady,
        _ => Phase::PreparingTarget,
    })
}

/// The condition of a migration whose object is being deleted before its end.
pub(super) fn abort_requested(input: &MigrationReconcile<'_>) -> Outcome {
    let kind = ConditionType::AbortRequested;
    let said = input.migration.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let outcome = Outcome::default().change(Change::Condition(kind.clone()));
    match input.state.is_some() && !conditions::is_true(said, &kind) {
        true => {
            let message = "Migration is ready to be canceled by virt-handler.";
            outcome.event(false, "SuccessfulAbortMigration", message)
        }
        false => outcome,
    }
}

/// Message of a migration that was handed over and is not in the status of the VMI any more.
pub(super) fn lost(vmi: &VirtualMachineInstance) -> &'static str {
    let state = vmi.status.as_ref().and_then(|status| status.migration_state.as_ref());
    match state.and_then(|state| state.migration_uid.as_ref()) {
        Some(_) => TAKEN_OVER,
        None => CLEARED,
    }
}

/// Message of a migration that has failed, by the status of the VMI.
fn failure(input: &MigrationReconcile<'_>, state: &MigrationState) -> String {
    match state.failure_reason.as_deref() {
        Some(migrating::VMI_ENDED) => VMI_SHUTDOWN.to_owned(),
        Some(reason) if reason.starts_with(migrating::TARGET_POD_DOWN) => match input.pod {
            // The launcher's message.
            Some(_) => reason.replacen(migrating::TARGET_POD_DOWN, POD_ENDED, 1),
            None => POD_REMOVED.to_owned(),
        },
        Some(reason) if migrating::is_not_of_source(reason) => format!("Migration failed: {reason}"),
        Some(reason) => format!("{SOURCE_FAILED}: {reason}"),
        None => SOURCE_FAILED.to_owned(),
    }
}
