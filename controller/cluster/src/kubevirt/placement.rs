//! Where the components run, how many there are, and by which Secrets their images are pulled.
//!
//! | of the KubeVirt object | reaches |
//! |---|---|
//! | `spec.infra.replicas`, `.nodePlacement` | virt-controller and virt-api |
//! | `spec.workloads.nodePlacement` | virt-handler |
//! | `spec.imagePullSecrets` | all, and cdi-uploadproxy |
//!
//! What the object says is added to what the manifests say: a label of theirs in a `nodeSelector` stays as it is (virt-handler is a
//! program of amd64), terms, tolerations and Secrets are appended. Where the object says nothing any more, the field is that of the
//! manifests again, which stands in an annotation; a field of which it never said anything is left alone.
//!
//! **Guarantees.** Nothing of a pod but [`kubernetes::placement`] is written, which a policy of the API server holds as well: who
//! writes the KubeVirt object, or has virt-controller's token, says nowhere what runs in a privileged pod.
//! **Caveats.** The components are changed at once, each pod by pod. Pods that find no node stay `Pending` beside those of before.

use crate::installation::Said;
use jiff::Timestamp;
use kubernetes::objects::{Component, Failure, Kind, World};
use kubernetes::placement::{OF_PODS, PLACED, PRISTINE, REPLICAS, object};
use kubernetes::plan::Plan;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// The components, and which part of the KubeVirt object is about each.
const COMPONENTS: [(Kind, &str, Option<&str>); 4] = [
    (Kind::Deployment, "virt-controller", Some("infra")),
    (Kind::Deployment, "virt-api", Some("infra")),
    (Kind::Deployment, "cdi-uploadproxy", None),
    (Kind::DaemonSet, "virt-handler", Some("workloads")),
];
/// As much of what the API server says is passed on.
const LONGEST: usize = 1000;

/// What is to be changed, and what is in its way.
pub(super) struct Placement {
    pub(super) plan: Plan,
    problem: Option<String>,
}

/// What is to be changed of the components for the KubeVirt object `settings`, of which `failure` is known.
pub(super) fn decide(
    world: &World,
    settings: &Value,
    failure: Option<&Failure>,
    now: Timestamp,
) -> Placement {
    let mut plan = Plan::default();
    let failure = failure.filter(|failure| matches!(failure.about, Kind::Deployment | Kind::DaemonSet));
    let mut problem = failure.map(|failure| failure.message.chars().take(LONGEST).collect::<String>());
    for (kind, name, part) in COMPONENTS {
        let home = &world.facts.namespace;
        let found = match kind {
            Kind::DaemonSet => world.daemon_sets.get(home, name),
            _ => world.deployments.get(home, name),
        };
        let Some(component) = found else { continue };
        match change(component, &settings["spec"], part) {
            Ok(None) => {}
            Ok(Some((is, should))) if failure.is_none_or(|failure| failure.retry <= now) => {
                plan.update(kind, &component.meta, &is, &should, false);
            }
            // What the API server has refused is tried again, in its time.
            Ok(Some(_)) => {}
            Err(why) => problem = problem.or(Some(format!("{name}: {why}"))),
        }
    }
    Placement { plan, problem }
}

impl Placement {
    /// Whether the components are as the object says.
    pub(super) fn condition(&self) -> Said<'_> {
        match &self.problem {
            None => {
                ("Synchronized", "True", "AllResourcesSynchronized", "All resources are as they should be.")
            }
            Some(problem) => ("Synchronized", "False", "ComponentsNotPlaced", problem),
        }
    }
}

/// A component as it is and as it should be, by the fields that are ours; nothing, where both are the same.
fn change(component: &Component, spec: &Value, part: Option<&str>) -> Result<Option<(Value, Value)>, String> {
    let notes = &component.meta.annotations;
    let placed = notes.get(PLACED).map_or("", String::as_str);
    let pristine = notes.get(PRISTINE).map(|text| serde_json::from_str::<Map<String, Value>>(text));
    let pristine = match pristine {
        Some(Ok(pristine)) => pristine,
        // Whoever installed it says nothing of where it was to run: nothing is added to it, and nothing taken back.
        _ if says_nothing(spec, part) && placed.is_empty() => return Ok(None),
        _ => {
            return Err(format!(
                "its annotation {PRISTINE} is missing, or is not JSON: apply the manifests of this version again"
            ));
        }
    };
    let said = said(spec, part, &pristine)?;
    let mut should = component.placement.clone();
    for name in OF_PODS.into_iter().chain([REPLICAS]) {
        let is_ours = said.contains_key(name) || placed.split(',').any(|placed| placed == name);
        match said.get(name).or(pristine.get(name)) {
            Some(value) if is_ours => drop(should.insert(name.to_owned(), value.clone())),
            None if is_ours => drop(should.remove(name)),
            _ => {}
        }
    }
    let names: BTreeSet<&str> = said.keys().map(String::as_str).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(",");
    if should == component.placement && names == placed {
        return Ok(None);
    }
    let noted = |fields: &Map<String, Value>, names: &str| {
        let mut object = object(fields);
        object["metadata"]["annotations"] = json!({});
        if !names.is_empty() {
            object["metadata"]["annotations"][PLACED] = json!(names);
        }
        object
    };
    Ok(Some((noted(&component.placement, placed), noted(&should, &names))))
}

/// The object says nothing that would reach a component.
fn says_nothing(spec: &Value, part: Option<&str>) -> bool {
    said(spec, part, &Map::new()).is_ok_and(|said| said.is_empty())
}

/// The fields of which the object says something, with what the manifests say.
fn said(
    spec: &Value,
    part: Option<&str>,
    pristine: &Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    let config = part.map_or(&Value::Null, |part| &spec[part]);
    let placement = &config["nodePlacement"];
    let mut said = Map::new();
    let mut add = |name: &str, value: &Value| {
        let says = value.as_array().is_some_and(|list| !list.is_empty())
            || value.as_object().is_some_and(|fields| !fields.is_empty());
        if says {
            let mut whole = pristine.get(name).cloned().unwrap_or_default();
            merge(&mut whole, value);
            said.insert(name.to_owned(), whole);
        }
    };
    add("affinity", &placement["affinity"]);
    add("nodeSelector", &placement["nodeSelector"]);
    add("tolerations", &placement["tolerations"]);
    add("imagePullSecrets", &spec["imagePullSecrets"]);
    // A DaemonSet has a pod for each node.
    if part == Some("infra")
        && let Some(count) = config["replicas"].as_u64()
    {
        if !api::kubevirt::REPLICAS.contains(&count) {
            let (least, most) = api::kubevirt::REPLICAS.into_inner();
            return Err(format!("spec.infra.replicas is {count}, and must be from {least} to {most}"));
        }
        said.insert(REPLICAS.to_owned(), json!(count));
    }
    Ok(said)
}

/// Adds to a value: fields that are not there, and entries of lists that are not there.
fn merge(whole: &mut Value, more: &Value) {
    match (whole, more) {
        (Value::Object(whole), Value::Object(more)) => {
            for (name, value) in more {
                merge(whole.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(whole), Value::Array(more)) => {
            for value in more {
                if !whole.contains(value) {
                    whole.push(value.clone());
                }
            }
        }
        (whole @ Value::Null, more) => *whole = more.clone(),
        // The manifests have said it.
        _ => {}
    }
}
