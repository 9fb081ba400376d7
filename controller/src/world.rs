//! What we know of the cluster: one snapshot, kept up by watches and by the answers to our own writes.
//!
//! ```text
//!  watch ──── put, remove ───► World ◄──── put ──── apply (what the server answered: we read what we wrote)
//!                                │
//!                                └── cluster::decide looks, and changes nothing
//! ```
//!
//! An object that is older than the one that is there is not put. Pods, claims and nodes are kept as what is looked at
//! of them alone: a cluster has many of those that are none of our business.

mod claim;
mod component;
mod node;
mod pod;
mod secret;
mod shelf;

pub use claim::Claim;
pub use component::Component;
pub use node::Node;
pub use pod::{Condition, Container, Pod, PodPhase};
pub use secret::Secret;
pub use shelf::{Kept, Shelf};

use crate::kind::{Key, Kind};
use crate::launcher_pod::LauncherPod;
use api::datavolume::DataVolume;
use api::meta::ObjectMeta;
use api::vm::VirtualMachine;
use api::vmi::VirtualMachineInstance;
use serde_json::Value;
use std::collections::BTreeMap;

/// What we know of the cluster.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct World {
    pub machines: Shelf<VirtualMachine>,
    pub instances: Shelf<VirtualMachineInstance>,
    /// As they stand; there are few.
    pub replica_sets: Shelf<Plain>,
    /// As they stand; there is one.
    pub settings: Shelf<Plain>,
    pub data_volumes: Shelf<DataVolume>,
    pub pods: Shelf<Pod>,
    pub claims: Shelf<Claim>,
    pub nodes: Shelf<Node>,
    /// In the namespace of the installation.
    pub deployments: Shelf<Component>,
    pub daemons: Shelf<Component>,
    /// Ours, with certificates.
    pub secrets: Shelf<Secret>,
    /// Ours, with authorities.
    pub bundles: Shelf<Plain>,
    /// Our webhook configurations.
    pub mutating: Shelf<Plain>,
    pub validating: Shelf<Plain>,
    /// What a kubelet last warned of, by the namespace and the name of a launcher pod: some things (a secret that is
    /// missing, a volume that cannot be mounted) are said in events alone.
    pub warnings: BTreeMap<(String, String), Warning>,
    /// The last heartbeat of each node's agent, and since when we know it.
    pub heard: BTreeMap<String, (String, jiff::Timestamp)>,
    /// What could not be done for an object, until it can.
    pub failures: BTreeMap<Key, Failure>,
    /// What is known of the cluster beside its objects.
    pub facts: Facts,
}

/// An object as it stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plain {
    /// Its name and the like.
    pub meta: ObjectMeta,
    /// All of it.
    pub object: Value,
}

/// What a kubelet warns of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The pod's uid.
    pub pod: String,
    /// A word.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// What could not be done for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was to be made or changed.
    pub about: Kind,
    /// In a sentence.
    pub message: String,
    /// How often in a row.
    pub times: u32,
    /// It is not tried again before.
    pub retry: jiff::Timestamp,
}

/// What is known of the cluster beside its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The namespace we are in.
    pub namespace: String,
    /// The image of the launcher.
    pub launcher_image: String,
    /// Our version.
    pub version: String,
    /// The server keeps image volumes of pods.
    pub image_volumes: bool,
}

impl World {
    /// Puts an object, unless there is a newer one. Whether something has changed.
    pub fn put(&mut self, kind: Kind, object: Value) -> bool {
        match kind {
            Kind::Machine => self.machines.put(object),
            Kind::Instance => self.instances.put(object),
            Kind::ReplicaSet => self.replica_sets.put(object),
            Kind::KubeVirt => self.settings.put(object),
            Kind::DataVolume => self.data_volumes.put(object),
            Kind::Pod => self.pods.put(object),
            Kind::Claim => self.claims.put(object),
            Kind::Node => self.nodes.put(object),
            Kind::Event => self.warn(&object),
            Kind::Deployment => self.deployments.put(object),
            Kind::DaemonSet => self.daemons.put(object),
            Kind::Secret => self.secrets.put(object),
            Kind::ConfigMap => self.bundles.put(object),
            Kind::Mutating => self.mutating.put(object),
            Kind::Validating => self.validating.put(object),
            Kind::Lease | Kind::Revision | Kind::TokenReview | Kind::AccessReview => false,
        }
    }

    /// Keeps a warning about a pod that we know.
    fn warn(&mut self, event: &Value) -> bool {
        let text =
            |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let at = (text("/involvedObject/namespace"), text("/involvedObject/name"));
        let pod = text("/involvedObject/uid");
        let known =
            self.pods.get(&at.0, &at.1).is_some_and(|known| known.meta.uid.as_deref() == Some(pod.as_str()));
        // The scheduler's own word is in the pod's conditions, where it is also taken back.
        if !known || text("/reason") == "FailedScheduling" {
            return false;
        }
        let warning = Warning { pod, reason: text("/reason"), message: text("/message") };
        self.warnings.insert(at, warning.clone()) != Some(warning)
    }

