//! The common instance types and preferences. `coracle manifests --instancetypes` prints them for a cluster,
//! and `coracle run` has them built in.
//!
//! ```text
//!  sizes     SERIES.SIZE, for example u1.medium      five series, each a table
//!  systems   fedora, windows.11, windows.11.virtio   a family's values, and what a release adds
//! ```
//!
//! Labels of published images name instance types and preferences by these names; the values are our own.

mod sizes;
mod systems;

use crate::instancetype::{API_VERSION, InstancetypeSpec, MatcherKind, PreferenceSpec, Role, Scope};
use crate::wire;
use serde_json::{Map, Value, json};

/// An object of the common set.
#[derive(Clone, Debug)]
struct Common {
    role: Role,
    name: String,
    /// Display name for user interfaces.
    title: String,
    /// Labels for label selectors, without their prefix.
    labels: Vec<(&'static str, String)>,
    spec: Value,
}

impl Common {
    fn object(&self) -> Value {
        let kind = MatcherKind { role: self.role, scope: Scope::Cluster };
        let labels: Map<String, Value> = self
            .labels
            .iter()
            .map(|(name, value)| (format!("{}/{name}", super::GROUP), json!(value)))
            .collect();
        json!({
            "apiVersion": API_VERSION,
            "kind": kind.kind(),
            "metadata": {
                "name": self.name,
                "labels": labels,
                "annotations": {(format!("{}/displayName", super::GROUP)): self.title},
            },
            "spec": self.spec,
        })
    }
}

/// All common instance types and preferences, as cluster-scoped objects.
pub fn objects() -> Vec<Value> {
    sizes::all().chain(systems::all()).map(|common| common.object()).collect()
}

/// The common instance type of this name.
pub fn instancetype(name: &str) -> Option<InstancetypeSpec> {
    let found = sizes::all().find(|common| common.name == name)?;
    wire::read(found.spec).ok()
}

/// The common preference of this name.
pub fn preference(name: &str) -> Option<PreferenceSpec> {
    let found = systems::all().find(|common| common.name == name)?;
    wire::read(found.spec).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instancetype::{of_instancetype, of_preference};
    use crate::wire::Wire;
    use std::collections::BTreeSet;

    #[test]
    fn each_is_whole_and_nothing_in_it_is_unknown() {
        let mut names = BTreeSet::new();
        for object in objects() {
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            assert!(crate::meta::is_name(&name), "{name}");
            assert!(names.insert((object["kind"].to_string(), name.clone())), "{name} is there twice");
            let spec = object["spec"].clone();
            if object["kind"] == "VirtualMachineClusterInstancetype" {
                let read: InstancetypeSpec = wire::read(spec.clone()).unwrap();
                assert_eq!((wire::unknown(&read), of_instancetype(&read)), (vec![], vec![]), "{name}");
                assert_eq!(read.write(), spec, "{name}");
                assert_eq!(instancetype(&name), Some(read));
            } else {
                let read: PreferenceSpec = wire::read(spec.clone()).unwrap();
                assert_eq!((wire::unknown(&read), of_preference(&read)), (vec![], vec![]), "{name}");
                assert_eq!(read.write(), spec, "{name}");
                assert_eq!(preference(&name), Some(read));
            }
        }
    }

    #[test]
    fn the_usual_names_are_there() {
        for series in ["u1", "o1"] {
            for size in
                ["nano", "micro", "small", "medium", "large", "xlarge", "2xlarge", "4xlarge", "8xlarge"]
            {
                assert!(instancetype(&format!("{series}.{size}")).is_some(), "{series}.{size}");
            }
        }
        for name in ["cx1.medium", "cx1.8xlarge", "m1.large", "m1.8xlarge", "n1.medium", "n1.8xlarge"] {
            assert!(instancetype(name).is_some(), "{name}");
        }
        let medium = instancetype("u1.medium").unwrap();
        assert_eq!((medium.cpu.guest, medium.memory.guest.as_str()), (1, "4Gi"));
        for name in [
            "fedora",
            "centos.stream9",
            "centos.stream10",
            "rhel.8",
            "rhel.9",
            "rhel.10",
            "debian",
            "ubuntu",
            "opensuse.leap",
            "opensuse.tumbleweed",
            "alpine",
            "cirros",
            "windows.10",
            "windows.11",
            "windows.2k19",
            "windows.2k22",
            "windows.2k25",
        ] {
            assert!(preference(name).is_some(), "{name}");
        }
        let virtio = |name: &str| {
            preference(name).unwrap().devices.unwrap().preferred_disk_bus.unwrap().as_str().to_owned()
        };
        assert_eq!(virtio("windows.11"), "sata");
        assert_eq!(virtio("windows.11.virtio"), "virtio");
        assert_eq!(virtio("debian"), "virtio");
        assert!(instancetype("debian").is_none() && preference("u1.medium").is_none());
    }
}
