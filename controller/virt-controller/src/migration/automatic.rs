//! Migrations that virt-controller creates: of a VMI that must leave its node, and of one whose launcher pod is of another version.
//!
//! | cause | who tells it | priority |
//! |---|---|---|
//! | evacuation | virt-api writes `status.evacuationNodeName` when it puts off the eviction of a launcher pod | `system-critical`; of a descheduler `system-maintenance` |
//! | volumes of a VM | the condition `VolumesChange` of the VMI (`volume_update`) | `system-critical` |
//! | workload update | the KubeVirt object's `workloadUpdateStrategy` has the method `LiveMigrate` (`kubevirt/workloads.rs`) | `system-critical` |
//!
//! The migration has the name that follows from the VMI and its last migration, so that it is created once. After a failure the next
//! one comes after a pause, which doubles with each failure.

use super::phase;
use crate::vmi::{self, volume_update};
use api::migration::{Phase, VirtualMachineInstanceMigration};
use api::vmi::{ConditionType, EvictionStrategy, VirtualMachineInstance};
use cluster_model::conditions;
use cluster_model::objects::{
    Key, Kind, MIGRATED_VMI, MIGRATION_FINALIZER, World, key, migrations_of, names,
};
use cluster_model::plan::{EventRecord, Plan, Step};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// Annotation of a migration that was created for an evacuation: the node to leave.
const EVACUATION: &str = "kubevirt.io/evacuationMigration";
/// Annotation of a migration that was created for a workload update.
const WORKLOAD_UPDATE: &str = "kubevirt.io/workloadUpdateMigration";
/// Label of a migration that was created for the volumes of a VM: the name of its VMI.
pub(super) const VOLUME_UPDATE: &str = "kubevirt.io/volume-update-migration";
/// Annotation of a VMI whose eviction a descheduler has asked for.
const SOURCE: &str = "kubevirt.io/eviction-source";
/// Pause after the first failed migration.
const PAUSE: SignedDuration = SignedDuration::from_secs(20);

/// Cause of a migration that virt-controller creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause<'a> {
    /// The VMI must leave this node.
    Evacuation(&'a str),
    WorkloadUpdate,
    VolumeUpdate,
}

/// The plan for a VMI that must leave its node, or whose volumes its VM moves to other PVCs or has moved back; an empty one for any other.
pub(crate) fn evacuate(world: &World, namespace: &str, name: &str, now: Timestamp) -> Plan {
    let Some(vmi) = world.vmis.get(namespace, name) else { return Plan::default() };
    let cancelled = cancelled(world, vmi);
    if !cancelled.steps.is_empty() {
        return cancelled;
    }
    if let Some(node) = leaves(world, vmi) {
        return migrate(world, vmi, Cause::Evacuation(node), now);
    }
    match can_migrate(vmi) && moves_volumes(world, vmi) {
        true => migrate(world, vmi, Cause::VolumeUpdate, now),
        false => Plan::default(),
    }
}

/// True if the VM of a VMI moves its volumes, and the VMI says so.
fn moves_volumes(world: &World, vmi: &VirtualMachineInstance) -> bool {
    let said = vmi.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
    conditions::is_true(said, &ConditionType::VolumesChange) && !volume_update::of_vmi(world, vmi).is_empty()
}

/// Deletes the migrations for volumes that were moved back, unless they have ended.
fn cancelled(world: &World, vmi: &VirtualMachineInstance) -> Plan {
    let mut plan = Plan::default();
    if !volume_update::is_cancelled(vmi) {
        return plan;
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (namespace, name) = (text(&vmi.metadata.namespace), text(&vmi.metadata.name));
    for migration in migrations_of(world, &namespace, &name) {
        let meta = &migration.metadata;
        let goes_on = !phase(migration).is_final() && meta.deletion_timestamp.is_none();
        if goes_on && meta.labels.contains_key(VOLUME_UPDATE) {
            plan.delete(key(Kind::VirtualMachineInstanceMigration, meta), meta);
        }
    }
    plan
}

/// The plan that moves a VMI into a launcher pod of the current version; an empty one for a VMI that migrates already.
pub(crate) fn update(world: &World, vmi: &VirtualMachineInstance, now: Timestamp) -> Plan {
    if can_migrate(vmi) { migrate(world, vmi, Cause::WorkloadUpdate, now) } else { Plan::default() }
}

fn migrate(world: &World, vmi: &VirtualMachineInstance, cause: Cause<'_>, now: Timestamp) -> Plan {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (namespace, name) = (text(&vmi.metadata.namespace), text(&vmi.metadata.name));
    let all: Vec<_> = migrations_of(world, &namespace, &name).collect();
    if all.iter().any(|migration| !phase(migration).is_final()) {
        return Plan::default();
    }
    let until = backoff(&all);
    if until > now {
        return Plan { again: Some(until), ..Plan::default() };
    }
    create(vmi, cause, &all)
}

/// The node that the VMI leaves by a migration.
pub(super) fn leaves<'a>(world: &World, vmi: &'a VirtualMachineInstance) -> Option<&'a str> {
    let status = vmi.status.as_ref()?;
    let node = status.evacuation_node_name.as_deref().filter(|node| !node.is_empty())?;
    let strategy = vmi.spec.eviction_strategy.as_ref().or(world.config().eviction_strategy.as_ref());
    let by_migration =
        matches!(strategy, Some(EvictionStrategy::LiveMigrate | EvictionStrategy::LiveMigrateIfPossible));
    let is_here = status.node_name.as_deref() == Some(node);
    (by_migration && is_here && can_migrate(vmi)).then_some(node)
}

