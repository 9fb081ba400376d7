//! A migration whose target pod was created: the pod is followed until it runs, and the VMI is handed over to it.

use super::MigrationReconcile;
use super::hand_over::hand_over;
use super::outcome::{Change, Outcome, waits_for};
use crate::vmi::pod_state;
use api::migration::{ConditionType, Phase};
use api::vmi::VirtualMachineInstance;
use cluster_model::objects::{Pod, target_pod};
use cluster_model::plan::Step;
use jiff::{SignedDuration, Timestamp};

/// Messages of failures, as upstream has them.
pub(super) const POD_ENDED: &str = "Migration failed because target pod shutdown during migration";
pub(super) const POD_REMOVED: &str = "Migration target pod was removed during active migration.";
/// Event of a pod for which the scheduler finds no node, as upstream has it.
const UNSCHEDULABLE: &str = "migrationTargetPodUnschedulable";

/// Limit of the time that a target pod waits, with the annotation of the migration that changes it.
struct Limit {
    annotation: &'static str,
    seconds: i64,
    /// The state of the pod, in the message of its deletion.
    state: &'static str,
}

const UNSCHEDULABLE_LIMIT: Limit = Limit {
    annotation: "kubevirt.io/migrationUnschedulablePodTimeoutSeconds",
    seconds: 300,
    state: "unschedulable",
};
const PENDING_LIMIT: Limit =
    Limit { annotation: "kubevirt.io/migrationPendingPodTimeoutSeconds", seconds: 900, state: "pending" };

/// The step of a migration whose target pod was created.
pub(super) fn scheduling(input: &MigrationReconcile<'_>, vmi: &VirtualMachineInstance) -> Outcome {
    let outcome = Outcome::default().change(Change::NoCondition(ConditionType::RejectedByResourceQuota));
    let fail = |message: &str| Outcome::default().require_unchanged_vmi(vmi).fail(message);
    let Some(pod) = input.pod else {
        let key = target_pod(&input.migration.metadata, &vmi.metadata);
        let fail = fail(POD_REMOVED);
        return key
            .into_iter()
            .fold(fail, |fail, key| fail.before_write(Step::RequireAbsent { key, of: None }));
    };
    if pod_state::is_over(pod) || pod_state::ended_container(pod).is_some() {
        let (reason, message) = pod_state::end_reason(pod);
        return fail(&format!("{POD_ENDED}: {reason}: {message}"));
    }
    if pod.is_going() {
        return fail(POD_REMOVED);
    }
    let limit = match pod.unscheduled() {
        Some(_) => UNSCHEDULABLE_LIMIT,
        None => PENDING_LIMIT,
    };
    let until = limit.until(input, pod);
    if until.is_none_or(|until| until <= input.now) {
        let name = pod.meta.name.as_deref().unwrap_or_default();
        let namespace = pod.meta.namespace.as_deref().unwrap_or_default();
        let message = format!("{} pod {namespace}/{name} timeout period exceeded", limit.state);
        return fail(&format!("Migration failed: {message}{}", because(input))).delete(pod).event(
            false,
            "SuccessfulDelete",
            message,
        );
    }
    let outcome = outcome.and(match (pod_state::is_up(pod), &input.phase) {
        (true, Phase::Scheduled) => hand_over(input, vmi, pod),
        (true, _) => Outcome::default().change(Change::WaitsFor(None)).phase(Phase::Scheduled),
        (false, _) => wait(input, vmi, pod),
    });
    until.into_iter().fold(outcome, Outcome::retry_at)
}

/// The pod does not run yet. An event is sent where the wait begins.
fn wait(input: &MigrationReconcile<'_>, vmi: &VirtualMachineInstance, pod: &Pod) -> Outcome {
    let name = pod.meta.name.as_deref().unwrap_or_default();
    let is_new = waits_for(input).is_none();
    if let Some(condition) = pod.unscheduled() {
        let message = condition.message.clone().unwrap_or_default();
        let outcome = Outcome::default()
            .change(Change::WaitsFor(Some(format!("no node takes the target pod {name}: {message}"))));
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (namespace, vmi) = (text(&vmi.metadata.namespace), text(&vmi.metadata.name));
        return match is_new {
            true => outcome.event(
                true,
                UNSCHEDULABLE,
                format!("Migration target pod for VMI [{namespace}/{vmi}] is currently unschedulable."),
            ),
            false => outcome,
        };
    }
    let warned = || {
        let warning = input.world.warning(pod)?;
        Some((warning.reason.clone(), warning.message.clone()))
    };
    let Some((reason, message)) = pod_state::start_failure(pod).or_else(warned) else {
        return Outcome::default().change(Change::WaitsFor(None));
    };
    let message = format!("the target pod {name} does not start: {reason}: {message}");
    match is_new {
        true => Outcome::default().wait(input, &message),
        false => Outcome::default().change(Change::WaitsFor(Some(message))),
    }
}

/// The reason why the pod waited, behind another message.
fn because(input: &MigrationReconcile<'_>) -> String {
    waits_for(input).map(|message| format!(": {message}")).unwrap_or_default()
}

impl Limit {
    /// Time at which the pod is given up; `None` if it lies beyond all times.
    fn until(&self, input: &MigrationReconcile<'_>, pod: &Pod) -> Option<Timestamp> {
        let said = input.migration.metadata.annotations.get(self.annotation);
        let said = said.and_then(|text| text.parse().ok()).filter(|seconds| *seconds >= 0);
        let created: Option<Timestamp> =
            pod.meta.creation_timestamp.as_deref().and_then(|time| time.parse().ok());
        let seconds = SignedDuration::from_secs(said.unwrap_or(self.seconds));
        created.unwrap_or(input.now).checked_add(seconds).ok()
    }
}
