//! What runs of the installation, and whether it is ready.

use kubernetes::objects::{Component, World};

/// What must be ready, by the names of their objects: two of them are Deployments, one is a DaemonSet.
const DEPLOYMENTS: [&str; 2] = ["virt-controller", "virt-api"];
const DAEMONS: [&str; 1] = ["virt-handler"];

/// What is not ready yet, in a sentence. Nothing where all is; and nothing where there are no objects at all: then it
/// runs outside the cluster, and whoever started it knows.
pub(super) fn missing(world: &World) -> Option<String> {
    let home = &world.facts.namespace;
    if world.deployments.within(home).next().is_none() && world.daemon_sets.within(home).next().is_none() {
        return None;
    }
    let deployments = DEPLOYMENTS.map(|name| (name, world.deployments.get(home, name)));
    let daemons = DAEMONS.map(|name| (name, world.daemon_sets.get(home, name)));
    let all = deployments.into_iter().chain(daemons);
    let said: Vec<String> = all.filter_map(|(name, found)| why(name, found)).collect();
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
