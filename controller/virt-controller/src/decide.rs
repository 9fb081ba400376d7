//! Which reconciler decides on an object.

use crate::{
    cdi, certificates, dataimportcron, datasource, datavolume, export, kubevirt, node, pool, replicaset,
    storageprofile, vm, vmi,
};
use cluster_model::objects::{Key, Kind, World};
use cluster_model::plan::Plan;
use jiff::Timestamp;

/// What is to be done for one object.
pub fn decide(world: &World, key: &Key, now: Timestamp) -> Plan {
    let Key { kind, namespace, name } = key;
    // What is not known of it is not nothing: it would be stopped, emptied or begun anew.
    if parts(key).iter().any(|part| world.is_unread(part)) {
        return Plan::default();
    }
    // Another installation fills the disks, or nobody does. What was begun, and holds an object meanwhile, is ended all the same.
    let is_left = is_of_disks(*kind) && !cdi::serves(world);
    match kind {
        Kind::VirtualMachine => vm::decide(world, namespace, name, now),
        Kind::VirtualMachineInstance => vmi::decide(world, namespace, name, now),
        Kind::VirtualMachineInstanceReplicaSet => replicaset::decide(world, namespace, name, now),
        Kind::VirtualMachinePool => pool::decide(world, namespace, name, now),
        // A PVC has the name of its DataVolume: both are one disk. What touches a PVC touches that key.
        Kind::DataVolume | Kind::PersistentVolumeClaim => {
            let plan = match is_left {
                true => datavolume::leave(world, namespace, name),
                false => datavolume::decide(world, namespace, name, now),
            };
            // The export is of a disk that is whole: what is written of its filling is written first.
            plan.and(export::decide(world, namespace, name, now))
        }
        Kind::PersistentVolume => datavolume::hand_back(world, name),
        _ if is_left => Plan::default(),
        Kind::DataSource => datasource::decide(world, namespace, name, now),
        Kind::DataImportCron => dataimportcron::decide(world, namespace, name, now),
        Kind::StorageProfile | Kind::StorageClass => storageprofile::decide(world, name, now),
        Kind::KubeVirt => kubevirt::decide(world, namespace, name, now),
        Kind::Deployment | Kind::DaemonSet if *namespace == world.facts.namespace => {
            kubevirt::components::decide(world, *kind, name, now)
        }
        Kind::CDI => cdi::decide(world, name, now),
        Kind::Node => node::decide(world, name, now),
        Kind::Secret => certificates::decide(world, now),
        _ => Plan::default(),
    }
}

/// The objects that are decided on under a key.
pub(crate) fn parts(key: &Key) -> Vec<Key> {
    let of = |kind| Key { kind, ..key.clone() };
    match key.kind {
        Kind::DataVolume | Kind::PersistentVolumeClaim => {
            [Kind::DataVolume, Kind::PersistentVolumeClaim].map(of).to_vec()
        }
        _ => vec![key.clone()],
    }
}

/// What is decided on objects of the kind is about disks.
fn is_of_disks(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::DataVolume
            | Kind::PersistentVolumeClaim
            | Kind::PersistentVolume
            | Kind::DataSource
            | Kind::DataImportCron
            | Kind::StorageProfile
            | Kind::StorageClass
    )
}
