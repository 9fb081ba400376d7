//! The result of the steps for one migration, as a value: changes of its object, and steps before and after it is written.
//!
//! Steps return an [`Outcome`] and write nothing. [`Outcome::plan`] is the only place that makes a plan: steps before, the difference of
//! the object as it is and as it should be, steps and events after.

use super::{FAILED, MigrationReconcile};
use crate::outcome::{self, Difference};
use api::migration::{ConditionType, Phase, PhaseTransition, VirtualMachineInstanceMigration};
use api::vmi::{MigrationState, VirtualMachineInstance};
use api::wire::Wire;
use cluster_model::conditions::{self, stamp};
use cluster_model::objects::{Kind, MIGRATED_VMI, MIGRATION_FINALIZER, PENDING_REASON, key, names};
use cluster_model::plan::{EventRecord, Plan, Step};
use jiff::Timestamp;

/// Event of a migration that waits.
const WAITS: &str = "MigrationPending";
/// The phases of a migration that succeeds.
const WAY: [Phase; 7] = [
    Phase::Pending,
    Phase::Scheduling,
    Phase::Scheduled,
    Phase::PreparingTarget,
    Phase::TargetReady,
    Phase::Running,
    Phase::Succeeded,
];

/// Changes of a migration, and steps around them.
pub(super) type Outcome = outcome::Outcome<Change>;

/// Change of the object.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Finalizer and label, which the webhook sets where it is installed.
    Hold,
    /// Removes the finalizer.
    Release,
    /// Goes to a phase, and through all phases before it. A phase that lies behind changes nothing.
    Phase(Phase),
    /// Condition with the status `True`.
    Condition(ConditionType),
    NoCondition(ConditionType),
    /// The message why the migration waits, if it does.
    WaitsFor(Option<String>),
    /// State of the migration in the status of the VMI. The reason of a failure stays.
    State(Box<MigrationState>),
    /// The reason of a failure, where the state has none.
    Failure(String),
    /// Name of the pod that runs the guest.
    SourcePod(String),
}

impl Outcome {
    pub(super) fn phase(self, phase: Phase) -> Outcome {
        self.change(Change::Phase(phase))
    }

    /// The migration has failed.
    pub(super) fn fail(self, message: &str) -> Outcome {
        self.change(Change::WaitsFor(None))
            .change(Change::Failure(message.to_owned()))
            .phase(Phase::Failed)
            .event(true, FAILED, message)
    }

    /// The migration waits. The event is sent where the message is new.
    pub(super) fn wait(self, input: &MigrationReconcile<'_>, message: &str) -> Outcome {
        let outcome = self.change(Change::WaitsFor(Some(message.to_owned())));
        match waits_for(input) == Some(message) {
            true => outcome,
            false => outcome.event(false, WAITS, message),
        }
    }

    /// Requires that the migration has not changed since the decision.
    pub(super) fn require_unchanged(self, input: &MigrationReconcile<'_>) -> Outcome {
        self.all_before_write(unchanged(Kind::VirtualMachineInstanceMigration, &input.migration.metadata))
    }

    /// Requires that the VMI has not changed since the decision.
    pub(super) fn require_unchanged_vmi(self, vmi: &VirtualMachineInstance) -> Outcome {
        self.all_before_write(unchanged(Kind::VirtualMachineInstance, &vmi.metadata))
    }

    /// Writes the VMI as it should be, if it has not changed since the decision.
    pub(super) fn write_vmi(self, is: &VirtualMachineInstance, should: &VirtualMachineInstance) -> Outcome {
        let mut plan = Plan::default();
        let kind = Kind::VirtualMachineInstance;
        plan.update(kind, &is.metadata, &is.write(), &should.write(), false);
        self.all_before_write(plan.steps)
    }

