//! The end of the CDI object: it is deleted.
//!
//! | `spec.uninstallStrategy` | DataVolumes | worker pods |
//! |---|---|---|
//! | `RemoveWorkloads`, not set | stay with their PVCs, and are not filled any more | are deleted, except those of exports |
//! | `BlockUninstallIfWorkloadsExist` | delay the removal, and are filled meanwhile | stay |
//!
//! Then the removal is recorded in a ConfigMap, and the finalizer goes. The programs stay, because the
//! KubeVirt object needs them too. virt-api's webhook refuses such a deletion earlier; a deletion that
//! bypassed the webhook waits here.

use crate::installation::set_conditions;
use cluster_model::conditions::status_of;
use cluster_model::issue::LABEL;
use cluster_model::objects::{CDI_REMOVED, IndexKey, Key, Kind, Plain, Pod, Work, World, key};
use cluster_model::plan::Plan;
use cluster_model::polls;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Our finalizer on the CDI object. Upstream's operator has another one.
pub(crate) const FINALIZER: &str = "cdi.kubevirt.io/virt-controller";
/// The most pods that are deleted in one round.
const AT_ONCE: usize = 50;
/// The most DataVolumes that are named.
const NAMED: usize = 3;

/// The ConfigMap that records the removal of the object.
pub(super) fn note(world: &World) -> Option<&Plain> {
    world.config_maps.get(&world.facts.namespace, CDI_REMOVED)
}

/// True if an object that is being deleted waits for DataVolumes.
pub(super) fn waits_for_data_volumes(world: &World) -> bool {
    let has_volumes = world.data_volumes.all().next().is_some();
    has_volumes && world.cdis.all().any(|object| is_held(object) && blocks(object))
}

fn blocks(object: &Plain) -> bool {
    object.object["spec"]["uninstallStrategy"] == "BlockUninstallIfWorkloadsExist"
}

fn is_held(object: &Plain) -> bool {
    object.meta.finalizers.iter().any(|name| name == FINALIZER)
}

/// Adds our finalizer to the change, unless the object has it.
pub(super) fn add_finalizer(object: &Plain, next: &mut Value) {
    if !is_held(object) {
        let all: Vec<&str> = object.meta.finalizers.iter().map(String::as_str).chain([FINALIZER]).collect();
        next["metadata"]["finalizers"] = json!(all);
    }
}

/// Plans the removal of our finalizer from the object, if the object has it.
pub(super) fn plan_release(object: &Plain, plan: &mut Plan) {
    if is_held(object) {
        let mut next = object.object.clone();
        release(object, &mut next);
        plan.update(Kind::CDI, &object.meta, &object.object, &next, false);
    }
}

fn release(object: &Plain, next: &mut Value) {
    let others: Vec<&String> = object.meta.finalizers.iter().filter(|name| *name != FINALIZER).collect();
    next["metadata"]["finalizers"] = json!(others);
}

/// Plan for an object that is being deleted.
pub(super) fn decide(world: &World, object: &Plain, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if !is_held(object) {
        return plan;
    }
    let mut next = object.object.clone();
    // Deleting one of several CDI objects has no effect on DataVolumes and pods.
    let is_last = world.cdis.all().all(|other| other.meta.deletion_timestamp.is_some());
    let volumes = world.data_volumes.all().count();
    if is_last && blocks(object) && volumes > 0 {
        let message = format!(
            "{} exist, and spec.uninstallStrategy is BlockUninstallIfWorkloadsExist: delete them, or change it.",
            list_names(world, volumes)
        );
        let mut before = object.object["status"]["conditions"].as_array().into_iter().flatten();
        if !before.any(|condition| condition["reason"] == "WorkloadsExist") {
            plan.record_event(Kind::CDI, &object.meta, true, "WorkloadsExist", message.clone());
        }
        say_going(&mut next, "False", "WorkloadsExist", &message, now);
        plan.update(Kind::CDI, &object.meta, &object.object, &next, false);
        return plan;
    }
    let pods = if is_last { workers(world) } else { Vec::new() };
    if pods.is_empty() {
        if is_last && note(world).is_none() {
            let (label, value) = LABEL;
            let namespace = &world.facts.namespace;
            let object = json!({
                "apiVersion": Kind::ConfigMap.api_version(),
                "kind": Kind::ConfigMap.name(),
                "metadata": {"namespace": namespace, "name": CDI_REMOVED, "labels": {label: value}},
                "data": {"why": "The CDI object was deleted. To fill disks again, create a CDI object; this \
                                 ConfigMap is then deleted"},
            });
            plan.create(Key::new(Kind::ConfigMap, namespace, CDI_REMOVED), object);
        }
        release(object, &mut next);
        plan.update(Kind::CDI, &object.meta, &object.object, &next, false);
        return plan;
    }
    let message = format!("{} worker pods are being deleted; DataVolumes and their PVCs stay.", pods.len());
    say_going(&mut next, "True", "DeletionInProgress", &message, now);
    plan.update(Kind::CDI, &object.meta, &object.object, &next, false);
    for pod in pods.iter().filter(|pod| pod.meta.deletion_timestamp.is_none()).take(AT_ONCE) {
        plan.delete(key(Kind::Pod, &pod.meta), &pod.meta);
    }
    plan
}

/// Pods that fill disks, serve clones and poll. Pods of exports do not belong to CDI.
fn workers(world: &World) -> Vec<&Pod> {
    let all = world.indexed_by(&IndexKey::Worker).filter_map(|key| world.pods.get(&key.namespace, &key.name));
    let goes = |pod: &&Pod| {
        polls::is_poller(&pod.meta) || Work::from_pod(&pod.meta).is_some_and(|work| work != Work::Export)
    };
    all.filter(goes).collect()
}

fn say_going(next: &mut Value, goes_on: &'static str, reason: &'static str, message: &str, now: Timestamp) {
    status_of(next)["phase"] = json!("Deleting");
    let says = [
        ("Available", "False", reason, message),
        ("Progressing", goes_on, reason, message),
        ("Degraded", "True", reason, message),
    ];
    set_conditions::<String>(next, &says, now);
}

fn list_names(world: &World, count: usize) -> String {
    let first = world.data_volumes.all().take(NAMED);
    let names: Vec<String> =
        first.map(|volume| key(Kind::DataVolume, &volume.metadata).to_string()).collect();
    match count.saturating_sub(NAMED) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
