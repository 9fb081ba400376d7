//! The eviction of a launcher pod that waits until the VMI has migrated or is ended: the condition `EvictionRequested`.
//!
//! virt-api says which node the VMI must leave (`status.evacuationNodeName`) when it puts off the eviction of a VMI that can migrate,
//! or has the strategy `External`, and takes that back for `evacuate/cancel`. The condition is there for as long.

use super::VmiReconcile;
use super::outcome::Outcome;
use api::vmi::{ConditionType, EvictionStrategy};
use cluster_model::conditions::is_true;

/// The reason of the condition, as upstream has it.
const REASON: &str = "EvictionRequested";

/// Says that a drain of the node waits for the VMI, and what would end the wait.
pub(super) fn eviction(input: &VmiReconcile<'_>) -> Outcome {
    let status = input.vmi.status.as_ref();
    let node = status.and_then(|status| status.evacuation_node_name.as_deref());
    let Some(node) = node.filter(|node| !node.is_empty()) else {
        return Outcome::default().no_condition(ConditionType::EvictionRequested);
    };
    let name = input.vmi.metadata.name.as_deref().unwrap_or_default();
    let strategy = input.vmi.spec.eviction_strategy.as_ref();
    let strategy = strategy.or(input.world.config().eviction_strategy.as_ref());
    let migrates =
        matches!(strategy, Some(EvictionStrategy::LiveMigrate | EvictionStrategy::LiveMigrateIfPossible))
            && is_true(input.conditions(), &ConditionType::LiveMigratable);
    let message = match migrates {
        true => format!(
            "the eviction of the launcher pod from node {node} waits until the VMI has migrated to another node, and a \
             drain of that node waits too. kubectl get vmim shows the migration; virtctl evacuate-cancel vmi {name} \
             cancels the evacuation"
        ),
        false => format!(
            "the eviction of the launcher pod from node {node} waits until the VMI is shut down, and a drain of \
         that node waits too. Stop or restart the VM, or delete a VMI that has none; or cancel the evacuation: \
         virtctl evacuate-cancel vmi {name}"
        ),
    };
    Outcome::default().condition(ConditionType::EvictionRequested, "True", REASON, &message)
}

#[cfg(test)]
mod tests {
    use crate::sim::{Sim, vmi};
    use cluster_model::objects::{Key, Kind};
    use serde_json::json;

    const EVICTION: &str = "EvictionRequested";

    /// virt-api: the VMI must leave this node, or need not any more.
    fn evacuates(sim: &mut Sim, key: &Key, node: Option<&str>) {
        sim.change(key, json!({"status": {"evacuationNodeName": node}}));
        sim.settle();
    }

    fn running() -> (Sim, Key) {
        let mut sim = Sim::new();
        let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
        sim.boot(&key);
        (sim, key)
    }

    #[test]
    fn an_eviction_that_waits_is_said_with_its_node_until_it_is_cancelled() {
        let (mut sim, key) = running();
        assert_eq!(sim.condition(&key, EVICTION), None);
        let before = sim.writes;
        evacuates(&mut sim, &key, Some("node1"));
        let (status, reason, message) = sim.condition(&key, EVICTION).unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("True", EVICTION));
        for words in ["from node node1 ", "virtctl evacuate-cancel vmi web"] {
            assert!(message.contains(words), "{message}");
        }
        assert_eq!(sim.writes, before + 1, "it is said once");
        assert_eq!(sim.get(&key)["status"]["evacuationNodeName"], "node1", "the field is virt-api's");
        assert_eq!(sim.condition(&key, "Ready").unwrap().0, "True", "the guest runs on");

        evacuates(&mut sim, &key, Some("node2"));
        assert!(sim.condition(&key, EVICTION).unwrap().2.contains("from node node2 "));
        for cancelled in [None, Some("")] {
            evacuates(&mut sim, &key, Some("node1"));
            evacuates(&mut sim, &key, cancelled);
            assert_eq!(sim.condition(&key, EVICTION), None);
        }
    }

    #[test]
    fn what_is_evacuated_ends_as_any_other() {
        let (mut sim, key) = running();
        evacuates(&mut sim, &key, Some("node1"));
        let pod = sim.pod_of(&key).unwrap();
        sim.delete(&key);
        sim.agent_says(&key, "Succeeded");
        sim.pod_ends(&pod, "Succeeded", 0);
        sim.settle();
        assert!(!sim.objects.contains_key(&key), "nothing holds it");
    }
}
