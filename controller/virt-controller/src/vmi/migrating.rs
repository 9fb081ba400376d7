//! A VMI whose guest migrates: the arrival of the guest at its target, and the end of a migration that fails. virt-controller alone
//! decides where the guest runs, by both ends.
//!
//! | source | target | result |
//! |---|---|---|
//! | reported a failure | any | failed: a target that reports the guest does not count |
//! | reported its end, or its pod is over or gone | reported the guest, which runs | arrived: `status.nodeName` is the target's node |
//! | reported its end, or its launcher left that the guest has gone, or may have | reported the guest, which is held | arrived |
//! | reported its end | reported the guest; its pod is over, and its launcher left that the guest never ran there | failed: `Target pod is down`, and the VMI keeps its PVCs |
//! | its pod runs, and has disks that are copied | its pod is over or gone behind the begin | aborted: the source reports whether the guest has left it |
//! | any | its pod is over or gone | failed: `Target pod is down`, with the message that its launcher left |
//! | its pod runs | its node gave the migration up before the source came | failed: the target's reason |
//! | its pod runs | its node has not opened its ports in time ([`PREPARES`]) | failed: what was waited for |
//! | its pod runs, has not begun in time ([`BEGINS`]) | its ports are open | aborted, with that reason: the source may have begun, and has the last word |
//! | its pod is over or gone, its guest has not ended in it | its pod runs | undecided: the target is waited for; where the source does not know that the guest left, for [`PATIENCE`] or [`SOON`]: then its pod is deleted, and what its launcher leaves decides |
//! | its pod runs | its pod is being deleted, without the guest | aborted, with that reason |
//! | its pod runs | its pod runs | goes on; aborted where the VirtualMachineInstanceMigration is being deleted, has failed or is gone |
//!
//! A migration that has begun has the limits of its settings, which the source's launcher keeps.
//!
//! **Guarantees.** The migration ends in the status before, or with, the VMI. The end of a source pod is never the end of a VMI
//! whose guest may have left it.

use super::end::{delete_pod, ended_as};
use super::handed_over::{handed_over, unpaused};
use super::outcome::{Change, Outcome};
use super::scheduling::{assign, pod_is_gone};
use super::{VmiReconcile, moved_claims, pod_state};
use api::launcher::{Ending, MIGRATED, MIGRATION_UNKNOWN, NOT_RECEIVED, may_have_left};
use api::migration::{Phase as MigrationPhase, VirtualMachineInstanceMigration};
use api::vmi::{ConditionType, MigrationState, VirtualMachineInstance};
use cluster_model::conditions::{self, SOURCE_DOWN, is_unsynchronized, stamp};
use cluster_model::launcher::SOURCE_CONNECTS;
use cluster_model::objects::{Key, Kind, LauncherAttempt, Pod, World, migration_phase, migrations_of};
use cluster_model::plan::{Plan, Step};
use jiff::{SignedDuration, Timestamp};

/// Time for the target to report the guest of a source that ended in the middle of its migration.
const PATIENCE: SignedDuration = SignedDuration::from_secs(300);
/// … where the target holds the guest, or the source has not reported its begin: virt-handler of the source may still report how it
/// ended there.
const SOON: SignedDuration = super::PATIENCE;
/// Time for virt-handler of the target to open its ports, from the hand-over on. Upstream has no limit.
const PREPARES: SignedDuration = SignedDuration::from_secs(300);
/// Time for the source to begin, once the ports are open. The target has the shorter [`SOURCE_CONNECTS`], and knows more.
const BEGINS: SignedDuration = SignedDuration::from_secs(SOURCE_CONNECTS.as_secs().cast_signed() + 60);
/// `failureReason` of a migration whose target pod ended, as upstream has it; the launcher's message may follow.
pub(crate) const TARGET_POD_DOWN: &str = "Target pod is down";
/// … of one whose target pod is being deleted: the beginning.
const TARGET_POD_GOING: &str = "The target pod is being deleted";
/// … of one whose source pod ended, and whose target has not got the guest.
const SOURCE_POD_DOWN: &str = "Source pod is down";
/// … of one whose target gave it up: the beginning.
const TARGET_GAVE_UP: &str = "The target gave up: ";
/// … of one that waited too long: the beginning.
const WAITED: &str = "The migration waited ";
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
    /// The target has ended, for this reason, and the source has not reported whether the guest left it.
    TargetLost(String),
    /// The source has ended, and the target has not reported that the guest runs. It has until this time.
    Undecided(Option<Timestamp>),
    /// The target has not reported the guest in time. What its launcher leaves decides.
    GivenUp,
    Underway,
}

