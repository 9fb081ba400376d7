//! The CDI object: what is said of the part of the installation that fills disks, and its end. What it says of worker pods and of
//! clones is read into [`cluster_model::config::DiskSettings`].
//!
//! ```text
//!  (none) ─ made, unless it was taken away ─► Deploying ◄─► Deployed         what runs, and is ready
//!                 another CDI operator works │        └── deleted ─► worker pods go (or DataVolumes are waited for)
//!                                            ▼                        ─► noted ─► our finalizer goes     removal
//!                       all of cdi.kubevirt.io is left to it  foreign
//! ```
//!
//! **Flow.** If no CDI object exists, `cdi` is created while there is a KubeVirt object ([`create_if_missing`]). Of
//! several the oldest counts; the others are in the phase `Error`. `spec.config` becomes the spec of the
//! CDIConfig ([`config`]).
//! **[`fills_disks`] tells if this installation fills disks.** It does not while another CDI operator works in the
//! cluster, and not after the CDI object was removed. Then virt-controller writes to no DataVolume,
//! DataImportCron, DataSource and StorageProfile, and the webhooks and the API of uploads are left to the
//! other operator. The condition `DataVolumesServed` of the KubeVirt object says so.
//! **Guarantees.** A CDI object that was removed is not created again. A field that is set and has no effect
//! is named by the condition `SettingsServed`. Without a KubeVirt object the finalizer of each CDI object is
//! removed first, so that none is held for ever.

mod foreign;
mod removal;
#[cfg(test)]
mod tests;

pub(crate) use foreign::other_operator;
pub(crate) use removal::FINALIZER;

use crate::installation::{self, is_wanted, served_condition, set_conditions};
use api::cdi::CONFIG;
use api::cdi::annotations::CONFIG_AUTHORITY;
use api::cdi::served::{unserved, unserved_config};
use api::kubevirt::served::CONDITION;
use cluster_model::conditions::status_of;
use cluster_model::objects::{CDI, CDI_REMOVED, Key, Kind, Plain, World, key};
use cluster_model::plan::{Plan, Step};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The programs without which no disk is filled.
const PROGRAMS: [&str; 3] = ["virt-controller", "virt-api", "cdi-uploadproxy"];

/// True if virt-controller fills disks, and no other CDI does.
pub(crate) fn fills_disks(world: &World) -> bool {
    why_not(world).is_none()
}

/// Reason and message if this installation does not fill disks.
pub(crate) fn why_not(world: &World) -> Option<(&'static str, String)> {
    if let Some(why) = other_operator(world) {
        return Some((
            "CDIOperatorPresent",
            format!(
                "{why}: all of cdi.kubevirt.io is left to it; remove it, and this installation fills disks"
            ),
        ));
    }
    if world.installed_cdi().is_some() || removal::waits_for_data_volumes(world) {
        return None;
    }
    let is_gone = world.cdis.all().next().is_some() || removal::note(world).is_some();
    is_gone.then(|| {
        let what = "the CDI object was deleted: no disk is filled, and no clone is served, until a CDI object is \
                    created";
        ("CDIRemoved", what.to_owned())
    })
}

/// Creates the CDI object, unless one exists or was removed.
pub(crate) fn create_if_missing(world: &World) -> Plan {
    let mut plan = Plan::default();
    if world.cdis.all().next().is_none() && removal::note(world).is_none() && other_operator(world).is_none()
    {
        let object = json!({
            "apiVersion": Kind::CDI.api_version(),
            "kind": Kind::CDI.name(),
            "metadata": {"name": CDI},
            "spec": {},
        });
        // A new leader may already know that the object is gone, but not yet that it was removed on purpose.
        let note = Key::new(Kind::ConfigMap, world.facts.namespace.clone(), CDI_REMOVED);
        plan.steps.push(Step::RequireAbsent { key: note, of: None });
        plan.create(Key::new(Kind::CDI, "", CDI), object);
    }
    plan
}

