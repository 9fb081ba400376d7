//! VirtualMachineInstance (VMI): a running guest.

use super::kubevirt::removed_with;
use super::virtual_machine_instance_migration::keys_of;
use crate::objects::about::kept;
use crate::objects::store::{StoredObject, read};
use crate::objects::{About, IndexKey, Key, Kind, LauncherPods, Selector, Use, World, key, owner};
use api::machine::hook;
use api::meta::ObjectMeta;
use api::vmi::{VirtualMachineInstance, Volume};
use serde_json::Value;
use std::collections::BTreeSet;

/// The finalizer that virt-controller removes from a VMI when nothing of it runs any more.
pub const FINALIZER: &str = "kubevirt.io/foregroundDeleteVirtualMachine";
/// The finalizer that the VM of a VMI removes from it.
pub const OF_VM: &str = "kubevirt.io/virtualMachineControllerFinalize";
/// The label of a VMI whose launcher pod has another version than new ones, as upstream names it.
pub const OUTDATED: &str = "kubevirt.io/outdatedLauncherImage";
/// The fields of a VMI's status that the virt-handler of the guest's node writes; the others are virt-controller's.
pub const HANDLER_STATUS_FIELDS: [&str; 14] = [
    "conditions",
    "currentCPUTopology",
    "fsFreezeStatus",
    "guestOSInfo",
    "interfaces",
    "kernelBootStatus",
    "machine",
    "memory",
    "migrationMethod",
    "phase",
    "phaseTransitionTimestamps",
    "reason",
    "selinuxContext",
    "volumeStatus",
];

/// The fields of `status.migrationState` that the virt-handler of the source's node writes.
pub const SOURCE_MIGRATION_FIELDS: [&str; 9] = [
    "abortStatus",
    "completed",
    "endTimestamp",
    "failed",
    "failureReason",
    "mode",
    "progress",
    "sourceCertificate",
    "startTimestamp",
];
/// The fields of `status.migrationState` that the virt-handler of the target's node writes. None of them says that the
/// guest has arrived for good: virt-controller decides that.
pub const TARGET_MIGRATION_FIELDS: [&str; 8] = [
    "targetCPUSet",
    "targetCertificate",
    "targetDirectMigrationNodePorts",
    "targetFailureReason",
    "targetNodeAddress",
    "targetNodeDomainDetected",
    "targetNodeDomainReadyTimestamp",
    "targetNodeTopology",
];

pub(crate) const ABOUT: About = About {
    kept: kept!(vmis),
    // The status of a VMI is not a subresource.
    controller: Use {
        follows: &[Selector::ALL],
        verbs: &[(None, &["create", "delete", "get", "patch"]), (Some("finalizers"), &["update"])],
        ..Use::NONE
    },
    // Serves subresources, as for VMs. virt-api writes one field of the status
    // ([`crate::subresources::EVACUATION`]).
    api: Use { verbs: &[(None, &["get", "list", "patch"])], ..Use::NONE },
    // The installation's admission policies and the webhook restrict virt-handler to the status of VMIs on
    // its own node.
    handler: Use {
        // The VMIs whose guest runs on the node, and those that migrate to it.
        follows: &[
            Selector { labels: Some("kubevirt.io/nodeName={node}"), ..Selector::ALL },
            Selector { labels: Some("kubevirt.io/migrationTargetNodeName={node}"), ..Selector::ALL },
        ],
        verbs: &[(None, &["patch"])],
        ..Use::NONE
    },
    touches: dependents,
    removed: |world, key| drop(world.endings.remove(&(key.namespace.clone(), key.name.clone()))),
    ..About::new("kubevirt.io/v1", "VirtualMachineInstance", "virtualmachineinstances")
};

/// The PersistentVolumeClaim of a volume.
pub fn claim_of(volume: &Volume) -> Option<&str> {
    if let Some(claim) = &volume.persistent_volume_claim {
        return Some(&claim.claim_name);
    }
    if let Some(data) = &volume.data_volume {
        return Some(&data.name);
    }
    let claim = volume.ephemeral.as_ref()?.persistent_volume_claim.as_ref()?;
    Some(&claim.claim_name)
}

/// The PersistentVolumeClaims of a VMI: those of its volumes and of its hook sidecars.
pub fn claims_of(vmi: &VirtualMachineInstance) -> Vec<String> {
    let of_volumes = vmi.spec.volumes.iter().filter_map(claim_of).map(str::to_owned);
    of_volumes.chain(hook::claims(&vmi.metadata)).collect()
}

/// PVCs that a live migration copies disks of a VMI into.
pub fn destinations_of(vmi: &VirtualMachineInstance) -> impl Iterator<Item = &str> {
    let all = vmi.status.iter().flat_map(|status| &status.migrated_volumes);
    all.filter(|volume| !volume.has_destination(&vmi.spec.volumes)).filter_map(|volume| volume.destination())
}

/// True if the VMI has been handed over to a node, or has ended.
pub fn was_handed_over(vmi: &VirtualMachineInstance) -> bool {
    let phase = vmi.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
    !matches!(phase.as_str(), "" | "Pending" | "Scheduling")
}

