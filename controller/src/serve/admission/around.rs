//! What surrounds a request: the settings of the cluster, and what a pure function cannot have of itself.

use super::Accounts;
use crate::cluster::config::Config;
use crate::world::Plain;
use api::defaults::Given;
use api::machine::{Gates, Settings};
use api::wire::Path;
use serde_json::Value;
use std::collections::BTreeSet;

/// Machine types that a cluster has unless it says otherwise.
const MACHINE_TYPES: [&str; 2] = ["q35*", "pc-q35*"];

/// What surrounds a request.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// The service accounts of our programs.
    pub accounts: Accounts,
    /// The settings of the cluster.
    pub config: Config,
    /// What is permitted.
    pub permitted: Settings,
    /// Names and namespaces of the KubeVirt objects there are.
    pub installations: Vec<(String, String)>,
    /// A new uuid, and a new serial number.
    pub random: (String, String),
    /// A kind of which there still are objects, where that was asked for.
    pub left: Option<&'static str>,
}

impl Around {
    /// What the settings say; they are those of `object`.
    pub fn new(namespace: &str, object: Option<&Plain>) -> Around {
        Around {
            accounts: Accounts::of(namespace),
            config: Config::of(object),
            permitted: permitted(object.map_or(&Value::Null, |object| &object.object)),
            ..Around::default()
        }
    }

    /// What is filled in.
    pub(super) fn given(&self) -> Given {
        self.config.given(self.random.0.clone())
    }

    /// What is permitted to a spec that stands at `at`.
    pub(super) fn permitted_at(&self, at: &str) -> Settings {
        Settings { at: Path::of(at), ..self.permitted.clone() }
    }
}

/// What a KubeVirt object permits.
fn permitted(object: &Value) -> Settings {
    let said = &object["spec"]["configuration"];
    let developer = &said["developerConfiguration"];
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|text| Some(text.as_str()?.to_owned())).collect()
    };
    let mut open: BTreeSet<String> = texts(&developer["featureGates"]).into_iter().collect();
    for shut in texts(&developer["disabledFeatureGates"]) {
        open.remove(&shut);
    }
    let machine_types =
        [&said["architectureConfiguration"]["amd64"]["emulatedMachines"], &said["emulatedMachines"]]
            .into_iter()
            .map(texts)
            .find(|types| !types.is_empty())
            .unwrap_or_else(|| MACHINE_TYPES.map(str::to_owned).to_vec());
    Settings {
        gates: Gates::Some(open),
        machine_types,
        bridge_on_pod_network: said["network"]["permitBridgeInterfaceOnPodNetwork"].as_bool().unwrap_or(true),
        ..Settings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_settings_permit_and_forbid() {
        let settings = permitted(&json!({"spec": {"configuration": {
            "emulatedMachines": ["pc*"],
            "network": {"permitBridgeInterfaceOnPodNetwork": false},
            "developerConfiguration": {"featureGates": ["HostDisk", "Root"], "disabledFeatureGates": ["Root"]},
        }}}));
        assert!(settings.gate("HostDisk") && !settings.gate("Root") && !settings.bridge_on_pod_network);
        assert!(settings.permits_type("pc") && !settings.permits_type("q35"));
        let nothing = permitted(&Value::Null);
        assert!(nothing.permits_type("q35") && !nothing.permits_type("pc") && !nothing.gate("HostDisk"));
        assert!(nothing.bridge_on_pod_network);
    }
}
