//! VMIs in launcher pods of another version than new pods. They are counted, and migrated or evicted if the KubeVirt
//! object says so.
//!
//! ```text
//!  an upgrade is whole ─► LiveMigrate: those that can migrate, as many at once as parallelMigrationsPerCluster lets
//!                     └─► Evict, of the others: a batch: its time is noted at the KubeVirt object ─► evictions are asked for ─► batchEvictionInterval ─► …
//! ```
//!
//! **Flow.** `spec.workloadUpdateStrategy` with the method `Evict`: at most `batchEvictionSize` VMIs each
//! `batchEvictionInterval`. An eviction shuts the guest down; the VM's run strategy starts it again, in a new
//! pod. A disruption budget or a VMI's own `evictionStrategy` may delay it: a later batch tries again, and
//! the VMIs of a batch change from one to the next. With the method `LiveMigrate` a VMI that can migrate gets a migration
//! (`migration/automatic.rs`), and is not evicted.
//! **Guarantees.** The time of a batch is written before its first eviction, and if that write fails, the
//! batch is skipped. So the next leader keeps the interval. No VMI is evicted before every component is of
//! the new version and ready, because the new pods need those. A VMI that has to be live-migrated and cannot
//! be (`evictionStrategy: LiveMigrate`) is not evicted.

use crate::migration::{self, can_migrate};
use crate::vmi::is_outdated;
use api::duration::Duration;
use api::vmi::{EvictionStrategy, VirtualMachineInstance};
use cluster_model::conditions::stamp;
use cluster_model::metadata::OFFLINE_MIGRATION;
use cluster_model::objects::{IndexKey, Kind, Pod, World, names};
use cluster_model::plan::Plan;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// The annotation of the KubeVirt object with the time of the last batch.
const BATCH: &str = "kubevirt.io/last-eviction-batch";
/// Default size of a batch and default pause, as upstream.
const SIZE: i64 = 10;
const PAUSE: SignedDuration = SignedDuration::from_mins(1);
/// Interval of looking for the next migrations.
const LOOK: SignedDuration = SignedDuration::from_secs(10);
/// Shortest pause between batches.
const LEAST: SignedDuration = SignedDuration::from_secs(1);

/// A VMI that is outdated, and its pod.
type OutdatedVmi<'a> = (&'a VirtualMachineInstance, &'a Pod);

/// All running VMIs in outdated pods. The label alone is not sufficient, because the author of the VMI may
/// have written it.
pub(super) fn outdated_vmis(world: &World) -> Vec<OutdatedVmi<'_>> {
    let keys = world.indexed_by(&IndexKey::Outdated).filter(|key| key.kind == Kind::VirtualMachineInstance);
    let vmis = keys.filter_map(|key| world.vmis.get(&key.namespace, &key.name));
    let found = vmis.filter_map(|vmi| Some((vmi, world.active_pod(vmi)?)));
    let runs = |vmi: &VirtualMachineInstance| {
        let phase = vmi.status.as_ref().and_then(|status| status.phase.as_ref());
        // A VMI that carries disks ends by itself soon.
        let is_carrier = vmi.metadata.annotations.contains_key(OFFLINE_MIGRATION);
        phase.is_some_and(|phase| !phase.is_final()) && !is_carrier
    };
    found.filter(|(vmi, pod)| runs(vmi) && is_outdated(pod, &world.facts.launcher_image)).collect()
}

