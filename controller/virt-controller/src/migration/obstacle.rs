//! Reasons why a VMI cannot be migrated now, or not at all. They are looked at before the target pod is created, and again at the
//! hand-over.

use super::phase;
use crate::vmi::{self, migrating};
use api::migration::VirtualMachineInstanceMigration;
use api::vmi::{ConditionType, Phase, VirtualMachineInstance};
use cluster_model::conditions;
use cluster_model::objects::{LauncherAttempt, Pod, World, migrations_of};

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
    let first = first_of(world, migration);
    if let Some(first) = first.filter(|first| first.metadata.uid != migration.metadata.uid) {
        let name = first.metadata.name.as_deref().unwrap_or_default();
        return Some(Obstacle::Waits(format!("the migration {name} of {shown} comes first")));
    }
    let migrated = vmi.status.as_ref().map_or(&[][..], |status| &status.migrated_volumes);
    if !migrated.is_empty() && migrating::unfinished(vmi).is_none() {
        return Some(Obstacle::Waits(format!(
            "the PVCs of the last migration of {shown} are not settled yet"
        )));
    }
    let Some(guests) = world.active_pod(vmi).filter(|pod| !pod.is_over() && !pod.is_going()) else {
        return Some(Obstacle::Waits(format!("the launcher pod of {shown} is ending")));
    };
    // A migration that comes later may have made its pod when this one was not known. It is not handed over before this one has ended.
    let is_of_unfinished = |pod: &Pod| unfinished_of(world, migration).any(|other| is_target_of(pod, other));
    let left = vmi::pods_of(world, vmi)
        .find(|pod| pod.meta.uid != guests.meta.uid && !pod.is_over() && !is_of_unfinished(pod));
    left.map(|pod| {
        let name = pod.meta.name.as_deref().unwrap_or_default();
        Obstacle::Waits(format!("launcher pod {name} of another attempt at {shown} has not ended"))
    })
}

/// Migrations of the VMI of this one that have not ended.
fn unfinished_of<'a>(
    world: &'a World,
    migration: &'a VirtualMachineInstanceMigration,
) -> impl Iterator<Item = &'a VirtualMachineInstanceMigration> {
    let namespace = migration.metadata.namespace.as_deref().unwrap_or_default();
    let all = migrations_of(world, namespace, &migration.spec.vmi_name);
    all.filter(|other| !phase(other).is_final())
}

/// The one of them that comes first: each VMI has one migration at a time, also where two were created at once.
fn first_of<'a>(
    world: &'a World,
    migration: &'a VirtualMachineInstanceMigration,
) -> Option<&'a VirtualMachineInstanceMigration> {
    unfinished_of(world, migration).min_by_key(|other| {
        let meta = &other.metadata;
        (meta.creation_timestamp.clone(), meta.uid.clone())
    })
}

/// True for the target pod of a migration.
fn is_target_of(pod: &Pod, migration: &VirtualMachineInstanceMigration) -> bool {
    let uid = migration.metadata.uid.as_deref().unwrap_or_default();
    LauncherAttempt::from_pod(&pod.meta) == LauncherAttempt::Migration(uid)
}
