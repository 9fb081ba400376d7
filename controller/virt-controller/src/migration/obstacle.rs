//! Reasons why a VMI cannot be migrated now, or not at all. They are looked at before the target pod is created, and again at the
//! hand-over.

use crate::vmi::{self, migrating};
use api::migration::VirtualMachineInstanceMigration;
use api::vmi::{ConditionType, Phase, VirtualMachineInstance};
use cluster_model::conditions;
use cluster_model::objects::{LauncherAttempt, Pod, World};

/// Reason against a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The VMI cannot be migrated.
    Refused(String),
    /// The VMI can be migrated later.
    Waits(String),
}

/// The first reason against a migration of a VMI.
pub(super) fn obstacle(
    world: &World,
    migration: &VirtualMachineInstanceMigration,
    vmi: &VirtualMachineInstance,
) -> Option<Obstacle> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let shown = format!("VMI {}/{}", text(&vmi.metadata.namespace), text(&vmi.metadata.name));
    let phase = vmi::phase(vmi);
    if phase != Phase::Running {
        let phase = if phase.as_str().is_empty() { Phase::Pending } else { phase };
        return Some(Obstacle::Waits(format!(
            "{shown} is in the phase {}: it is migrated when it is Running",
            phase.as_str()
        )));
    }
    let said = vmi.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let said = conditions::find(said, &ConditionType::LiveMigratable).filter(|said| said.status == "False");
    if let Some(said) = said {
        let (reason, message) = (text(&said.reason), text(&said.message));
        return Some(Obstacle::Refused(format!("Cannot migrate VMI, Reason: {reason}, Message: {message}")));
    }
    // An object that is gone has a migration that is being aborted.
    let other = migrating::unfinished(vmi).filter(|state| state.migration_uid != migration.metadata.uid);
    if other.is_some() {
        return Some(Obstacle::Waits(format!("another migration of {shown} has not ended")));
    }
    let Some(guests) = world.active_pod(vmi).filter(|pod| !pod.is_over() && !pod.is_going()) else {
        return Some(Obstacle::Waits(format!("the launcher pod of {shown} is ending")));
    };
    let left = vmi::pods_of(world, vmi)
        .find(|pod| pod.meta.uid != guests.meta.uid && !pod.is_over() && !is_target_of(pod, migration));
    left.map(|pod| {
        let name = pod.meta.name.as_deref().unwrap_or_default();
        Obstacle::Waits(format!("launcher pod {name} of another attempt at {shown} has not ended"))
    })
}

/// True for the target pod of a migration.
fn is_target_of(pod: &Pod, migration: &VirtualMachineInstanceMigration) -> bool {
    let uid = migration.metadata.uid.as_deref().unwrap_or_default();
    LauncherAttempt::from_pod(&pod.meta) == LauncherAttempt::Migration(uid)
}
