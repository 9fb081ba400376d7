//! Settings of the KubeVirt object for nodes: the resources that virt-handler offers.

use api::machine::Gates;
use api::machine::mediated::MediatedTypes;
use api::machine::permitted::Permitted;
use serde_json::Value;
use std::collections::BTreeSet;

/// Default number of VMIs per node: more than a kubelet takes pods.
const VMIS: usize = 1000;

/// The annotation of the KubeVirt object with the eviction thresholds of the kubelets, where virt-handler
/// cannot read them.
pub const EVICTION_HARD: &str = "kubevirt.io/eviction-hard";

/// Settings for every node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSettings {
    /// Maximum number of VMIs on the node: the number of times that each of its devices is offered.
    pub vmis: usize,
    /// CPU models that are not offered, even if the processor supports them.
    pub obsolete_models: BTreeSet<String>,
    /// Host devices to offer if the node has them.
    pub host_devices: Permitted,
    /// Mediated devices to create on the node's cards; `None` leaves the cards alone.
    pub mediated: Option<MediatedTypes>,
    /// Guests may use VSOCK (feature gate `VSOCK`). Pods get its device only then.
    pub vsock: bool,
    /// Eviction thresholds of the kubelets, in the syntax of their flag. Unset: virt-handler reads those of
    /// its kubelet.
    pub eviction_hard: Option<String>,
}

impl Default for NodeSettings {
    fn default() -> Self {
        NodeSettings {
            vmis: VMIS,
            obsolete_models: BTreeSet::new(),
            host_devices: Permitted::default(),
            mediated: Some(MediatedTypes::default()),
            vsock: false,
            eviction_hard: None,
        }
    }
}

impl NodeSettings {
    /// The settings in a KubeVirt object. The kubelet is offered no more than 1000 devices: each is an entry
    /// of a list.
    pub fn from_kubevirt(object: &Value) -> NodeSettings {
        let said = &object["spec"]["configuration"];
        let vmis = said["virtualMachineInstancesPerNode"].as_u64().filter(|&vmis| vmis > 0);
        NodeSettings {
            vmis: vmis.and_then(|vmis| usize::try_from(vmis).ok()).map_or(VMIS, |vmis| vmis.min(VMIS)),
            obsolete_models: obsolete_models(object),
            host_devices: Permitted::of_cluster(object),
            mediated: MediatedTypes::of_cluster(object),
            vsock: Gates::of_cluster(object).open("VSOCK"),
            eviction_hard: object["metadata"]["annotations"][EVICTION_HARD].as_str().map(str::to_owned),
        }
    }
}

/// The CPU models that no node offers.
fn obsolete_models(object: &Value) -> BTreeSet<String> {
    let said = object["spec"]["configuration"]["obsoleteCPUModels"].as_object();
    let set = said.into_iter().flatten().filter(|(_, is)| **is == true);
    set.map(|(model, _)| model.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_takes_as_many_vmis_as_is_said_and_leaves_models_out() {
        let of = |said: Value| NodeSettings::from_kubevirt(&json!({"spec": {"configuration": said}}));
        assert_eq!(of(json!({})), NodeSettings::default());
        assert_eq!(of(json!({"virtualMachineInstancesPerNode": 0})).vmis, VMIS);
        assert_eq!(of(json!({"virtualMachineInstancesPerNode": u64::MAX})).vmis, VMIS);
        assert_eq!(of(json!({"virtualMachineInstancesPerNode": 7})).vmis, 7);
        let models = of(json!({"obsoleteCPUModels": {"Penryn": true, "Haswell": false}})).obsolete_models;
        assert_eq!(models, ["Penryn".to_owned()].into());
        assert!(of(json!({"developerConfiguration": {"featureGates": ["VSOCK"]}})).vsock);
        let annotated =
            json!({"metadata": {"annotations": {"kubevirt.io/eviction-hard": "nodefs.available<5%"}}});
        assert_eq!(
            NodeSettings::from_kubevirt(&annotated).eviction_hard.as_deref(),
            Some("nodefs.available<5%")
        );
    }
}
