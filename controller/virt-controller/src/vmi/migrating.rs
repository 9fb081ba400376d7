//! A VMI whose guest migrates: the arrival of the guest at its target, and the end of a migration that fails. virt-controller alone
//! decides where the guest runs, by both ends.
//!
//! | source | target | result |
//! |---|---|---|
//! | reported a failure | any | failed: a target that reports the guest does not count |
//! | reported its end, or its pod is over or gone | reported the guest | arrived: `status.nodeName` is the target's node |
//! | any | its pod is over or gone | failed: `Target pod is down` |
//! | its pod is over or gone, its guest has not ended in it | its pod runs | undecided: the target is waited for; [`PATIENCE`] where the source does not know that the guest left |
//! | its pod runs | its pod runs | goes on; aborted where the VirtualMachineInstanceMigration is being deleted, has failed or is gone |
//!
//! **Guarantees.** The migration ends in the status before, or with, the VMI. The end of a source pod is never the end of a VMI
//! whose guest may have left it.

use super::end::ended_as;
use super::handed_over::{handed_over, unpaused};
use super::outcome::{Change, Outcome};
use super::scheduling::{assign, pod_is_gone};
use super::{VmiReconcile, pod_state};
use api::launcher::{MIGRATED, MIGRATION_UNKNOWN, NOT_RECEIVED};
use api::migration::{Phase as MigrationPhase, VirtualMachineInstanceMigration};
use api::vmi::{ConditionType, MigrationState, VirtualMachineInstance};
use cluster_model::conditions::{self, SOURCE_DOWN, is_unsynchronized, stamp};
use cluster_model::objects::{Key, Kind, LauncherAttempt, Pod, World, migrations_of};
use cluster_model::plan::Step;
use jiff::{SignedDuration, Timestamp};

/// Time for the target to report the guest of a source that ended in the middle of its migration.
const PATIENCE: SignedDuration = SignedDuration::from_secs(300);
/// `failureReason` of a migration whose target pod ended, as upstream has it.
pub(crate) const TARGET_POD_DOWN: &str = "Target pod is down";
/// … of one whose source pod ended, and whose target did not report the guest.
const SOURCE_POD_DOWN: &str = "Source pod is down";
/// … of one whose VMI ended.
pub(crate) const VMI_ENDED: &str = "The VMI ended during its migration";

/// A migration that has not ended, as the status of its VMI has it.
pub(super) struct Migration<'a> {
    state: &'a MigrationState,
    /// The pod that receives the guest.
    target: Option<&'a Pod>,
}

/// Result of a look at both ends.
enum Course {
    Arrived,
    Failed(String),
    /// The source has ended, and the target has not reported the guest yet. It has until this time.
    Undecided(Option<Timestamp>),
    Underway,
}

/// The migration of a VMI that was handed over to its target and has not ended.
pub(crate) fn unfinished(vmi: &VirtualMachineInstance) -> Option<&MigrationState> {
    let state = vmi.status.as_ref()?.migration_state.as_ref()?;
    let is_whole = state.migration_uid.is_some() && state.target_pod.is_some() && state.target_node.is_some();
    (is_whole && state.completed != Some(true)).then_some(state)
}

/// The step of a VMI whose guest migrates; `None` if it does not.
pub(super) fn migrating(input: &VmiReconcile<'_>) -> Option<Outcome> {
    let state = unfinished(input.vmi)?;
    let pods = input.own_pods.as_ref().map(|own| input.world.launcher_pods(own)).unwrap_or_default();
    let target = pods.into_iter().find(|pod| pod.meta.name == state.target_pod);
    let migration = Migration { state, target };
    Some(match migration.course(input) {
        Course::Arrived => migration.arrive(input),
        Course::Failed(reason) => migration.fail(input, &reason),
        Course::Undecided(until) => migration.wait_for_target(input, until),
        Course::Underway => handed_over(input).and(migration.abort(input)),
    })
}

/// The end of a migration in the status of a VMI that ends, or has ended.
pub(super) fn end_with(next: &VirtualMachineInstance, now: Timestamp) -> Outcome {
    if !super::phase(next).is_final() {
        return Outcome::default();
    }
    let outcome = Outcome::default().change(Change::NoMigrationTarget);
    match unfinished(next) {
        Some(state) => outcome.change(Change::Migration(Box::new(failed(state, VMI_ENDED, now)))),
        None => outcome,
    }
}

