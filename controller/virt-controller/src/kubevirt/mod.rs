//! The KubeVirt object: its status, and its removal. Its settings are read by [`cluster_model::config`].
//!
//! ```text
//!  (none) ─ created, unless it was removed before ─► Deploying ◄─► Deployed
//!                                                └────┬────────┘
//!                                             deleted ▼
//!   VMs go (or delay the removal) ─► webhooks, APIServices go ─► the removal is recorded ─► our finalizer goes            removal
//!
//!  another object ─ said to have no effect ─ deleted ─► our finalizer goes                                               unwanted
//! ```
//!
//! **Flow.** A missing KubeVirt object, `kubevirt`, is created in our namespace ([`create_if_missing`]): the
//! manifests contain none.
//! **Guarantees.** No part of the installation that a VM needs is removed before the last VM. An object that
//! was removed is not created again: that would undo a user's decision, and block the deletion of its
//! definition. Only the object whose settings hold is the installation's: the first one of our namespace. Any other has no effect,
//! and its deletion removes nothing ([`unwanted`]).
//! The observed version and generation are those for which every component is ready ([`status`]). The object
//! sets the placement, replicas and patches of components ([`components`]). VMIs of an older version are
//! counted, and migrated or evicted if its strategy says so ([`workloads`]). A field that is set and has no effect is
//! named by the condition `SettingsServed`. `DataVolumesServed` says if this installation fills disks
//! ([`crate::cdi`]). Settings of the ConfigMap `kubevirt-config`, as older guides have them, are written into
//! fields that the object leaves unset ([`config_map`]), as the last step: a refusal of that, because of any other field of the spec,
//! holds up nothing else, and is named by `SettingsServed`.
//! **Caveats.** Objects that were applied beside the KubeVirt object (programs, RBAC, definitions) have to be
//! deleted by the administrator.

pub(crate) mod components;
#[cfg(test)]
mod components_tests;
mod removal;
mod status;
#[cfg(test)]
mod tests;
mod unwanted;
#[cfg(test)]
mod upgrade_tests;
mod workloads;

use crate::cdi;
use crate::installation::{self, served_condition, set_conditions};
use api::kubevirt::ConditionType;
use api::kubevirt::config_map::{self, Adoption};
use api::kubevirt::served::{CONDITION, Unserved, unserved};
use cluster_model::conditions::status_of;
use cluster_model::objects::{Attempt, KUBEVIRT, Key, Kind, REMOVED, StoredObject as _, World, key};
use cluster_model::plan::{Plan, Step};
use jiff::Timestamp;
use serde_json::{Value, json};

/// Condition that tells if this installation fills disks.
const DISKS: &str = "DataVolumesServed";
/// The programs that must be ready, by the names of their objects.
const DEPLOYMENTS: [&str; 2] = ["virt-controller", "virt-api"];
/// The same of those that run on each node.
const DAEMONS: [&str; 1] = ["virt-handler"];

/// Creates the KubeVirt object, unless our namespace has one or it was removed.
pub(crate) fn create_if_missing(world: &World) -> Plan {
    let mut plan = Plan::default();
    let namespace = world.facts.namespace.clone();
    if world.kubevirts.in_namespace(&namespace).next().is_none() && removal::note(world).is_none() {
        let object = json!({
            "apiVersion": Kind::KubeVirt.api_version(),
            "kind": Kind::KubeVirt.name(),
            "metadata": {"name": KUBEVIRT, "namespace": namespace},
            "spec": {},
        });
        // A new leader may already know that the object is gone, but not yet that it was removed on purpose.
        let note = Key::new(Kind::ConfigMap, namespace.clone(), REMOVED);
        plan.steps.push(Step::RequireAbsent { key: note, of: None });
        plan.create(Key::new(Kind::KubeVirt, namespace, KUBEVIRT), object);
    }
    plan
}

