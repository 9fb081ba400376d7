//! VirtualMachineInstanceMigrations: one live migration of a VMI each, from its object to its last phase.
//!
//! ```text
//!            its turn: target pod      pod runs       hand-over, in the VMI        status.migrationState of the VMI
//! Pending ──────────► Scheduling ──────────► Scheduled ──────► PreparingTarget ─► TargetReady ─► Running ─► Succeeded
//!    │                    │                      │                   │                 │            │
//!    └────────────────────┴──────────────────────┴── Failed ─────────┴─────────────────┴────────────┘
//! ```
//!
//! | phase | until | written here |
//! |---|---|---|
//! | `Pending` | a free place among the parallel migrations, and a VMI that can migrate | finalizer, label; the target pod |
//! | `Scheduling` | the target pod runs | |
//! | `Scheduled` | the VMI is handed over | `status.migrationState`, `activePods` and a label of the VMI, in one patch |
//! | `PreparingTarget` | `targetNodeAddress` | |
//! | `TargetReady` | `startTimestamp` | |
//! | `Running` | `completed` | |
//! | `Succeeded`, `Failed` | newer migrations of the VMI have ended | the target pod of a failed one goes, the finalizer too; [`end`] keeps a few objects |
//!
//! **Design.** As `vmi`: a step is a function of a [`MigrationReconcile`] that returns an [`Outcome`], and [`Outcome::plan`] makes the
//! plan. From the hand-over on a migration follows the status of its VMI, which `vmi::migrating` and the virt-handlers of both nodes
//! write. So a migration whose object is gone ends as well, and no two places decide where the guest runs.
//!
//! | file | content |
//! |---|---|
//! | `pending`, `obstacle`, `queue` | refusals, reasons to wait, limits and priorities, the target pod |
//! | `offline` | the disks of a stopped VM |
//! | `copied_claims` | PVCs that only one node can use: new ones for the target pod |
//! | `scheduling`, `hand_over` | the target pod until it runs, its time limits; the hand-over |
//! | `policy` | the MigrationPolicy of the VMI, and the settings of the migration |
//! | `progress` | phases by the status of the VMI |
//! | `end` | a migration that has ended: pods, finalizer, old objects; target pods without a migration |
//! | `outcome` | the result of steps, and the plan that follows from it |
//!
//! **Guarantees.** One target pod for a migration: its name follows from both uids. A VMI is handed over to one target at a time, and
//! only while no launcher pod of it runs but the guest's. A pod of a failed migration is deleted only where the VMI, unchanged, has its
//! guest in another one. A migration that waits has its reason in the annotation [`cluster_model::objects::PENDING_REASON`] and in an event; one that fails
//! has it in an event.
//! **Assumptions.** A VMI may be read later than its migration, and pods later than both: a failure that is concluded from a VMI or
//! from a missing pod is checked at the API server first.
//! **Absent.** Migrations to other clusters (`sendTo`, `receive`).

mod automatic;
mod copied_claims;
mod end;
mod hand_over;
mod obstacle;
mod offline;
mod outcome;
mod pending;
mod policy;
mod progress;
mod queue;
mod scheduling;
#[cfg(test)]
mod tests;

pub(crate) use automatic::{can_migrate, evacuate, update};
pub(crate) use cluster_model::objects::migration_phase as phase;
pub(crate) use end::delete_strays;

use crate::vmi;
use api::migration::{Phase, VirtualMachineInstanceMigration};
use api::vmi::{MigrationState, VirtualMachineInstance};
use cluster_model::objects::{
    Key, Kind, LauncherAttempt, MIGRATION_FINALIZER, Pod, World, key, owner, target_pod,
};
use cluster_model::plan::{Plan, Step};
use jiff::Timestamp;
use outcome::Outcome;

/// Event of a migration that has failed.
const FAILED: &str = "FailedMigration";
/// Messages of failures, as upstream has them.
const NO_VMI: &str = "Migration failed because vmi does not exist.";
const VMI_SHUTDOWN: &str = "Migration failed vmi shutdown during migration.";
const CANCELED: &str = "Migration failed due to being canceled";
const IN_PROGRESS: &str = "VMI is not eligible for migration because another migration job is in progress.";

/// The plan for a migration.
pub(crate) fn decide(world: &World, namespace: &str, name: &str, now: Timestamp) -> Plan {
    let Some(migration) = world.migrations.get(namespace, name) else { return Plan::default() };
    let input = MigrationReconcile::new(world, migration, now);
    // Nothing is known about a VMI that could not be read.
    if world.is_unread(&input.vmi_key()) {
        return Plan::default();
    }
    reconcile(&input).plan(&input)
}

/// The steps for a migration: the first reason to end it, or the step of its phase.
fn reconcile(input: &MigrationReconcile<'_>) -> Outcome {
    if input.phase.is_final() {
        return end::end(input);
    }
    let Some(vmi) = input.vmi else {
        if let Some(outcome) = offline::without_vmi(input) {
            return outcome;
        }
        let is_absent = Step::RequireAbsent { key: input.vmi_key(), of: None };
        return Outcome::default().before_write(is_absent).fail(NO_VMI);
    };
    let outcome = Outcome::default().change(outcome::Change::Hold);
    if let Some(state) = input.state {
        return outcome.and(progress::follow(input, vmi, state));
    }
    outcome.and(before_hand_over(input, vmi))
}

