//! Where the pod may run: what the spec says, and what a VMI needs of a node.

use super::put;
use api::machine::Machine;
use api::machine::cpu::{Model, Policy};
use api::machine::hyperv::LABEL as HYPERV;
use api::vmi::VirtualMachineInstance;
use kubernetes::config::Config;
use kubernetes::objects::{CPU_MANAGER, REALTIME};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(crate) fn placement(
    vmi: &VirtualMachineInstance,
    machine: &Machine,
    config: &Config,
) -> Map<String, Value> {
    let said = &vmi.spec;
    let mut spec = Map::new();
    put(&mut spec, "nodeSelector", json!(selectors(vmi, machine, config)));
    put(&mut spec, "affinity", json!(said.affinity));
    put(&mut spec, "schedulerName", json!(said.scheduler_name));
    put(&mut spec, "tolerations", json!(said.tolerations));
    put(&mut spec, "topologySpreadConstraints", json!(said.topology_spread_constraints));
    put(&mut spec, "priorityClassName", json!(said.priority_class_name));
    put(&mut spec, "runtimeClassName", json!(config.runtime_class));
    spec
}

fn selectors(vmi: &VirtualMachineInstance, machine: &Machine, config: &Config) -> BTreeMap<String, String> {
    let mut found = config.node_selectors.clone();
    found.extend(vmi.spec.node_selector.clone());
    // What a VMI cannot do without is said last: nobody's words lead it to a node without virt-handler.
    let arch = vmi.spec.architecture.clone().unwrap_or_else(|| "amd64".to_owned());
    found.insert("kubernetes.io/arch".to_owned(), arch);
    found.insert("kubevirt.io/schedulable".to_owned(), "true".to_owned());
    let mut needs = |label: String| found.insert(label, "true".to_owned());
    needs(format!("machine-type.node.kubevirt.io/{}", machine.machine_type));
    if machine.cpu.dedicated {
        needs(CPU_MANAGER.to_owned());
    }
    // Under emulation every model is QEMU's own; the node's processor does not matter.
    if !config.use_emulation {
        if let Model::Named(model) = &machine.cpu.model {
            needs(format!("cpu-model.node.kubevirt.io/{model}"));
        }
        let must = |policy: Policy| matches!(policy, Policy::Require);
        for feature in machine.cpu.features.iter().filter(|feature| must(feature.policy)) {
            needs(format!("cpu-feature.node.kubevirt.io/{}", feature.name));
        }
        for enlightenment in machine.features.hyperv.of_host() {
            needs(format!("{HYPERV}{enlightenment}"));
        }
        if machine.features.hyperv.has_evmcs() {
            needs("cpu-vendor.node.kubevirt.io/Intel".to_owned());
        }
    }
    if !machine.cpu.realtime.is_empty() {
        found.insert(REALTIME.to_owned(), String::new());
    }
    found
}
