//! Node.

use crate::objects::about::kept;
use crate::objects::store::{Kept, meta};
use crate::objects::{About, Key, Kind, Mark, Selector, Use, World};
use api::machine::hyperv::LABEL as HYPERV;
use api::meta::ObjectMeta;
use jiff::Timestamp;
use serde_json::Value;

/// The label by which the virt-handler of a node says that it takes VMs.
pub const SCHEDULABLE: &str = "kubevirt.io/schedulable";
/// The annotation by which the virt-handler of a node says when it was last seen.
pub const HEARTBEAT: &str = "kubevirt.io/heartbeat";
/// The label of a node whose kubelet gives whole CPUs to the pods that ask for them; and the same, as older clients call it.
pub const CPU_MANAGER: &str = "cpumanager";
/// See [`CPU_MANAGER`].
pub const CPU_MANAGER_OF_KUBEVIRT: &str = "kubevirt.io/cpumanager";
/// The label of a node whose kernel lets real-time threads run for as long as they want. Its value is empty.
pub const REALTIME: &str = "kubevirt.io/realtime";
/// The label of a node whose processor is of a model that the cluster calls obsolete.
pub const OBSOLETE_HOST_MODEL: &str = "node-labeller.kubevirt.io/obsolete-host-model";
/// The beginnings of the labels that the virt-handler of a node alone writes: what VMs can have there.
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

/// The beginning of the labels by which virt-controller says which frequencies the time stamp counter of a guest may have on a node.
pub const TSC_SCHEDULING: &str = "scheduling.node.kubevirt.io/tsc-frequency-";

pub(crate) const ABOUT: About = About {
    kept: kept!(nodes),
    controller: Use { follows: &[Selector::ALL], verbs: &[(None, &["patch"])], ..Use::NONE },
    handler: Use { verbs: &[(None, &["get", "patch"])], ..Use::NONE },
    put: hear,
    removed: |world, key| drop(world.heard.remove(&key.name)),
    touches: |world, key| {
        let marked =
            |mark: Mark| world.marked(&mark).filter(|key| key.kind == Kind::VirtualMachineInstance).cloned();
        let on: Vec<Key> = marked(Mark::Node(key.name.clone())).collect();
        marked(Mark::Waiting).chain(on).chain([key.clone()]).collect()
    },
    ..About::named("v1", "Node", "nodes")
};

/// Notes a heartbeat: one that is not known yet was made now.
fn hear(world: &mut World, key: &Key, now: Timestamp) {
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
    /// Its name, labels, annotations.
    pub meta: ObjectMeta,
    /// Nothing new is put on it.
    pub cordoned: bool,
    /// Its kubelet's version, like `v1.34.1`.
    pub kubelet: String,
    /// Its runtime and that one's version, like `containerd://2.1.4`.
    pub runtime: String,
    /// It can hold pods: its kubelet says so.
    pub ready: bool,
    /// It offers KVM to pods.
    pub kvm: bool,
}

impl Node {
    /// Its virt-handler takes VMIs, by its label.
    pub fn takes_vmis(&self) -> bool {
        self.meta.labels.get(SCHEDULABLE).is_some_and(|label| label == "true")
    }

    /// What its virt-handler last said, which is another with every word.
    pub fn heartbeat(&self) -> Option<&str> {
        self.meta.annotations.get(HEARTBEAT).map(String::as_str)
    }

    /// Its kubelet and its runtime can mount images.
    pub fn mounts_images(&self) -> bool {
        let runtime = self.runtime.split_once("://").is_some_and(|(name, version)| match name {
            "containerd" => version_of(version) >= (2, 1),
            "cri-o" => version_of(version) >= (1, 33),
            _ => false,
        });
        runtime && version_of(&self.kubelet) >= (1, 33)
    }
}

/// The time stamp counter of a node, as its virt-handler says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeStampCounter {
    /// In Hz.
    pub frequency: u64,
    /// The processor can show a guest another frequency.
    pub scalable: bool,
}

impl TimeStampCounter {
    /// Frequencies that a processor has. A virt-handler that says another is not believed.
    const RANGE: std::ops::RangeInclusive<u64> = 500_000_000..=10_000_000_000;
    /// How much a guest's frequency may differ from that of a processor without scaling, in millionths. So much KVM tolerates.
    const TOLERANCE: u64 = 250;

    /// A guest may have this frequency there.
    pub fn supports(self, hertz: u64) -> bool {
        self.scalable || self.frequency.abs_diff(hertz) <= hertz / 1_000_000 * TimeStampCounter::TOLERANCE
    }
}

impl Node {
    /// Its time stamp counter.
    pub fn time_stamp_counter(&self) -> Option<TimeStampCounter> {
        let label = |name: &str| self.meta.labels.get(&format!("cpu-timer.node.kubevirt.io/{name}"));
        let frequency = label("tsc-frequency")?.parse().ok()?;
        let scalable = label("tsc-scalable").is_some_and(|said| said == "true");
        TimeStampCounter::RANGE.contains(&frequency).then_some(TimeStampCounter { frequency, scalable })
    }
}

impl World {
    /// Every node that takes VMIs now can mount images.
    pub fn nodes_mount_images(&self) -> bool {
        self.nodes.all().filter(|node| !node.cordoned && node.takes_vmis()).all(Node::mounts_images)
    }
}

fn version_of(text: &str) -> (u32, u32) {
    let mut numbers =
        text.trim_start_matches('v').split(['.', '-', '+']).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

impl Kept for Node {
    fn take(object: Value) -> Option<Self> {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        // What changes with every heartbeat of the kubelet is left out: it would be no change to us.
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
