//! A program of the installation: a Deployment or a DaemonSet.

use crate::objects::store::{Kept, meta};
use crate::objects::{About, Key, Kind, Selector, Use, World};
use crate::versions::{REGISTRY, VERSION};
use api::meta::ObjectMeta;
use serde_json::Value;

/// What is declared of both kinds.
pub(super) const FOLLOWED: About = About {
    is_of_installation: true,
    controller: Use { follows: &[Selector::ALL], verbs: &[(None, &["patch"])], ..Use::NONE },
    touches: |world, key| {
        let settings = super::kubevirt::all(world).into_iter().chain(super::cdi::all(world));
        [key.clone()].into_iter().chain(settings).collect()
    },
    ..About::named("apps/v1", "", "")
};

/// The keys of all of them.
pub(super) fn all(world: &World) -> impl Iterator<Item = Key> {
    [Kind::Deployment, Kind::DaemonSet].into_iter().flat_map(move |kind| world.keys(kind))
}

/// The part of a program of the installation that is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Component {
    /// Its name and the like.
    pub meta: ObjectMeta,
    /// All of it but its status.
    pub object: Value,
    /// What is wanted of it now is what its figures are about.
    pub current: bool,
    /// How many there should be.
    pub wanted: u64,
    /// How many are ready, of whatever kind: they answer.
    pub answering: u64,
    /// How many are ready, and of the kind that is wanted now.
    pub ready: u64,
    /// Some that are of an older kind are still there.
    pub has_old: bool,
    /// The API server has waited in vain for its pods: what it says of that.
    pub stuck: Option<String>,
    /// The version that its pods say. An undone rollout changes that alone.
    pub of_pods: Option<String>,
}

impl Component {
    /// All of them are there, are ready, and are of the kind that is wanted now.
    pub fn is_whole(&self) -> bool {
        self.current && self.ready >= self.wanted && !self.has_old
    }

    /// The version of the manifests that it is of.
    pub fn version(&self) -> Option<&str> {
        self.of_pods.as_deref().or_else(|| self.meta.annotations.get(VERSION).map(String::as_str))
    }

    /// Where its images are.
    pub fn registry(&self) -> Option<&str> {
        self.meta.annotations.get(REGISTRY).map(String::as_str)
    }
}

impl Kept for Component {
    fn take(object: Value) -> Option<Self> {
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
            // A Deployment that says nothing wants one.
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
            // Which of them are ready nobody says: at most so many are both.
            ready: answering.min(updated),
            has_old: all > updated,
            of_pods: object["spec"]["template"]["metadata"]["annotations"][VERSION]
                .as_str()
                .map(str::to_owned),
            stuck: stuck(&object),
            object: without_status(object),
            meta,
        })
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
}

/// What a Deployment says of a rollout that does not go on.
fn stuck(object: &Value) -> Option<String> {
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
        Component::take(
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
