//! KubeVirt objects that are not the installation's: those of other namespaces, and those behind the first one of ours. virt-api
//! refuses them; one may exist from a time without virt-api, or from an installation that was moved.
//!
//! Such an object has no effect. It says so in its conditions, with the reason that upstream's operator gives, and while it is being
//! deleted it loses our finalizer.

use super::{is_said, removal};
use crate::installation::{self, set_conditions};
use api::kubevirt::ConditionType;
use cluster_model::conditions::status_of;
use cluster_model::objects::{Kind, Plain, StoredObject as _, World};
use cluster_model::plan::Plan;
use jiff::Timestamp;

/// Reason of the conditions and of the event.
const REASON: &str = "ExistingDeployment";

/// True if the object is not the installation's. While it is being deleted, one that another object of our namespace replaces is
/// not the installation's either, so that its end is not the end of the VMs.
pub(super) fn is_unwanted(world: &World, object: &Plain) -> bool {
    let first = world.kubevirts.in_namespace(&world.facts.namespace).next();
    let is_first = first.is_some_and(|first| first.meta.name == object.meta.name);
    let is_ours = object.meta.namespace.as_deref() == Some(&*world.facts.namespace) && is_first;
    !is_ours || object.meta.deletion_timestamp.is_some() && installation::is_wanted(world)
}

/// Plan for such an object.
pub(super) fn decide(world: &World, object: &Plain, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let mut next = object.object.clone();
    if object.meta.deletion_timestamp.is_some() {
        if object.meta.finalizers.iter().any(|finalizer| finalizer == removal::FINALIZER) {
            removal::release(object, &mut next);
            plan.update(Kind::KubeVirt, object.meta(), &object.object, &next, true);
        }
        return plan;
    }
    let home = &world.facts.namespace;
    let message = match world.kubevirts.in_namespace(home).next() {
        Some(first) => format!(
            "KubeVirt {home}/{} is in use, and a cluster has only one KubeVirt object: this one has no effect; delete it",
            first.meta.name.as_deref().unwrap_or_default()
        ),
        None => format!(
            "only a KubeVirt object in the namespace of virt-controller, {home}, has an effect: this one has none; delete it"
        ),
    };
    // The phase of the installation, which this object had or seemed to have.
    if let Some(status) = status_of(&mut next).as_object_mut() {
        status.remove("phase");
    }
    let says =
        [("Synchronized", "False"), ("Available", "False"), ("Progressing", "False"), ("Degraded", "True")];
    set_conditions::<ConditionType>(
        &mut next,
        &says.map(|(kind, value)| (kind, value, REASON, &*message)),
        now,
    );
    plan.update(Kind::KubeVirt, object.meta(), &object.object, &next, true);
    if !is_said(&object.object, "Synchronized", REASON) {
        plan.record_event(Kind::KubeVirt, object.meta(), true, REASON, message);
    }
    plan
}
