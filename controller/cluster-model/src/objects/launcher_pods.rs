//! Which pods are the launcher pods of a VMI, and which one of them may run its guest. Pure; asked by virt-controller and by
//! virt-handler, of the same facts.
//!
//! | what | must be |
//! |---|---|
//! | namespace, name | the VMI's, and one that follows from its name, its uid and an attempt ([`super::names::pod`]) |
//! | controlling owner | the VMI: `kubevirt.io/v1`, `VirtualMachineInstance`, its uid |
//! | labels | those that launcher pods are found by; that it is one, and of which VMI |
//! | uid | one of `status.activePods`, once the VMI was handed over |
//!
//! **A set with one active pod.** Each attempt at a VMI has a pod of its own: its start is the first, and moving the guest to
//! another node would be the next. However many there are, at most one may run the guest: the only one, or of several the one
//! that was handed over to the node in `status.nodeName`.
//!
//! Anybody who may make pods in a namespace can make one with the labels of a launcher that names a VMI as its owner.
//! Such a stranger's pod is nobody's launcher: it is not looked at, and neither its coming nor its going changes anything.
//! A pod that was left behind (`--cascade=orphan`) has no owner any more; it runs its guest all the same, and is known
//! by its uid alone.

use super::{FOUND_BY, Key, Kind, LAUNCHER, names, owner};
use api::meta::ObjectMeta;
use api::vmi::VirtualMachineInstance;
use serde_json::Value;
use std::collections::BTreeMap;

/// The label that says the uid of a pod's VMI.
const OF: &str = FOUND_BY[1];

/// The launcher pods that a VMI has, or would have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LauncherPods {
    namespace: String,
    /// By attempt, from the first one on.
    names: Vec<String>,
    owner: String,
    /// Uids of its pods that were handed over, each with its node.
    active: BTreeMap<String, String>,
    /// Where the guest runs.
    node: Option<String>,
    /// One that is in no status counts too.
    any: bool,
}

impl LauncherPods {
    /// Those of a VMI; nothing for what has no name or uid yet.
    pub fn of(vmi: &VirtualMachineInstance) -> Option<LauncherPods> {
        let status = vmi.status.as_ref();
        let active = status.map(|status| status.active_pods.clone());
        let node = status.and_then(|status| status.node_name.clone());
        LauncherPods::named(&vmi.metadata, active.unwrap_or_default(), node)
    }

    /// The same of an object as it stands.
    pub fn of_object(object: &Value) -> Option<LauncherPods> {
        let text = |pointer: &str| object.pointer(pointer)?.as_str().map(str::to_owned);
        let meta = ObjectMeta {
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name"),
            uid: text("/metadata/uid"),
            ..ObjectMeta::default()
        };
        let active = object.pointer("/status/activePods").and_then(Value::as_object).into_iter().flatten();
        let active = active.filter_map(|(uid, node)| Some((uid.clone(), node.as_str()?.to_owned())));
        LauncherPods::named(&meta, active.collect(), text("/status/nodeName"))
    }

    fn named(
        meta: &ObjectMeta,
        active: BTreeMap<String, String>,
        node: Option<String>,
    ) -> Option<LauncherPods> {
        let (name, owner) = (meta.name.as_deref()?, meta.uid.clone().filter(|uid| !uid.is_empty())?);
        let namespace = meta.namespace.clone()?;
        // The guest of a VMI cannot be moved yet: its start is the only attempt.
        let names = vec![names::pod(name, &owner, names::FIRST)];
        Some(LauncherPods { namespace, names, owner, active, node, any: false })
    }