/// Plan for the KubeVirt object.
pub(crate) fn decide(world: &World, namespace: &str, name: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(settings) = world.kubevirts.get(namespace, name) else { return create_if_missing(world) };
    if unwanted::is_unwanted(world, settings) {
        return unwanted::decide(world, settings, now).and(create_if_missing(world));
    }
    if settings.meta().deletion_timestamp.is_some() {
        return removal::decide(world, settings, now);
    }
    // An object exists again, so the note of its removal is outdated.
    if let Some(note) = removal::note(world) {
        plan.delete(key(Kind::ConfigMap, note.meta()), note.meta());
    }
    let mut next = settings.object.clone();
    let finalizers = settings.meta().finalizers.clone();
    if !finalizers.iter().any(|finalizer| finalizer == removal::FINALIZER) {
        let all: Vec<String> = finalizers.into_iter().chain([removal::FINALIZER.to_owned()]).collect();
        next["metadata"]["finalizers"] = json!(all);
    }
    let mut adopted = settings.object.clone();
    let Adoption { taken, unserved: mut keys } = match world.config_maps.get(namespace, config_map::NAME) {
        Some(map) => config_map::adopt(&map.object["data"], &mut adopted),
        None => Adoption::default(),
    };
    let refused = world.failures.get(&key(Kind::KubeVirt, settings.meta()));
    let refused = refused.filter(|failed| failed.about == Attempt::Make(Kind::KubeVirt) && !taken.is_empty());
    if let Some(refused) = refused {
        let why = format!("its settings cannot be written into this object: {}", refused.message);
        keys.push(Unserved { field: format!("ConfigMap {}", config_map::NAME), why });
    }
    let missing = installation::unready_components(world, &DEPLOYMENTS, &DAEMONS);
    let state = status::State::new(world, &settings.object, missing.as_deref());
    state.write(status_of(&mut next), settings.meta().generation);
    let outdated = workloads::outdated_vmis(world);
    status_of(&mut next)["outdatedVirtualMachineInstanceWorkloads"] = json!(outdated.len());
    let updates = match missing {
        None => workloads::update(world, &mut next, &outdated, now),
        Some(_) => Plan::default(),
    };
    let (value, reason, message) = served_condition(&[unserved(&next), keys].concat());
    let problem = components::problem(world, &settings.object);
    if let Some((reason, message)) = &problem
        && !is_said(&settings.object, "Synchronized", reason)
    {
        plan.record_event(Kind::KubeVirt, settings.meta(), true, reason, message.clone());
    }
    let mut says = state.conditions();
    says.push(components::condition(problem.as_ref()));
    says.push((CONDITION, value, reason, &message));
    let why_not = cdi::why_not(world);
    says.push(match &why_not {
        None => (
            DISKS,
            "True",
            "Served",
            "DataVolumes and all of cdi.kubevirt.io are served by this installation.",
        ),
        Some((reason, message)) => (DISKS, "False", *reason, message.as_str()),
    });
    if let Some((reason, message)) = &why_not
        && !is_said(&settings.object, DISKS, reason)
    {
        plan.record_event(Kind::KubeVirt, settings.meta(), true, reason, message.clone());
    }
    set_conditions::<ConditionType>(&mut next, &says, now);
    plan.update(Kind::KubeVirt, settings.meta(), &settings.object, &next, true);
    let mut adoption = Plan::default();
    match refused.filter(|refused| refused.retry > now) {
        _ if taken.is_empty() => {}
        Some(refused) => adoption.look_again(refused.retry),
        None => {
            adoption.update(Kind::KubeVirt, settings.meta(), &settings.object, &adopted, true);
            let message = taken_settings(&taken);
            adoption.record_event(Kind::KubeVirt, settings.meta(), true, "SettingsTaken", message);
        }
    }
    plan.and(updates).and(cdi::create_if_missing(world)).and(adoption)
}

/// Message about settings that were taken from the ConfigMap.
fn taken_settings(taken: &[String]) -> String {
    format!(
        "The ConfigMap {} is of KubeVirt 0.35 and older. Its settings are in this object now: {}. Change them here from now \
         on, and delete the ConfigMap.",
        config_map::NAME,
        taken.join(", ")
    )
}

/// True if a condition of this type has this reason.
fn is_said(object: &Value, kind: &str, reason: &str) -> bool {
    let mut said = object["status"]["conditions"].as_array().into_iter().flatten();
    said.any(|condition| condition["type"] == kind && condition["reason"] == reason)
}
