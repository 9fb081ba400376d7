//! The result of the steps for one object, as a value: changes of the object, and steps before and after it is written.
//!
//! A reconciler has its own type of changes, and so its own methods beside these: `vmi::outcome`, `migration::outcome`.

use api::meta::ObjectMeta;
use cluster_model::objects::{Kind, Pod, key};
use cluster_model::plan::{Plan, Step};
use jiff::Timestamp;
use serde_json::Value;

/// Changes of an object, and steps around them.
#[derive(Clone, Debug)]
pub(crate) struct Outcome<C> {
    changes: Vec<C>,
    before: Vec<Step>,
    after: Vec<Effect>,
    again: Option<Timestamp>,
}

/// A step after the object is written, or an event.
#[derive(Clone, Debug)]
enum Effect {
    Step(Box<Step>),
    Event { is_warning: bool, reason: &'static str, message: String },
}

/// An object as it is, and as it should be.
pub(crate) struct Difference<'a> {
    pub(crate) kind: Kind,
    pub(crate) meta: &'a ObjectMeta,
    pub(crate) is: Value,
    pub(crate) should: Value,
    /// The status is a subresource.
    pub(crate) split: bool,
}

impl<C> Default for Outcome<C> {
    fn default() -> Outcome<C> {
        Outcome { changes: Vec::new(), before: Vec::new(), after: Vec::new(), again: None }
    }
}

impl<C> Outcome<C> {
    pub(crate) fn change(mut self, change: C) -> Outcome<C> {
        self.changes.push(change);
        self
    }

    /// The changes in their order.
    pub(crate) fn changes(&self) -> &[C] {
        &self.changes
    }

    /// A step before the object is written.
    pub(crate) fn before_write(self, step: Step) -> Outcome<C> {
        self.all_before_write([step])
    }

    /// Steps before the object is written.
    pub(crate) fn all_before_write(mut self, steps: impl IntoIterator<Item = Step>) -> Outcome<C> {
        self.before.extend(steps);
        self
    }

    /// A step after the object is written.
    pub(crate) fn after_write(mut self, step: Step) -> Outcome<C> {
        self.after.push(Effect::Step(Box::new(step)));
        self
    }

    pub(crate) fn delete(self, pod: &Pod) -> Outcome<C> {
        let uid = pod.meta.uid.clone().unwrap_or_default();
        self.after_write(Step::Delete { key: key(Kind::Pod, &pod.meta), uid, version: String::new() })
    }

    pub(crate) fn event(
        mut self,
        is_warning: bool,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Outcome<C> {
        self.after.push(Effect::Event { is_warning, reason, message: message.into() });
        self
    }

    /// Decides on the object again at this time, or at an earlier one that was set before.
    pub(crate) fn retry_at(mut self, time: Timestamp) -> Outcome<C> {
        self.again = Some(self.again.map_or(time, |other| other.min(time)));
        self
    }

    /// Adds another outcome, whose changes come last.
    pub(crate) fn and(mut self, other: Outcome<C>) -> Outcome<C> {
        self.changes.extend(other.changes);
        self.before.extend(other.before);
        self.after.extend(other.after);
        other.again.into_iter().fold(self, Outcome::retry_at)
    }

    /// The plan: steps before, the difference in as few requests as it takes, steps and events after.
    pub(crate) fn plan_for(self, difference: &Difference<'_>) -> Plan {
        let Difference { kind, meta, is, should, split } = difference;
        let mut plan = Plan { steps: self.before, again: self.again };
        plan.update(*kind, meta, is, should, *split);
        for effect in self.after {
            match effect {
                Effect::Step(step) => plan.steps.push(*step),
                Effect::Event { is_warning, reason, message } => {
                    plan.record_event(*kind, meta, is_warning, reason, message);
                }
            }
        }
        plan
    }
}
