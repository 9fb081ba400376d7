//! Settings of the site on which the VMI will run: what it permits, and what every VMI has.
//!
//! ```text
//!  the KubeVirt object ─► Settings::of_cluster ─┐
//!  a laptop ─► Settings::of_laptop ─┴─► Machine::check
//!  checked before ─► Settings::of_checked ─► Machine::check_again
//! ```
//!
//! Settings have no default and no other constructor: each caller names the site. A cluster without a
//! KubeVirt object has no settings, and no VMI is started there. A feature that a site does not support yet
//! is refused there by its name ([`Site`]).

use super::super::network::{Binding, Plugin};
use crate::architecture::Arch;
use crate::machine::hardware::Hardware;
use crate::machine::hook::DEVICE_INFO;
use crate::machine::host_folders::HostFolders;
use crate::machine::permitted::Permitted;
use crate::quantity::Quantity;
use crate::wire::Path;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Feature gates that are enabled unless the cluster disables them, as upstream has them (beta). Only gates
/// that are checked somewhere are listed; any other gate is enabled when the cluster lists it.
pub const OPEN_BY_DEFAULT: [&str; 7] = [
    "DeclarativeHotplugVolumes",
    "DecentralizedLiveMigration",
    "GPUsWithDRA",
    "HostDevicesWithDRA",
    "ImageVolume",
    "PasstBinding",
    "RebootPolicy",
];

/// Site on which a VMI will run. Sites differ in unsupported features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// A pod of a cluster.
    Cluster,
    /// A laptop, or any host without a cluster.
    Laptop,
    /// Any of the two; the VMI was checked before.
    Checked,
}

/// Settings of the site on which the VMI will run. Only the functions below make one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Path of the spec in the object that the user wrote: `spec`, or `spec.template.spec`.
    pub at: Path,
    pub gates: Gates,
    /// Permitted machine types; `*` matches any text.
    pub machine_types: Vec<String>,
    /// The bridge binding may be used on the pod network.
    pub bridge_on_pod_network: bool,
    /// Network binding plugins by name.
    pub plugins: BTreeMap<String, Plugin>,
    /// The guest's memory may exceed the limit of its pod (`vmRolloutStrategy` is not `Stage`).
    pub memory_above_limit: bool,
    /// Extended resources of which a VMI may have devices. `None` permits any.
    pub host_devices: Option<BTreeSet<String>>,
    /// Folders of the node in which a `hostDisk` may lie, in the folder of its namespace. `None` permits any
    /// path.
    pub host_folders: Option<HostFolders>,
    /// Site on which the VMI will run.
    pub site: Site,
    /// Hardware that every VMI has, whatever its own spec.
    pub hardware: Hardware,
    /// Creation of disk files by virt-handler.
    pub files: Files,
    /// A domain is defined of the VMI here, so more vCPUs or memory than a domain can have are faults.
    /// Elsewhere they are not: the scheduler finds no node for the pod, as in KubeVirt.
    pub defines: bool,
}

/// Creation of a disk file by virt-handler, on a volume that has none yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files {
    /// Percentage by which a disk may be smaller than requested.
    pub tolerated: u64,
    /// Bytes of the volume that are left free.
    pub reserve: u64,
}

impl Default for Files {
    fn default() -> Self {
        Files { tolerated: 10, reserve: 128 << 10 }
    }
}

impl Files {
    /// Reads the settings of a KubeVirt object.
    fn of_cluster(object: &Value) -> Files {
        let said = &object["spec"]["configuration"]["developerConfiguration"];
        let default = Files::default();
        Files {
            tolerated: said["pvcTolerateLessSpaceUpToPercent"]
                .as_u64()
                .filter(|&percent| percent <= 100)
                .unwrap_or(default.tolerated),
            reserve: said["minimumReservePVCBytes"].as_u64().unwrap_or(default.reserve),
        }
    }
}

/// Feature gates that are enabled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gates {
    All,
    Some(BTreeSet<String>),
}

impl Gates {
    /// Gates of a cluster: those that its KubeVirt object enables, and the default ones that it does not
    /// disable. Without an object every gate is disabled.
    pub fn of_cluster(object: &Value) -> Gates {
        if object.is_null() {
            return Gates::Some(BTreeSet::new());
        }
        let developer = &object["spec"]["configuration"]["developerConfiguration"];
        let mut open: BTreeSet<String> = texts(&developer["featureGates"]).into_iter().collect();
        open.extend(OPEN_BY_DEFAULT.map(str::to_owned));
        for shut in texts(&developer["disabledFeatureGates"]) {
            open.remove(&shut);
        }
        Gates::Some(open)
    }

