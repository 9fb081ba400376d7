//! The MigrationPolicy of a VMI, chosen at the hand-over, and the settings that follow from it.
//!
//! ```text
//! policies whose selectors match the labels of the namespace and of the VMI
//!   ─► the most labels ─► of these the most labels of the VMI ─► of these the smallest name
//! ```
//!
//! The settings are written into `status.migrationState` of the VMI. A later change of the policy has no effect on that migration.
//!
//! **As upstream** in all but one case: upstream looks at `namespaceSelector` only if the VMI has labels, so a VMI without labels is
//! matched by every policy that has selectors, in any namespace. Here both selectors are looked at for every VMI, as upstream's
//! documentation of the kind says.

use api::migration_policy::MigrationPolicy;
use api::vmi::{MigrationConfiguration, VirtualMachineInstance};
use cluster_model::objects::World;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The name of the policy of a VMI, if one selects it, and the settings of its migration.
pub(super) fn settings(
    world: &World,
    vmi: &VirtualMachineInstance,
) -> (Option<String>, MigrationConfiguration) {
    let cluster = &world.config().migrations;
    match policy_of(world, vmi) {
        Some(policy) => (policy.metadata.name.clone(), policy.spec.apply_to(cluster)),
        None => (None, cluster.clone()),
    }
}

/// The policy of a VMI.
fn policy_of<'a>(world: &'a World, vmi: &VirtualMachineInstance) -> Option<&'a MigrationPolicy> {
    let namespace = vmi.metadata.namespace.as_deref().unwrap_or_default();
    let none = BTreeMap::new();
    let namespace = world.namespaces.get("", namespace).map_or(&none, |object| &object.meta.labels);
    let scored = world.migration_policies.all().filter_map(|policy| {
        let score = policy.spec.selectors.as_ref()?.score(&vmi.metadata.labels, namespace)?;
        Some((score, Reverse(policy.metadata.name.as_deref()), policy))
    });
    scored.max_by_key(|(score, name, _)| (*score, *name)).map(|(.., policy)| policy)
}
