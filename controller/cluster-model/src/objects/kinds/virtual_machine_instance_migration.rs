//! VirtualMachineInstanceMigration: live migration of a VMI to another node.

use crate::objects::about::kept;
use crate::objects::store::{StoredObject, read};
use crate::objects::{About, IndexKey, Key, Kind, LauncherAttempt, Selector, Use, World, key, names};
use api::meta::ObjectMeta;
use api::migration::{Phase, Priority, VirtualMachineInstanceMigration};
use serde_json::Value;
use std::collections::BTreeMap;

/// The finalizer that virt-controller removes once a migration has ended.
pub const MIGRATION_FINALIZER: &str = "kubevirt.io/migrationJobFinalize";
/// The label of a migration with the name of its VMI.
pub const MIGRATED_VMI: &str = "kubevirt.io/vmi-name";
/// The annotation of a migration with the message why it waits. Upstream's types of conditions have none for that.
pub const PENDING_REASON: &str = "kubevirt.io/migrationPendingReason";

pub(crate) const ABOUT: About = About {
    kept: kept!(migrations),
    controller: Use {
        follows: &[Selector::ALL],
        verbs: &[(None, &["create", "delete", "get", "patch"]), (Some("status"), &["patch"])],
        ..Use::NONE
    },
    // `virtctl migrate` makes one; a new one is compared with those of its VMI.
    api: Use { verbs: &[(None, &["create", "list"])], ..Use::NONE },
    touches: dependents,
    ..About::new("kubevirt.io/v1", "VirtualMachineInstanceMigration", "virtualmachineinstancemigrations")
};

/// Migrations of one node that are decided on when a migration has ended. The others look again after a pause.
const NEXT: usize = 4;

/// Keys of the objects whose decision depends on a migration: other migrations of its VMI, and those that wait for its
/// end.
fn dependents(world: &World, found: &Key) -> Vec<Key> {
    let migration = world.migrations.get(&found.namespace, &found.name);
    let mut keys = vec![found.clone()];
    if let Some(migration) = migration {
        let vmi = &migration.spec.vmi_name;
        // The VMI aborts a migration whose object is being deleted.
        keys.push(Key::new(Kind::VirtualMachineInstance, &found.namespace, vmi));
        // An offline one moves the disks of the VM.
        if migration.spec.offline == Some(true) {
            keys.push(Key::new(Kind::VirtualMachine, &found.namespace, vmi));
        }
        keys.extend(keys_of(world, &found.namespace, vmi));
    }
    if migration.is_none_or(|migration| migration_phase(migration).is_final()) {
        keys.extend(next_in_queue(world));
    }
    keys
}

/// The keys of the migrations of a VMI.
pub(super) fn keys_of(world: &World, namespace: &str, vmi: &str) -> Vec<Key> {
    world.indexed_by(&IndexKey::MigratedVmi(namespace.to_owned(), vmi.to_owned())).cloned().collect()
}

/// The first migrations of each node that wait.
fn next_in_queue(world: &World) -> Vec<Key> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let is_next = |migration: &&VirtualMachineInstanceMigration| {
        let namespace = migration.metadata.namespace.as_deref().unwrap_or_default();
        let vmi = world.vmis.get(namespace, &migration.spec.vmi_name);
        let node = vmi.and_then(|vmi| vmi.status.as_ref()?.node_name.as_deref());
        let count = counts.entry(node.unwrap_or_default()).or_default();
        *count += 1;
        *count <= NEXT
    };
    let next = world.waiting_migrations().into_iter().filter(is_next);
    next.map(|migration| key(Kind::VirtualMachineInstanceMigration, &migration.metadata)).collect()
}

/// Phase of a migration.
pub fn migration_phase(migration: &VirtualMachineInstanceMigration) -> Phase {
    migration.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default()
}

impl World {
    /// The migrations that wait for their turn, in the order in which they get it: by priority, then by age.
    pub fn waiting_migrations(&self) -> Vec<&VirtualMachineInstanceMigration> {
        let waiting = self.indexed_by(&IndexKey::Waiting);
        let waiting = waiting.filter(|key| key.kind == Kind::VirtualMachineInstanceMigration);
        let waiting = waiting.filter_map(|key| self.migrations.get(&key.namespace, &key.name));
        let mut waiting: Vec<_> = waiting.collect();
        waiting.sort_by_key(|migration| {
            let priority = match &migration.spec.priority {
                Some(Priority::SystemCritical) => 0,
                Some(Priority::UserTriggered) => 1,
                Some(Priority::SystemMaintenance) => 2,
                Some(Priority::Other(_)) | None => 3,
            };
            (priority, &migration.metadata.creation_timestamp, &migration.metadata.uid)
        });
        waiting
    }
}

/// The migrations of a VMI.
pub fn migrations_of<'a>(
    world: &'a World,
    namespace: &str,
    vmi: &str,
) -> impl Iterator<Item = &'a VirtualMachineInstanceMigration> {
    let mark = IndexKey::MigratedVmi(namespace.to_owned(), vmi.to_owned());
    world.indexed_by(&mark).filter_map(|key| world.migrations.get(&key.namespace, &key.name))
}

/// Key of the target pod of a migration.
pub fn target_pod(migration: &ObjectMeta, vmi: &ObjectMeta) -> Option<Key> {
    let uid = migration.uid.as_deref()?;
    let name = names::pod(vmi.name.as_deref()?, vmi.uid.as_deref()?, LauncherAttempt::Migration(uid));
    Some(Key::new(Kind::Pod, vmi.namespace.clone()?, name))
}

impl StoredObject for VirtualMachineInstanceMigration {
    fn parse(object: Value) -> Option<Self> {
        read(object)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn index_keys(&self) -> Vec<IndexKey> {
        let namespace = self.metadata.namespace.clone().unwrap_or_default();
        let waits = matches!(migration_phase(self).as_str(), "" | "Pending");
        let waits = waits.then_some(IndexKey::Waiting);
        [IndexKey::MigratedVmi(namespace, self.spec.vmi_name.clone())].into_iter().chain(waits).collect()
    }
}