impl<'a> Migration<'a> {
    fn course(&self, input: &VmiReconcile<'_>) -> Course {
        let state = self.state;
        let is_source_down = input.pod.is_none_or(pod_state::is_over);
        let status = input.vmi.status.as_ref();
        if status.is_some_and(|status| status.node_name == state.target_node) {
            return Course::Arrived;
        }
        if state.failed == Some(true) {
            return Course::Failed(state.failure_reason.clone().unwrap_or_default());
        }
        let is_ready = state.target_node_domain_ready_timestamp.is_some();
        if is_ready && (state.end_timestamp.is_some() || is_source_down) {
            return Course::Arrived;
        }
        if self.target.is_none_or(pod_state::is_over) {
            return Course::Failed(TARGET_POD_DOWN.to_owned());
        }
        if !is_source_down {
            return Course::Underway;
        }
        let ending = input.pod.and_then(Pod::ending).or_else(|| input.world.ending(input.vmi).cloned());
        match ending.map(|ending| ending.reason) {
            Some(Some(reason)) if reason == MIGRATED => Course::Undecided(None),
            Some(Some(reason)) if reason == MIGRATION_UNKNOWN => self.undecided(input),
            // The guest ended in the source.
            Some(_) => Course::Underway,
            // By the report of its node the source has ended, and not failed.
            None if self.state.end_timestamp.is_some() => Course::Undecided(None),
            None => self.undecided(input),
        }
    }

    /// The source does not know that the guest left it. The time is counted from the condition that reports it.
    fn undecided(&self, input: &VmiReconcile<'_>) -> Course {
        let reported = conditions::find(input.conditions(), &ConditionType::Synchronized);
        let reported = reported.filter(|said| said.reason.as_deref() == Some(SOURCE_DOWN));
        let since = reported.and_then(|said| said.last_transition_time.as_deref()?.parse().ok());
        match since.unwrap_or(input.now).checked_add(PATIENCE) {
            Ok(until) if until > input.now => Course::Undecided(Some(until)),
            _ => Course::Failed(SOURCE_POD_DOWN.to_owned()),
        }
    }

    /// The guest runs at the target.
    fn arrive(&self, input: &VmiReconcile<'_>) -> Outcome {
        let node = self.state.target_node.clone().unwrap_or_default();
        let time = Some(stamp(input.now));
        let state = MigrationState {
            completed: Some(true),
            end_timestamp: self.state.end_timestamp.clone().or(time),
            ..self.state.clone()
        };
        let outcome = match (self.state.end_timestamp.is_some(), input.pod) {
            (false, None) => pod_is_gone(input),
            (true, _) | (false, Some(_)) => Outcome::default(),
        };
        let outcome = outcome
            .change(Change::Hold)
            .change(Change::Migration(Box::new(state)))
            .change(Change::Arrival(node.clone()))
            .change(Change::NoMigrationTarget);
        let outcome = match is_unsynchronized(input.conditions(), &[SOURCE_DOWN]) {
            true => outcome.no_condition(ConditionType::Synchronized),
            false => outcome,
        };
        let outcome = match self.target {
            Some(target) => outcome.and(assign(input, target, &node)).and(unpaused(input, target)),
            None => outcome,
        };
        outcome.event(false, "Migrated", format!("The VirtualMachineInstance migrated to node {node}."))
    }

    /// The guest stays at the source, where it has not ended.
    fn fail(&self, input: &VmiReconcile<'_>, reason: &str) -> Outcome {
        let uid = self.state.migration_uid.as_deref().unwrap_or_default();
        let outcome = match (self.target, &self.state.target_pod, &input.own_pods) {
            (None, Some(name), Some(own)) if reason == TARGET_POD_DOWN => {
                let namespace = input.vmi.metadata.namespace.clone().unwrap_or_default();
                let key = Key::new(Kind::Pod, namespace, name);
                Outcome::default().before_write(Step::RequireAbsent { key, of: Some(own.clone()) })
            }
            _ => Outcome::default(),
        };
        let is_source_down = input.pod.is_none_or(pod_state::is_over);
        let ending = self.target.and_then(Pod::ending).filter(|_| is_source_down);
        let ending = ending.filter(|ending| ending.reason.as_deref() != Some(NOT_RECEIVED));
        let outcome = match ending {
            // The guest arrived, and ended before that was reported.
            Some(ending) => outcome.and(ended_as(&ending)),
            None => outcome.and(handed_over(input)),
        };
        let outcome = outcome
            .change(Change::Migration(Box::new(failed(self.state, reason, input.now))))
            .change(Change::NoMigrationTarget);
        match self.state.failed == Some(true) {
            // virt-handler has reported it.
            true => outcome,
            false => outcome.event(
                true,
                "FailedMigration",
                format!("VirtualMachineInstance migration uid {uid} failed. reason: {reason}"),
            ),
        }
    }