/// True for a VMI whose guest runs and can migrate.
pub(crate) fn can_migrate(vmi: &VirtualMachineInstance) -> bool {
    let conditions = vmi.status.as_ref().map(|status| &status.conditions[..]).unwrap_or_default();
    conditions::is_true(conditions, &ConditionType::LiveMigratable)
        && vmi::phase(vmi) == api::vmi::Phase::Running
        && vmi.metadata.deletion_timestamp.is_none()
}

/// Earliest time of the next migration: after the last failures of those that virt-controller created, later each time.
fn backoff(all: &[&VirtualMachineInstanceMigration]) -> Timestamp {
    let is_automatic = |migration: &&&VirtualMachineInstanceMigration| {
        let annotations = &migration.metadata.annotations;
        annotations.contains_key(EVACUATION) || annotations.contains_key(WORKLOAD_UPDATE)
    };
    let mut ended: Vec<(Timestamp, Phase)> = all
        .iter()
        .filter(is_automatic)
        .filter_map(|migration| Some((ended_at(migration)?, phase(migration))))
        .collect();
    ended.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    let failures = ended.iter().take_while(|(_, phase)| *phase == Phase::Failed).count();
    let Some((last, _)) = ended.first().filter(|_| failures > 0) else { return Timestamp::MIN };
    let times = u32::try_from(failures).unwrap_or(u32::MAX).saturating_sub(1).min(16);
    let pause = PAUSE.checked_mul(1_i32.checked_shl(times).unwrap_or(1)).unwrap_or(PAUSE);
    last.checked_add(pause).unwrap_or(*last)
}

fn ended_at(migration: &VirtualMachineInstanceMigration) -> Option<Timestamp> {
    let transitions = &migration.status.as_ref()?.phase_transition_timestamps;
    transitions.last()?.phase_transition_timestamp.as_deref()?.parse().ok()
}

