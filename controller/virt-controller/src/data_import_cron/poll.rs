//! Step 1: the newest digest of the image, from the last poll; and the pod of the next poll, where a pod polls.

use super::messages::{UP_TO_DATE, trouble_of};
use super::source::{self, Source};
use super::{CronReconcile, digest, poller, retry_at, when};
use api::cdi::DataImportCron;
use api::cdi::annotations::DESIRED_DIGEST;
use cluster_model::conditions::stamp;
use cluster_model::objects::Kind;
use cluster_model::plan::Plan;
use jiff::{SignedDuration, Timestamp};

/// A poll without an answer within this time was lost.
const LOST: SignedDuration = SignedDuration::from_mins(5);

/// The result of the last poll.
pub(super) struct PollOutcome {
    /// The DataImportCron with the newest digest.
    pub(super) cron: DataImportCron,
    /// The failure of the last poll.
    pub(super) trouble: Option<String>,
    pub(super) after: Plan,
}

impl PollOutcome {
    /// Writes the time of a poll, and the digest that it found.
    fn record_poll(mut self, answer: Option<&str>, at: Timestamp) -> PollOutcome {
        self.cron.status.get_or_insert_default().last_execution_timestamp = Some(stamp(at));
        if let Some(found) = answer.filter(|found| source::is_digest(found)) {
            self.cron.metadata.annotations.insert(DESIRED_DIGEST.to_owned(), found.to_owned());
        }
        self
    }

    fn then(self, after: Plan) -> PollOutcome {
        PollOutcome { after: self.after.and(after), ..self }
    }

    fn with_trouble(self, trouble: Option<String>) -> PollOutcome {
        PollOutcome { trouble, ..self }
    }
}

/// Takes the newest digest from the last poll, and prepares the next one.
pub(super) fn poll(input: &CronReconcile<'_>) -> PollOutcome {
    let due = when::next_poll(input.cron, input.polled.as_ref(), digest(input.cron));
    // The reason to poll by a pod may be gone.
    let after = if input.by_pod { Plan::default() } else { delete_pods(input, 0) };
    let outcome = PollOutcome { cron: input.cron.clone(), trouble: None, after };
    let outcome = match source::classify(input.cron) {
        Source::Refused(..) => return outcome,
        Source::Pinned(found) if digest(input.cron) == Some(&*found) => return outcome,
        Source::Pinned(found) => return outcome.record_poll(Some(&found), input.now),
        Source::Pvc(name) => poll_pvc(input, outcome, name, due),
        Source::Asked(_) | Source::ByPod if input.by_pod => {
            poll_by_pod(input, apply_answer(input, outcome), due)
        }
        Source::Asked(_) | Source::ByPod => apply_answer(input, outcome),
    };
    match when::next_poll(&outcome.cron, input.polled.as_ref(), digest(&outcome.cron)) {
        // A poll that is due is being made. Its loss does not touch this key.
        Some(due) if due <= input.now => {
            outcome.then(retry_at(input.now.checked_add(LOST).unwrap_or(input.now)))
        }
        Some(due) => outcome.then(retry_at(due)),
        None => outcome,
    }
}

/// A PVC is checked by the schedule, without a poll.
fn poll_pvc(
    input: &CronReconcile<'_>,
    outcome: PollOutcome,
    name: &str,
    due: Option<Timestamp>,
) -> PollOutcome {
    let namespace = input.cron.metadata.namespace.as_deref().unwrap_or_default();
    let uid = input.world.pvcs.get(namespace, name).and_then(|claim| claim.meta.uid.clone());
    let found = uid.map(|uid| format!("uid:{uid}")).filter(|found| source::is_digest(found));
    let trouble = found.is_none().then(|| format!("PVC {name} does not exist"));
    let outcome = outcome.with_trouble(trouble);
    match due.is_some_and(|due| due <= input.now) {
        true => outcome.record_poll(found.as_deref(), input.now),
        false => outcome,
    }
}

/// Records the result of the last poll in the outcome: the digest, or the cause of the failure. The first of several failures
/// has an event.
fn apply_answer(input: &CronReconcile<'_>, outcome: PollOutcome) -> PollOutcome {
    let status = input.cron.status.as_ref();
    let Some(polled) = &input.polled else {
        // This program has not polled yet. The condition has the answer that another one got.
        let said = status.into_iter().flat_map(|status| &status.conditions);
        let said = said.filter(|said| said.r#type == UP_TO_DATE).find_map(|said| said.message.as_deref());
        return outcome.with_trouble(said.and_then(trouble_of).map(str::to_owned));
    };
    let failure = polled.answer.as_ref().err();
    let message = input.pod_message.clone();
    let trouble = failure.map(|why| message.unwrap_or_else(|| why.description().to_owned()));
    let outcome = outcome.with_trouble(trouble.clone());
    let written = status.and_then(|status| status.last_execution_timestamp.as_deref());
    if written == Some(&*stamp(polled.at)) {
        return outcome;
    }
    let outcome = outcome.record_poll(polled.answer.as_deref().ok(), polled.at);
    match trouble.filter(|_| polled.failures == 1) {
        Some(trouble) => {
            let message = format!("The poll of the image failed: {trouble}");
            outcome.then(input.event(true, "PollFailed", message))
        }
        None => outcome,
    }
}

/// Creates the poll pod when it is time, and deletes the ones that have ended. A pod that failed stays until
/// the next one, for its log.
fn poll_by_pod(input: &CronReconcile<'_>, outcome: PollOutcome, due: Option<Timestamp>) -> PollOutcome {
    let is_due = due.is_some_and(|due| due <= input.now);
    let is_answered = input.polled.as_ref().is_some_and(|polled| polled.answer.is_ok());
    match (input.pods.first().copied(), &input.polled) {
        (Some(pod), None) => {
            let outcome = outcome.then(delete_pods(input, 1));
            return match poller::why_pending(input.world, pod) {
                Some(why) => outcome.with_trouble(Some(why)),
                None => outcome,
            };
        }
        (Some(_), Some(_)) if !is_answered && !is_due => return outcome.then(delete_pods(input, 1)),
        (Some(_), Some(_)) if is_answered => return outcome.then(delete_pods(input, 0)),
        (None, _) if !is_due => return outcome,
        (Some(_), Some(_)) | (None, _) => {}
    }
    let failures = input.polled.as_ref().map_or(0, |polled| i64::from(polled.failures));
    let outcome = match input.failure(Kind::Pod) {
        Some(failed) => {
            let trouble = format!("the poll pod cannot be created: {}", failed.message);
            let outcome = outcome.with_trouble(Some(trouble));
            if failed.retry > input.now {
                return outcome.then(retry_at(failed.retry));
            }
            outcome
        }
        None => outcome,
    };
    match poller::pod(input.world, input.cron, failures) {
        Ok((key, pod)) => {
            let mut create = Plan::default();
            create.create(key, pod);
            outcome.then(create).then(delete_pods(input, 0))
        }
        Err(why) => outcome.with_trouble(Some(why)),
    }
}

/// Deletes the poll pods but for the last `kept` ones.
fn delete_pods(input: &CronReconcile<'_>, kept: usize) -> Plan {
    Plan::deleting(input.pods.iter().copied().skip(kept))
}