/// Spec of the CDIConfig; `None` if the administrator edits it directly. As upstream, the CDI object decides
/// if it carries the annotation. It also decides if it has any settings, since settings without an effect
/// would be useless.
pub(crate) fn config(world: &World) -> Option<Value> {
    let object = &world.installed_cdi()?.object;
    let said = &object["spec"]["config"];
    let is_authority = !object["metadata"]["annotations"][CONFIG_AUTHORITY].is_null();
    match said.is_object() {
        true => Some(said.clone()),
        false => is_authority.then(|| json!({})),
    }
}

/// Plan for the CDI object.
pub(crate) fn decide(world: &World, name: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let is_ours = world.permissions().is_some() && is_wanted(world);
    let Some(object) = world.cdis.get("", name) else {
        return if is_ours { create_if_missing(world) } else { plan };
    };
    if other_operator(world).is_some() || !is_ours {
        // Our conditions stay until the other operator writes its own. Our finalizer goes.
        removal::plan_release(object, &mut plan);
        return plan;
    }
    if object.meta.deletion_timestamp.is_some() {
        return removal::decide(world, object, now);
    }
    // An object exists again, so the note of its removal is outdated.
    if let Some(note) = removal::note(world) {
        plan.delete(key(Kind::ConfigMap, &note.meta), &note.meta);
    }
    let mut next = object.object.clone();
    removal::add_finalizer(object, &mut next);
    let first = world.installed_cdi().filter(|first| first.meta.name != object.meta.name);
    match first {
        Some(first) => say_unwanted(&mut next, first, now),
        None => say_state(world, object, &mut next, now),
    }
    plan.update(Kind::CDI, &object.meta, &object.object, &next, false);
    plan
}

/// Status in the form of upstream's operator SDK, for the object that counts.
fn say_state(world: &World, object: &Plain, next: &mut Value, now: Timestamp) {
    let missing = installation::unready_components(world, &PROGRAMS, &[]);
    let status = status_of(next);
    let target = installation::target(world);
    // The phase `Deployed` stays. Components that are missing for a while show in the conditions.
    let phase = status["phase"].as_str().unwrap_or_default();
    if missing.is_none() || !["Deployed", "Deploying"].contains(&phase) {
        status["phase"] = json!(if missing.is_none() { "Deployed" } else { "Deploying" });
    }
    status["operatorVersion"] = json!(world.facts.version);
    status["targetVersion"] = json!(target);
    if missing.is_none() {
        status["observedVersion"] = json!(target);
    }
    let (available, progressing, degraded, reason, message) = match &missing {
        None => ("True", "False", "False", "DeployCompleted", "Deployment Completed"),
        Some(missing) if status["phase"] == "Deployed" => {
            ("False", "False", "True", "ComponentsNotReady", &**missing)
        }
        Some(missing) => ("False", "True", "False", "DeployStarted", &**missing),
    };
    let mut without_effect = unserved(&object.object);
    let settings = world.cdi_configs.get("", CONFIG).filter(|_| config(world).is_none());
    // Fields of the CDI object itself are not repeated.
    without_effect.extend(settings.iter().flat_map(|settings| unserved_config(&settings.object)).map(
        |mut found| {
            found.field = format!("CDIConfig {CONFIG}: {}", found.field);
            found
        },
    ));
    let (is_served, word, named) = served_condition(&without_effect);
    set_conditions::<String>(
        next,
        &[
            ("Available", available, reason, message),
            ("Progressing", progressing, reason, message),
            ("Degraded", degraded, reason, message),
            (CONDITION, is_served, word, &named),
        ],
        now,
    );
}

/// Status of a second CDI object, which is not used.
fn say_unwanted(next: &mut Value, first: &Plain, now: Timestamp) {
    let first = first.meta.name.as_deref().unwrap_or_default();
    let message = format!("CDI {first} is in use, and a cluster has only one CDI object: delete this one");
    status_of(next)["phase"] = json!("Error");
    let says = [("Available", "False"), ("Progressing", "False"), ("Degraded", "True")];
    set_conditions::<String>(next, &says.map(|(kind, value)| (kind, value, "UnwantedCDI", &*message)), now);
}
