//! Which reconciler decides on an object.

use crate::{certificates, datavolume, kubevirt, node, replicaset, vm, vmi};
use jiff::Timestamp;
use kubernetes::objects::{Key, Kind, World};
use kubernetes::plan::Plan;

/// What is to be done for one object.
pub fn decide(world: &World, key: &Key, now: Timestamp) -> Plan {
    let Key { kind, namespace, name } = key;
    match kind {
        Kind::VirtualMachine => vm::decide(world, namespace, name, now),
        Kind::VirtualMachineInstance => vmi::decide(world, namespace, name, now),
        Kind::VirtualMachineInstanceReplicaSet => replicaset::decide(world, namespace, name, now),
        Kind::DataVolume => datavolume::decide(world, namespace, name, now),
        Kind::KubeVirt => kubevirt::decide(world, namespace, name, now),
        Kind::Node => node::decide(world, name, now),
        Kind::Secret => certificates::decide(world, now),
        _ => Plan::default(),
    }
}