/// True if the VMI waits for its launcher pod to be created.
pub fn is_waiting(vmi: &VirtualMachineInstance) -> bool {
    let phase = vmi.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
    matches!(phase.as_str(), "" | "Pending")
}

impl StoredObject for VirtualMachineInstance {
    fn parse(object: Value) -> Option<Self> {
        read(object)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn index_keys(&self) -> Vec<IndexKey> {
        let meta = &self.metadata;
        let mut marks: Vec<IndexKey> = owner::mark(meta).into_iter().collect();
        let claims = claims_of(self);
        marks.extend(claim_keys(meta, claims.iter().map(String::as_str).chain(destinations_of(self))));
        let node = self.status.as_ref().and_then(|status| status.node_name.clone());
        marks.extend(node.filter(|node| !node.is_empty()).map(IndexKey::Node));
        let pods = LauncherPods::for_vmi(self);
        let pods = pods.iter().flat_map(LauncherPods::keys);
        marks.extend(pods.map(|Key { namespace, name, .. }| IndexKey::LauncherPod(namespace, name)));
        marks.extend(is_waiting(self).then_some(IndexKey::Waiting));
        marks.extend(meta.labels.contains_key(OUTDATED).then_some(IndexKey::Outdated));
        marks
    }
}

/// Index keys of an object that uses the PVCs of these names.
pub(super) fn claim_keys<'a>(
    meta: &ObjectMeta,
    names: impl Iterator<Item = &'a str>,
) -> impl Iterator<Item = IndexKey> {
    let namespace = meta.namespace.clone().unwrap_or_default();
    names.map(move |name| IndexKey::PersistentVolumeClaim(namespace.clone(), name.to_owned()))
}

/// VMIs that conflict with this one over a PVC ([`World::disk_conflicts`]) and were not handed over to a node yet, and those that share
/// a PVC with such a one while it waits: whether it is held up decides whether they go on.
pub fn waiting_for_disks(world: &World, found: &Key) -> Vec<Key> {
    let vmi = world.vmis.get(&found.namespace, &found.name);
    let conflicts = vmi.map(|vmi| world.disk_conflicts(vmi)).unwrap_or_default();
    let others = conflicts.into_iter().map(|conflict| conflict.other).filter(|other| !was_handed_over(other));
    let (mut keys, mut claims) = (BTreeSet::new(), BTreeSet::new());
    for other in others {
        keys.insert(key(Kind::VirtualMachineInstance, &other.metadata));
        claims.extend(other.spec.volumes.iter().filter(|_| is_waiting(other)).filter_map(claim_of));
    }
    for claim in vmi.into_iter().flat_map(|vmi| &vmi.spec.volumes).filter_map(claim_of) {
        claims.remove(claim);
    }
    // Each PVC is looked at once, however many VMIs have it.
    for claim in claims {
        let mark = IndexKey::PersistentVolumeClaim(found.namespace.clone(), claim.to_owned());
        let users = world.indexed_by(&mark).filter(|user| user.kind == found.kind && *user != found);
        let waits = |user: &&Key| {
            world.vmis.get(&user.namespace, &user.name).is_some_and(|user| !was_handed_over(user))
        };
        keys.extend(users.filter(waits).cloned());
    }
    keys.into_iter().collect()
}

fn dependents(world: &World, found: &Key) -> Vec<Key> {
    let Key { namespace, name, .. } = found;
    let mut keys = vec![found.clone(), Key::new(Kind::VirtualMachine, namespace, name)];
    keys.extend(removed_with(world));
    keys.extend(keys_of(world, namespace, name));
    // The KubeVirt object's status counts outdated VMIs, and its update strategy evicts them.
    if world.indexed_by(&IndexKey::Outdated).any(|outdated| outdated == found) {
        keys.extend(super::kubevirt::all(world));
    }
    // With `WaitForFirstConsumer`, the volume of a disk is created on the node of the VMI, not earlier.
    let disks =
        world.vmis.get(namespace, name).into_iter().flat_map(|vmi| &vmi.spec.volumes).filter_map(claim_of);
    for disk in disks {
        let mark = IndexKey::PersistentVolumeClaim(namespace.clone(), disk.to_owned());
        // A disk is cloned when no VMI writes to it any more.
        keys.extend(world.indexed_by(&mark).filter(|key| key.kind == Kind::DataVolume).cloned());
        if world.data_volumes.get(namespace, disk).is_some() {
            keys.push(Key::new(Kind::DataVolume, namespace, disk));
        }
    }
    keys.extend(waiting_for_disks(world, found));
    match world.vmis.get(namespace, name).and_then(|vmi| owner::controller(&vmi.metadata)) {
        Some(owner) if owner.kind == Kind::VirtualMachineInstanceReplicaSet.name() => {
            keys.push(Key::new(Kind::VirtualMachineInstanceReplicaSet, namespace, &owner.name));
        }
        Some(_) => {}
        // The VMI is gone or has no owner: any replica set of the namespace may miss it.
        None => keys.extend(
            world
                .replica_sets
                .in_namespace(namespace)
                .map(|set| key(Kind::VirtualMachineInstanceReplicaSet, set.meta())),
        ),
    }
    keys
}
