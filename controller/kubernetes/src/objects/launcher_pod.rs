//! Which pod is the launcher pod of an instance. Pure; asked by virt-controller and by the agents, of the same facts.
//!
//! | what | must be |
//! |---|---|
//! | namespace, name | the instance's, and the one that follows from its name and uid ([`super::names::pod`]) |
//! | controlling owner | the instance: `kubevirt.io/v1`, `VirtualMachineInstance`, its uid |
//! | labels | those that launcher pods are found by; that it is one, and of which instance |
//! | uid | one of `status.activePods`, once the instance was handed over |
//!
//! Anybody who may make pods in a namespace can make one with the labels of a launcher that names an instance as its owner.
//! Such a stranger's pod is nobody's launcher: it is not looked at, and neither its coming nor its going changes anything.
//! A pod that was left behind (`--cascade=orphan`) has no owner any more; it runs its machine all the same, and is known
//! by its uid alone.

use super::{FOUND_BY, Key, Kind, LAUNCHER, names, owner};
use api::meta::ObjectMeta;
use api::vmi::VirtualMachineInstance;
use serde_json::Value;
use std::collections::BTreeMap;

/// The label that says the uid of a pod's instance.
const OF: &str = FOUND_BY[1];

/// The launcher pod that an instance has, or would have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LauncherPod {
    namespace: String,
    name: String,
    owner: String,
    /// Uids of its pods, each with its node.
    active: BTreeMap<String, String>,
    /// One that is in no status counts too.
    any: bool,
}

impl LauncherPod {
    /// That of an instance; nothing for what has no name or uid yet.
    pub fn of(vmi: &VirtualMachineInstance) -> Option<LauncherPod> {
        let active = vmi.status.as_ref().map(|status| status.active_pods.clone());
        LauncherPod::named(&vmi.metadata, active.unwrap_or_default())
    }

    /// The same of an object as it stands.
    pub fn of_object(object: &Value) -> Option<LauncherPod> {
        let text = |pointer: &str| object.pointer(pointer)?.as_str().map(str::to_owned);
        let meta = ObjectMeta {
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
            uid: text("/metadata/uid"),
            ..ObjectMeta::default()
        };
        let active = object.pointer("/status/activePods").and_then(Value::as_object).into_iter().flatten();
        let active = active.filter_map(|(uid, node)| Some((uid.clone(), node.as_str()?.to_owned())));
        LauncherPod::named(&meta, active.collect())
    }

    fn named(meta: &ObjectMeta, active: BTreeMap<String, String>) -> Option<LauncherPod> {
        let (name, owner) = (meta.name.as_deref()?, meta.uid.clone().filter(|uid| !uid.is_empty())?);
        let namespace = meta.namespace.clone()?;
        Some(LauncherPod { namespace, name: names::pod(name, &owner), owner, active, any: false })
    }

    /// Where it is.
    pub fn key(&self) -> Key {
        Key::new(Kind::Pod, &self.namespace, &self.name)
    }

    /// The same, for whoever has to be sure that nothing of the instance runs any more: every pod of that name counts which
    /// is not another's, even where the status says another, or its owner was taken from it before it was handed over. A
    /// status may be forged, and what is to go goes with all of them.
    #[must_use]
    pub fn any(self) -> LauncherPod {
        LauncherPod { any: true, ..self }
    }

    /// A pod of this name is it, and no stranger's.
    pub fn is(&self, pod: &ObjectMeta) -> bool {
        let uid = pod.uid.as_deref().unwrap_or_default();
        let is_here =
            pod.namespace.as_deref() == Some(&self.namespace) && pod.name.as_deref() == Some(&self.name);
        // Whoever watches launcher pods does not hear of one without these, not even when it is gone. Whoever has to be sure
        // asks the API server, and for them labels that somebody took off change nothing.
        let labelled = |key: &str, value: &str| pod.labels.get(key).is_some_and(|label| label == value);
        let is_found = FOUND_BY.iter().all(|key| pod.labels.contains_key(*key))
            && labelled(LAUNCHER.0, LAUNCHER.1)
            && labelled(OF, &self.owner);
        let is_active = self.active.contains_key(uid);
        let is_owned = match owner::controller(pod) {
            Some(owner) => {
                owner.api_version == Kind::Instance.api_version()
                    && owner.kind == Kind::Instance.name()
                    && owner.uid == self.owner
            }
            None => is_active || self.any,
        };
        is_here && (is_found || self.any) && is_owned && (is_active || self.any || self.active.is_empty())
    }

