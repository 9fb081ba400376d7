//! The reconciler of each kind, and the objects that one key stands for.
//!
//! [`decide()`] names every kind and has no wildcard: a kind that is added to [`Kind`] does not compile before it is assigned to a
//! reconciler here, or to the list of kinds that are only read.

use crate::{
    cdi, certificates, data_import_cron, data_source, data_volume, export, kubevirt, migration, node, pool,
    replica_set, storage_profile, vm, vmi,
};
use cluster_model::objects::{Key, Kind, World};
use cluster_model::plan::Plan;
use jiff::Timestamp;

/// The plan for one object.
pub fn decide(world: &World, key: &Key, now: Timestamp) -> Plan {
    let Key { kind, namespace, name } = key;
    // An object known by its metadata only must not be treated as empty: it would be stopped or recreated.
    if parts(key).iter().any(|part| world.is_unread(part)) {
        return Plan::default();
    }
    // Disks are left alone while another installation fills them, or none does. Holds of an earlier time are still released.
    let serves_disks = || cdi::fills_disks(world);
    match kind {
        Kind::VirtualMachine => vm::decide(world, namespace, name, now),
        Kind::VirtualMachineInstance => vmi::decide(world, namespace, name, now)
            .and(migration::delete_strays(world, namespace, name))
            .and(migration::evacuate(world, namespace, name, now)),
        Kind::VirtualMachineInstanceMigration => migration::decide(world, namespace, name, now),
        Kind::VirtualMachineInstanceReplicaSet => replica_set::decide(world, namespace, name, now),
        Kind::VirtualMachinePool => pool::decide(world, namespace, name, now),
        // A DataVolume and its PVC have one name and are one disk. A change of either is decided under this key.
        Kind::DataVolume | Kind::PersistentVolumeClaim => {
            let plan = match serves_disks() {
                true => data_volume::decide(world, namespace, name, now),
                false => data_volume::finish_adoption(world, namespace, name),
            };
            // An export starts on a complete disk only, so the state of the disk is written first.
            plan.and(export::decide(world, namespace, name, now))
        }
        Kind::PersistentVolume => data_volume::restore_reclaim_policy(world, name),
        Kind::DataSource if serves_disks() => data_source::decide(world, namespace, name, now),
        Kind::DataImportCron if serves_disks() => data_import_cron::decide(world, namespace, name, now),
        Kind::StorageProfile | Kind::StorageClass if serves_disks() => {
            storage_profile::decide(world, name, now)
        }
        Kind::DataSource | Kind::DataImportCron | Kind::StorageProfile | Kind::StorageClass => {
            Plan::default()
        }
        Kind::KubeVirt => kubevirt::decide(world, namespace, name, now),
        Kind::Deployment | Kind::DaemonSet if *namespace == world.facts.namespace => {
            kubevirt::components::decide(world, *kind, name, now)
        }
        Kind::Deployment | Kind::DaemonSet => Plan::default(),
        Kind::CDI => cdi::decide(world, name, now),
        Kind::Node => node::decide(world, name, now),
        Kind::Secret => certificates::decide(world, now),
        // Kinds that reconcilers read or write and that have no reconciler of their own. A change of an object that is followed is
        // decided under the keys of the objects that depend on it (`About::touches`).
        Kind::VirtualMachineInstancePreset
        | Kind::VirtualMachineInstancetype
        | Kind::VirtualMachineClusterInstancetype
        | Kind::VirtualMachinePreference
        | Kind::VirtualMachineClusterPreference
        | Kind::ControllerRevision
        | Kind::Pod
        | Kind::VolumeImportSource
        | Kind::VolumeUploadSource
        | Kind::VolumeCloneSource
        | Kind::CDIConfig
        | Kind::Namespace
        | Kind::ResourceQuota
        | Kind::NetworkAttachmentDefinition
        | Kind::ResourceClaim
        | Kind::ResourceSlice
        | Kind::Event
        | Kind::Lease
        | Kind::Service
        | Kind::ConfigMap
        | Kind::MutatingWebhookConfiguration
        | Kind::ValidatingWebhookConfiguration
        | Kind::APIService
        | Kind::EndpointSlice
        | Kind::TokenReview
        | Kind::SubjectAccessReview
        | Kind::UploadTokenRequest
        | Kind::MigrationPolicy => Plan::default(),
    }
}

/// The objects that are decided on under a key.
pub(crate) fn parts(key: &Key) -> Vec<Key> {
    let with_kind = |kind| Key { kind, ..key.clone() };
    match key.kind {
        Kind::DataVolume | Kind::PersistentVolumeClaim => {
            [Kind::DataVolume, Kind::PersistentVolumeClaim].map(with_kind).to_vec()
        }
        _ => vec![key.clone()],
    }
}
