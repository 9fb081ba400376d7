//! The end of the installation: the KubeVirt object is deleted.
//!
//! | `spec.uninstallStrategy` | VMs, VMIs, replica sets |
//! |---|---|
//! | `RemoveWorkloads`, not set | are deleted as usual: a guest has its grace period |
//! | `BlockUninstallIfWorkloadsExist` | delay the removal; nothing else is touched while there is one |
//!
//! Then `certificates` deletes the webhooks and the APIServices. While they exist without a server, writes
//! would fail, and no namespace could be deleted completely. Last, the removal is recorded, and the finalizer
//! goes.

use crate::certificates;
use crate::installation::set_conditions;
use api::kubevirt::ConditionType;
use api::meta::ObjectMeta;
use cluster_model::conditions::status_of;
use cluster_model::issue::LABEL;
use cluster_model::objects::{Key, Kind, Plain, REMOVED, StoredObject as _, World, key, owner};
use cluster_model::plan::Plan;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Our finalizer on the KubeVirt object.
pub(super) const FINALIZER: &str = "foregroundDeleteKubeVirt";
/// Maximum number of objects that are deleted in one round.
const AT_ONCE: usize = 50;
/// Largest exact number of further objects in a message; a larger one is shown as "10 or more".
const COUNTED: usize = 10;

/// The ConfigMap that records the removal of the installation.
pub(super) fn note(world: &World) -> Option<&Plain> {
    world.config_maps.get(&world.facts.namespace, REMOVED)
}

/// Plan for the KubeVirt object of the installation while it is being deleted.
pub(super) fn decide(world: &World, settings: &Plain, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let meta = settings.meta();
    if !meta.finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        return plan;
    }
    let left = remaining_objects(world);
    let blocks = settings.object["spec"]["uninstallStrategy"] == "BlockUninstallIfWorkloadsExist";
    let mut next = settings.object.clone();
    // Only this installation removes the finalizer of a CDI object.
    let holds = |object: &Plain| object.meta.finalizers.iter().any(|name| name == crate::cdi::FINALIZER);
    let is_free = !world.cdis.all().any(holds);
    if left.is_empty() && certificates::webhooks_gone(world) && is_free {
        if note(world).is_none() {
            let (label, value) = LABEL;
            let namespace = &world.facts.namespace;
            let object = json!({
                "apiVersion": Kind::ConfigMap.api_version(),
                "kind": Kind::ConfigMap.name(),
                "metadata": {"namespace": namespace, "name": REMOVED, "labels": {label: value}},
                "data": {"why": "The KubeVirt object was deleted. To use this installation again, create a KubeVirt \
                                 object; this ConfigMap is then deleted"},
            });
            plan.create(Key::new(Kind::ConfigMap, namespace, REMOVED), object);
        }
        release(settings, &mut next);
        plan.update(Kind::KubeVirt, meta, &settings.object, &next, true);
        return plan;
    }
    let (reason, message) = match (left.is_empty(), blocks) {
        (true, _) => (
            "DeletionInProgress",
            "The webhooks, the APIServices and the finalizer of CDI are being removed.".to_owned(),
        ),
        (false, false) => ("DeletionInProgress", format!("{} are being deleted.", list_names(&left))),
        (false, true) => (
            "WorkloadsExist",
            format!(
                "{} exist, and spec.uninstallStrategy is BlockUninstallIfWorkloadsExist: delete them, or change it.",
                list_names(&left)
            ),
        ),
    };
    let before = settings.object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let waits = blocks && !left.is_empty();
    if waits && !before.iter().any(|condition| condition["reason"] == reason) {
        plan.record_event(Kind::KubeVirt, meta, true, "WorkloadsExist", message.clone());
    }
    status_of(&mut next)["phase"] = json!("Deleting");
    let goes_on = if waits { "False" } else { "True" };
    set_conditions::<ConditionType>(
        &mut next,
        &[
            ("Available", "False", reason, &message),
            ("Progressing", goes_on, reason, &message),
            ("Degraded", "True", reason, &message),
        ],
        now,
    );
    plan.update(Kind::KubeVirt, meta, &settings.object, &next, true);
    if !blocks {
        let stays = left.iter().filter(|(_, meta)| meta.deletion_timestamp.is_none());
        for (kind, meta) in stays.take(AT_ONCE) {
            plan.delete(key(*kind, meta), meta);
        }
    }
    plan
}

/// Removes our finalizer from a KubeVirt object.
pub(super) fn release(settings: &Plain, next: &mut Value) {
    let others: Vec<&String> =
        settings.meta().finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).collect();
    next["metadata"]["finalizers"] = json!(others);
}

/// Objects that would not be managed any more. Objects that create others come first.
fn remaining_objects(world: &World) -> Vec<(Kind, &ObjectMeta)> {
    let vms = world.vms.all().map(|vm| (Kind::VirtualMachine, &vm.metadata));
    let pools = world.pools.all().map(|pool| (Kind::VirtualMachinePool, pool.meta()));
    let sets = world.replica_sets.all().map(|set| (Kind::VirtualMachineInstanceReplicaSet, set.meta()));
    // A VMI with a controlling owner is deleted with that owner.
    let own = world.vmis.all().filter(|vmi| owner::controller(&vmi.metadata).is_none());
    let all: Vec<(Kind, &ObjectMeta)> = pools
        .chain(vms)
        .chain(sets)
        .chain(own.map(|vmi| (Kind::VirtualMachineInstance, &vmi.metadata)))
        .collect();
    if !all.is_empty() {
        return all;
    }
    world.vmis.all().map(|vmi| (Kind::VirtualMachineInstance, &vmi.metadata)).collect()
}

fn list_names(left: &[(Kind, &ObjectMeta)]) -> String {
    let names: Vec<String> = left.iter().take(3).map(|(kind, meta)| key(*kind, meta).to_string()).collect();
    let more = left.len().saturating_sub(names.len());
    let more = match more {
        0 => String::new(),
        more if more < COUNTED => format!(" and {more} more"),
        _ => format!(" and {COUNTED} or more others"),
    };
    format!("{}{more}", names.join(", "))
}