    /// It was handed over to this node: its agent may do something with it.
    pub fn is_on(&self, pod: &ObjectMeta, node: &str) -> bool {
        let uid = pod.uid.as_deref().unwrap_or_default();
        self.is(pod) && self.active.get(uid).is_some_and(|on| on == node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(active: &Value) -> LauncherPod {
        let object = json!({
            "metadata": {"namespace": "n", "name": "web", "uid": "1"}, "status": {"activePods": active},
        });
        LauncherPod::of_object(&object).unwrap()
    }

    fn pod() -> Value {
        json!({
            "namespace": "n", "name": names::pod("web", "1"), "uid": "p",
            "labels": {
                "kubevirt.io": "virt-launcher", "kubevirt.io/created-by": "1", "vmi.kubevirt.io/id": "web",
                "vm.kubevirt.io/name": "web", "mine": "a",
            },
            "ownerReferences": [{
                "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "web", "uid": "1",
                "controller": true,
            }],
        })
    }

    fn with(pointer: &str, value: Value) -> ObjectMeta {
        let mut pod = pod();
        if !pointer.is_empty() {
            *pod.pointer_mut(pointer).unwrap() = value;
        }
        api::wire::read(pod).unwrap()
    }

    #[test]
    fn whoever_has_to_be_sure_counts_all_that_are_its_own() {
        let on = of(&json!({"p": "node1"})).any();
        assert!(on.is(&with("", Value::Null)) && on.is(&with("/uid", json!("q"))));
        assert!(!on.is(&with("/ownerReferences/0/uid", json!("2"))));
        let labels = pod()["labels"].clone();
        let freed = json!({"namespace": "n", "name": on.key().name, "uid": "q", "labels": labels});
        let freed = api::wire::read(freed).unwrap();
        assert!(on.is(&freed) && !of(&json!({})).is(&freed), "it was set free before it was handed over");
    }

    /// It is found by its labels: one that has others is not told of again, not even when it is gone.
    #[test]
    fn a_pod_that_is_not_found_by_its_labels_is_none() {
        let (fresh, on) = (of(&json!({})), of(&json!({"p": "node1"})));
        for (pointer, value) in [
            ("/labels", json!({})),
            ("/labels/kubevirt.io", json!("another")),
            ("/labels/kubevirt.io~1created-by", json!("2")),
        ] {
            let pod = with(pointer, value);
            assert!(!fresh.is(&pod) && !on.is(&pod) && !on.is_on(&pod, "node1"), "{pointer}");
            assert!(on.clone().any().is(&pod), "{pointer}: its machine may run all the same");
        }
        assert!(fresh.is(&with("/labels/mine", json!("b"))), "others are anybody's");
    }

    #[test]
    fn every_fact_must_agree() {
        let (fresh, on) = (of(&json!({})), of(&json!({"p": "node1"})));
        let right = with("", Value::Null);
        assert!(fresh.is(&right) && on.is(&right));
        assert!(on.is_on(&right, "node1") && !on.is_on(&right, "node2") && !fresh.is_on(&right, "node1"));
        for (pointer, value) in [
            ("/namespace", json!("m")),
            ("/name", json!("virt-launcher-web-other")),
            ("/ownerReferences/0/apiVersion", json!("example.org/v1")),
            ("/ownerReferences/0/kind", json!("ReplicaSet")),
            ("/ownerReferences/0/uid", json!("2")),
            ("/ownerReferences/0/controller", json!(false)),
            ("/ownerReferences", json!([])),
        ] {
            assert!(!fresh.is(&with(pointer, value.clone())), "{pointer}");
            let left_behind = pointer == "/ownerReferences" || pointer == "/ownerReferences/0/controller";
            assert_eq!(on.is(&with(pointer, value)), left_behind, "{pointer}");
        }
        let another = with("/uid", json!("q"));
        assert!(fresh.is(&another) && !on.is(&another), "the one that was handed over is another");
    }
}
