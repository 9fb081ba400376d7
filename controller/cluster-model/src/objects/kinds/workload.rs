//! A component of the installation: a Deployment or a DaemonSet.

use crate::objects::store::{StoredObject, meta};
use crate::objects::{About, Key, Kind, Selector, Use, World};
use crate::versions::{REGISTRY, VERSION};
use api::meta::ObjectMeta;
use serde_json::Value;

/// Declaration shared by both kinds.
pub(super) const FOLLOWED: About = About {
    is_of_installation: true,
    controller: Use { follows: &[Selector::ALL], verbs: &[(None, &["patch"])], ..Use::NONE },
    touches: |world, key| {
        let settings = super::kubevirt::all(world).into_iter().chain(super::cdi::all(world));
        [key.clone()].into_iter().chain(settings).collect()
    },
    ..About::new("apps/v1", "", "")
};

/// The keys of all components.
pub(super) fn all(world: &World) -> impl Iterator<Item = Key> {
    [Kind::Deployment, Kind::DaemonSet].into_iter().flat_map(move |kind| world.keys(kind))
}

/// The part of a component's object that is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Component {
    pub meta: ObjectMeta,
    /// The object without its status.
    pub object: Value,
    /// The status is about the current generation.
    pub current: bool,
    /// Desired number of pods.
    pub wanted: u64,
    /// Number of ready pods, of any generation.
    pub answering: u64,
    /// Number of ready pods of the current generation.
    pub ready: u64,
    /// Pods of an older generation are left.
    pub has_old: bool,
    /// Message of the API server if the rollout made no progress in time.
    pub stuck: Option<String>,
    /// Version in the pod template's annotation. A rollback of the rollout changes only that one.
    pub of_pods: Option<String>,
}

impl Component {
    /// True if all pods exist, are ready and are of the current generation.
    pub fn is_whole(&self) -> bool {
        self.current && self.ready >= self.wanted && !self.has_old
    }

    /// Version of the manifests that the component was installed from.
    pub fn version(&self) -> Option<&str> {
        self.of_pods.as_deref().or_else(|| self.meta.annotations.get(VERSION).map(String::as_str))
    }

    /// Registry of its images.
    pub fn registry(&self) -> Option<&str> {
        self.meta.annotations.get(REGISTRY).map(String::as_str)
    }
}

impl StoredObject for Component {
    fn parse(object: Value) -> Option<Self> {
        let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_u64);
        let meta = meta(&object)?;
        let seen = number("/status/observedGeneration").unwrap_or_default();
        let generation = meta.generation.and_then(|number| u64::try_from(number).ok()).unwrap_or_default();
        let of_nodes = number("/status/desiredNumberScheduled");
        let (wanted, answering, updated, all) = match of_nodes {
            Some(wanted) => {
                let names = ["numberReady", "updatedNumberScheduled", "currentNumberScheduled"];
                let [ready, updated, all] = names.map(|name| number(&format!("/status/{name}")));
                (wanted, ready, updated, all)
            }
            // The default of a Deployment is one replica.
            None => {
                let names = ["readyReplicas", "updatedReplicas", "replicas"];
                let [ready, updated, all] = names.map(|name| number(&format!("/status/{name}")));
                (number("/spec/replicas").unwrap_or(1), ready, updated, all)
            }
        };
        let [answering, updated, all] = [answering, updated, all].map(Option::unwrap_or_default);
        Some(Component {
            current: seen >= generation,
            wanted,
            answering,
            // The status does not tell which updated pods are ready. The smaller number is the upper bound.
            ready: answering.min(updated),
            has_old: all > updated,
            of_pods: object["spec"]["template"]["metadata"]["annotations"][VERSION]
                .as_str()
                .map(str::to_owned),
            stuck: stalled_message(&object),
            object: without_status(object),
            meta,
        })
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
}

/// The message of a Deployment whose rollout has stopped.
fn stalled_message(object: &Value) -> Option<String> {
    let mut all = object["status"]["conditions"].as_array()?.iter();
    let found = all.find(|condition| condition["type"] == "Progressing" && condition["status"] == "False")?;
    Some(found["message"].as_str()?.chars().take(200).collect())
}

fn without_status(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(meta) = object["metadata"].as_object_mut() {
        meta.remove("managedFields");
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn component(status: &Value) -> Component {
        Component::parse(
            json!({"metadata": {"name": "a", "generation": 2}, "spec": {"replicas": 2}, "status": status}),
        )
        .unwrap()
    }

    #[test]
    fn a_deployment_is_whole_when_no_old_pod_is_left() {
        let status = |ready: u64, updated: u64, all: u64| {
            component(&json!({
                "observedGeneration": 2, "readyReplicas": ready, "updatedReplicas": updated, "replicas": all,
            }))
        };
        assert!(status(2, 2, 2).is_whole());
        for (ready, updated, all) in [(2, 1, 3), (2, 2, 3), (1, 2, 2), (2, 0, 2)] {
            assert!(!status(ready, updated, all).is_whole(), "{ready} {updated} {all}");
        }
        let old = json!({"observedGeneration": 1, "readyReplicas": 2, "updatedReplicas": 2, "replicas": 2});
        assert!(!component(&old).is_whole(), "its figures are about what was wanted before");
    }

    #[test]
    fn a_daemon_set_is_whole_when_each_node_has_the_new_pod() {
        let status = |ready: u64, updated: u64| {
            component(&json!({
                "observedGeneration": 2, "desiredNumberScheduled": 3, "currentNumberScheduled": 3,
                "numberReady": ready, "updatedNumberScheduled": updated,
            }))
        };
        assert!(status(3, 3).is_whole() && !status(2, 3).is_whole() && !status(3, 2).is_whole());
        assert_eq!(status(3, 1).ready, 1);
    }
}
