//! What is said of the installation by the KubeVirt object and by the CDI object: whether its programs are ready, and which of
//! the settings have no effect.

use api::kubevirt::served::Unserved;
use jiff::Timestamp;
use kubernetes::conditions::stamp;
use kubernetes::objects::{Component, Kept as _, World};
use serde_json::{Value, json};

/// The most fields without an effect that a condition names.
const NAMED: usize = 20;

/// A condition: its type, whether it is true, a word and a sentence.
pub(crate) type Said<'a> = (&'static str, &'static str, &'static str, &'a str);

/// A KubeVirt object stays: the installation is wanted.
pub(crate) fn stays(world: &World) -> bool {
    world.kubevirts.all().any(|object| object.meta().deletion_timestamp.is_none())
}

/// Which of these Deployments and DaemonSets is not ready yet, in a sentence. Nothing where all are; and nothing where there are no
/// objects at all: then the programs run outside the cluster, and whoever started them knows.
pub(crate) fn missing(world: &World, deployments: &[&str], daemons: &[&str]) -> Option<String> {
    let home = &world.facts.namespace;
    if world.deployments.within(home).next().is_none() && world.daemon_sets.within(home).next().is_none() {
        return None;
    }
    let deployments = deployments.iter().map(|name| (name, world.deployments.get(home, name)));
    let daemons = daemons.iter().map(|name| (name, world.daemon_sets.get(home, name)));
    let said: Vec<String> = deployments.chain(daemons).filter_map(|(name, found)| why(name, found)).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

fn why(name: &str, component: Option<&Component>) -> Option<String> {
    let Some(component) = component else { return Some(format!("{name} is not there")) };
    let Component { current, wanted, ready, .. } = component;
    match () {
        () if !current => Some(format!("{name} is being changed")),
        () if ready < wanted => Some(format!("{name}: {ready} of {wanted} are ready")),
        () => None,
    }
}

/// Whether every field that is set has an effect, as a condition. Its message names the fields that have none.
pub(crate) fn served(found: &[Unserved]) -> (&'static str, &'static str, String) {
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
pub(crate) fn say(object: &mut Value, says: &[Said<'_>], now: Timestamp) {
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
