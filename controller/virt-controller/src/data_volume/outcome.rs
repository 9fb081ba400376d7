//! The result of the steps for one [`Request`], as a value: changes of the status, and requests before and after it is written.
//!
//! Steps return an [`Outcome`] and write nothing. [`Outcome::status`] applies the changes to the status of the request, and
//! [`plan`] is the only place that makes a plan of an outcome:
//!
//! ```text
//!  steps before ─► annotations of the PVC ─► status of the DataVolume ─► steps and events after
//! ```
//!
//! Where several steps set one condition, the last one holds.

use super::request::Request;
use super::{claim_annotations, status};
use api::data_volume::{ConditionType, DataVolume, Phase, Status};
use api::wire::Wire;
use cluster_model::objects::{Kind, PersistentVolumeClaim, Pod, Work};
use cluster_model::plan::{Plan, Step};
use jiff::Timestamp;

/// Changes of the status, and steps around them.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    conditions: Vec<ConditionChange>,
    phase: Option<Phase>,
    progress: Option<String>,
    claim_name: Option<String>,
    restart_count: Option<i64>,
    /// Since when the worker has not answered.
    silent_since: Option<Timestamp>,
    before: Vec<Step>,
    after: Vec<Effect>,
    again: Option<Timestamp>,
}

/// New value of a condition.
#[derive(Clone, Debug)]
struct ConditionChange {
    kind: ConditionType,
    status: &'static str,
    reason: String,
    message: String,
}

/// A step after the status is written, or an event.
#[derive(Clone, Debug)]
enum Effect {
    Step(Step),
    Event(Event),
}

/// An event of the object that asks.
#[derive(Clone, Debug)]
struct Event {
    /// Phase at whose beginning the event is sent; `None` if it is sent at once.
    entering: Option<Phase>,
    is_warning: bool,
    reason: &'static str,
    message: String,
}

impl Outcome {
    // ── The status ──────────────────────────────────────────────────────────────────────────────────────────────

    /// Sets a condition, in place of an earlier one of its type.
    pub(super) fn condition(
        mut self,
        kind: ConditionType,
        status: &'static str,
        reason: &str,
        message: &str,
    ) -> Outcome {
        let new = ConditionChange { kind, status, reason: reason.to_owned(), message: message.to_owned() };
        match self.conditions.iter_mut().find(|change| change.kind == new.kind) {
            Some(change) => *change = new,
            None => self.conditions.push(new),
        }
        self
    }

    /// The disk is not filled now: conditions Running and Ready.
    pub(super) fn wait(self, reason: &str, message: &str) -> Outcome {
        self.condition(ConditionType::Running, "False", reason, message).condition(
            ConditionType::Ready,
            "False",
            reason,
            message,
        )
    }

