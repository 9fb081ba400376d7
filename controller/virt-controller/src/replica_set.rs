//! Replica sets: so many VMIs of one template.
//!
//! **Flow.** Its VMIs are counted; too few are made, too many are deleted (those that do not serve first), those
//! that have ended are replaced. One that failed within `EARLY` keeps its place so long: a template that cannot run
//! does not become a storm of pods.
//! **Guarantees.** A VMI is named after a free number (`web-0`, `web-1`, …): with an old picture the same name is
//! made again, and the server says that it is there. A set that is paused makes and deletes nothing. A VMI that the selector does not
//! take any more is let go, also by a set that is paused. A VMI is deleted only if it has not changed since the decision (`scale_in`).
//! **Assumptions.** Its VMIs are those that it owns; one that merely has the labels is left alone.
//! **Caveats.** A change of the template is taken over by VMIs that are made after it: delete the others.

use super::replicas::{AT_ONCE, condition, set_count, text_of};
use super::scale_in::{self, ScaleIn, released};
use super::vmi::phase;
use api::meta::{LabelSelector, ObjectMeta};
use api::replica_set;
use api::vmi::{ConditionType, Phase, VirtualMachineInstance};
use api::wire::{self, Wire as _};
use cluster_model::conditions::status_of;
use cluster_model::metadata::{FENCING, RESERVED, SCALE_IN};
use cluster_model::objects::{Key, Kind, Plain, StoredObject as _, World, key, owner};
use cluster_model::plan::Plan;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Minimum age of a failed VMI before another takes its place.
const EARLY: SignedDuration = SignedDuration::from_secs(10);

/// Plan for a replica set.
pub(crate) fn decide(world: &World, namespace: &str, name: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(set) = world.replica_sets.get(namespace, name) else { return plan };
    let Some(uid) = set.meta().uid.clone() else { return plan };
    let selector = selector(set);
    let (ours, strangers): (Vec<&VirtualMachineInstance>, Vec<_>) = world
        .vmis_of(namespace, &uid)
        .partition(|vmi| vmi.metadata.deletion_timestamp.is_some() || selector.matches(&vmi.metadata.labels));
    let spec = &set.object["spec"];
    let wanted = spec["replicas"].as_u64().unwrap_or(1) as usize;
    let paused = spec["paused"].as_bool().unwrap_or(false);
    let failed = world.failures.get(&key(Kind::VirtualMachineInstanceReplicaSet, set.meta()));
    let lives =
        |vmi: &&VirtualMachineInstance| vmi.metadata.deletion_timestamp.is_none() && !phase(vmi).is_final();
    let mut alive: Vec<&VirtualMachineInstance> = ours.iter().copied().filter(lives).collect();
    let (count, serve) = (alive.len(), ours.iter().filter(|vmi| is_ready(vmi)).count());
    let stays = set.meta().deletion_timestamp.is_none();

    let held = scale_in::held_until(failed, now);
    held.into_iter().for_each(|until| plan.look_again(until));
    let mut changes = Plan::default();
    for vmi in strangers.iter().take(AT_ONCE).filter(|_| stays && held.is_none()) {
        release_vmi(vmi, &uid, &mut changes);
    }
    let rules = ScaleIn {
        owner: (Kind::VirtualMachineInstanceReplicaSet, set),
        kind: Kind::VirtualMachineInstance,
        selector: &selector,
        wanted,
        is_held: held.is_some(),
    };
    if stays && (paused || count <= wanted) {
        rules.keep(&alive, &mut changes);
    }
    if !paused && stays {
        // Failures that keep their place, and ends that are deleted.
        let (mut early, mut gone) = (0, 0);
        for vmi in
            ours.iter().filter(|vmi| phase(vmi).is_final() && vmi.metadata.deletion_timestamp.is_none())
        {
            match keeps_place_until(vmi).filter(|until| *until > now) {
                Some(until) => {
                    early += 1;
                    plan.look_again(until);
                }
                // The others with the next look.
                None if gone == AT_ONCE => break,
                None => {
                    gone += 1;
                    plan.delete_unchanged(key(Kind::VirtualMachineInstance, &vmi.metadata), &vmi.metadata);
                }
            }
        }
        if count > wanted {
            // Those that serve go last; of the others the newest first.
            alive.sort_by(|one, other| {
                let age = |vmi: &VirtualMachineInstance| vmi.metadata.creation_timestamp.clone();
                (is_ready(one), age(other)).cmp(&(is_ready(other), age(one)))
            });
            for vmi in rules.choose(&alive, alive.clone(), &mut plan) {
                plan.delete_unchanged(key(Kind::VirtualMachineInstance, &vmi.metadata), &vmi.metadata);
            }
        } else if failed.is_some_and(|failed| failed.retry > now) {
            failed.into_iter().for_each(|failed| plan.look_again(failed.retry));
        } else {
            let taken: BTreeSet<&str> =
                world.vmis.in_namespace(namespace).filter_map(|vmi| vmi.metadata.name.as_deref()).collect();
            let free =
                (0..).map(|number| format!("{name}-{number}")).filter(|name| !taken.contains(name.as_str()));
            for name in free.take(wanted.saturating_sub(count + early).min(AT_ONCE)) {
                let object = vmi(set, &name);
                plan.create(Key::new(Kind::VirtualMachineInstance, namespace, &name), object);
                plan.record_event(
                    Kind::VirtualMachineInstanceReplicaSet,
                    set.meta(),
                    false,
                    "SuccessfulCreate",
                    format!("Created virtual machine instance {name}"),
                );
            }
        }
    }

    // VMIs are created before others are changed: a refusal of a change does not hold that up.
    let mut plan = if count > wanted { changes.and(plan) } else { plan.and(changes) };
    let mut next = set.object.clone();
    let status = status_of(&mut next);
    set_count(status, "replicas", count);
    set_count(status, "readyReplicas", serve);
    if let Some(selector) = text_of(&spec["selector"]) {
        status["labelSelector"] = json!(selector);
    }
    condition(status, replica_set::ConditionType::ReplicaPaused, paused.then_some(("Paused", "")), now);
    condition(
        status,
        replica_set::ConditionType::ReplicaFailure,
        failed.map(|failed| (scale_in::reason(failed, "FailedCreate"), failed.message.as_str())),
        now,
    );
    let steps = std::mem::take(&mut plan.steps);
    plan.update(Kind::VirtualMachineInstanceReplicaSet, set.meta(), &set.object, &next, true);
    plan.steps.extend(steps);
    plan
}

