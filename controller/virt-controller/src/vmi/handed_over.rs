//! A VMI that virt-handler has: its pod and its node are followed, and it is ended where virt-handler does not do that in time.

use super::end::{delete_pod, ended_as};
use super::networks::interfaces;
use super::outcome::{Change, Outcome};
use super::scheduling::{place, pod_ended, pod_is_gone};
use super::vsock::cid;
use super::{PATIENCE, VmiReconcile, pod_state};
use crate::pod;
use api::vmi::ConditionType;
use cluster_model::conditions::{self, UNHEARD, is_unsynchronized, stamp};
use cluster_model::objects::{Kind, Pod, key};
use cluster_model::plan::Step;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// The step of a VMI that virt-handler has.
pub(super) fn handed_over(input: &VmiReconcile<'_>) -> Outcome {
    let Some(pod) = input.pod else {
        let outcome = pod_is_gone(input);
        return match input.world.ending(input.vmi) {
            Some(ending) => outcome.and(ended_as(ending)),
            None => outcome.fails("PodNotExists"),
        };
    };
    let placed = pod.node.as_ref().map(|node| place(input, pod, node)).unwrap_or_default();
    let outcome =
        Outcome::default().change(Change::Hold).and(placed).and(cid(input)).and(interfaces(input, pod));
    if pod_state::is_over(pod) {
        let since = input.world.over_since(pod).unwrap_or(input.now);
        return match (since.checked_add(PATIENCE), pod.ending()) {
            // The pod may be removed at any moment, so virt-handler is not waited for.
            (_, Some(ending)) if pod.is_going() => outcome.and(ended_as(&ending)),
            (Ok(until), _) if until > input.now => outcome.again(until),
            (_, Some(ending)) => outcome.and(ended_as(&ending)),
            (_, None) => outcome.and(pod_ended(pod)),
        };
    }
    outcome.and(node(input, pod)).and(end_late(input, pod)).and(unpaused(input, pod))
}

/// Reports a node whose virt-handler is silent, and what would help. Other reports about the node are virt-handler's.
fn node(input: &VmiReconcile<'_>, pod: &Pod) -> Outcome {
    let Some(name) = pod.node.as_deref() else { return Outcome::default() };
    let until = crate::node::heard_until(input.world, name);
    if until.is_some_and(|until| until <= input.now) {
        let message = format!(
            "{}. The VMI may still run, so its disks are not given to another until its pod is gone: when the node \
             is back, or is deleted, or has the taint node.kubernetes.io/out-of-service",
            crate::node::silent(name)
        );
        return Outcome::default().condition(ConditionType::Synchronized, "False", UNHEARD, &message);
    }
    let outcome = match is_unsynchronized(input.conditions(), &[UNHEARD]) {
        true => Outcome::default().no_condition(ConditionType::Synchronized),
        false => Outcome::default(),
    };
    until.into_iter().fold(outcome, Outcome::again)
}

/// Deletes the pod of a deleted VMI that virt-handler does not end in time: the kubelet ends it then.
fn end_late(input: &VmiReconcile<'_>, pod: &Pod) -> Outcome {
    let since = input.vmi.metadata.deletion_timestamp.as_deref().and_then(|since| since.parse().ok());
    let since: Option<Timestamp> = since.filter(|_| !pod.is_going());
    let Some(since) = since else { return Outcome::default() };
    match since.checked_add(SignedDuration::from_secs(pod::grace(input.vmi))) {
        Ok(until) if until > input.now => Outcome::default().again(until),
        _ => delete_pod(input, pod),
    }
}

/// Writes the readiness gate of the pod: Services leave a paused VMI out, since its pod is not ready then.
fn unpaused(input: &VmiReconcile<'_>, pod: &Pod) -> Outcome {
    let status = if conditions::is(input.conditions(), &ConditionType::Paused) { "False" } else { "True" };
    if pod.is_going() || pod.condition(pod::UNPAUSED).is_some_and(|condition| condition.status == status) {
        return Outcome::default();
    }
    let (reason, message) = match status {
        "True" => ("NotPaused", "the virtual machine is not paused"),
        _ => ("Paused", "the virtual machine is paused"),
    };
    let change = json!({"status": {"conditions": [{
        "type": pod::UNPAUSED,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": stamp(input.now),
    }]}});
    Outcome::default().then(Step::Patch {
        key: key(Kind::Pod, &pod.meta),
        version: String::new(),
        change,
        part: Some("status"),
    })
}