/// Migrations of those that can migrate, and the next batch of evictions of the others, by the methods of the strategy.
pub(super) fn update(world: &World, next: &mut Value, all: &[OutdatedVmi<'_>], now: Timestamp) -> Plan {
    let methods = next["spec"]["workloadUpdateStrategy"]["workloadUpdateMethods"].as_array().cloned();
    let has = |method: &str| methods.iter().flatten().any(|known| known == method);
    let (migratable, others): (Vec<_>, Vec<_>) =
        all.iter().copied().partition(|(vmi, _)| has("LiveMigrate") && can_migrate(vmi));
    let mut plan = migrations(world, &migratable, now);
    if has("Evict") {
        plan = plan.and(batch(world, next, &others, now));
    }
    plan
}

/// Migrations for the free places among the parallel ones. Later looks find places again.
fn migrations(world: &World, migratable: &[OutdatedVmi<'_>], now: Timestamp) -> Plan {
    let most = world.config().migrations.parallel_migrations_per_cluster.unwrap_or_default();
    let unfinished =
        world.migrations.all().filter(|migration| !migration::phase(migration).is_final()).count();
    let room = usize::try_from(most).unwrap_or_default().saturating_sub(unfinished);
    let mut plan = Plan::default();
    let mut made = 0_usize;
    for (vmi, _) in shuffled(migratable, now) {
        if made >= room {
            break;
        }
        let one = migration::update(world, vmi, now);
        made = made.saturating_add(usize::from(!one.steps.is_empty()));
        plan = plan.and(one);
    }
    if let (false, Ok(after)) = (migratable.is_empty(), now.checked_add(LOOK)) {
        plan.look_again(after);
    }
    plan
}

/// The VMIs in an order that differs from one time to the next: a VMI whose update fails does not hold up the others.
fn shuffled<'a>(all: &[OutdatedVmi<'a>], now: Timestamp) -> Vec<OutdatedVmi<'a>> {
    let time = stamp(now);
    let mut all = all.to_vec();
    all.sort_by_key(|(vmi, _)| {
        names::fnv(&format!("{time} {}", vmi.metadata.uid.as_deref().unwrap_or_default()))
    });
    all
}

