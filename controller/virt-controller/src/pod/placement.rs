//! Placement of the pod: the settings of the spec, and the requirements of a VMI on its node.

use super::insert_unless_empty;
use api::machine::Machine;
use api::machine::cpu::{Model, Policy};
use api::machine::hyperv::LABEL as HYPERV;
use api::vmi::VirtualMachineInstance;
use cluster_model::config::Config;
use cluster_model::objects::{CPU_MANAGER, OBSOLETE_HOST_MODEL, REALTIME, TSC_SCHEDULING};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(crate) fn placement(
    vmi: &VirtualMachineInstance,
    machine: &Machine,
    config: &Config,
) -> Map<String, Value> {
    let said = &vmi.spec;
    let mut spec = Map::new();
    insert_unless_empty(&mut spec, "nodeSelector", json!(selectors(vmi, machine, config)));
    insert_unless_empty(&mut spec, "affinity", affinity(said.affinity.as_ref(), machine, config));
    insert_unless_empty(&mut spec, "schedulerName", json!(said.scheduler_name));
    insert_unless_empty(&mut spec, "tolerations", json!(said.tolerations));
    insert_unless_empty(&mut spec, "topologySpreadConstraints", json!(said.topology_spread_constraints));
    insert_unless_empty(&mut spec, "priorityClassName", json!(said.priority_class_name));
    insert_unless_empty(&mut spec, "runtimeClassName", json!(config.runtime_class));
    spec
}

/// Affinity of the spec. For a VMI with the CPU model of its node, nodes with an obsolete model are excluded,
/// by the label that virt-handler sets.
fn affinity(said: Option<&Value>, machine: &Machine, config: &Config) -> Value {
    let mut affinity = json!(said);
    if machine.cpu.model != Model::HostModel || config.use_emulation {
        return affinity;
    }
    let avoids = json!({"key": OBSOLETE_HOST_MODEL, "operator": "DoesNotExist"});
    let path = ["nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
    // A value that is not an affinity stays as it is: the API server refuses it when the pod is created.
    let Some(terms) = path.into_iter().try_fold(&mut affinity, field_or_insert) else { return affinity };
    if terms.is_null() || terms.as_array().is_some_and(Vec::is_empty) {
        *terms = json!([{}]);
    }
    // One of the terms has to hold: each avoids those nodes.
    for term in terms.as_array_mut().into_iter().flatten() {
        let Some(expressions) = field_or_insert(term, "matchExpressions") else { continue };
        let said = expressions.as_array().cloned().unwrap_or_default();
        *expressions = json!([said, vec![avoids.clone()]].concat());
    }
    affinity
}

/// Field of an object, created if it is missing.
pub(super) fn field_or_insert<'v>(value: &'v mut Value, field: &str) -> Option<&'v mut Value> {
    if value.is_null() {
        *value = json!({});
    }
    Some(value.as_object_mut()?.entry(field).or_insert(Value::Null))
}

/// Labels of a node that a VMI asks for.
pub(crate) fn selectors(
    vmi: &VirtualMachineInstance,
    machine: &Machine,
    config: &Config,
) -> BTreeMap<String, String> {
    let mut found = config.node_selectors.clone();
    found.extend(vmi.spec.node_selector.clone());
    // The requirements of a VMI come last, so that no setting moves it to a node without virt-handler.
    let arch = vmi.spec.architecture.clone().unwrap_or_else(|| machine.arch.facts().name.to_owned());
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
        if let Some(hertz) = machine.cpu.tsc {
            needs(format!("{TSC_SCHEDULING}{hertz}"));
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