/// Selector of the VMIs of a set. One that does not take the VMIs that the set makes would let each of them go: all are taken
/// then.
fn selector(set: &Plain) -> LabelSelector {
    let read: Option<LabelSelector> = wire::read(set.object["spec"]["selector"].clone()).ok();
    let made: Option<ObjectMeta> = wire::read(vmi(set, "")["metadata"].take()).ok();
    let labels = made.map(|made| made.labels).unwrap_or_default();
    read.filter(|selector| selector.matches(&labels)).unwrap_or_default()
}

/// A VMI leaves the set, and stays.
fn release_vmi(vmi: &VirtualMachineInstance, uid: &str, plan: &mut Plan) {
    let mut free = vmi.clone();
    free.metadata = released(&vmi.metadata, uid);
    plan.update(Kind::VirtualMachineInstance, &vmi.metadata, &vmi.write(), &free.write(), false);
}

/// Time until which a VMI that failed keeps its place.
fn keeps_place_until(vmi: &VirtualMachineInstance) -> Option<Timestamp> {
    if phase(vmi) != Phase::Failed {
        return None;
    }
    let made: Timestamp = vmi.metadata.creation_timestamp.as_deref()?.parse().ok()?;
    made.checked_add(EARLY).ok()
}

fn is_ready(vmi: &VirtualMachineInstance) -> bool {
    vmi.metadata.deletion_timestamp.is_none()
        && vmi.status.as_ref().is_some_and(|status| {
            cluster_model::conditions::is_true(&status.conditions, &ConditionType::Ready)
        })
}

fn vmi(set: &Plain, name: &str) -> Value {
    let template = &set.object["spec"]["template"];
    let mut object = json!({
        "apiVersion": api::vm::API_VERSION,
        "kind": "VirtualMachineInstance",
        "metadata": {},
        "spec": template["spec"],
    });
    let meta = &mut object["metadata"];
    for field in ["labels", "annotations"] {
        if !template["metadata"][field].is_null() {
            meta[field] = template["metadata"][field].clone();
        }
    }
    if let Some(notes) = meta.get_mut("annotations").and_then(Value::as_object_mut) {
        notes.remove(FENCING);
        notes.remove(SCALE_IN);
    }
    // Our programs find VMIs by these labels, and trust their values.
    if let Some(labels) = meta.get_mut("labels").and_then(Value::as_object_mut) {
        labels.retain(|key, _| !RESERVED.contains(&key.as_str()));
    }
    meta["name"] = json!(name);
    meta["namespace"] = json!(set.meta().namespace);
    meta["ownerReferences"] = json!([owner::reference(Kind::VirtualMachineInstanceReplicaSet, set.meta())]);
    object
}
