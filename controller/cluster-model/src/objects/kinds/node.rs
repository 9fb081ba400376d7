//! Node: readiness, abilities and heartbeat of a node.

use crate::objects::about::kept;
use crate::objects::store::{StoredObject, meta};
use crate::objects::{About, IndexKey, Key, Kind, Selector, Use, World};
use api::machine::hyperv::LABEL as HYPERV;
use api::meta::ObjectMeta;
use jiff::Timestamp;
use serde_json::Value;

/// The label that virt-handler sets while its node takes VMs.
pub const SCHEDULABLE: &str = "kubevirt.io/schedulable";
/// The annotation with the time of virt-handler's last heartbeat.
pub const HEARTBEAT: &str = "kubevirt.io/heartbeat";
/// The label of a node whose kubelet gives exclusive CPUs to pods (CPU manager), and the same under an older
/// name.
pub const CPU_MANAGER: &str = "cpumanager";
/// The same label as [`CPU_MANAGER`] under the prefix of KubeVirt. virt-handler sets both.
pub const CPU_MANAGER_OF_KUBEVIRT: &str = "kubevirt.io/cpumanager";
/// The label of a node whose kernel does not throttle real-time threads. Its value is empty.
pub const REALTIME: &str = "kubevirt.io/realtime";
/// The label of a node whose CPU model is configured as obsolete.
pub const OBSOLETE_HOST_MODEL: &str = "node-labeller.kubevirt.io/obsolete-host-model";
/// Prefixes of the labels that only the node's virt-handler writes: features that VMs can use there.
pub const ABILITIES: [&str; 8] = [
    "machine-type.node.kubevirt.io/",
    "cpu-model.node.kubevirt.io/",
    "cpu-feature.node.kubevirt.io/",
    "cpu-vendor.node.kubevirt.io/",
    "host-model-cpu.node.kubevirt.io/",
    "host-model-required-features.node.kubevirt.io/",
    HYPERV,
    "cpu-timer.node.kubevirt.io/",
];

/// Prefix of the labels with which virt-controller marks the TSC frequencies that guests may have on a node.
pub const TSC_SCHEDULING: &str = "scheduling.node.kubevirt.io/tsc-frequency-";

pub(crate) const ABOUT: About = About {
    kept: kept!(nodes),
    controller: Use { follows: &[Selector::ALL], verbs: &[(None, &["patch"])], ..Use::NONE },
    handler: Use { verbs: &[(None, &["get", "patch"])], ..Use::NONE },
    put: record_heartbeat,
    removed: |world, key| drop(world.heard.remove(&key.name)),
    touches: |world, key| {
        let marked = |mark: IndexKey| {
            world.indexed_by(&mark).filter(|key| key.kind == Kind::VirtualMachineInstance).cloned()
        };
        let on: Vec<Key> = marked(IndexKey::Node(key.name.clone())).collect();
        marked(IndexKey::Waiting).chain(on).chain([key.clone()]).collect()
    },
    ..About::new("v1", "Node", "nodes")
};

/// Stores the time at which a new heartbeat was first seen, by our clock.
fn record_heartbeat(world: &mut World, key: &Key, now: Timestamp) {
    match world.nodes.get("", &key.name).and_then(Node::heartbeat) {
        Some(beat) if world.heard.get(&key.name).is_some_and(|(known, _)| known == beat) => {}
        Some(beat) => {
            let beat = beat.to_owned();
            world.heard.insert(key.name.clone(), (beat, now));
        }
        None => drop(world.heard.remove(&key.name)),
    }
}

/// The part of a node that is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    pub meta: ObjectMeta,
    /// The node is unschedulable.
    pub cordoned: bool,
    /// Version of the kubelet, like `v1.34.1`.
    pub kubelet: String,
    /// Name and version of the container runtime, like `containerd://2.1.4`.
    pub runtime: String,
    /// The kubelet reports the node as ready for pods.
    pub ready: bool,
    /// The node offers KVM to pods.
    pub kvm: bool,
}

