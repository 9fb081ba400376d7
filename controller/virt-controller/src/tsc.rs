//! The time stamp counters of guests that rely on them: one frequency, and the nodes that support it.
//!
//! ```text
//!  virt-handler ─ cpu-timer…/tsc-frequency, tsc-scalable ─► node ─┬─► labels scheduling…/tsc-frequency-N of the node
//!                                                                 └─► the frequency that most nodes support
//!  a VMI with the CPU feature invtsc ─► status.topologyHints.tscFrequency ─► node selector of its pod, timer of its domain
//! ```
//!
//! **Guarantees.** What a VMI was given stays. A node has the labels of its own frequency, of the cluster's, and of those that it
//! had and still supports, so that a VMI that waits for one finds it.
//! **Caveats.** A node that comes with another frequency is taken into account by the others with their next heartbeat. Upstream
//! takes the lowest frequency; a virt-handler that lies would choose it for all.

use cluster_model::config::Config;
use cluster_model::objects::{Kind, Node, StoredObject as _, TSC_SCHEDULING, World};
use cluster_model::plan::Plan;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The most frequencies that a node has labels of.
const MOST: usize = 16;

/// Frequency for VMIs that are started now: the one of the settings, or else the one that most nodes support,
/// and of several the lowest.
pub(crate) fn of_cluster(world: &World, config: &Config) -> Option<u64> {
    if config.tsc_frequency.is_some() {
        return config.tsc_frequency;
    }
    let nodes = world.nodes.all().filter(|node| node.takes_vmis()).filter_map(Node::time_stamp_counter);
    let counters: Vec<_> = nodes.collect();
    let frequencies: BTreeSet<u64> = counters.iter().map(|counter| counter.frequency).collect();
    // Real clusters have a few kinds of nodes, so only some of many are considered.
    let supported = |hertz: u64| counters.iter().filter(|counter| counter.supports(hertz)).count();
    frequencies.into_iter().take(MOST).max_by_key(|hertz| (supported(*hertz), Reverse(*hertz)))
}