    /// Where they are, the first attempt's first.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.names.iter().map(|name| Key::new(Kind::Pod, &self.namespace, name))
    }

    /// The same, for whoever has to be sure that nothing of the VMI runs any more: every pod of such a name counts which
    /// is not another's, even where the status says another, or its owner was taken from it before it was handed over. A
    /// status may be forged, and what is to go goes with all of them.
    #[must_use]
    pub fn any(self) -> LauncherPods {
        LauncherPods { any: true, ..self }
    }

    /// A pod of such a name is one of them, and no stranger's.
    pub fn has(&self, pod: &ObjectMeta) -> bool {
        let uid = pod.uid.as_deref().unwrap_or_default();
        let is_here = pod.namespace.as_deref() == Some(&self.namespace)
            && self.names.iter().any(|name| pod.name.as_ref() == Some(name));
        // Whoever watches launcher pods does not hear of one without these, not even when it is gone. Whoever has to be sure
        // asks the API server, and for them labels that somebody took off change nothing.
        let labelled = |key: &str, value: &str| pod.labels.get(key).is_some_and(|label| label == value);
        let is_found = FOUND_BY.iter().all(|key| pod.labels.contains_key(*key))
            && labelled(LAUNCHER.0, LAUNCHER.1)
            && labelled(OF, &self.owner);
        let is_active = self.active.contains_key(uid);
        let is_owned = match owner::controller(pod) {
            Some(owner) => {
                owner.api_version == Kind::VirtualMachineInstance.api_version()
                    && owner.kind == Kind::VirtualMachineInstance.name()
                    && owner.uid == self.owner
            }
            None => is_active || self.any,
        };
        is_here && (is_found || self.any) && is_owned && (is_active || self.any || self.active.is_empty())
    }

    /// It was handed over to this node: its virt-handler may do something with it.
    fn is_on(&self, pod: &ObjectMeta, node: &str) -> bool {
        let uid = pod.uid.as_deref().unwrap_or_default();
        self.has(pod) && self.active.get(uid).is_some_and(|on| on == node)
    }

    /// Which of the pods that there are may run the guest: at most one of those that are the VMI's.
    pub fn active<'a, P>(
        &self,
        pods: impl IntoIterator<Item = &'a P>,
        meta: fn(&P) -> &ObjectMeta,
    ) -> Option<&'a P> {
        let own: Vec<&P> = pods.into_iter().filter(|pod| self.has(meta(pod))).collect();
        match own[..] {
            [only] => Some(only),
            _ => self.on(own, meta, self.node.as_deref()?),
        }
    }

    /// Which of the pods that there are was handed over to a node; of two there neither is known to be the one.
    pub fn on<'a, P>(
        &self,
        pods: impl IntoIterator<Item = &'a P>,
        meta: fn(&P) -> &ObjectMeta,
        node: &str,
    ) -> Option<&'a P> {
        let mut there = pods.into_iter().filter(|pod| self.is_on(meta(pod), node));
        there.next().filter(|_| there.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(active: &Value) -> LauncherPods {
        let object = json!({
            "metadata": {"namespace": "n", "name": "web", "uid": "1"}, "status": {"activePods": active},
        });
        LauncherPods::of_object(&object).unwrap()
    }

    fn pod() -> Value {
        json!({
            "namespace": "n", "name": names::pod("web", "1", names::FIRST), "uid": "p",
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
        assert!(on.has(&with("", Value::Null)) && on.has(&with("/uid", json!("q"))));
        assert!(!on.has(&with("/ownerReferences/0/uid", json!("2"))));
        let labels = pod()["labels"].clone();
        let freed =
            json!({"namespace": "n", "name": on.keys().next().unwrap().name, "uid": "q", "labels": labels});
        let freed = api::wire::read(freed).unwrap();
        assert!(on.has(&freed) && !of(&json!({})).has(&freed), "it was set free before it was handed over");
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
            assert!(!fresh.has(&pod) && !on.has(&pod) && !on.is_on(&pod, "node1"), "{pointer}");
            assert!(on.clone().any().has(&pod), "{pointer}: its VMI may run all the same");
        }
        assert!(fresh.has(&with("/labels/mine", json!("b"))), "others are anybody's");
    }

    #[test]
    fn every_fact_must_agree() {
        let (fresh, on) = (of(&json!({})), of(&json!({"p": "node1"})));
        let right = with("", Value::Null);
        assert!(fresh.has(&right) && on.has(&right));
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
            assert!(!fresh.has(&with(pointer, value.clone())), "{pointer}");
            let left_behind = pointer == "/ownerReferences" || pointer == "/ownerReferences/0/controller";
            assert_eq!(on.has(&with(pointer, value)), left_behind, "{pointer}");
        }
        let another = with("/uid", json!("q"));
        assert!(fresh.has(&another) && !on.has(&another), "the one that was handed over is another");
    }

    /// Two attempts, each with a pod: what a move to another node would be.
    fn two(status: &Value) -> (LauncherPods, [ObjectMeta; 2]) {
        let object = json!({"metadata": {"namespace": "n", "name": "web", "uid": "1"}, "status": status});
        let second = names::pod("web", "1", 1);
        let mut pods = LauncherPods::of_object(&object).unwrap();
        pods.names.push(second.clone());
        let mut other = with("/name", json!(second));
        other.uid = Some("q".into());
        (pods, [with("", Value::Null), other])
    }

    #[test]
    fn of_several_pods_the_one_on_the_guests_node_is_active_and_no_other() {
        let uid = |status: Value| {
            let (pods, there) = two(&status);
            pods.active(&there, |meta| meta)?.uid.clone()
        };
        let both = json!({"p": "node1", "q": "node2"});
        for (node, active) in [("node1", Some("p")), ("node2", Some("q")), ("node3", None)] {
            let status = json!({"nodeName": node, "activePods": both});
            assert_eq!(uid(status).as_deref(), active, "{node}");
        }
        assert_eq!(uid(json!({"activePods": both})), None, "where the guest runs is not said");
        let one = json!({"nodeName": "node1", "activePods": {"p": "node1", "q": "node1"}});
        assert_eq!(uid(one), None, "both are on that node");
        let handed = json!({"nodeName": "node1", "activePods": {"p": "node1"}});
        assert_eq!(uid(handed).as_deref(), Some("p"), "the other was not handed over");
        assert_eq!(uid(json!({})), None, "two before any was handed over: neither");
    }

    #[test]
    fn the_only_pod_is_active_whatever_the_status_says_of_nodes() {
        let (pods, [first, _]) = two(&json!({"nodeName": "node9", "activePods": {"p": "node1"}}));
        assert_eq!(pods.active([&first], |meta| meta), Some(&first));
        let strange = with("/ownerReferences/0/uid", json!("2"));
        assert_eq!(pods.active([&strange, &first], |meta| meta), Some(&first));
        assert_eq!(pods.active([&strange], |meta| meta), None);
    }
}