impl Node {
    /// True if virt-handler has labelled the node as schedulable for VMIs.
    pub fn takes_vmis(&self) -> bool {
        self.meta.labels.get(SCHEDULABLE).is_some_and(|label| label == "true")
    }

    /// The last heartbeat of the node's virt-handler. It differs each time.
    pub fn heartbeat(&self) -> Option<&str> {
        self.meta.annotations.get(HEARTBEAT).map(String::as_str)
    }

    /// True if kubelet and runtime support image volumes.
    pub fn mounts_images(&self) -> bool {
        let runtime = self.runtime.split_once("://").is_some_and(|(name, version)| match name {
            "containerd" => version_of(version) >= (2, 1),
            "cri-o" => version_of(version) >= (1, 33),
            _ => false,
        });
        runtime && version_of(&self.kubelet) >= (1, 33)
    }
}

/// The time stamp counter (TSC) of a node, as its virt-handler reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeStampCounter {
    pub frequency: u64,
    /// The processor can scale the TSC for a guest.
    pub scalable: bool,
}

impl TimeStampCounter {
    /// Plausible frequencies. A label with another value is ignored.
    const RANGE: std::ops::RangeInclusive<u64> = 500_000_000..=10_000_000_000;
    /// Tolerated difference between a guest's frequency and the node's without scaling, in millionths, as in
    /// KVM.
    const TOLERANCE: u64 = 250;

    /// True if a guest on this node can have this frequency.
    pub fn supports(self, hertz: u64) -> bool {
        self.scalable || self.frequency.abs_diff(hertz) <= hertz / 1_000_000 * TimeStampCounter::TOLERANCE
    }
}

impl Node {
    /// The TSC of the node, from its labels.
    pub fn time_stamp_counter(&self) -> Option<TimeStampCounter> {
        let label = |name: &str| self.meta.labels.get(&format!("cpu-timer.node.kubevirt.io/{name}"));
        let frequency = label("tsc-frequency")?.parse().ok()?;
        let scalable = label("tsc-scalable").is_some_and(|said| said == "true");
        TimeStampCounter::RANGE.contains(&frequency).then_some(TimeStampCounter { frequency, scalable })
    }
}

impl World {
    /// True if every node that takes VMIs now supports image volumes.
    pub fn nodes_mount_images(&self) -> bool {
        self.nodes.all().filter(|node| !node.cordoned && node.takes_vmis()).all(Node::mounts_images)
    }
}

fn version_of(text: &str) -> (u32, u32) {
    let mut numbers =
        text.trim_start_matches('v').split(['.', '-', '+']).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

impl StoredObject for Node {
    fn parse(object: Value) -> Option<Self> {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        // Fields that change with every heartbeat of the kubelet are dropped, so that the node compares as
        // unchanged.
        let mut meta = meta(&object)?;
        meta.managed_fields.clear();
        let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
        Some(Node {
            cordoned: object.pointer("/spec/unschedulable").and_then(Value::as_bool).unwrap_or(false),
            kubelet: text("/status/nodeInfo/kubeletVersion"),
            runtime: text("/status/nodeInfo/containerRuntimeVersion"),
            ready: object
                .pointer("/status/conditions")
                .and_then(Value::as_array)
                .is_some_and(|conditions| conditions.iter().any(is_ready)),
            kvm: object
                .pointer("/status/allocatable/devices.kubevirt.io~1kvm")
                .and_then(Value::as_str)
                .is_some_and(|count| count != "0"),
            meta,
        })
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_mounted_from_these_versions_on() {
        let node = |kubelet: &str, runtime: &str| {
            Node { kubelet: kubelet.into(), runtime: runtime.into(), ..Node::default() }.mounts_images()
        };
        assert!(node("v1.34.1", "containerd://2.1.4") && node("v1.33.0+k3s1", "cri-o://1.33.0"));
        assert!(!node("v1.32.9", "containerd://2.1.4") && !node("v1.34.1", "containerd://2.0.5"));
        assert!(!node("v1.34.1", "docker://28.0.0") && !node("", ""));
    }
}
