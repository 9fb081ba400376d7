//! Number of pods that a Deployment keeps during a rolling update.

use serde_json::{Value, json};

/// The Deployment that must keep a pod: its pods revert what the KubeVirt object has changed on the
/// components, on themselves too.
pub const KEPT: &str = "virt-controller";

/// True if at least one pod stays during a rolling update, rounded as Kubernetes does: of a percentage,
/// `maxUnavailable` is rounded down and `maxSurge` up. If both are zero, one pod may be missing.
pub fn keeps_a_pod(object: &Value) -> bool {
    let (replicas, strategy) =
        (object["spec"]["replicas"].as_u64().unwrap_or(1), &object["spec"]["strategy"]);
    let kind = &strategy["type"];
    if !kind.is_null() && kind != "RollingUpdate" {
        return false;
    }
    let count = |name: &str, rounds_up: bool| share(&strategy["rollingUpdate"][name], replicas, rounds_up);
    let (Some(missing), Some(more)) = (count("maxUnavailable", false), count("maxSurge", true)) else {
        return false;
    };
    missing.max(u64::from(more == 0)) < replicas
}

/// A number of pods, given as a number or as a percentage of the replicas. The default is 25 %.
fn share(said: &Value, replicas: u64, rounds_up: bool) -> Option<u64> {
    match said {
        Value::Null => share(&json!("25%"), replicas, rounds_up),
        Value::String(text) => {
            let hundredths = text.strip_suffix('%')?.parse::<u64>().ok()?.checked_mul(replicas)?;
            Some(if rounds_up { hundredths.div_ceil(100) } else { hundredths / 100 })
        }
        other => other.as_u64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_stays_as_kubernetes_reckons_it() {
        for (replicas, strategy, expected) in [
            (2, json!(null), true),
            (1, json!({"type": "RollingUpdate"}), true),
            (2, json!({"type": "Recreate"}), false),
            (2, json!({"type": 1}), false),
            (2, json!({"rollingUpdate": {"maxUnavailable": 1}}), true),
            (2, json!({"rollingUpdate": {"maxUnavailable": 2}}), false),
            (3, json!({"rollingUpdate": {"maxUnavailable": 2}}), true),
            (1, json!({"rollingUpdate": {"maxUnavailable": "99%"}}), true),
            (100, json!({"rollingUpdate": {"maxUnavailable": "100%"}}), false),
            (1, json!({"rollingUpdate": {"maxUnavailable": "99%", "maxSurge": 0}}), false),
            (1, json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "0%"}}), false),
            (2, json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "0%"}}), true),
            (2, json!({"rollingUpdate": {"maxUnavailable": "all"}}), false),
            (2, json!({"rollingUpdate": {"maxUnavailable": format!("{}%", u64::MAX)}}), false),
        ] {
            let object = json!({"spec": {"replicas": replicas, "strategy": strategy}});
            assert_eq!(keeps_a_pod(&object), expected, "{object}");
        }
    }
}
