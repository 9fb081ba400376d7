//! Scale-in: VMs of a pool, with their disks, and VMIs of a replica set, that are deleted because there are too many.
//!
//! ```text
//!  candidates, chosen ones first ─► annotation SCALE_IN: off those that stay, on those that go     guarded by version
//!                                ─► the pool or the replica set is unchanged
//!                                ─► so many stay, counted at the API server: without the annotation, with the labels
//!                                ─► deletion                                      guarded by uid and by version
//! ```
//!
//! Watches of two kinds report changes in any order, and a deletion of an earlier leader may still be on its way.
//!
//! **Guarantees.** A deletion reaches an object only in the version with the annotation. So an object that its user
//! has taken out of its owner is kept, and an object without the annotation is safe from earlier deletions: they
//! were of another version. All that have the annotation are counted as gone before another one is deleted. An object that a
//! user deletes is not counted, whatever the picture says. A conflict changes nothing more: the next picture decides, and
//! it takes those that are chosen already. A refusal of such a change is told (`FailedScaleIn`), and until the next try only those go
//! that are chosen already.
//! **Caveats.** Whoever may change an object may choose it for the next scale-in by the annotation. The number holds.

use super::replicas::{AT_ONCE, text_of};
use api::meta::{LabelSelector, ObjectMeta};
use api::wire::Wire as _;
use cluster_model::members::{Members, is_chosen};
use cluster_model::metadata::SCALE_IN;
use cluster_model::objects::{Attempt, Failure, Kind, Plain, StoredObject, key};
use cluster_model::plan::{Plan, Step};
use jiff::Timestamp;
use serde_json::json;

/// Reason of the condition about a change of a VM or VMI that the API server refuses.
pub(crate) const REASON: &str = "FailedScaleIn";

/// Reason of the condition about a refused step: [`REASON`] for a change, `create` for a creation.
pub(crate) fn reason(refused: &Failure, create: &'static str) -> &'static str {
    if refused.about == Attempt::ScaleIn { REASON } else { create }
}

/// Time of the next try, while a refused change of a VM or VMI waits for it.
pub(crate) fn held_until(failed: Option<&Failure>, now: Timestamp) -> Option<Timestamp> {
    let refused = failed.filter(|failed| failed.about == Attempt::ScaleIn);
    refused.map(|refused| refused.retry).filter(|retry| *retry > now)
}

/// Scale-in of a pool or a replica set.
pub(crate) struct ScaleIn<'a> {
    /// The pool or the replica set.
    pub(crate) owner: (Kind, &'a Plain),
    /// Kind of the objects that it counts.
    pub(crate) kind: Kind,
    /// Selector of these objects.
    pub(crate) selector: &'a LabelSelector,
    /// Number of these objects that stay.
    pub(crate) wanted: usize,
    /// A change of one of these objects was refused, and the next try is not due.
    pub(crate) is_held: bool,
}

impl ScaleIn<'_> {
    /// Chooses candidates, in their order, and adds the steps before their deletion to the plan.
    pub(crate) fn choose<'m, T: StoredObject>(
        &self,
        alive: &[&'m T],
        mut candidates: Vec<&'m T>,
        plan: &mut Plan,
    ) -> Vec<&'m T> {
        candidates.sort_by_key(|object| !self.is_chosen(object.meta()));
        candidates.truncate(alive.len().saturating_sub(self.wanted).min(AT_ONCE));
        // The order is the same each time, so one that cannot be changed would hold up those that are chosen.
        candidates.retain(|object| !self.is_held || self.is_chosen(object.meta()));
        let goes = |object: &T| candidates.iter().any(|candidate| std::ptr::eq(*candidate, object));
        let staying: Vec<&T> = alive.iter().copied().filter(|object| !goes(object)).collect();
        self.keep(&staying, plan);
        for object in candidates.iter().filter(|object| !self.is_chosen(object.meta())) {
            self.annotate(object.meta(), Some(self.uid()), plan);
        }
        if !candidates.is_empty() {
            let (kind, owner) = self.owner;
            plan.require_unchanged(kind, owner.meta());
            plan.steps.push(Step::RequireMembers(self.members()));
        }
        candidates
    }

    /// Takes back the choice of objects that stay.
    pub(crate) fn keep<T: StoredObject>(&self, staying: &[&T], plan: &mut Plan) {
        let there =
            staying.iter().map(|object| object.meta()).filter(|meta| meta.deletion_timestamp.is_none());
        there
            .filter(|meta| !self.is_held && self.is_chosen(meta))
            .take(AT_ONCE)
            .for_each(|meta| self.annotate(meta, None, plan));
    }

    fn members(&self) -> Members {
        let (_, owner) = self.owner;
        Members {
            kind: self.kind,
            namespace: owner.meta().namespace.clone().unwrap_or_default(),
            owner: self.uid().to_owned(),
            selector: self.selector.clone(),
            selector_text: text_of(&self.selector.write()).unwrap_or_default(),
            least: self.wanted,
        }
    }

    fn annotate(&self, meta: &ObjectMeta, value: Option<&str>, plan: &mut Plan) {
        let change = json!({"metadata": {"annotations": {SCALE_IN: value}}});
        let version = meta.resource_version.clone().unwrap_or_default();
        plan.steps.push(Step::Patch { key: key(self.kind, meta), version, change, part: None });
    }

    fn is_chosen(&self, meta: &ObjectMeta) -> bool {
        is_chosen(meta, self.uid())
    }

    fn uid(&self) -> &str {
        self.owner.1.meta().uid.as_deref().unwrap_or_default()
    }
}

/// Metadata of an object that leaves its pool or its replica set, and stays.
pub(crate) fn released(meta: &ObjectMeta, owner: &str) -> ObjectMeta {
    let mut free = meta.clone();
    free.owner_references.retain(|reference| reference.uid != owner);
    free.annotations.remove(SCALE_IN);
    free
}