fn create(vmi: &VirtualMachineInstance, cause: Cause<'_>, all: &[&VirtualMachineInstanceMigration]) -> Plan {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (namespace, uid) = (text(&vmi.metadata.namespace), text(&vmi.metadata.uid));
    let vmi_name = text(&vmi.metadata.name);
    let mut known: Vec<String> = all.iter().map(|migration| text(&migration.metadata.uid)).collect();
    known.sort_unstable();
    let known = known.join("/");
    let by_descheduler = vmi.metadata.annotations.get(SOURCE).is_some_and(|source| source == "descheduler");
    let (name, annotation, value) = match cause {
        Cause::Evacuation(node) => (names::evacuation(&uid, &known), EVACUATION, node),
        Cause::WorkloadUpdate => (names::workload_update(&uid, &known), WORKLOAD_UPDATE, ""),
        Cause::VolumeUpdate => (names::volume_update(&uid, &known), WORKLOAD_UPDATE, ""),
    };
    let mut labels = json!({MIGRATED_VMI: vmi_name});
    if cause == Cause::VolumeUpdate {
        // A label has no room for a longer name.
        labels[VOLUME_UPDATE] = json!(if vmi_name.len() > 63 { &uid } else { &vmi_name });
    }
    let priority = match cause {
        Cause::Evacuation(_) if by_descheduler => "system-maintenance",
        Cause::Evacuation(_) | Cause::WorkloadUpdate | Cause::VolumeUpdate => "system-critical",
    };
    let message = match cause {
        Cause::Evacuation(_) => format!("Created Migration {name}"),
        Cause::WorkloadUpdate | Cause::VolumeUpdate => {
            format!("Created Migration {name} for automated workload update")
        }
    };
    let kind = Kind::VirtualMachineInstanceMigration;
    let object = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name(),
        "metadata": {
            "namespace": namespace,
            "name": name,
            "annotations": {annotation: value},
            "labels": labels,
            "finalizers": [MIGRATION_FINALIZER],
        },
        "spec": {"vmiName": vmi_name, "priority": priority},
    });
    let event = EventRecord {
        key: Key::new(Kind::VirtualMachineInstance, namespace.clone(), vmi_name),
        uid,
        warning: false,
        reason: "SuccessfulCreate",
        message,
    };
    let create = Step::Create { key: Key::new(kind, namespace, name), object };
    Plan { steps: vec![create, Step::RecordEvent(event)], again: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Sim, vmi};
    use serde_json::Value;

    /// A VMI that runs on node1 and must leave it.
    fn leaving(strategy: &str) -> (Sim, Key) {
        let mut sim = Sim::new();
        let mut object = vmi("web");
        object["spec"]["evictionStrategy"] = json!(strategy);
        let key = sim.put(Kind::VirtualMachineInstance, object);
        sim.boot(&key);
        let migratable = json!([{"type": "LiveMigratable", "status": "True"}]);
        sim.change(&key, json!({"status": {"evacuationNodeName": "node1", "conditions": migratable}}));
        (sim, key)
    }

    fn created(sim: &Sim, key: &Key) -> (Vec<Value>, Option<Timestamp>) {
        let plan = evacuate(&sim.world, &key.namespace, &key.name, sim.now);
        let made = |step: &Step| match step {
            Step::Create { object, .. } => Some(object.clone()),
            _ => None,
        };
        (plan.steps.iter().filter_map(made).collect(), plan.again)
    }

    fn failed(sim: &mut Sim, object: &Value) {
        let mut ended = object.clone();
        let at = json!([{"phase": "Failed", "phaseTransitionTimestamp": sim.now.to_string()}]);
        ended["status"] = json!({"phase": "Failed", "phaseTransitionTimestamps": at});
        sim.put(Kind::VirtualMachineInstanceMigration, ended);
    }

    #[test]
    fn a_vmi_that_must_leave_its_node_gets_one_migration_if_it_can_migrate() {
        for (strategy, expected) in [("LiveMigrate", 1), ("LiveMigrateIfPossible", 1), ("External", 0)] {
            let (sim, key) = leaving(strategy);
            let (made, _) = created(&sim, &key);
            assert_eq!(made.len(), expected, "{strategy}");
            if let [only] = &made[..] {
                assert_eq!(only["spec"], json!({"vmiName": "web", "priority": "system-critical"}));
                assert_eq!(only["metadata"]["annotations"][EVACUATION], "node1");
            }
        }
        for (pointer, value) in [
            ("/status/evacuationNodeName", json!("node9")),
            ("/status/phase", json!("Scheduled")),
            ("/status/conditions", json!([{"type": "LiveMigratable", "status": "False"}])),
        ] {
            let (mut sim, key) = leaving("LiveMigrate");
            let mut object = sim.get(&key).clone();
            *object.pointer_mut(pointer).unwrap() = value;
            sim.world.put(key.kind, object, sim.now);
            assert_eq!(created(&sim, &key).0.len(), 0, "{pointer}");
        }
    }

    #[test]
    fn the_next_migration_has_another_name_and_comes_later_after_each_failure() {
        let (mut sim, key) = leaving("LiveMigrate");
        let (mut made, _) = created(&sim, &key);
        let first = made.remove(0);
        assert_eq!(created(&sim, &key).0[0], first, "the same, if the answer was lost");
        let open = sim.put(Kind::VirtualMachineInstanceMigration, first.clone());
        assert_eq!(created(&sim, &key).0.len(), 0, "one at a time");
        sim.delete(&open);
        sim.objects.remove(&open);
        failed(&mut sim, &first);
        let (none, again) = created(&sim, &key);
        assert_eq!((none.len(), again), (0, Some(sim.now + SignedDuration::from_secs(20))));
        sim.advance(20);
        let (mut made, _) = created(&sim, &key);
        let second = made.remove(0);
        assert_ne!(second["metadata"]["name"], first["metadata"]["name"]);
        failed(&mut sim, &second);
        let (_, again) = created(&sim, &key);
        assert_eq!(again, Some(sim.now + SignedDuration::from_secs(40)));
    }
}
