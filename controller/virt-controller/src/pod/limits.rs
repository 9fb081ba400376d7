//! Limits that a launcher pod gets by itself, where its VMI says none: a quota that counts limits admits no pod without.
//!
//! | limit | is set where | to |
//! |---|---|---|
//! | CPU | a ResourceQuota of the namespace counts `limits.cpu`, or `autoCPULimitNamespaceLabelSelector` selects the namespace | the number of vCPUs |
//! | memory | a ResourceQuota of the namespace counts `limits.memory` | the request, times [`RATIO`] of the namespace, else 2 |

use cluster_model::config::Config;
use cluster_model::objects::{World, selects};

/// The label of a namespace by how much a limit of memory is more than the request.
const RATIO: &str = "alpha.kubevirt.io/auto-memory-limits-ratio";
/// The same, where the namespace does not say.
const DEFAULT: f64 = 2.0;
/// Largest plausible ratio; a larger one is ignored.
const LARGEST: f64 = 100.0;

/// The limits that a pod of a namespace gets by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct AutomaticLimits {
    /// CPU has a limit.
    pub(super) cpu: bool,
    /// Memory has a limit: the request, times this.
    pub(super) memory: Option<f64>,
}

impl AutomaticLimits {
    /// Automatic limits for a namespace, by its current quotas and labels.
    pub(crate) fn for_namespace(world: &World, config: &Config, namespace: &str) -> AutomaticLimits {
        let (cpu, memory) = world.counted_limits(namespace);
        let object = world.namespaces.get("", namespace);
        let is_selected = config
            .auto_cpu_limit
            .as_ref()
            .is_some_and(|selector| object.is_some_and(|object| selects(selector, &object.meta.labels)));
        let ratio = || {
            let said = object.and_then(|object| object.meta.labels.get(RATIO)?.parse().ok());
            said.filter(|ratio| (1.0..=LARGEST).contains(ratio)).unwrap_or(DEFAULT)
        };
        AutomaticLimits { cpu: cpu || is_selected, memory: memory.then(ratio) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster_model::objects::Kind;
    use jiff::Timestamp;
    use serde_json::{Value, json};

    fn found(labels: &Value, hard: &Value, selector: &Value) -> AutomaticLimits {
        let mut world = World::default();
        let mut put = |kind, object| world.put(kind, object, Timestamp::UNIX_EPOCH);
        put(Kind::Namespace, json!({"metadata": {"name": "n", "labels": labels}}));
        put(
            Kind::ResourceQuota,
            json!({"metadata": {"namespace": "n", "name": "q"}, "spec": {"hard": hard}}),
        );
        let object = json!({"spec": {"configuration": {"autoCPULimitNamespaceLabelSelector": selector}}});
        let config = Config::from_kubevirt(Some(&object));
        AutomaticLimits::for_namespace(&world, &config, "n")
    }

    #[test]
    fn what_a_quota_counts_has_a_limit() {
        let cpu = found(&json!({}), &json!({"limits.cpu": "4"}), &json!(null));
        assert_eq!(cpu, AutomaticLimits { cpu: true, memory: None });
        let memory = |ratio: &str| {
            found(&json!({RATIO: ratio}), &json!({"limits.memory": "4Gi"}), &json!(null)).memory
        };
        assert_eq!(memory("1.5"), Some(1.5));
        for nonsense in ["", "0.5", "-1", "NaN", "inf", "1e9", "much"] {
            assert_eq!(memory(nonsense), Some(2.0), "{nonsense}");
        }
        assert_eq!(found(&json!({}), &json!({"pods": "1"}), &json!(null)), AutomaticLimits::default());
    }

    #[test]
    fn a_namespace_that_is_selected_has_a_limit_of_cpu_alone() {
        let by = |selector: Value| found(&json!({"limits": "auto"}), &json!({}), &selector);
        let selected = AutomaticLimits { cpu: true, memory: None };
        assert_eq!(by(json!({"matchLabels": {"limits": "auto"}})), selected);
        assert_eq!(by(json!({})), selected, "all");
        assert_eq!(by(json!({"matchLabels": {"limits": "none"}})), AutomaticLimits::default());
    }
}