    /// True if the gate is open.
    pub fn open(&self, name: &str) -> bool {
        match self {
            Gates::All => true,
            Gates::Some(open) => open.contains(name),
        }
    }
}

impl Settings {
    /// Settings of a single VMI on a laptop: every supported feature. For `coracle run`, and for tests.
    pub fn of_laptop() -> Settings {
        Settings {
            at: Path::of("spec"),
            gates: Gates::All,
            machine_types: owned(Arch::DEFAULT.facts().machine_types),
            bridge_on_pod_network: true,
            plugins: BTreeMap::new(),
            memory_above_limit: true,
            host_devices: None,
            host_folders: None,
            site: Site::Laptop,
            hardware: Hardware::default(),
            files: Files::default(),
            defines: true,
        }
    }

    /// The settings on the node that the VMI was scheduled to.
    pub fn on_node(self) -> Settings {
        Settings { defines: true, ..self }
    }

    /// Settings of a VMI that was checked before: only a value that makes a domain impossible is a fault.
    pub fn of_checked() -> Settings {
        Settings { site: Site::Checked, ..Settings::of_laptop() }
    }

    /// Settings of an object that was accepted under the KubeVirt object of that time: gates, folders,
    /// devices and machine types are not checked again.
    #[must_use]
    pub fn of_accepted(self) -> Settings {
        Settings {
            gates: Gates::All,
            machine_types: vec!["*".to_owned()],
            bridge_on_pod_network: true,
            host_devices: None,
            host_folders: None,
            ..self
        }
    }

    /// Settings of a cluster, from its KubeVirt object.
    pub fn of_cluster(object: &Value) -> Settings {
        let facts = Arch::DEFAULT.facts();
        let said = &object["spec"]["configuration"];
        let machine_types =
            [&said["architectureConfiguration"][facts.name]["emulatedMachines"], &said["emulatedMachines"]]
                .into_iter()
                .map(texts)
                .find(|types| !types.is_empty())
                .unwrap_or_else(|| owned(facts.permitted_machine_types));
        let bridge = &said["network"]["permitBridgeInterfaceOnPodNetwork"];
        Settings {
            at: Path::of("spec"),
            gates: Gates::of_cluster(object),
            machine_types,
            bridge_on_pod_network: bridge.as_bool().unwrap_or(true),
            plugins: plugins(&said["network"]["binding"]),
            host_devices: Some(Permitted::of_cluster(object).resources()),
            host_folders: Some(HostFolders::of_cluster(object)),
            memory_above_limit: said["vmRolloutStrategy"] != "Stage",
            site: Site::Cluster,
            hardware: Hardware::of_cluster(object),
            files: Files::of_cluster(object),
            defines: false,
        }
    }

    /// The same settings, for a spec at another path of the object that the user wrote.
    #[must_use]
    pub fn at_path(mut self, at: Path) -> Settings {
        self.at = at;
        self
    }

    /// Path of the metadata of the VMI in the same object: beside the spec.
    pub(crate) fn metadata(&self) -> Path {
        let around = self.at.as_str().strip_suffix("spec").unwrap_or_default();
        Path::of(format!("{around}metadata"))
    }

    /// True if the feature gate is open.
    pub fn gate(&self, name: &str) -> bool {
        self.gates.open(name)
    }

    /// True if the machine type is permitted.
    pub fn permits_type(&self, name: &str) -> bool {
        self.machine_types.iter().any(|pattern| matches(pattern, name))
    }
}

/// Network binding plugins that a KubeVirt object registers.
fn plugins(said: &Value) -> BTreeMap<String, Plugin> {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let each = said.as_object().into_iter().flatten().map(|(name, said)| {
        let memory = said["computeResourceOverhead"]["requests"]["memory"].as_str();
        let plugin = Plugin {
            name: name.clone(),
            attachment: match said["domainAttachmentType"].as_str() {
                Some("tap") => Some(Binding::Tap),
                Some("managedTap") => Some(Binding::ManagedTap),
                _ => None,
            },
            sidecar: text(&said["sidecarImage"]),
            device_info: said["downwardAPI"] == DEVICE_INFO,
            definition: text(&said["networkAttachmentDefinition"]),
            memory: memory.and_then(|text| Quantity::parse(text).ok()?.bytes()).unwrap_or(0),
        };
        (name.clone(), plugin)
    });
    each.collect()
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|text| Some(text.as_str()?.to_owned())).collect()
}