/// A wait for one of the nodes.
struct NodeWait {
    until: Timestamp,
    /// Event that is waited for, and the time limit.
    reason: String,
}

/// True for a `failureReason` that is not the source's.
pub(crate) fn is_not_of_source(reason: &str) -> bool {
    [TARGET_GAVE_UP, WAITED, TARGET_POD_GOING].iter().any(|begin| reason.starts_with(begin))
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
        Course::TargetLost(reason) => handed_over(input).and(migration.abort_because(&reason)),
        Course::Undecided(until) => migration.wait_for_target(input, until),
        Course::GivenUp => migration.give_up(input),
        Course::Underway => migration.go_on(input),
    })
}

/// The end of a migration in the status of a VMI that ends, or has ended.
pub(super) fn end_with(input: &VmiReconcile<'_>, next: &VirtualMachineInstance) -> Outcome {
    if !super::phase(next).is_final() {
        return Outcome::default();
    }
    let outcome = Outcome::default().change(Change::NoMigrationTarget);
    match unfinished(next) {
        Some(state) => {
            let outcome = outcome.change(Change::Migration(Box::new(failed(state, VMI_ENDED, input.now))));
            // The target runs a guest only if its source has none any more.
            if state.target_node_domain_ready_timestamp.is_some() && state.failed != Some(true) {
                return outcome.and(moved_claims::arrive(input));
            }
            let pods = input.own_pods.as_ref().map(|own| input.world.launcher_pods(own)).unwrap_or_default();
            let target = pods.into_iter().find(|pod| pod.meta.name == state.target_pod);
            outcome.and(Migration { state, target }.claims_after_end(input))
        }
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
        let source = self.ending_of_source(input).map(|ending| ending.reason.unwrap_or_default());
        // A virt-handler of an earlier version reports a guest that is held as ready.
        let is_over_there = is_source_down && source.as_deref().is_none_or(may_have_left);
        let has_it = is_ready && is_over_there || self.has_guest() && state.end_timestamp.is_some();
        // A guest that was held there, and ended before its release, has not run there.
        if has_it && !self.has_dropped() {
            return Course::Arrived;
        }
        let gave_up = state.target_failure_reason.as_ref().filter(|_| !is_source_down && !self.has_guest());
        if let Some(reason) = gave_up {
            return Course::Failed(format!("{TARGET_GAVE_UP}{reason}"));
        }
        if self.target.is_none_or(pod_state::is_over) {
            let message = self.target.and_then(Pod::ending).and_then(|ending| ending.message);
            let message = message.filter(|message| !message.is_empty());
            let message = message.map_or_else(String::new, |message| format!(": {message}"));
            let is_of_source = is_source_down && source.as_deref() != Some(MIGRATED);
            let begin = if is_of_source { SOURCE_POD_DOWN } else { TARGET_POD_DOWN };
            let reason = format!("{begin}{message}");
            let may_have_begun = state.target_node_address.is_some() && state.end_timestamp.is_none();
            let copies = !moved_claims::migrated(input.vmi).is_empty();
            return match copies && may_have_begun && !is_source_down {
                true => Course::TargetLost(reason),
                false => Course::Failed(reason),
            };
        }
        if !is_source_down {
            return Course::Underway;
        }
        match source.as_deref() {
            Some(reason) if may_have_left(reason) && self.has_guest() => Course::Arrived,
            Some(MIGRATED) => Course::Undecided(None),
            Some(MIGRATION_UNKNOWN) => self.undecided(input),
            // The guest ended in the source.
            Some(_) => Course::Underway,
            // By the report of its node the source has ended, and not failed.
            None if self.state.end_timestamp.is_some() => Course::Undecided(None),
            None => self.undecided(input),
        }
    }

    /// Course where the source has ended and does not know that the guest left it. The time is counted from the condition that reports it.
    fn undecided(&self, input: &VmiReconcile<'_>) -> Course {
        let reported = conditions::find(input.conditions(), &ConditionType::Synchronized);
        let reported = reported.filter(|said| said.reason.as_deref() == Some(SOURCE_DOWN));
        let since = reported.and_then(|said| said.last_transition_time.as_deref()?.parse().ok());
        let is_soon = self.has_guest() || self.state.start_timestamp.is_none();
        let patience = if is_soon { SOON } else { PATIENCE };
        match since.unwrap_or(input.now).checked_add(patience) {
            Ok(until) if until > input.now => Course::Undecided(Some(until)),
            _ => Course::GivenUp,
        }
    }

    /// Ending that the source's launcher left.
    fn ending_of_source(&self, input: &VmiReconcile<'_>) -> Option<Ending> {
        input.pod.and_then(Pod::ending).or_else(|| input.world.ending(input.vmi).cloned())
    }

    /// True if the target has reported the guest, which may be held there.
    fn has_guest(&self) -> bool {
        let state = self.state;
        state.target_node_domain_ready_timestamp.is_some() || state.target_node_domain_detected == Some(true)
    }

    /// True if the target's launcher has left that the guest never ran there.
    fn has_dropped(&self) -> bool {
        let ending = self.target.and_then(Pod::ending);
        ending.is_some_and(|ending| ending.reason.as_deref() == Some(NOT_RECEIVED))
    }

    /// Outcome of a guest that runs at the target.
    fn arrive(&self, input: &VmiReconcile<'_>) -> Outcome {
        let node = self.state.target_node.clone().unwrap_or_default();
        let time = Some(stamp(input.now));
        let state = MigrationState {
            completed: Some(true),
            end_timestamp: self.state.end_timestamp.clone().or(time),
            // An abort that came too late has one.
            failure_reason: None,
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
            .change(Change::NoMigrationTarget)
            .and(moved_claims::arrive(input));
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

    /// Outcome while both pods run.
    fn go_on(&self, input: &VmiReconcile<'_>) -> Outcome {
        let outcome = handed_over(input).and(self.abort(input));
        let is_ready = self.state.target_node_domain_ready_timestamp.is_some();
        // A guest that arrived there would be shut down with the pod. Where the source has gone already, it has the last word.
        if let Some(pod) = self.target.filter(|pod| pod.is_going() && !is_ready) {
            let name = pod.meta.name.as_deref().unwrap_or_default();
            return handed_over(input).and(self.abort_because(&format!("{TARGET_POD_GOING}: {name}")));
        }
        match self.awaited(input) {
            Some(NodeWait { until, .. }) if until > input.now => outcome.retry_at(until),
            // Without an address of the target the source cannot have begun.
            Some(NodeWait { reason, .. }) if self.state.target_node_address.is_none() => {
                self.fail(input, &reason)
            }
            Some(_) if self.state.abort_requested == Some(true) => outcome,
            Some(NodeWait { reason, .. }) => handed_over(input).and(self.abort_because(&reason)),
            None => outcome,
        }
    }

    /// Asks the source to abort the migration, with a reason of virt-controller.
    fn abort_because(&self, reason: &str) -> Outcome {
        if self.state.abort_requested == Some(true) {
            return Outcome::default();
        }
        let (abort_requested, failure_reason) = (Some(true), Some(reason.to_owned()));
        let state = MigrationState { abort_requested, failure_reason, ..self.state.clone() };
        Outcome::default().change(Change::Migration(Box::new(state)))
    }

    /// The PVCs of a migration whose VMI has ended before its guest arrived. A source that says that the guest has left it may have had the
    /// end of that for the end of the VMI.
    fn claims_after_end(&self, input: &VmiReconcile<'_>) -> Outcome {
        let source = self.ending_of_source(input).and_then(|ending| ending.reason);
        match source.as_deref().is_some_and(may_have_left) {
            true => self.claims_after_failure(input),
            false => Outcome::default(),
        }
    }

    /// The PVCs of a migration that has failed, where virt-controller has decided that.
    fn claims_after_failure(&self, input: &VmiReconcile<'_>) -> Outcome {
        let is_source_down = input.pod.is_none_or(pod_state::is_over);
        let source = self.ending_of_source(input).map(|ending| ending.reason.unwrap_or_default());
        let has_left = source.as_deref().map_or(is_source_down, may_have_left);
        // By the source's own report the guest has stayed.
        if self.state.failed == Some(true) || !has_left && self.state.end_timestamp.is_none() {
            return Outcome::default();
        }
        match self.target.and_then(Pod::ending) {
            // Nothing has run on the new PVCs.
            Some(_) if self.has_dropped() => Outcome::default(),
            // It ended there.
            Some(_) => moved_claims::arrive(input),
            None => moved_claims::lose(input),
        }
    }

    /// The node that is waited for before the guest is copied. The times are those of the VirtualMachineInstanceMigration.
    fn awaited(&self, input: &VmiReconcile<'_>) -> Option<NodeWait> {
        let state = self.state;
        if state.start_timestamp.is_some() || self.has_guest() {
            return None;
        }
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (source, target) = (text(&state.source_node), text(&state.target_node));
        let (phase, limit, awaited) = match (&state.target_node_address, &state.source_certificate) {
            (Some(_), _) => {
                let awaited =
                    format!("virt-handler of the source node {source} to begin, with node {target} ready");
                (MigrationPhase::TargetReady, BEGINS, awaited)
            }
            (None, None) => {
                let awaited = format!("virt-handler of the source node {source} to announce its certificate");
                (MigrationPhase::PreparingTarget, PREPARES, awaited)
            }
            (None, Some(_)) => {
                let pod = text(&state.target_pod);
                let awaited =
                    format!("virt-handler of the target node {target} to prepare launcher pod {pod}");
                (MigrationPhase::PreparingTarget, PREPARES, awaited)
            }
        };
        let status = self.object(input)?.status.as_ref()?;
        let begun = status
            .phase_transition_timestamps
            .iter()
            .rev()
            .find(|step| step.phase.as_ref() == Some(&phase))?;
        let begun: Timestamp = begun.phase_transition_timestamp.as_deref()?.parse().ok()?;
        let reason = format!("{WAITED}{} s for {awaited}", limit.as_secs());
        Some(NodeWait { until: begun.checked_add(limit).ok()?, reason })
    }

    /// Outcome of a migration that failed: the guest stays at the source, where it has not ended.
    fn fail(&self, input: &VmiReconcile<'_>, reason: &str) -> Outcome {
        let uid = self.state.migration_uid.as_deref().unwrap_or_default();
        let outcome = match (self.target, &self.state.target_pod, &input.own_pods) {
            (None, Some(name), Some(own))
                if [SOURCE_POD_DOWN, TARGET_POD_DOWN].iter().any(|begin| reason.starts_with(begin)) =>
            {
                let namespace = input.vmi.metadata.namespace.clone().unwrap_or_default();
                let key = Key::new(Kind::Pod, namespace, name);
                Outcome::default().before_write(Step::RequireAbsent { key, of: Some(own.clone()) })
            }
            _ => Outcome::default(),
        };
        let is_source_down = input.pod.is_none_or(pod_state::is_over);
        let has_run_there = is_source_down && !self.has_dropped();
        let ending = self.target.and_then(Pod::ending).filter(|_| has_run_there);
        let outcome = match ending {
            // The guest arrived, and ended before that was reported.
            Some(ending) => outcome.and(ended_as(input.vmi, &ending)),
            None => outcome.and(handed_over(input)),
        };
        let outcome = outcome
            .change(Change::Migration(Box::new(failed(self.state, reason, input.now))))
            .change(Change::NoMigrationTarget)
            .and(self.claims_after_failure(input));
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

    /// Outcome while the source has ended and the target decides.
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

    /// Deletes the target pod: a guest that is held there has never run, and one that was released is shut down in order.
    fn give_up(&self, input: &VmiReconcile<'_>) -> Outcome {
        let outcome = self.wait_for_target(input, None);
        let Some(target) = self.target.filter(|pod| !pod.is_going()) else { return outcome };
        // Its guest may be reported by now.
        let mut unchanged = Plan::default();
        unchanged.require_unchanged(Kind::VirtualMachineInstance, &input.vmi.metadata);
        unchanged.steps.into_iter().fold(outcome, Outcome::before_write).and(delete_pod(input, target))
    }

    /// Asks the source to abort a migration that is not wanted any more.
    fn abort(&self, input: &VmiReconcile<'_>) -> Outcome {
        if self.state.abort_requested == Some(true) || !(input.is_deleted() || self.is_unwanted(input)) {
            return Outcome::default();
        }
        let state = MigrationState { abort_requested: Some(true), ..self.state.clone() };
        Outcome::default().change(Change::Migration(Box::new(state)))
    }

    /// The VirtualMachineInstanceMigration.
    fn object<'w>(&self, input: &VmiReconcile<'w>) -> Option<&'w VirtualMachineInstanceMigration> {
        let meta = &input.vmi.metadata;
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let mut all = migrations_of(input.world, namespace, meta.name.as_deref().unwrap_or_default());
        all.find(|object| object.metadata.uid == self.state.migration_uid)
    }

    /// True if the VirtualMachineInstanceMigration is being deleted, has failed, or is gone.
    fn is_unwanted(&self, input: &VmiReconcile<'_>) -> bool {
        let object = self.object(input);
        object.is_none_or(|object| {
            object.metadata.deletion_timestamp.is_some() || migration_phase(object) == MigrationPhase::Failed
        })
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
        // A migration that has failed has left its guest at the source.
        let state = status.and_then(|status| status.migration_state.as_ref());
        let has_failed = state.is_some_and(|state| {
            state.migration_uid.as_deref() == Some(uid)
                && state.completed == Some(true)
                && state.failed == Some(true)
        });
        (!is_handed_over || has_failed)
            && !pod.is_over()
            && !pod.is_going()
            && !all.any(|object| object.metadata.uid.as_deref() == Some(uid))
    };
    pods.filter(is_stray).collect()
}

#[cfg(test)]
#[path = "migrating_tests.rs"]
mod tests;