/// Says on a node which frequencies it supports.
pub(crate) fn label_node(world: &World, node: &Node, plan: &mut Plan) {
    let labels = node.meta().labels.iter();
    let is: BTreeMap<&String, &String> = labels.filter(|(key, _)| key.starts_with(TSC_SCHEDULING)).collect();
    let mut should = BTreeMap::new();
    if let Some(counter) = node.time_stamp_counter() {
        let own = [Some(counter.frequency), of_cluster(world, world.config())].into_iter().flatten();
        let had = is.keys().filter_map(|key| key.strip_prefix(TSC_SCHEDULING)?.parse().ok());
        let supported = own.chain(had).filter(|hertz| counter.supports(*hertz));
        should = supported.take(MOST).map(|hertz| (format!("{TSC_SCHEDULING}{hertz}"), "true")).collect();
    }
    let written = |labels: Value| json!({"metadata": {"labels": labels}});
    plan.update(Kind::Node, node.meta(), &written(json!(is)), &written(json!(should)), false);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Sim, vmi};
    use cluster_model::objects::Key;

    fn node(name: &str, hertz: u64, scalable: bool) -> Value {
        json!({"metadata": {
            "name": name,
            "labels": {
                "kubevirt.io/schedulable": "true", "other": "kept",
                "cpu-timer.node.kubevirt.io/tsc-frequency": hertz.to_string(),
                "cpu-timer.node.kubevirt.io/tsc-scalable": scalable.to_string(),
            },
            "annotations": {"kubevirt.io/heartbeat": "1"},
        }})
    }

    fn labels(sim: &Sim, name: &str) -> Vec<String> {
        let node = sim.get(&Key::new(Kind::Node, "", name));
        let labels = node["metadata"]["labels"].as_object().unwrap().keys();
        labels.filter_map(|key| Some(key.strip_prefix(TSC_SCHEDULING)?.to_owned())).collect()
    }

    fn relies() -> Value {
        let mut object = vmi("web");
        object["spec"]["domain"]["cpu"] = json!({"features": [{"name": "invtsc", "policy": "require"}]});
        object
    }

    #[test]
    fn the_frequency_is_one_that_most_nodes_support() {
        for (nodes, expected) in [
            (&[][..], None),
            (&[(2_600_000_000, false)], Some(2_600_000_000)),
            // Of two the lower one, as upstream.
            (&[(2_600_000_000, false), (2_400_000_000, false)], Some(2_400_000_000)),
            (&[(2_600_000_000, true), (2_400_000_000, false)], Some(2_400_000_000)),
            // One that lies chooses for nobody else.
            (&[(2_600_000_000, false), (2_600_000_000, false), (600_000_000, false)], Some(2_600_000_000)),
            (&[(2_600_000_000, false), (1, true), (u64::MAX, true)], Some(2_600_000_000)),
            // What differs by less than KVM tolerates is the same.
            (&[(2_600_000_000, false), (2_600_100_000, false), (2_400_000_000, false)], Some(2_600_000_000)),
        ] {
            let mut sim = Sim::new();
            for (number, (hertz, scalable)) in nodes.iter().enumerate() {
                sim.put(Kind::Node, node(&format!("node{number}"), *hertz, *scalable));
            }
            assert_eq!(of_cluster(&sim.world, &Config::default()), expected, "{nodes:?}");
            let set = Config { tsc_frequency: Some(7), ..Config::default() };
            assert_eq!(of_cluster(&sim.world, &set), Some(7));
        }
    }

    #[test]
    fn a_node_says_which_frequencies_it_supports() {
        let mut sim = Sim::new();
        sim.put(Kind::Node, node("fast", 3_000_000_000, true));
        sim.settle();
        assert_eq!(labels(&sim, "fast"), ["3000000000"]);
        sim.put(Kind::Node, node("slow", 2_400_000_000, false));
        sim.settle();
        assert_eq!(labels(&sim, "fast"), ["2400000000", "3000000000"]);
        assert_eq!(labels(&sim, "slow"), ["2400000000"]);
        // Its processor is another: what it does not support goes.
        let mut other = node("fast", 2_800_000_000, false);
        for hertz in ["2400000000", "3000000000"] {
            other["metadata"]["labels"][format!("{TSC_SCHEDULING}{hertz}")] = json!("true");
        }
        sim.put(Kind::Node, other);
        sim.settle();
        assert_eq!(labels(&sim, "fast"), ["2800000000"]);
        assert_eq!(sim.get(&Key::new(Kind::Node, "", "fast"))["metadata"]["labels"]["other"], "kept");
    }

    #[test]
    fn a_vmi_that_relies_on_its_counter_keeps_the_frequency_and_goes_where_it_is() {
        let mut sim = Sim::new();
        let vmi = sim.put(Kind::VirtualMachineInstance, relies());
        sim.settle();
        assert_eq!(sim.condition(&vmi, "Synchronized").unwrap().1, "NoTSCFrequency");
        assert_eq!(sim.pod_of(&vmi), None);
        sim.put(Kind::Node, node("node1", 2_600_000_000, false));
        sim.settle();
        assert_eq!(sim.get(&vmi)["status"]["topologyHints"]["tscFrequency"], 2_600_000_000_u64);
        assert_eq!(sim.condition(&vmi, "Synchronized"), None);
        let pod = sim.pod_of(&vmi).unwrap();
        assert_eq!(sim.get(&pod)["spec"]["nodeSelector"][format!("{TSC_SCHEDULING}2600000000")], "true");
        sim.put(Kind::Node, node("node2", 2_400_000_000, false));
        sim.settle();
        assert_eq!(sim.get(&vmi)["status"]["topologyHints"]["tscFrequency"], 2_600_000_000_u64);
    }

    /// What somebody wrote there before a webhook stood leads no other VMI anywhere.
    #[test]
    fn a_hint_is_nothing_to_a_vmi_that_does_not_rely_on_its_counter() {
        let mut sim = Sim::new();
        let mut object = vmi("web");
        object["status"] = json!({"topologyHints": {"tscFrequency": 2_600_000_000_u64}});
        let vmi = sim.put(Kind::VirtualMachineInstance, object);
        sim.settle();
        let selector = sim.get(&sim.pod_of(&vmi).unwrap())["spec"]["nodeSelector"].clone();
        let keys = selector.as_object().unwrap().keys();
        assert!(keys.into_iter().all(|key| !key.starts_with(TSC_SCHEDULING)), "{selector}");
    }

    /// QEMU without KVM keeps no frequency. With KVM, the frequency is written before the pod asks for a node that has it.
    #[test]
    fn an_emulated_vmi_waits_for_no_frequency_and_another_is_pending_until_it_has_one() {
        for emulates in [true, false] {
            let mut sim = Sim::new();
            let set = json!({"configuration": {"developerConfiguration": {"useEmulation": emulates}}});
            let settings = json!({"metadata": {"namespace": "kubevirt", "name": "kubevirt"}, "spec": set});
            sim.world.put(Kind::KubeVirt, settings, sim.now);
            if !emulates {
                sim.put(Kind::Node, node("node1", 2_600_000_000, false));
            }
            let key = sim.put(Kind::VirtualMachineInstance, relies());
            sim.round();
            let status = &sim.get(&key)["status"];
            let is =
                (sim.pod_of(&key).is_some(), status["phase"].as_str(), status["topologyHints"].is_null());
            let expected = if emulates { (true, "Scheduling", true) } else { (false, "Pending", false) };
            assert_eq!(is, (expected.0, Some(expected.1), expected.2));
        }
    }
}