/// The next batch, which is noted at the KubeVirt object as it will be. The plan has the evictions, and when the next is due.
fn batch(world: &World, next: &mut Value, all: &[OutdatedVmi<'_>], now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let said = &next["spec"]["workloadUpdateStrategy"];
    let size = usize::try_from(said["batchEvictionSize"].as_i64().unwrap_or(SIZE)).unwrap_or_default();
    let pause = said["batchEvictionInterval"].as_str().and_then(Duration::parse);
    let pause = pause.map_or(PAUSE, |pause| SignedDuration::from_nanos(pause.nanos())).max(LEAST);
    let of_cluster = world.config().eviction_strategy.as_ref();
    let may_go = |vmi: &VirtualMachineInstance, pod: &Pod| {
        let strategy = vmi.spec.eviction_strategy.as_ref().or(of_cluster);
        let stays = matches!(strategy, Some(EvictionStrategy::LiveMigrate));
        !stays && vmi.metadata.deletion_timestamp.is_none() && !pod.is_going() && !pod.has_ended()
    };
    let due: Vec<OutdatedVmi<'_>> = all.iter().copied().filter(|(vmi, pod)| may_go(vmi, pod)).collect();
    if due.is_empty() || size == 0 {
        return plan;
    }
    let last =
        next["metadata"]["annotations"][BATCH].as_str().and_then(|time| time.parse::<Timestamp>().ok());
    // A time in the future is ignored: it comes from another clock.
    let after = last.filter(|last| *last <= now).and_then(|last| last.checked_add(pause).ok());
    if let Some(after) = after.filter(|after| *after > now) {
        plan.look_again(after);
        return plan;
    }
    next["metadata"]["annotations"][BATCH] = json!(stamp(now));
    for (vmi, pod) in shuffled(&due, now).into_iter().take(size) {
        let image = &world.facts.launcher_image;
        let message = format!(
            "the launcher pod is of another version than new ones, whose image is {image}: its eviction is \
             requested, as spec.workloadUpdateStrategy of the KubeVirt object says"
        );
        plan.record_event(Kind::VirtualMachineInstance, &vmi.metadata, false, "WorkloadUpdate", message);
        plan.evict(&pod.meta);
    }
    if let Ok(after) = now.checked_add(pause) {
        plan.look_again(after);
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::BATCH;
    use crate::sim::{Sim, vmi};
    use cluster_model::objects::{Key, Kind, OUTDATED};
    use serde_json::{Value, json};

    /// VMIs that run, and then an upgrade of virt-controller. What it is to do with them.
    fn upgraded(count: usize, strategy: &Value) -> (Sim, Key) {
        let mut sim = Sim::empty();
        let key = Key::new(Kind::KubeVirt, "kubevirt", "kubevirt");
        let plan = crate::decide(&sim.world, &key, sim.now);
        sim.apply(plan);
        for number in 0..count {
            let vmi = sim.put(Kind::VirtualMachineInstance, vmi(&format!("vmi-{number}")));
            sim.boot(&vmi);
        }
        sim.world.facts.launcher_image = "registry.example/virt-launcher:2".into();
        sim.change(&key, json!({"spec": {"workloadUpdateStrategy": strategy}}));
        (sim, key)
    }

    /// Launcher pods whose eviction was requested.
    fn evicted(sim: &Sim) -> usize {
        let pods = sim.keys(Kind::Pod);
        pods.iter().filter(|pod| !sim.get(pod)["metadata"]["deletionTimestamp"].is_null()).count()
    }

    fn count(sim: &Sim, key: &Key) -> Value {
        sim.get(key)["status"]["outdatedVirtualMachineInstanceWorkloads"].clone()
    }

    #[test]
    fn they_are_evicted_in_batches_whose_pace_outlives_virt_controller() {
        let strategy = json!({
            "workloadUpdateMethods": ["LiveMigrate", "Evict"], "batchEvictionSize": 2, "batchEvictionInterval": "90s",
        });
        let (mut sim, key) = upgraded(5, &strategy);
        sim.settle();
        assert_eq!((evicted(&sim), count(&sim, &key)), (2, json!(5)));
        assert_eq!(sim.reasons().iter().filter(|reason| *reason == "WorkloadUpdate").count(), 2);
        // The state of the last batch is recorded at the object only.
        let plan = crate::decide(&sim.world, &key, sim.now);
        assert_eq!(
            (plan.is_empty(), plan.again),
            (true, sim.now.checked_add(jiff::SignedDuration::from_secs(90)).ok())
        );
        sim.advance(89);
        sim.settle();
        assert_eq!(evicted(&sim), 2);
        sim.advance(1);
        sim.settle();
        assert_eq!(evicted(&sim), 4);
        // A time of another clock does not delay the next batch.
        sim.change(&key, json!({"metadata": {"annotations": {BATCH: "2999-01-01T00:00:00Z"}}}));
        sim.settle();
        assert_eq!(evicted(&sim), 5);
    }

    #[test]
    fn nothing_is_evicted_where_nobody_says_so_or_by_live_migration_alone() {
        for methods in [json!([]), json!(["LiveMigrate"])] {
            let (mut sim, key) = upgraded(2, &json!({"workloadUpdateMethods": methods}));
            sim.settle();
            assert_eq!((evicted(&sim), count(&sim, &key)), (0, json!(2)), "{methods}");
            assert_eq!(sim.condition(&key, "SettingsServed").unwrap().0, "True");
            assert_eq!(sim.keys(Kind::VirtualMachineInstanceMigration), []);
        }
    }

    fn migrations(sim: &Sim) -> Vec<Value> {
        sim.keys(Kind::VirtualMachineInstanceMigration).iter().map(|key| sim.get(key).clone()).collect()
    }

    /// VMIs of which all but the first can migrate, and the plan of the KubeVirt object alone.
    fn migratable(count: usize, methods: &Value) -> (Sim, Key) {
        let (mut sim, key) = upgraded(count, &json!({"workloadUpdateMethods": methods}));
        for number in 1..count {
            let vmi = Key::new(Kind::VirtualMachineInstance, "n", format!("vmi-{number}"));
            let can = json!([{"type": "LiveMigratable", "status": "True"}]);
            sim.change(&vmi, json!({"status": {"conditions": can}}));
        }
        (sim, key)
    }

    #[test]
    fn those_that_can_migrate_do_and_the_others_are_evicted_if_the_methods_say_so() {
        for (methods, expected) in [
            (json!(["LiveMigrate"]), (2, 0)),
            (json!(["LiveMigrate", "Evict"]), (2, 1)),
            (json!(["Evict"]), (0, 3)),
        ] {
            let (mut sim, _) = migratable(3, &methods);
            sim.settle();
            assert_eq!((migrations(&sim).len(), evicted(&sim)), expected, "{methods}");
        }
    }

    #[test]
    fn as_many_migrate_at_once_as_the_settings_let() {
        let (mut sim, key) = migratable(5, &json!(["LiveMigrate"]));
        let most = json!({"spec": {"configuration": {"migrations": {"parallelMigrationsPerCluster": 2}}}});
        sim.change(&key, most);
        sim.settle();
        let first = migrations(&sim);
        assert_eq!(first.len(), 2);
        assert_eq!(first[0]["spec"]["priority"], "system-critical");
        assert_eq!(first[0]["metadata"]["annotations"]["kubevirt.io/workloadUpdateMigration"], "");
        let name = first[0]["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with("kubevirt-workload-update-"), "{name}");
        let done = Key::new(Kind::VirtualMachineInstanceMigration, "n", name);
        sim.change(&done, json!({"status": {"phase": "Succeeded"}}));
        sim.settle();
        assert_eq!(migrations(&sim).len(), 3);
    }

    #[test]
    fn nothing_is_evicted_before_every_component_is_there() {
        let (mut sim, key) = upgraded(2, &json!({"workloadUpdateMethods": ["Evict"]}));
        let api = json!({"metadata": {"namespace": "kubevirt", "name": "virt-api"}, "spec": {"replicas": 2}});
        sim.put(Kind::Deployment, api);
        sim.settle();
        assert_eq!((evicted(&sim), count(&sim, &key)), (0, json!(2)));
    }

    #[test]
    fn what_is_to_be_live_migrated_is_not_cut_off() {
        let (mut sim, key) = upgraded(1, &json!({"workloadUpdateMethods": ["Evict"]}));
        sim.change(&key, json!({"spec": {"configuration": {"evictionStrategy": "LiveMigrate"}}}));
        sim.settle();
        assert_eq!(evicted(&sim), 0);
        sim.change(&key, json!({"spec": {"configuration": {"evictionStrategy": "None"}}}));
        sim.settle();
        assert_eq!(evicted(&sim), 1);
    }

    #[test]
    fn those_that_are_up_to_date_are_not_counted() {
        let (mut sim, key) = upgraded(1, &json!({"workloadUpdateMethods": ["Evict"]}));
        sim.world.facts.launcher_image = "registry.example/virt-launcher:1".into();
        let vmi = Key::new(Kind::VirtualMachineInstance, "n", "vmi-0");
        sim.change(&vmi, json!({"metadata": {"labels": {OUTDATED: ""}}}));
        assert_eq!(super::outdated_vmis(&sim.world).len(), 0, "the label is forged");
        sim.settle();
        assert_eq!((evicted(&sim), count(&sim, &key)), (0, json!(0)));
    }
    /// Of each namespace that has one.
    #[test]
    fn nothing_is_evicted_where_another_kubevirt_object_says_so() {
        let (mut sim, _) = upgraded(2, &json!({}));
        let strategy = json!({"workloadUpdateMethods": ["Evict"]});
        let meta = json!({"namespace": "other", "name": "kubevirt"});
        sim.put(Kind::KubeVirt, json!({"metadata": meta, "spec": {"workloadUpdateStrategy": strategy}}));
        sim.settle();
        assert_eq!(evicted(&sim), 0);
    }
}
