//! The hand-over of a VMI to the target of its migration: one patch of the VMI, after which both virt-handlers act.

use super::MigrationReconcile;
use super::copied_claims;
use super::obstacle::{Obstacle, obstacle};
use super::outcome::{Change, Outcome};
use super::policy;
use crate::vmi::MIGRATION_TARGET;
use api::migration::Phase;
use api::vmi::{MigrationState, VirtualMachineInstance};
use cluster_model::objects::Pod;

/// Event of a hand-over, and its message, as upstream has them.
const HANDED_OVER: &str = "SuccessfulHandOver";
const MESSAGE: &str = "Migration target pod is ready for preparation by virt-handler.";

/// Hands the VMI over to a target pod that runs, unless there is a reason against it.
pub(super) fn hand_over(
    input: &MigrationReconcile<'_>,
    vmi: &VirtualMachineInstance,
    target: &Pod,
) -> Outcome {
    match obstacle(input.world, input.migration, vmi) {
        Some(Obstacle::Refused(message)) => {
            return Outcome::default().require_unchanged_vmi(vmi).fail(&message);
        }
        Some(Obstacle::Waits(message)) => return Outcome::default().wait(input, &message),
        None => {}
    }
    let source = input.world.active_pod(vmi);
    let node = vmi.status.as_ref().and_then(|status| status.node_name.clone());
    let (Some(source), Some(node), Some(target_node)) = (source, node, &target.node) else {
        return Outcome::default();
    };
    if node == *target_node {
        let message = format!("Migration failed because the target pod runs on node {node}, as the VMI does");
        return Outcome::default().require_unchanged_vmi(vmi).fail(&message);
    }
    let (claims, migrated) = match copied_claims::hand_over(input, vmi, target) {
        Ok(copied) => copied,
        Err(Obstacle::Refused(message)) => {
            return Outcome::default().require_unchanged_vmi(vmi).fail(&message);
        }
        Err(Obstacle::Waits(message)) => return Outcome::default().wait(input, &message),
    };
    let (policy, settings) = policy::settings(input.world, vmi);
    let state = MigrationState {
        migration_uid: input.migration.metadata.uid.clone(),
        source_node: Some(node.clone()),
        source_pod: source.meta.name.clone(),
        target_node: Some(target_node.clone()),
        target_pod: target.meta.name.clone(),
        migration_policy_name: policy,
        migration_configuration: Some(settings),
        ..MigrationState::default()
    };
    let mut next = vmi.clone();
    next.metadata.labels.insert(MIGRATION_TARGET.to_owned(), target_node.clone());
    let status = next.status.get_or_insert_default();
    // No other pod of the VMI runs ([`obstacle`]).
    status.active_pods.retain(|uid, _| source.meta.uid.as_ref() == Some(uid));
    status.active_pods.insert(target.meta.uid.clone().unwrap_or_default(), target_node.clone());
    status.migration_state = Some(state);
    status.migrated_volumes = migrated;
    let outcome = Outcome::default().require_unchanged(input).all_before_write(claims);
    outcome.write_vmi(vmi, &next).and(handed_over())
}

/// The VMI was handed over.
pub(super) fn handed_over() -> Outcome {
    Outcome::default().change(Change::WaitsFor(None)).phase(Phase::PreparingTarget).event(
        false,
        HANDED_OVER,
        MESSAGE,
    )
}
