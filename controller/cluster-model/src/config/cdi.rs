//! Settings of the CDI object for worker pods and clones, read live. (Its `config` becomes the spec of the
//! CDIConfig.)

use crate::objects::{Plain, World};
use api::cdi::CloneStrategy;
use serde_json::{Map, Value};

/// Placement of worker pods and the pull policy of their image.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workers {
    /// The pull policy of their image.
    pub pull_policy: Option<String>,
    /// Labels that a node must have.
    pub node_selector: Map<String, Value>,
    /// Affinity rules in the form of a pod.
    pub affinity: Option<Value>,
    /// Node taints that they tolerate, in the form of a pod.
    pub tolerations: Vec<Value>,
}

/// The effective CDI object: the oldest one that is not being deleted.
pub fn installed(world: &World) -> Option<&Plain> {
    let stays = world.cdis.all().filter(|object| object.meta.deletion_timestamp.is_none());
    stays.min_by_key(|object| (object.meta.creation_timestamp.clone(), object.meta.name.clone()))
}

/// Settings of the effective CDI object for worker pods.
pub fn workers(world: &World) -> Workers {
    let Some(object) = installed(world) else { return Workers::default() };
    let spec = &object.object["spec"];
    let place = &spec["workload"];
    Workers {
        pull_policy: spec["imagePullPolicy"].as_str().filter(|text| !text.is_empty()).map(str::to_owned),
        node_selector: place["nodeSelector"].as_object().cloned().unwrap_or_default(),
        affinity: Some(&place["affinity"]).filter(|said| said.is_object()).cloned(),
        tolerations: place["tolerations"].as_array().cloned().unwrap_or_default(),
    }
}

/// Clone strategy that overrides the one of the StorageClass; `None` if unset or unknown.
pub fn clones(world: &World) -> Option<CloneStrategy> {
    let said = installed(world)?.object["spec"]["cloneStrategyOverride"].as_str()?;
    let said = CloneStrategy::from(said);
    (!matches!(said, CloneStrategy::Other(_))).then_some(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Kind;
    use jiff::Timestamp;
    use serde_json::json;

    #[test]
    fn the_oldest_that_stays_counts() {
        let mut world = World::default();
        for (name, made, going) in
            [("b", 1, Value::Null), ("a", 2, Value::Null), ("old", 0, json!("2026-01-01T00:00:00Z"))]
        {
            let meta = json!({
                "name": name, "creationTimestamp": format!("2026-01-01T00:00:0{made}Z"), "deletionTimestamp": going,
            });
            let spec = json!({
                "imagePullPolicy": "Always", "cloneStrategyOverride": "copy",
                "workload": {"nodeSelector": {"of": name}, "tolerations": [{"key": name}]},
            });
            world.put(Kind::CDI, json!({"metadata": meta, "spec": spec}), Timestamp::UNIX_EPOCH);
        }
        let workers = workers(&world);
        assert_eq!(
            (&workers.node_selector["of"], workers.pull_policy.as_deref()),
            (&json!("b"), Some("Always"))
        );
        assert_eq!((workers.tolerations, workers.affinity), (vec![json!({"key": "b"})], None));
        assert_eq!(clones(&world), Some(CloneStrategy::Copy));
    }
}
