//! Replica sets: so many VMIs of one template.
//!
//! **Flow.** Its VMIs are counted; too few are made, too many are deleted (those that do not serve first), those
//! that have ended are replaced. One that failed within `EARLY` keeps its place so long: a template that cannot run
//! does not become a storm of pods.
//! **Guarantees.** A VMI is named after a free number (`web-0`, `web-1`, …): with an old picture the same name is
//! made again, and the server says that it is there. A set that is paused makes and deletes nothing.
//! **Assumptions.** Its VMIs are those that it owns; one that merely has the labels is left alone.
//! **Caveats.** A change of the template is taken over by VMIs that are made after it: delete the others.

use super::vmi::phase;
use api::vmi::{ConditionType, Phase, VirtualMachineInstance};
use jiff::{SignedDuration, Timestamp};
use kubernetes::conditions::stamp;
use kubernetes::metadata::FENCING;
use kubernetes::objects::{Kept, Key, Kind, World, key, owner};
use kubernetes::plan::Plan;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// As many as are made or deleted in one round; the rest follows.
const AT_ONCE: usize = 10;

/// How old a VMI that failed must be before another takes its place.
const EARLY: SignedDuration = SignedDuration::from_secs(10);

/// What is to be done for a replica set.
pub(crate) fn decide(world: &World, namespace: &str, name: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(set) = world.replica_sets.get(namespace, name) else { return plan };
    let Some(uid) = set.meta().uid.clone() else { return plan };
    let mut ours: Vec<&VirtualMachineInstance> = world.vmis_of(&uid).collect();
    let spec = &set.object["spec"];
    let wanted = spec["replicas"].as_u64().unwrap_or(1) as usize;
    let paused = spec["paused"].as_bool().unwrap_or(false);
    let failed = world.failures.get(&key(Kind::VirtualMachineInstanceReplicaSet, set.meta()));
    let lives =
        |vmi: &&VirtualMachineInstance| vmi.metadata.deletion_timestamp.is_none() && !phase(vmi).is_final();
    let (count, serve) =
        (ours.iter().filter(|vmi| lives(vmi)).count(), ours.iter().filter(|vmi| serves(vmi)).count());

    if !paused && set.meta().deletion_timestamp.is_none() {
        let mut held = 0;
        for vmi in
            ours.iter().filter(|vmi| phase(vmi).is_final() && vmi.metadata.deletion_timestamp.is_none())
        {
            match held_until(vmi).filter(|until| *until > now) {
                Some(until) => {
                    held += 1;
                    plan.look_again(until);
                }
                None => plan.delete(key(Kind::VirtualMachineInstance, &vmi.metadata), &vmi.metadata),
            }
        }
        if count > wanted {
            // Those that serve go last; of the others the newest first.
            ours.retain(lives);
            ours.sort_by(|one, other| {
                let age = |vmi: &VirtualMachineInstance| vmi.metadata.creation_timestamp.clone();
                (serves(one), age(other)).cmp(&(serves(other), age(one)))
            });
            for vmi in ours.iter().take((count - wanted).min(AT_ONCE)) {
                plan.delete(key(Kind::VirtualMachineInstance, &vmi.metadata), &vmi.metadata);
            }
        } else if failed.is_some_and(|failed| failed.retry > now) {
            failed.into_iter().for_each(|failed| plan.look_again(failed.retry));
        } else {
            let taken: BTreeSet<&str> =
                world.vmis.within(namespace).filter_map(|vmi| vmi.metadata.name.as_deref()).collect();
            let free =
                (0..).map(|number| format!("{name}-{number}")).filter(|name| !taken.contains(name.as_str()));
            for name in free.take(wanted.saturating_sub(count + held).min(AT_ONCE)) {
                let object = vmi(set, &name);
                plan.create(Key::new(Kind::VirtualMachineInstance, namespace, &name), object);
                plan.tell(
                    Kind::VirtualMachineInstanceReplicaSet,
                    set.meta(),
                    false,
                    "SuccessfulCreate",
                    format!("Created virtual machine instance {name}"),
                );
            }
        }
    }

    let mut next = set.object.clone();
    let status = &mut next["status"];
    let put = |status: &mut Value, name: &str, number: usize| {
        // A Go client leaves out what is nothing.
        if number > 0 || !status[name].is_null() {
            status[name] = json!(number);
        }
    };
    put(status, "replicas", ours.iter().filter(|vmi| lives(vmi)).count().max(count));
    put(status, "readyReplicas", serve);
    if let Some(selector) = text_of(&spec["selector"]) {
        status["labelSelector"] = json!(selector);
    }
    condition(status, "ReplicaPaused", paused.then_some(("Paused", "")), now);
    condition(status, "ReplicaFailure", failed.map(|failed| ("FailedCreate", failed.message.as_str())), now);
    let steps = std::mem::take(&mut plan.steps);
    plan.update(Kind::VirtualMachineInstanceReplicaSet, set.meta(), &set.object, &next, true);
    plan.steps.extend(steps);
    plan
}

/// Until when a VMI that failed keeps its place.
fn held_until(vmi: &VirtualMachineInstance) -> Option<Timestamp> {
    if phase(vmi) != Phase::Failed {
        return None;
    }
    let made: Timestamp = vmi.metadata.creation_timestamp.as_deref()?.parse().ok()?;
    made.checked_add(EARLY).ok()
}

fn serves(vmi: &VirtualMachineInstance) -> bool {
    vmi.metadata.deletion_timestamp.is_none()
        && vmi
            .status
            .as_ref()
            .is_some_and(|status| kubernetes::conditions::is(&status.conditions, &ConditionType::Ready))
}

fn vmi(set: &kubernetes::objects::Plain, name: &str) -> Value {
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
    }
    meta["name"] = json!(name);
    meta["namespace"] = json!(set.meta().namespace);
    meta["ownerReferences"] = json!([owner::reference(Kind::VirtualMachineInstanceReplicaSet, set.meta())]);
    object
}

/// A selector as the one text that the scale subresource needs.
fn text_of(selector: &Value) -> Option<String> {
    let mut parts: Vec<String> = (selector["matchLabels"].as_object().into_iter().flatten())
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for rule in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = rule["key"].as_str()?;
        let values: Vec<&str> =
            rule["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let values = values.join(",");
        parts.push(match rule["operator"].as_str()? {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        });
    }
    (!parts.is_empty()).then(|| parts.join(","))
}

/// Says a condition, or takes it away.
fn condition(status: &mut Value, kind: &str, says: Option<(&str, &str)>, now: Timestamp) {
    let mut list = status["conditions"].as_array().cloned().unwrap_or_default();
    let at = list.iter().position(|condition| condition["type"] == kind);
    match (says, at) {
        (None, None) => return,
        (None, Some(at)) => {
            list.remove(at);
        }
        (Some((reason, message)), at) => {
            let since = at.map_or_else(|| json!(stamp(now)), |at| list[at]["lastTransitionTime"].clone());
            let new = json!({
                "type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since,
            });
            match at {
                Some(at) => list[at] = new,
                None => list.push(new),
            }
        }
    }
    match list.is_empty() {
        false => status["conditions"] = json!(list),
        true => drop(status.as_object_mut().and_then(|status| status.remove("conditions"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_taken_back_whole() {
        let mut status = json!({});
        condition(&mut status, "ReplicaFailure", Some(("FailedCreate", "no room")), Timestamp::UNIX_EPOCH);
        assert_eq!(status["conditions"][0]["message"], "no room");
        condition(&mut status, "ReplicaFailure", None, Timestamp::UNIX_EPOCH);
        assert_eq!(status, json!({}));
    }
}