    /// Listens to a node: a heartbeat that is not known yet was made now.
    pub fn hear(&mut self, node: &str, now: jiff::Timestamp) {
        match self.nodes.get("", node).and_then(Node::heartbeat) {
            Some(beat) if self.heard.get(node).is_some_and(|(known, _)| known == beat) => {}
            Some(beat) => {
                let beat = beat.to_owned();
                self.heard.insert(node.to_owned(), (beat, now));
            }
            None => drop(self.heard.remove(node)),
        }
    }

    /// What a kubelet warned of a pod.
    pub fn warning(&self, pod: &Pod) -> Option<&Warning> {
        let at = (pod.meta.namespace.clone()?, pod.meta.name.clone()?);
        self.warnings.get(&at).filter(|warning| Some(warning.pod.as_str()) == pod.meta.uid.as_deref())
    }

    /// Takes an object away.
    pub fn remove(&mut self, key: &Key) -> bool {
        let Key { kind, namespace, name } = key;
        match kind {
            Kind::Machine => self.machines.remove(namespace, name),
            Kind::Instance => self.instances.remove(namespace, name),
            Kind::ReplicaSet => self.replica_sets.remove(namespace, name),
            Kind::KubeVirt => self.settings.remove(namespace, name),
            Kind::DataVolume => self.data_volumes.remove(namespace, name),
            Kind::Pod => {
                self.warnings.remove(&(namespace.clone(), name.clone()));
                self.pods.remove(namespace, name)
            }
            Kind::Claim => self.claims.remove(namespace, name),
            Kind::Node => {
                self.heard.remove(name);
                self.nodes.remove(namespace, name)
            }
            Kind::Deployment => self.deployments.remove(namespace, name),
            Kind::DaemonSet => self.daemons.remove(namespace, name),
            Kind::Secret => self.secrets.remove(namespace, name),
            Kind::ConfigMap => self.bundles.remove(namespace, name),
            Kind::Mutating => self.mutating.remove(namespace, name),
            Kind::Validating => self.validating.remove(namespace, name),
            Kind::Event | Kind::Lease | Kind::Revision | Kind::TokenReview | Kind::AccessReview => false,
        }
    }

    /// The keys of all objects of a kind.
    pub fn keys(&self, kind: Kind) -> Vec<Key> {
        let names: Vec<(String, String)> = match kind {
            Kind::Machine => self.machines.names(),
            Kind::Instance => self.instances.names(),
            Kind::ReplicaSet => self.replica_sets.names(),
            Kind::KubeVirt => self.settings.names(),
            Kind::DataVolume => self.data_volumes.names(),
            Kind::Pod => self.pods.names(),
            Kind::Claim => self.claims.names(),
            Kind::Node => self.nodes.names(),
            Kind::Deployment => self.deployments.names(),
            Kind::DaemonSet => self.daemons.names(),
            Kind::Secret => self.secrets.names(),
            Kind::ConfigMap => self.bundles.names(),
            Kind::Mutating => self.mutating.names(),
            Kind::Validating => self.validating.names(),
            Kind::Event | Kind::Lease | Kind::Revision | Kind::TokenReview | Kind::AccessReview => Vec::new(),
        };
        names.into_iter().map(|(namespace, name)| Key { kind, namespace, name }).collect()
    }

    /// The uid of an object, if it is known.
    pub fn uid(&self, key: &Key) -> Option<String> {
        let Key { kind, namespace, name } = key;
        let meta = match kind {
            Kind::Machine => self.machines.get(namespace, name).map(Kept::meta),
            Kind::Instance => self.instances.get(namespace, name).map(Kept::meta),
            Kind::ReplicaSet => self.replica_sets.get(namespace, name).map(Kept::meta),
            Kind::KubeVirt => self.settings.get(namespace, name).map(Kept::meta),
            Kind::DataVolume => self.data_volumes.get(namespace, name).map(Kept::meta),
            Kind::Pod => self.pods.get(namespace, name).map(Kept::meta),
            Kind::Claim => self.claims.get(namespace, name).map(Kept::meta),
            Kind::Node => self.nodes.get(namespace, name).map(Kept::meta),
            Kind::Deployment => self.deployments.get(namespace, name).map(Kept::meta),
            Kind::DaemonSet => self.daemons.get(namespace, name).map(Kept::meta),
            Kind::Secret => self.secrets.get(namespace, name).map(Kept::meta),
            Kind::ConfigMap => self.bundles.get(namespace, name).map(Kept::meta),
            Kind::Mutating => self.mutating.get(namespace, name).map(Kept::meta),
            Kind::Validating => self.validating.get(namespace, name).map(Kept::meta),
            Kind::Event | Kind::Lease | Kind::Revision | Kind::TokenReview | Kind::AccessReview => None,
        };
        meta?.uid.clone()
    }

    /// The launcher pod of an instance; a stranger's that is called so is none.
    pub fn pod_of(&self, vmi: &VirtualMachineInstance) -> Option<&Pod> {
        self.launcher_pod(&LauncherPod::of(vmi)?)
    }

    /// The pod that is this one.
    pub fn launcher_pod(&self, wanted: &LauncherPod) -> Option<&Pod> {
        let Key { namespace, name, .. } = wanted.key();
        self.pods.get(&namespace, &name).filter(|pod| wanted.is(&pod.meta))
    }
}
