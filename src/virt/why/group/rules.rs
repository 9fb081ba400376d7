//! Rules about a pool or a replica set. The first that applies gives the finding; if none does, all members
//! are ready.

use super::super::Finding;
use super::super::vm::LOOK_AT_CONTROLLER;
use super::{Group, goes, terms};
use crate::virt::json::{condition, list, moment};
use serde_json::Value;

type Rule = fn(&Group) -> Option<Finding>;

pub(super) const RULES: &[Rule] = &[
    Group::is_deleted,
    Group::has_failure,
    Group::is_paused,
    Group::is_new,
    Group::has_too_few,
    Group::has_too_many,
    Group::is_not_ready,
];

impl Group {
    fn is_deleted(&self) -> Option<Finding> {
        let since = moment(&self.object, "/metadata/deletionTimestamp")?;
        let held: Vec<&str> =
            list(&self.object, "/metadata/finalizers").filter_map(|finalizer| finalizer.as_str()).collect();
        let waits =
            if held.is_empty() { String::new() } else { format!(", and waits for: {}", held.join(", ")) };
        Some(Finding::new(format!("{} is being deleted{waits}", self.me())).since(Some(since)))
    }

    fn has_failure(&self) -> Option<Finding> {
        let failure = condition(&self.object, "ReplicaFailure", "True")?;
        let (me, edit, (of, ..)) = (self.me(), self.edit(), terms(self.kind));
        let (says, advice) = match failure.reason {
            "FailedScaleOut" | "FailedCreate" => (
                format!("{me} waits for a {of} that cannot be created"),
                "fix the cause in the message above: a quota, a webhook, a missing right; it is tried again"
                    .to_owned(),
            ),
            "FailedScaleIn" => (
                format!(
                    "{me} has more {of}s than spec.replicas, and its selectors match fewer than must be deleted"
                ),
                format!(
                    "change spec.scaleInStrategy.proactive.selectionPolicy.selectors, or spec.replicas: {edit}"
                ),
            ),
            "InvalidSpec" => (
                format!("{me} has a spec that cannot be carried out, and nothing is done for it"),
                format!("correct the field in the message above: {edit}"),
            ),
            _ => (
                format!("{me} cannot be kept at its number of {of}s"),
                "fix the cause in the message above".to_owned(),
            ),
        };
        let quote = failure.quote("virt-controller, ", self.kind, &self.name);
        Some(Finding::new(says).since(failure.since).quote([quote]).advise(advice))
    }

    fn is_paused(&self) -> Option<Finding> {
        let paused = condition(&self.object, "ReplicaPaused", "True")?;
        let says = format!("{} is paused: no {} is created or deleted", self.me(), terms(self.kind).0);
        let advice = format!("to have it go on, set spec.paused to false: {}", self.edit());
        Some(Finding::new(says).since(paused.since).advise(advice))
    }

    fn is_new(&self) -> Option<Finding> {
        let status = self.object.get("status").and_then(Value::as_object);
        let is_new = status.is_none_or(serde_json::Map::is_empty) && self.there() == 0;
        is_new.then(|| {
            Finding::new(format!("{} waits for virt-controller, which has not looked at it yet", self.me()))
                .since(moment(&self.object, "/metadata/creationTimestamp"))
                .quote_event(self.warning())
                .advise(LOOK_AT_CONTROLLER)
        })
    }

    fn has_too_few(&self) -> Option<Finding> {
        let missing = self.wanted().saturating_sub(self.there());
        (missing > 0).then(|| {
            let missing = self.many(missing);
            Finding::new(format!("{} waits for virt-controller to create {missing}", self.me()))
                .quote_event(self.warning())
                .advise(LOOK_AT_CONTROLLER)
        })
    }

    fn has_too_many(&self) -> Option<Finding> {
        let ways = ["/spec/scaleInStrategy/unmanaged", "/spec/scaleInStrategy/opportunistic"];
        let keeps = ways.iter().any(|way| self.object.pointer(way).is_some_and(Value::is_object));
        let excess = self.there().saturating_sub(self.wanted());
        (excess > 0 && !keeps).then(|| {
            let says = format!("{} waits for {} to be deleted", self.me(), self.many(excess));
            let finding = Finding::new(says).quote_event(self.warning());
            match self.members().iter().any(goes) {
                true => finding,
                false => finding.advise(LOOK_AT_CONTROLLER),
            }
        })
    }

    fn is_not_ready(&self) -> Option<Finding> {
        let (there, count) = (self.there(), self.not_ready());
        let falls = |member: &Value| condition(member, "Ready", "False").and_then(|ready| ready.since);
        let since = self.unready().into_iter().filter_map(falls).min();
        let which = match (there, count) {
            (1, 1) => format!("its {}, which is not ready", terms(self.kind).0),
            (_, 1) => format!("1 of its {}, which is not ready", self.many(there)),
            _ => format!("{count} of its {}, which are not ready", self.many(there)),
        };
        (count > 0).then(|| Finding::new(format!("{} waits for {which}", self.me())).since(since))
    }

    pub(super) fn is_complete(&self) -> Finding {
        let (me, there) = (self.me(), self.there());
        Finding::new(match there {
            0 => format!("{me} is to have no {}, and waits for nothing", terms(self.kind).0),
            1 => format!("{me} has {}, which is ready, and waits for nothing", self.many(there)),
            _ => format!("{me} has {}, all ready, and waits for nothing", self.many(there)),
        })
    }

    fn edit(&self) -> String {
        format!("kubectl edit {} {} -n {}", terms(self.kind).2, self.name, self.namespace)
    }
}