    /// An event about the VMI.
    pub(super) fn event_of_vmi(
        self,
        vmi: &VirtualMachineInstance,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Outcome {
        let meta = &vmi.metadata;
        self.after_write(Step::RecordEvent(EventRecord {
            key: key(Kind::VirtualMachineInstance, meta),
            uid: meta.uid.clone().unwrap_or_default(),
            warning: true,
            reason,
            message: message.into(),
        }))
    }

    /// The migration after these changes.
    pub(super) fn apply(&self, input: &MigrationReconcile<'_>) -> VirtualMachineInstanceMigration {
        let mut next = input.migration.clone();
        self.changes().iter().for_each(|change| change.apply(input, &mut next));
        next
    }

    /// The plan for the migration.
    pub(super) fn plan(self, input: &MigrationReconcile<'_>) -> Plan {
        let (migration, next) = (input.migration, self.apply(input));
        let (kind, meta) = (Kind::VirtualMachineInstanceMigration, &migration.metadata);
        self.plan_for(&Difference { kind, meta, is: migration.write(), should: next.write(), split: true })
    }
}

impl Change {
    fn apply(&self, input: &MigrationReconcile<'_>, next: &mut VirtualMachineInstanceMigration) {
        let meta = &mut next.metadata;
        match self {
            Change::Hold => {
                if !input.is_deleted() && !input.has_finalizer() {
                    meta.finalizers.push(MIGRATION_FINALIZER.to_owned());
                }
                meta.labels
                    .entry(MIGRATED_VMI.to_owned())
                    .or_insert_with(|| names::label(&input.migration.spec.vmi_name));
            }
            Change::Release => meta.finalizers.retain(|name| name != MIGRATION_FINALIZER),
            Change::WaitsFor(Some(message)) => {
                drop(meta.annotations.insert(PENDING_REASON.to_owned(), message.clone()));
            }
            Change::WaitsFor(None) => drop(meta.annotations.remove(PENDING_REASON)),
            Change::Phase(phase) => go_to(next, phase, input.now),
            Change::Condition(kind) => {
                let list = &mut next.status.get_or_insert_default().conditions;
                conditions::set(list, kind.clone(), ("True", "", ""), &stamp(input.now));
            }
            Change::NoCondition(kind) => {
                next.status.iter_mut().for_each(|status| conditions::remove(&mut status.conditions, kind));
            }
            Change::State(state) => {
                let known = &mut next.status.get_or_insert_default().migration_state;
                let reason = known.take().and_then(|known| known.failure_reason);
                let failure_reason = state.failure_reason.clone().or(reason);
                *known = Some(MigrationState { failure_reason, ..(**state).clone() });
            }
            Change::Failure(message) => {
                let state = next.status.get_or_insert_default().migration_state.get_or_insert_default();
                state.failed = Some(true);
                state.failure_reason.get_or_insert_with(|| message.clone());
            }
            Change::SourcePod(name) => {
                let status = next.status.get_or_insert_default();
                status.migration_state.get_or_insert_default().source_pod = Some(name.clone());
            }
        }
    }
}

/// Goes to a phase. Each phase on the way has a time.
fn go_to(migration: &mut VirtualMachineInstanceMigration, phase: &Phase, now: Timestamp) {
    let position = |phase: &Phase| WAY.iter().position(|one| one == phase);
    let was = super::phase(migration);
    let begins = position(&was).map_or(0, |at| at + 1);
    let way: &[Phase] = match position(phase) {
        Some(end) => WAY.get(begins..=end).unwrap_or_default(),
        None => std::slice::from_ref(phase),
    };
    let status = migration.status.get_or_insert_default();
    for phase in way {
        status.phase_transition_timestamps.push(PhaseTransition {
            phase: Some(phase.clone()),
            phase_transition_timestamp: Some(stamp(now)),
            ..PhaseTransition::default()
        });
        status.phase = Some(phase.clone());
    }
}

/// The message why the migration waits, as it was written last.
pub(super) fn waits_for<'a>(input: &MigrationReconcile<'a>) -> Option<&'a str> {
    input.migration.metadata.annotations.get(PENDING_REASON).map(String::as_str)
}

fn unchanged(kind: Kind, meta: &api::meta::ObjectMeta) -> Vec<Step> {
    let mut plan = Plan::default();
    plan.require_unchanged(kind, meta);
    plan.steps
}
