//! The order of migrations that wait, and how many go on at once: in the cluster, and away from one node.
//!
//! ```text
//!  system-critical ─► user-triggered ─► system-maintenance ─► without a priority; then the older one first
//!    a migration goes on where it has a free place once all in front of it that can migrate have one
//! ```
//!
//! **Guarantees.** A migration that waits for something else takes no place. One whose plan is being carried out may be about to have
//! its target pod, and counts as one that goes on.

use super::obstacle::obstacle;
use super::{MigrationReconcile, copied_claims, existing_target, phase, vmi_of};
use api::migration::{Phase, VirtualMachineInstanceMigration};
use api::vmi::VirtualMachineInstance;
use cluster_model::objects::{Kind, World, key};
use std::collections::BTreeMap;

/// Migrations that go on: in the cluster, and away from each node.
struct Running<'a> {
    total: i64,
    outbound: BTreeMap<&'a str, i64>,
}

/// The message of a migration that has to wait for others; `None` if it is its turn.
pub(super) fn queued(input: &MigrationReconcile<'_>, vmi: &VirtualMachineInstance) -> Option<String> {
    let world = input.world;
    let settings = &world.config().migrations;
    let most = settings.parallel_migrations_per_cluster.unwrap_or_default();
    let most_outbound = settings.parallel_outbound_migrations_per_node.unwrap_or_default();
    let mut running = Running::count(world, input.migration);
    let node = node_of(vmi).unwrap_or_default();
    for other in world.waiting_migrations() {
        if other.metadata.uid == input.migration.metadata.uid {
            break;
        }
        let Some(its) = vmi_of(world, other) else { continue };
        let from = node_of(its).unwrap_or_default();
        if can_go_on(world, other, its) && running.total < most && running.outbound(from) < most_outbound {
            running.add(from);
        }
    }
    if running.total >= most {
        return Some(format!(
            "{most} live migrations of the cluster go on or come first (parallelMigrationsPerCluster)"
        ));
    }
    (running.outbound(node) >= most_outbound).then(|| {
        format!(
            "{most_outbound} live migrations away from node {node} go on or come first \
             (parallelOutboundMigrationsPerNode)"
        )
    })
}

/// True if nothing but its turn keeps a migration from going on. One that goes on already is counted as such.
fn can_go_on(
    world: &World,
    migration: &VirtualMachineInstanceMigration,
    vmi: &VirtualMachineInstance,
) -> bool {
    let spec = &migration.spec;
    let own = key(Kind::VirtualMachineInstanceMigration, &migration.metadata);
    !is_going_on(world, migration, vmi)
        && migration.metadata.deletion_timestamp.is_none()
        && vmi.metadata.deletion_timestamp.is_none()
        && spec.send_to.is_none()
        && spec.receive.is_none()
        && !world.failures.contains_key(&own)
        && obstacle(world, migration, vmi).is_none()
        && copied_claims::wait_for_named(world, vmi).is_none()
}

/// True for a migration that has a target pod, or may be about to have one.
fn is_going_on(
    world: &World,
    migration: &VirtualMachineInstanceMigration,
    vmi: &VirtualMachineInstance,
) -> bool {
    match phase(migration) {
        Phase::Succeeded | Phase::Failed => false,
        Phase::Scheduling
        | Phase::Scheduled
        | Phase::PreparingTarget
        | Phase::TargetReady
        | Phase::Running => true,
        Phase::Pending | Phase::WaitingForSync | Phase::Synchronizing | Phase::Other(_) => {
            existing_target(world, migration, vmi).is_some()
                || world.busy.contains(&key(Kind::VirtualMachineInstanceMigration, &migration.metadata))
        }
    }
}

impl<'a> Running<'a> {
    /// The migrations that go on, without this one.
    fn count(world: &'a World, but: &VirtualMachineInstanceMigration) -> Running<'a> {
        let mut running = Running { total: 0, outbound: BTreeMap::new() };
        for other in world.migrations.all().filter(|other| other.metadata.uid != but.metadata.uid) {
            if phase(other).is_final() {
                continue;
            }
            let Some(vmi) = vmi_of(world, other) else { continue };
            if is_going_on(world, other, vmi) {
                running.add(node_of(vmi).unwrap_or_default());
            }
        }
        running
    }

    fn add(&mut self, node: &'a str) {
        self.total = self.total.saturating_add(1);
        let count = self.outbound.entry(node).or_default();
        *count = count.saturating_add(1);
    }

    fn outbound(&self, node: &str) -> i64 {
        self.outbound.get(node).copied().unwrap_or_default()
    }
}

/// The node that a VMI leaves.
fn node_of(vmi: &VirtualMachineInstance) -> Option<&str> {
    vmi.status.as_ref()?.node_name.as_deref()
}
