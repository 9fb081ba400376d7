//! What is decided once per cluster.
//!
//! ```text
//!  KubeVirt ─────► config ─┐
//!  VirtualMachine ─► vm ───┼─► VirtualMachineInstance ─► vmi ─► pod (one Pod for each instance) ─► the node agent
//!  replica set ────────────┘                              ▲
//!        data volumes, claims, nodes: looked at ──────────┘
//! ```
//!
//! `certificates` sees to it that the API server can ask virt-api.
//!
//! [`decide`] takes the name of one object and the whole World, and returns what is to be done for that object.
//! Which decisions an object takes part in, the file of its kind says ([`crate::objects::About::touches`]).

pub mod certificates;
pub mod conditions;
pub mod config;
#[cfg(test)]
mod histories;
pub mod kubevirt;
pub mod measures;
pub mod node;
pub mod pod;
pub mod replicaset;
pub mod rights;
#[cfg(test)]
pub(crate) mod sim;
#[cfg(test)]
mod steady;
pub mod vm;
pub mod vmi;

use crate::objects::{Key, Kind, World};
use crate::plan::Plan;
use jiff::Timestamp;

/// What is to be done for one object.
pub fn decide(world: &World, key: &Key, now: Timestamp) -> Plan {
    let Key { kind, namespace, name } = key;
    match kind {
        Kind::Machine => vm::decide(world, namespace, name, now),
        Kind::Instance => vmi::decide(world, namespace, name, now),
        Kind::ReplicaSet => replicaset::decide(world, namespace, name, now),
        Kind::KubeVirt => kubevirt::decide(world, namespace, name, now),
        Kind::Node => node::decide(world, name, now),
        Kind::Secret => certificates::decide(world, now),
        _ => Plan::default(),
    }
}
