//! The KubeVirt object: what is said of the installation. Its settings are read by [`super::config`].
//!
//! **Flow.** Where there is none, `kubevirt` is made in our namespace ([`missing`]). Whoever can read it finds the
//! installation deployed: what runs this code is part of it.
//! **Caveats.** Deletion is not carried out yet: no finalizer of ours is on the object, so that deleting it takes away
//! the settings and nothing else; it is made again.

use super::conditions::stamp;
use crate::kind::{Key, Kind};
use crate::plan::Plan;
use crate::world::{Kept, World};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The object's name.
const NAME: &str = "kubevirt";

/// Makes the object where there is none.
pub fn missing(world: &World) -> Plan {
    let mut plan = Plan::default();
    if world.settings.all().next().is_none() {
        let namespace = world.facts.namespace.clone();
        let object = json!({
            "apiVersion": Kind::KubeVirt.api_version(),
            "kind": Kind::KubeVirt.name(),
            "metadata": {"name": NAME, "namespace": namespace},
            "spec": {},
        });
        plan.create(Key::new(Kind::KubeVirt, namespace, NAME), object);
    }
    plan
}

/// What is to be said of the object.
pub fn decide(world: &World, namespace: &str, name: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(settings) = world.settings.get(namespace, name) else { return missing(world) };
    if settings.meta().deletion_timestamp.is_some() {
        return plan;
    }
    let mut next = settings.object.clone();
    let status = &mut next["status"];
    let version = &world.facts.version;
    status["phase"] = json!("Deployed");
    status["observedGeneration"] = json!(settings.meta().generation);
    status["defaultArchitecture"] = json!("amd64");
    for name in ["operatorVersion", "observedKubeVirtVersion", "targetKubeVirtVersion"] {
        status[name] = json!(version);
    }
    let says = [
        ("Created", "True", "AllResourcesCreated", "All resources were created."),
        ("Synchronized", "True", "AllResourcesSynchronized", "All resources are as they should be."),
        ("Available", "True", "AllComponentsReady", "All components are ready."),
        ("Progressing", "False", "AllComponentsReady", "All components are ready."),
        ("Degraded", "False", "AllComponentsReady", "All components are ready."),
    ];
    let old = status["conditions"].as_array().cloned().unwrap_or_default();
    let mut list: Vec<Value> = Vec::new();
    for (kind, value, reason, message) in says {
        let before = old.iter().find(|condition| condition["type"] == kind && condition["status"] == value);
        let since =
            before.map_or_else(|| json!(stamp(now)), |condition| condition["lastTransitionTime"].clone());
        list.push(json!({
            "type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": since,
        }));
    }
    list.extend(old.into_iter().filter(|condition| says.iter().all(|(kind, ..)| condition["type"] != *kind)));
    status["conditions"] = json!(list);
    plan.update(Kind::KubeVirt, settings.meta(), &settings.object, &next, true);
    plan
}