    /// The source has ended, and the target decides.
    fn wait_for_target(&self, input: &VmiReconcile<'_>, until: Option<Timestamp>) -> Outcome {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let message = format!(
            "launcher pod {} on node {} has ended during a live migration: launcher pod {} on node {} has not reported \
             yet whether it has the guest",
            text(&self.state.source_pod),
            text(&self.state.source_node),
            text(&self.state.target_pod),
            text(&self.state.target_node),
        );
        let outcome = match input.pod {
            Some(_) => Outcome::default(),
            None => pod_is_gone(input),
        };
        let outcome = match is_unsynchronized(input.conditions(), &[SOURCE_DOWN]) {
            true => outcome,
            // Its time is that of this reason.
            false => outcome.no_condition(ConditionType::Synchronized),
        };
        let outcome = outcome
            .change(Change::Hold)
            .condition(ConditionType::Synchronized, "False", SOURCE_DOWN, &message)
            .and(self.abort(input));
        until.into_iter().fold(outcome, Outcome::retry_at)
    }

    /// Asks the source to abort a migration that is not wanted any more.
    fn abort(&self, input: &VmiReconcile<'_>) -> Outcome {
        if self.state.abort_requested == Some(true) || !(input.is_deleted() || self.is_unwanted(input)) {
            return Outcome::default();
        }
        let state = MigrationState { abort_requested: Some(true), ..self.state.clone() };
        Outcome::default().change(Change::Migration(Box::new(state)))
    }

    /// True if the VirtualMachineInstanceMigration is being deleted, has failed, or is gone.
    fn is_unwanted(&self, input: &VmiReconcile<'_>) -> bool {
        let meta = &input.vmi.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let mut all = migrations_of(input.world, namespace, meta.name.as_deref().unwrap_or_default());
        let object = all.find(|object| object.metadata.uid == self.state.migration_uid);
        let has_failed = |object: &VirtualMachineInstanceMigration| {
            object.status.as_ref().is_some_and(|status| status.phase == Some(MigrationPhase::Failed))
        };
        object.is_none_or(|object| object.metadata.deletion_timestamp.is_some() || has_failed(object))
    }
}

/// The state of a migration that has failed.
fn failed(state: &MigrationState, reason: &str, now: Timestamp) -> MigrationState {
    MigrationState {
        completed: Some(true),
        failed: Some(true),
        failure_reason: state.failure_reason.clone().or_else(|| Some(reason.to_owned())),
        end_timestamp: state.end_timestamp.clone().or_else(|| Some(stamp(now))),
        ..state.clone()
    }
}

/// Target pods of a VMI that no VirtualMachineInstanceMigration has any more, and that have no guest.
pub(crate) fn stray_targets<'a>(world: &'a World, vmi: &'a VirtualMachineInstance) -> Vec<&'a Pod> {
    let meta = &vmi.metadata;
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let name = meta.name.as_deref().unwrap_or_default();
    let status = vmi.status.as_ref();
    let pods = super::pods_of(world, vmi);
    let is_stray = |pod: &&Pod| {
        let LauncherAttempt::Migration(uid) = LauncherAttempt::from_pod(&pod.meta) else { return false };
        let is_handed_over = pod
            .meta
            .uid
            .as_ref()
            .is_some_and(|uid| status.is_some_and(|status| status.active_pods.contains_key(uid)));
        let mut all = migrations_of(world, namespace, name);
        !is_handed_over
            && !pod.is_over()
            && !pod.is_going()
            && !all.any(|object| object.metadata.uid.as_deref() == Some(uid))
    };
    pods.filter(is_stray).collect()
}

#[cfg(test)]
#[path = "migrating_tests.rs"]
mod tests;
