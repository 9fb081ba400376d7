//! The KubeVirt object: what is said of the installation, and its end. Its settings are read by [`kubernetes::config`].
//!
//! ```text
//!  (none) ─ made, unless it was taken away ─► Deploying ◄─► Deployed        components: what runs, and is ready
//!                                                └────┬────────┘
//!                                             deleted ▼
//!   VMs go (or are waited for) ─► webhooks, APIServices go ─► noted that it was taken away ─► our finalizer goes   removal
//! ```
//!
//! **Flow.** Where there is no object, `kubevirt` is made in our namespace ([`missing`]): what is installed holds none.
//! **Guarantees.** Nothing of the installation that a VM needs goes before the last VM. An object that was taken
//! away is not made again: that would undo what somebody wanted, and hold up the end of its definition.
//! A field that is set and has no effect is named by the condition `SettingsServed`.
//! **Caveats.** What was applied beside the object (programs, rights, definitions) is taken away by whoever applied it.

mod components;
mod removal;
#[cfg(test)]
mod tests;

use api::kubevirt::served::{CONDITION, unserved};
use jiff::Timestamp;
use kubernetes::conditions::stamp;
use kubernetes::objects::{KUBEVIRT, Kept as _, Key, Kind, REMOVED, World, key};
use kubernetes::plan::{Plan, Step};
use serde_json::{Value, json};

/// The most fields without an effect that a condition names.
const NAMED: usize = 20;

/// Makes the object where there is none, and was none.
pub(crate) fn missing(world: &World) -> Plan {
    let mut plan = Plan::default();
    if world.kubevirts.all().next().is_none() && removal::note(world).is_none() {
        let namespace = world.facts.namespace.clone();
        let object = json!({
            "apiVersion": Kind::KubeVirt.api_version(),
            "kind": Kind::KubeVirt.name(),
            "metadata": {"name": KUBEVIRT, "namespace": namespace},
            "spec": {},
        });
        // Whoever has just begun to act may have heard that the object is gone, and not yet why.
        let note = Key::new(Kind::ConfigMap, namespace.clone(), REMOVED);
        plan.steps.push(Step::Absent { key: note, of: None });
        plan.create(Key::new(Kind::KubeVirt, namespace, KUBEVIRT), object);
    }
    plan
}

/// What is to be done for the object.
pub(crate) fn decide(world: &World, namespace: &str, name: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(settings) = world.kubevirts.get(namespace, name) else { return missing(world) };
    if settings.meta().deletion_timestamp.is_some() {
        return removal::decide(world, settings, now);
    }
    // Somebody wants it again.
    if let Some(note) = removal::note(world) {
        plan.delete(key(Kind::ConfigMap, note.meta()), note.meta());
    }
    let mut next = settings.object.clone();
    let finalizers = settings.meta().finalizers.clone();
    if !finalizers.iter().any(|finalizer| finalizer == removal::FINALIZER) {
        let all: Vec<String> = finalizers.into_iter().chain([removal::FINALIZER.to_owned()]).collect();
        next["metadata"]["finalizers"] = json!(all);
    }
    let missing = components::missing(world);
    let status = &mut next["status"];
    let version = &world.facts.version;
    // Once it was there, it is there: what is missing for a while is told by the conditions.
    if missing.is_none() || status["phase"].is_null() {
        status["phase"] = json!(if missing.is_none() { "Deployed" } else { "Deploying" });
    }
    status["observedGeneration"] = json!(settings.meta().generation);
    status["defaultArchitecture"] = json!("amd64");
    for name in ["operatorVersion", "observedKubeVirtVersion", "targetKubeVirtVersion"] {
        status[name] = json!(version);
    }
    let (value, reason, message) = served(&settings.object);
    let mut says = conditions(missing.as_deref());
    says.push((CONDITION, value, reason, &message));
    say(&mut next, &says, now);
    plan.update(Kind::KubeVirt, settings.meta(), &settings.object, &next, true);
    plan
}

/// A condition: its type, whether it is true, a word and a sentence.
type Said<'a> = (&'static str, &'static str, &'static str, &'a str);

fn conditions(missing: Option<&str>) -> Vec<Said<'_>> {
    let ready = "All components are ready.";
    let all = [
        ("Created", "True", "AllResourcesCreated", "All resources were created."),
        ("Synchronized", "True", "AllResourcesSynchronized", "All resources are as they should be."),
    ];
    let (available, progressing, degraded, reason, message) = match missing {
        None => ("True", "False", "False", "AllComponentsReady", ready),
        Some(missing) => ("False", "True", "True", "DeploymentInProgress", missing),
    };
    let state = [("Available", available), ("Progressing", progressing), ("Degraded", degraded)];
    all.into_iter().chain(state.map(|(kind, value)| (kind, value, reason, message))).collect()
}

/// Whether every field that is set has an effect, as a condition. Its message names the fields that have none.
fn served(object: &Value) -> (&'static str, &'static str, String) {
    let found = unserved(object);
    if found.is_empty() {
        return ("True", "AllFieldsServed", "Every field that is set has an effect.".to_owned());
    }
    let mut named: Vec<String> = found.iter().take(NAMED).map(ToString::to_string).collect();
    if let Some(more) = found.len().checked_sub(NAMED).filter(|&more| more > 0) {
        named.push(format!("and {more} more"));
    }
    ("False", "FieldsWithoutEffect", format!("{}.", named.join("; ")))
}

/// Says conditions. The time of each is that of its last change; those of others stay.
fn say(object: &mut Value, says: &[Said<'_>], now: Timestamp) {
    let old = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let mut list: Vec<Value> = Vec::new();
    for (kind, value, reason, message) in says {
        let before = old.iter().find(|condition| condition["type"] == *kind && condition["status"] == *value);
        let since =
            before.map_or_else(|| json!(stamp(now)), |condition| condition["lastTransitionTime"].clone());
        list.push(json!({
            "type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": since,
        }));
    }
    list.extend(old.into_iter().filter(|condition| says.iter().all(|(kind, ..)| condition["type"] != *kind)));
    object["status"]["conditions"] = json!(list);
}