/// The step of a migration whose VMI was not handed over to it.
fn before_hand_over(input: &MigrationReconcile<'_>, vmi: &VirtualMachineInstance) -> Outcome {
    // The VMI may have been handed over since it was read.
    let fail = |message: &str| Outcome::default().require_unchanged_vmi(vmi).fail(message);
    if let Some(outcome) = offline::mismatch(input, vmi).filter(|_| !input.is_deleted()) {
        return outcome;
    }
    if vmi::phase(vmi).is_final() || vmi.metadata.deletion_timestamp.is_some() {
        return fail(VMI_SHUTDOWN);
    }
    let spec = &input.migration.spec;
    let fields = [("spec.sendTo", spec.send_to.is_some()), ("spec.receive", spec.receive.is_some())];
    if let Some((field, _)) = fields.into_iter().find(|(_, is_set)| *is_set) {
        return fail(&format!(
            "Migration failed because {field} is not supported: remove it to migrate the VMI in this cluster"
        ));
    }
    if input.is_deleted() {
        return fail(CANCELED).and(progress::abort_requested(input));
    }
    match input.phase {
        Phase::Scheduling | Phase::Scheduled => scheduling::scheduling(input, vmi),
        Phase::PreparingTarget | Phase::TargetReady | Phase::Running => fail(progress::lost(vmi)),
        _ if input.phase.as_str().is_empty() && has_other_owner(input, vmi) => fail(IN_PROGRESS),
        _ => pending::pending(input, vmi),
    }
}

/// True if another migration that has not ended has the VMI.
fn has_other_owner(input: &MigrationReconcile<'_>, vmi: &VirtualMachineInstance) -> bool {
    let state = vmi.status.as_ref().and_then(|status| status.migration_state.as_ref());
    let Some(owner) = state.and_then(|state| state.migration_uid.as_ref()) else { return false };
    let is_owner = |other: &&VirtualMachineInstanceMigration| other.metadata.uid.as_ref() == Some(owner);
    input.siblings().find(is_owner).is_some_and(|other| !phase(other).is_final())
}

/// The input: one migration, its VMI and its target pod.
struct MigrationReconcile<'a> {
    world: &'a World,
    now: Timestamp,
    migration: &'a VirtualMachineInstanceMigration,
    phase: Phase,
    vmi: Option<&'a VirtualMachineInstance>,
    /// State of this migration in the status of the VMI, from the hand-over on.
    state: Option<&'a MigrationState>,
    /// The target pod.
    pod: Option<&'a Pod>,
}

impl<'a> MigrationReconcile<'a> {
    fn new(
        world: &'a World,
        migration: &'a VirtualMachineInstanceMigration,
        now: Timestamp,
    ) -> MigrationReconcile<'a> {
        let vmi = vmi_of(world, migration);
        let state = vmi.and_then(|vmi| vmi.status.as_ref()?.migration_state.as_ref());
        let state = state.filter(|state| state.migration_uid == migration.metadata.uid);
        let pod = vmi.and_then(|vmi| existing_target(world, migration, vmi));
        MigrationReconcile { world, now, migration, phase: phase(migration), vmi, state, pod }
    }

    fn key(&self) -> Key {
        key(Kind::VirtualMachineInstanceMigration, &self.migration.metadata)
    }

    fn vmi_key(&self) -> Key {
        let namespace = self.migration.metadata.namespace.clone().unwrap_or_default();
        Key::new(Kind::VirtualMachineInstance, namespace, &self.migration.spec.vmi_name)
    }

    fn is_deleted(&self) -> bool {
        self.migration.metadata.deletion_timestamp.is_some()
    }

    fn has_finalizer(&self) -> bool {
        self.migration.metadata.finalizers.iter().any(|name| name == MIGRATION_FINALIZER)
    }

    /// All migrations of the VMI, this one too.
    fn siblings(&self) -> impl Iterator<Item = &'a VirtualMachineInstanceMigration> + use<'a> {
        let namespace = self.migration.metadata.namespace.as_deref().unwrap_or_default();
        cluster_model::objects::migrations_of(self.world, namespace, &self.migration.spec.vmi_name)
    }
}

/// The VMI of a migration.
fn vmi_of<'a>(
    world: &'a World,
    migration: &VirtualMachineInstanceMigration,
) -> Option<&'a VirtualMachineInstance> {
    let namespace = migration.metadata.namespace.as_deref().unwrap_or_default();
    world.vmis.get(namespace, &migration.spec.vmi_name)
}

/// The target pod of a migration, where it exists. A pod of this name that the VMI does not own is ignored.
fn existing_target<'a>(
    world: &'a World,
    migration: &VirtualMachineInstanceMigration,
    vmi: &VirtualMachineInstance,
) -> Option<&'a Pod> {
    let key = target_pod(&migration.metadata, &vmi.metadata)?;
    let uid = migration.metadata.uid.as_deref()?;
    let pod = world.pods.get(&key.namespace, &key.name)?;
    let is_own = owner::controller(&pod.meta).map(|owner| &owner.uid) == vmi.metadata.uid.as_ref()
        && LauncherAttempt::from_pod(&pod.meta) == LauncherAttempt::Migration(uid);
    is_own.then_some(pod)
}
