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
//! [`touched`] says whose decision an object takes part in: a pod is its instance's business.

pub mod certificates;
pub mod conditions;
pub mod config;
#[cfg(test)]
mod histories;
pub mod kubevirt;
pub mod measures;
pub mod node;
pub mod owner;
pub mod pod;
pub mod replicaset;
pub mod rights;
#[cfg(test)]
pub(crate) mod sim;
#[cfg(test)]
mod steady;
pub mod vm;
pub mod vmi;

use crate::kind::{Key, Kind};
use crate::plan::Plan;
use crate::watch::Which;
use crate::world::{Kept, World};
use jiff::Timestamp;

/// The kinds that are watched.
pub const WATCHED: [Kind; 15] = [
    Kind::Deployment,
    Kind::DaemonSet,
    Kind::Secret,
    Kind::ConfigMap,
    Kind::Mutating,
    Kind::Validating,
    Kind::KubeVirt,
    Kind::Node,
    Kind::Claim,
    Kind::DataVolume,
    Kind::Pod,
    Kind::Instance,
    Kind::Machine,
    Kind::ReplicaSet,
    Kind::Event,
];

/// Which objects of a kind are watched, by a program whose namespace is `home`: of what it may touch few of, each by its
/// name.
pub fn which(kind: Kind, home: &str) -> Vec<Which> {
    let home = if kind.is_of_installation() { home } else { "" };
    if let Some(names) = crate::rights::names(rights::NAMED, kind) {
        return names.iter().map(|name| Which::only(kind, home, name)).collect();
    }
    let mut which = match kind {
        Kind::Pod => Which::all(kind, Some("kubevirt.io=virt-launcher")),
        _ => Which::all(kind, None),
    };
    home.clone_into(&mut which.namespace);
    if kind == Kind::Event {
        which.fields = Some("involvedObject.kind=Pod,type=Warning".to_owned());
    }
    vec![which]
}

/// Everything that is watched.
pub fn watched(home: &str) -> Vec<Which> {
    WATCHED.into_iter().flat_map(|kind| which(kind, home)).collect()
}

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

/// Whose decision an object takes part in.
pub fn touched(world: &World, key: &Key) -> Vec<Key> {
    let Key { kind, namespace, name } = key;
    match kind {
        Kind::Instance => {
            let mut found = vec![key.clone(), Key::new(Kind::Machine, namespace, name)];
            found.extend(ending(world));
            let owner = world.instances.get(namespace, name).and_then(|vmi| owner::controller(&vmi.metadata));
            match owner {
                Some(("VirtualMachineInstanceReplicaSet", owner)) => {
                    found.push(Key::new(Kind::ReplicaSet, namespace, owner));
                }
                Some(_) => {}
                // It is gone, or nobody's: one of the replica sets may miss it.
                None => found.extend(
                    world
                        .replica_sets
                        .within(namespace)
                        .map(|set| crate::plan::key(Kind::ReplicaSet, set.meta())),
                ),
            }
            found
        }
        Kind::Machine => {
            // An instance waits for its machine to let go of it.
            let mut found = vec![key.clone(), Key::new(Kind::Instance, namespace, name)];
            found.extend(ending(world));
            found
        }
        Kind::Pod => match world.pods.get(namespace, name).and_then(|pod| owner::controller(&pod.meta)) {
            Some((_, owner)) => vec![Key::new(Kind::Instance, namespace, owner)],
            None => (world.instances.within(namespace))
                .filter(|vmi| {
                    vmi.metadata.uid.as_deref().is_some_and(|uid| {
                        crate::names::pod(vmi.metadata.name.as_deref().unwrap_or_default(), uid) == *name
                    })
                })
                .map(|vmi| crate::plan::key(Kind::Instance, &vmi.metadata))
                .collect(),
        },
        Kind::Claim | Kind::DataVolume => {
            let uses = |volumes: &[api::vmi::Volume]| {
                volumes.iter().any(|volume| vmi::claim_of(volume) == Some(name))
            };
            let instances = world.instances.within(namespace).filter(|vmi| uses(&vmi.spec.volumes));
            let machines = world.machines.within(namespace).filter(|vm| {
                vm.spec.template.as_ref().is_some_and(|template| uses(&template.spec.volumes))
                    || vm.spec.data_volume_templates.iter().any(|template| vm::names(template) == Some(name))
            });
            let instances = instances.map(|vmi| crate::plan::key(Kind::Instance, &vmi.metadata));
            instances.chain(machines.map(|vm| crate::plan::key(Kind::Machine, &vm.metadata))).collect()
        }
        // The settings change what is made from now on; who waits for them is told by its own time.
        Kind::KubeVirt => {
            let mut found = vec![key.clone(), certificates::key(world)];
            found.extend(
                world
                    .instances
                    .all()
                    .filter(|vmi| vmi::waits(vmi))
                    .map(|vmi| crate::plan::key(Kind::Instance, &vmi.metadata)),
            );
            found
        }
        Kind::ReplicaSet => [key.clone()].into_iter().chain(ending(world)).collect(),
        Kind::Node => (world.instances.all())
            .filter(|vmi| vmi::waits(vmi) || vmi::is_on(vmi, name))
            .map(|vmi| crate::plan::key(Kind::Instance, &vmi.metadata))
            .chain([key.clone()])
            .collect(),
        // An event is called after what it is about.
        Kind::Event => match name.rsplit_once('.') {
            Some((pod, _)) if world.pods.get(namespace, pod).is_some() => {
                touched(world, &Key::new(Kind::Pod, namespace, pod))
            }
            _ => Vec::new(),
        },
        Kind::Secret => vec![certificates::key(world)],
        // The installation may wait for them to be gone.
        Kind::ConfigMap | Kind::Mutating | Kind::Validating => {
            kubevirt::keys(world).into_iter().chain([certificates::key(world)]).collect()
        }
        Kind::Deployment | Kind::DaemonSet => kubevirt::keys(world),
        Kind::Lease | Kind::Revision | Kind::TokenReview | Kind::AccessReview => Vec::new(),
    }
}

/// While the installation goes, the last machine that goes decides when the webhooks go, and then all.
fn ending(world: &World) -> Vec<Key> {
    let stays = world.settings.all().any(|object| object.meta().deletion_timestamp.is_none());
    let webhooks = (!stays).then(|| certificates::key(world));
    webhooks.into_iter().chain(kubevirt::leaving(world)).collect()
}
