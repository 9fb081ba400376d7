//! ResourceQuota: limit on the sum of the requests and limits of a namespace's pods. If a quota counts
//! limits, a pod without limits is refused.

use crate::objects::about::kept;
use crate::objects::store::{StoredObject, meta};
use crate::objects::{About, Selector, Use, World};
use api::meta::ObjectMeta;
use serde_json::Value;

pub(crate) const ABOUT: About = About {
    kept: kept!(resource_quotas),
    // A pod that a quota refused is retried after a pause. No decision depends on a change here.
    controller: Use { follows: &[Selector::ALL], ..Use::NONE },
    ..About::new("v1", "ResourceQuota", "resourcequotas")
};

/// The part of a ResourceQuota that is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResourceQuota {
    pub meta: ObjectMeta,
    /// The quota counts CPU limits.
    pub limits_cpu: bool,
    /// The quota counts memory limits.
    pub limits_memory: bool,
}

impl StoredObject for ResourceQuota {
    fn parse(object: Value) -> Option<Self> {
        let counts = |name: &str| !object["spec"]["hard"][name].is_null();
        Some(ResourceQuota {
            meta: meta(&object)?,
            limits_cpu: counts("limits.cpu"),
            limits_memory: counts("limits.memory"),
        })
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
}

impl World {
    /// True for CPU and for memory if a quota of the namespace counts their limits.
    pub fn counted_limits(&self, namespace: &str) -> (bool, bool) {
        let quotas = || self.resource_quotas.in_namespace(namespace);
        (quotas().any(|quota| quota.limits_cpu), quotas().any(|quota| quota.limits_memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Kind;
    use jiff::Timestamp;
    use serde_json::json;

    #[test]
    fn the_quotas_of_a_namespace_count_together_and_no_others() {
        let mut world = World::default();
        let mut quota = |namespace: &str, name: &str, hard: Value| {
            let meta = json!({"namespace": namespace, "name": name});
            let object = json!({"metadata": meta, "spec": {"hard": hard}});
            world.put(Kind::ResourceQuota, object, Timestamp::UNIX_EPOCH);
        };
        quota("n", "a", json!({"limits.cpu": "4", "pods": "10"}));
        quota("n", "b", json!({"limits.memory": "4Gi"}));
        quota("m", "a", json!({"requests.cpu": "4", "cpu": "1"}));
        let counted = ["n", "m", "other"].map(|namespace| world.counted_limits(namespace));
        assert_eq!(counted, [(true, true), (false, false), (false, false)]);
    }
}
