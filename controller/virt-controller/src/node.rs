//! Nodes whose virt-handler is silent: they get no new VMIs, and their VMIs report the silence.
//!
//! **Flow.** The virt-handler of a node writes a heartbeat every minute. Once it has been the same for
//! [`SILENCE`], by our own clock, the node takes no more VMIs. virt-handler itself changes that when it is
//! back.
//! **Guarantees.** Only the label is written, and only from `true` to `false`; and the labels of the `tsc`
//! module. The times of two computers are never compared.
//! **Caveats.** A VMI on such a node may still run. Its resources are not given to another before its pod is
//! gone: by its kubelet's report, by the deletion of the node, or by the taint
//! `node.kubernetes.io/out-of-service`.

use super::tsc;
use cluster_model::objects::{Kind, SCHEDULABLE, StoredObject as _, World};
use cluster_model::plan::Plan;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// Longest silence of a virt-handler.
pub(crate) const SILENCE: SignedDuration = SignedDuration::from_mins(5);

/// Plan for a node.
pub(crate) fn decide(world: &World, name: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let (Some(node), Some(until)) = (world.nodes.get("", name), heard_until(world, name)) else {
        return plan;
    };
    if !node.takes_vmis() {
        return plan;
    }
    tsc::label_node(world, node, &mut plan);
    if until > now {
        plan.look_again(until);
        return plan;
    }
    let label = |value: &str| json!({"metadata": {"labels": {SCHEDULABLE: value}}});
    plan.update(Kind::Node, node.meta(), &label("true"), &label("false"), false);
    plan.record_event(
        Kind::Node,
        node.meta(),
        true,
        "NodeUnresponsive",
        format!("{}; no VMI is scheduled to it", silence_message(name)),
    );
    plan
}

/// Until when the virt-handler of a node counts as there, if nothing more is heard of it. Nothing where none ever was.
pub(crate) fn heard_until(world: &World, name: &str) -> Option<Timestamp> {
    let (_, since) = world.heard.get(name)?;
    since.checked_add(SILENCE).ok()
}

/// Message about a node whose virt-handler is silent.
pub(crate) fn silence_message(name: &str) -> String {
    format!("virt-handler on the node {name} has sent no heartbeat for {} minutes", SILENCE.as_mins())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Sim, vmi};
    use cluster_model::objects::Key;
    use serde_json::Value;

    fn beat(time: &str, schedulable: &str) -> Value {
        json!({
            "metadata": {
                "name": "node1", "labels": {SCHEDULABLE: schedulable, "other": "kept"},
                "annotations": {"kubevirt.io/heartbeat": time},
            },
        })
    }

    fn label(sim: &Sim, node: &Key) -> String {
        sim.get(node)["metadata"]["labels"][SCHEDULABLE].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_node_takes_vmis_until_its_agent_was_silent_for_long() {
        let mut sim = Sim::new();
        // Its clock is an hour behind ours, which is no silence.
        let node = sim.put(Kind::Node, beat("2020-01-01T00:00:00Z", "true"));
        sim.settle();
        assert_eq!((label(&sim, &node).as_str(), sim.writes), ("true", 0));
        let again = decide(&sim.world, "node1", sim.now).again.unwrap();
        assert_eq!(again, sim.now.checked_add(SILENCE).unwrap());
        sim.advance(240);
        sim.put(Kind::Node, beat("2020-01-01T00:04:00Z", "true"));
        sim.advance(299);
        sim.settle();
        assert_eq!((label(&sim, &node).as_str(), sim.writes), ("true", 0), "it was heard meanwhile");
        sim.advance(1);
        sim.settle();
        assert_eq!((label(&sim, &node).as_str(), sim.writes), ("false", 1));
        assert_eq!(sim.get(&node)["metadata"]["labels"]["other"], "kept");
        assert_eq!(sim.reasons(), ["NodeUnresponsive"]);
        // It is back.
        sim.put(Kind::Node, beat("2020-01-01T00:20:00Z", "true"));
        sim.settle();
        assert_eq!((label(&sim, &node).as_str(), sim.writes), ("true", 1));
    }

    #[test]
    fn a_node_without_an_agent_of_ours_is_let_be() {
        let mut sim = Sim::new();
        sim.put(Kind::Node, json!({"metadata": {"name": "node1"}}));
        sim.advance(3600);
        sim.settle();
        assert_eq!(sim.writes, 0);
    }

    #[test]
    fn a_vmi_of_a_lost_node_is_told_of_and_none_takes_its_disk_before_its_pod_is_gone() {
        let mut sim = Sim::new();
        sim.put(Kind::Node, beat("1", "true"));
        let vmi = sim.put(Kind::VirtualMachineInstance, vmi("web"));
        sim.boot(&vmi);
        let pod = sim.pod_of(&vmi).unwrap();
        sim.advance(301);
        sim.settle();
        let (status, reason, said) = sim.condition(&vmi, "Synchronized").unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("False", "NodeUnresponsive"));
        assert!(said.contains("node1") && said.contains("out-of-service"), "{said}");
        assert_eq!(sim.get(&vmi)["status"]["phase"], "Running");
        // The node's other keepers give the pod up; it may run all the same.
        sim.delete(&pod);
        sim.advance(3600);
        sim.settle();
        assert_eq!(sim.get(&vmi)["status"]["phase"], "Running");
        sim.put(Kind::Node, beat("2", "true"));
        sim.settle();
        assert_eq!(sim.condition(&vmi, "Synchronized"), None, "it is back");
        // Or it never comes back, and somebody says so.
        sim.vanish(&pod);
        sim.settle();
        assert_eq!(sim.get(&vmi)["status"]["phase"], "Failed");
    }
}