/// True if `name` matches `pattern`, in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(start) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or("");
    for part in parts {
        match name.find(part) {
            Some(found) => name = &name[found + part.len()..],
            None => return false,
        }
    }
    name.ends_with(end)
}

fn owned(patterns: &[&str]) -> Vec<String> {
    patterns.iter().copied().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_settings_of_a_cluster_permit_and_forbid() {
        let settings = Settings::of_cluster(&json!({"spec": {"configuration": {
            "emulatedMachines": ["pc*"],
            "network": {"permitBridgeInterfaceOnPodNetwork": false},
            "developerConfiguration": {"featureGates": ["HostDisk", "Root"], "disabledFeatureGates": ["Root"]},
        }}}));
        assert!(settings.gate("HostDisk") && !settings.gate("Root") && !settings.bridge_on_pod_network);
        assert!(settings.permits_type("pc") && !settings.permits_type("q35"));
        let nothing = Settings::of_cluster(&Value::Null);
        assert!(nothing.permits_type("q35") && !nothing.permits_type("pc") && !nothing.gate("HostDisk"));
        assert!(nothing.bridge_on_pod_network);
    }

    #[test]
    fn how_disks_that_are_files_are_made_is_a_setting() {
        let files = |developer: Value| {
            Settings::of_cluster(&json!({"spec": {"configuration": {"developerConfiguration": developer}}}))
                .files
        };
        let said = json!({"pvcTolerateLessSpaceUpToPercent": 0, "minimumReservePVCBytes": 0});
        assert_eq!(files(said), Files { tolerated: 0, reserve: 0 });
        assert_eq!(
            files(json!({"pvcTolerateLessSpaceUpToPercent": 101})),
            Files::default(),
            "no part of a disk"
        );
        assert_eq!(files(json!({"minimumReservePVCBytes": -1})), Files::default());
    }

    #[test]
    fn gates_that_upstream_opens_are_open_until_they_are_disabled() {
        assert!(!Settings::of_cluster(&Value::Null).gate("RebootPolicy"), "nobody has opened it");
        for gate in OPEN_BY_DEFAULT {
            let with = |disabled: Value| {
                let developer = json!({"disabledFeatureGates": disabled});
                Settings::of_cluster(
                    &json!({"spec": {"configuration": {"developerConfiguration": developer}}}),
                )
            };
            assert!(with(json!([])).gate(gate) && !with(json!([gate])).gate(gate), "{gate}");
        }
    }

    #[test]
    fn plugins_are_those_that_the_cluster_registers() {
        let settings = Settings::of_cluster(&json!({"spec": {"configuration": {"network": {"binding": {
            "macvtap": {
                "domainAttachmentType": "tap", "networkAttachmentDefinition": "shared/macvtap",
                "computeResourceOverhead": {"requests": {"memory": "50Mi"}},
            },
            "managed": {
                "domainAttachmentType": "managedTap", "sidecarImage": "registry.example/dhcp", "downwardAPI": "device-info",
            },
            "odd": {"domainAttachmentType": "wire"},
        }}}}}));
        let plugin = |name: &str| settings.plugins[name].clone();
        let macvtap = Plugin {
            name: "macvtap".into(),
            attachment: Some(Binding::Tap),
            sidecar: None,
            device_info: false,
            definition: Some("shared/macvtap".into()),
            memory: 50 << 20,
        };
        assert_eq!(plugin("macvtap"), macvtap);
        let managed = plugin("managed");
        assert_eq!((managed.attachment, managed.device_info), (Some(Binding::ManagedTap), true));
        assert_eq!(managed.sidecar.as_deref(), Some("registry.example/dhcp"));
        assert_eq!(plugin("odd"), Plugin { name: "odd".into(), ..Plugin::default() });
        assert!(Settings::of_cluster(&json!({})).plugins.is_empty());
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, expected) in [
            ("q35*", "q35", true),
            ("q35*", "pc-q35-7.2", false),
            ("pc-q35*", "pc-q35-7.2", true),
            ("pc", "pc-q35-7.2", false),
            ("*", "", true),
            ("pc-*-7.*", "pc-i440fx-7.2", true),
            ("pc-*-7.*", "pc-i440fx-8.2", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
