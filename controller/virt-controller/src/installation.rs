//! State of the installation for the KubeVirt object and the CDI object: the readiness of its programs, and
//! the settings without effect.

use api::condition::ConditionKind;
use api::kubevirt::served::Unserved;
use cluster_model::components::PLACED;
use cluster_model::conditions::{self, stamp};
use cluster_model::objects::names::fnv;
use cluster_model::objects::{Component, Plain, World};
use cluster_model::versions::IMAGES;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The Deployment whose manifests say which version is wanted.
const CONTROLLER: &str = "virt-controller";
/// The most fields without an effect that a condition names.
const NAMED: usize = 20;

/// A condition: type, status, reason and message.
pub(crate) type ConditionRow<'a> = (&'static str, &'static str, &'static str, &'a str);

/// The KubeVirt object of this installation, unless it is being deleted: the first one of our namespace. One in another
/// namespace has no effect.
pub(crate) fn settings(world: &World) -> Option<&Plain> {
    let mut own = world.kubevirts.in_namespace(&world.facts.namespace);
    own.find(|object| object.meta.deletion_timestamp.is_none())
}

/// True if the installation is not being removed.
pub(crate) fn is_wanted(world: &World) -> bool {
    settings(world).is_some()
}

/// The version that the installation is to have: that of the manifests of virt-controller, as they were applied last; ours,
/// where they say none.
pub(crate) fn target(world: &World) -> &str {
    of_manifests(world).unwrap_or(&world.facts.version)
}

fn of_manifests(world: &World) -> Option<&str> {
    world.deployments.get(&world.facts.namespace, CONTROLLER).and_then(Component::version)
}

/// Registry of the images of the target version.
pub(crate) fn registry(world: &World) -> Option<&str> {
    world.deployments.get(&world.facts.namespace, CONTROLLER).and_then(Component::registry)
}

/// `observedDeploymentConfig` and `observedDeploymentID` for the status of the KubeVirt object: the version,
/// registry and images in the manifests, as JSON, and a checksum. They change only with an upgrade.
pub(crate) fn deployment(world: &World) -> (String, String) {
    let home = &world.facts.namespace;
    let images = world.deployments.get(home, CONTROLLER).and_then(|found| found.meta.annotations.get(IMAGES));
    let said = [
        ("namespace", Some(home.as_str())),
        ("registry", registry(world)),
        ("kubeVirtVersion", Some(target(world))),
        ("virtControllerImage", images.map(String::as_str)),
    ];
    let mut config: BTreeMap<&str, &str> =
        said.into_iter().filter_map(|(field, value)| Some((field, value?))).collect();
    let id = format!("{:016x}", fnv(&json!(config).to_string()));
    config.insert("id", &id);
    (json!(config).to_string(), id)
}

/// The Deployments and DaemonSets of these names, if they exist.
fn components<'a>(
    world: &'a World,
    deployments: &'a [&'a str],
    daemons: &'a [&'a str],
) -> impl Iterator<Item = (&'a str, Option<&'a Component>)> {
    let home = &world.facts.namespace;
    let deployments = deployments.iter().map(|name| (*name, world.deployments.get(home, name)));
    let daemons = daemons.iter().map(|name| (*name, world.daemon_sets.get(home, name)));
    deployments.chain(daemons)
}

/// True if the programs run outside of the cluster, so that there are no Deployments and DaemonSets.
fn is_elsewhere(world: &World) -> bool {
    let home = &world.facts.namespace;
    world.deployments.in_namespace(home).next().is_none()
        && world.daemon_sets.in_namespace(home).next().is_none()
}

/// Message with the Deployments and DaemonSets that are not ready, or not of the target version. `None` if
/// all are, and if there are no objects at all.
pub(crate) fn unready_components(world: &World, deployments: &[&str], daemons: &[&str]) -> Option<String> {
    if is_elsewhere(world) {
        return None;
    }
    let target = of_manifests(world);
    let said: Vec<String> = components(world, deployments, daemons)
        .filter_map(|(name, found)| why_unready(name, found, target))
        .collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// True if at least one pod of each of these Deployments and DaemonSets is ready, of any version.
pub(crate) fn answer(world: &World, deployments: &[&str], daemons: &[&str]) -> bool {
    let answers = |component: &Component| component.answering > 0 || component.wanted == 0;
    is_elsewhere(world)
        || components(world, deployments, daemons).all(|(_, found)| found.is_some_and(answers))
}

fn why_unready(name: &str, component: Option<&Component>, target: Option<&str>) -> Option<String> {
    let Some(component) = component else { return Some(format!("{name} does not exist")) };
    let Component { current, wanted, ready, has_old, stuck, .. } = component;
    let version = component.version();
    match target.filter(|target| version != Some(target)) {
        Some(target) => Some(format!("{name} is of version {}, not {target}", version.unwrap_or("none"))),
        None if !current => Some(format!("{name} is being changed")),
        None if *wanted == 0 => {
            Some(format!("{name} has no pods: check its replicas, and its node placement"))
        }
        None if ready < wanted => {
            let stuck =
                stuck.as_deref().map(|stuck| format!(" ({stuck}{})", customized_fields_note(component)));
            Some(format!("{name}: {ready} of {wanted} are ready{}", stuck.unwrap_or_default()))
        }
        None if *has_old => Some(format!("{name}: older pods still exist")),
        None => None,
    }
}

/// Fields of a component that the KubeVirt object changes, as part of a message: they may be the cause of
/// pods that do not get ready.
fn customized_fields_note(component: &Component) -> String {
    let names = component.meta.annotations.get(PLACED).map_or("", String::as_str);
    let names: String = names.chars().take(200).collect();
    if names.is_empty() { names } else { format!("; fields of it that the KubeVirt object sets: {names}") }
}

/// Condition that names the fields without an effect, if any.
pub(crate) fn served_condition(found: &[Unserved]) -> (&'static str, &'static str, String) {
    if found.is_empty() {
        return ("True", "AllFieldsServed", "Every field that is set has an effect.".to_owned());
    }
    let mut named: Vec<String> = found.iter().take(NAMED).map(ToString::to_string).collect();
    if let Some(more) = found.len().checked_sub(NAMED).filter(|&more| more > 0) {
        named.push(format!("and {more} more"));
    }
    ("False", "FieldsWithoutEffect", format!("{}.", named.join("; ")))
}

/// Sets conditions; others stay.
pub(crate) fn set_conditions<T: ConditionKind + for<'a> From<&'a str>>(
    object: &mut Value,
    says: &[ConditionRow<'_>],
    now: Timestamp,
) {
    conditions::change_in::<T>(conditions::status_of(object), |list| {
        for &(kind, status, reason, message) in says {
            conditions::set(list, T::from(kind), (status, reason, message), &stamp(now));
        }
    });
}