    /// The same, where no pod works: what an earlier pod reported of the transfer does not hold any more.
    pub(super) fn wait_without_pod(self, request: &Request<'_>, reason: &str, message: &str) -> Outcome {
        let has_transfer =
            request.status.conditions.iter().any(|said| said.r#type == ConditionType::Transferring);
        let outcome = self.wait(reason, message);
        match has_transfer {
            true => outcome.condition(ConditionType::Transferring, "False", reason, message),
            false => outcome,
        }
    }

    /// The disk is complete, without a report of a pod.
    pub(super) fn complete(self, message: &str) -> Outcome {
        self.condition(ConditionType::Running, "False", "Completed", message)
            .condition(ConditionType::Ready, "True", "", "")
            .condition(ConditionType::Transferring, "False", "Completed", message)
            .progress("100.0%".to_owned())
    }

    /// The state of the PVC: condition Bound, and the name of the PVC.
    pub(super) fn bound_condition(mut self, claim: &PersistentVolumeClaim) -> Outcome {
        let name = claim.meta.name.clone().unwrap_or_default();
        let (status, reason, message) = match claim.status.phase.as_deref() {
            Some("Bound") => ("True", "Bound", format!("PVC {name} Bound")),
            Some("Lost") => ("False", "ClaimLost", "Claim Lost".to_owned()),
            _ => ("False", "Pending", format!("PVC {name} Pending")),
        };
        self.claim_name = Some(name);
        self.condition(ConditionType::Bound, status, reason, &message)
    }

    /// Condition Bound of a request whose PVC does not exist.
    pub(super) fn not_found(self) -> Outcome {
        self.condition(ConditionType::Bound, "False", "NotFound", "No PVC found")
    }

    /// Goes to a phase.
    pub(super) fn phase(mut self, phase: Phase) -> Outcome {
        self.phase = Some(phase);
        self
    }

    /// Goes to a phase, with an event where that is another phase than before.
    pub(super) fn enter_phase(
        mut self,
        phase: Phase,
        is_warning: bool,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Outcome {
        let (entering, message) = (Some(phase.clone()), message.into());
        self.after.push(Effect::Event(Event { entering, is_warning, reason, message }));
        self.phase(phase)
    }

    /// The work has failed, and no time mends that.
    pub(super) fn fail(self, request: &Request<'_>, reason: &str, message: &str) -> Outcome {
        self.wait(reason, message)
            .condition(ConditionType::Transferring, "False", reason, message)
            .enter_phase(Phase::Failed, true, request.terms().failed, message)
    }

    pub(super) fn progress(mut self, progress: String) -> Outcome {
        self.progress = Some(progress);
        self
    }

    pub(super) fn restart_count(mut self, count: i64) -> Outcome {
        self.restart_count = Some(count);
        self
    }

    /// The worker has not answered since this time.
    pub(super) fn silent_since(mut self, since: Option<Timestamp>) -> Outcome {
        self.silent_since = since;
        self
    }

    // ── Steps and events ────────────────────────────────────────────────────────────────────────────────────────

    /// Steps before the status is written.
    pub(super) fn before_status(mut self, plan: Plan) -> Outcome {
        self.before.extend(plan.steps);
        self
    }

    /// Steps after the status is written.
    pub(super) fn after_status(mut self, plan: Plan) -> Outcome {
        self.after.extend(plan.steps.into_iter().map(Effect::Step));
        plan.again.into_iter().fold(self, Outcome::retry_at)
    }

    /// Deletes a pod that is not being deleted already.
    pub(super) fn deletes(self, pod: Option<&Pod>) -> Outcome {
        self.after_status(Plan::deleting(pod))
    }

    /// Adds an event, to be sent after the status is written.
    pub(super) fn event(
        mut self,
        is_warning: bool,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Outcome {
        let message = message.into();
        self.after.push(Effect::Event(Event { entering: None, is_warning, reason, message }));
        self
    }

    /// Decides on the disk again at this time, or at an earlier one that was set before.
    pub(super) fn retry_at(mut self, time: Timestamp) -> Outcome {
        self.again = Some(self.again.map_or(time, |other| other.min(time)));
        self
    }

    /// Adds another outcome. The other one wins where both set the same field.
    pub(super) fn and(mut self, other: Outcome) -> Outcome {
        for ConditionChange { kind, status, reason, message } in other.conditions {
            self = self.condition(kind, status, &reason, &message);
        }
        self.before.extend(other.before);
        self.after.extend(other.after);
        self = other.again.into_iter().fold(self, Outcome::retry_at);
        Outcome {
            phase: other.phase.or(self.phase),
            progress: other.progress.or(self.progress),
            claim_name: other.claim_name.or(self.claim_name),
            restart_count: other.restart_count.or(self.restart_count),
            silent_since: other.silent_since.or(self.silent_since),
            ..self
        }
    }

    // ── The result ──────────────────────────────────────────────────────────────────────────────────────────────

    /// The status of the request after this.
    pub(super) fn status(&self, request: &Request<'_>) -> Status {
        let mut next = request.status.clone();
        for ConditionChange { kind, status, reason, message } in &self.conditions {
            status::set_condition(&mut next, kind.clone(), status, reason, message, request.now);
        }
        if let Some(since) = self.silent_since {
            status::say_silent(&mut next, &request.status, since, request.now);
        }
        next.claim_name = self.claim_name.clone().or(next.claim_name);
        next.restart_count = self.restart_count.or(next.restart_count);
        next.progress = self.progress.clone().or(next.progress);
        if let Some(phase) = &self.phase {
            next.phase = Some(phase.clone());
            next.progress.get_or_insert_with(|| status::UNKNOWN.to_owned());
        }
        next
    }
}

/// The plan for a request: `outcome` around the `status` that it leads to.
pub(super) fn plan(request: &Request<'_>, outcome: Outcome, status: Status) -> Plan {
    let mut plan = Plan { steps: outcome.before, ..Plan::default() };
    // Before the status: cdi-uploadproxy may read that the DataVolume is ready, and then looks at the PVC.
    let noted = request.own_claim().filter(|claim| claim.meta.deletion_timestamp.is_none());
    if let Some(claim) = noted.filter(|_| request.work == Work::Upload || request.is_standalone()) {
        let pod = request.world.worker_for(claim, request.work);
        let which = (request.work, request.is_standalone());
        plan = plan.and(claim_annotations::of_status(claim, &status, pod, which));
    }
    if !request.is_standalone() {
        plan = plan.and(write_status(&request.volume, status));
    }
    for effect in outcome.after {
        match effect {
            Effect::Step(step) => plan.steps.push(step),
            Effect::Event(event) if event.entering.as_ref() == Some(&request.phase) => {}
            Effect::Event(event) => {
                let (kind, meta) = request.events_on;
                plan.record_event(kind, meta, event.is_warning, event.reason, event.message);
            }
        }
    }
    outcome.again.into_iter().for_each(|time| plan.look_again(time));
    plan
}

/// Writes the status of a DataVolume if it differs.
fn write_status(volume: &DataVolume, status: Status) -> Plan {
    let mut plan = Plan::default();
    if status != Status::default() {
        let should = DataVolume { status: Some(status), ..volume.clone() };
        plan.update(Kind::DataVolume, &volume.metadata, &volume.write(), &should.write(), true);
    }
    plan
}
