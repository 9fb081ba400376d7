//! Selection of the launcher pods of a VMI, and of the one that may run its guest. Pure. virt-controller and
//! virt-handler use it on the same data.
//!
//! | field | must be |
//! |---|---|
//! | namespace, name | the VMI's, and one that follows from its name, its uid and an attempt ([`super::names::pod`]) |
//! | controlling owner | the VMI: `kubevirt.io/v1`, `VirtualMachineInstance`, its uid |
//! | labels | those that launcher pods are found by, with the values of a launcher pod and of this VMI |
//! | uid | one of `status.activePods`, once the VMI is handed over to a node |
//!
//! **A set with one active pod.** Each attempt at a VMI has a pod of its own: its start is the first, and
//! moving the guest to another node would be the next. However many there are, at most one may run the guest:
//! the only one, or of several the one that was handed over to the node in `status.nodeName`.
//!
//! A user who may create pods in a namespace can create one with the labels of a launcher and a VMI as its
//! owner. Such a pod is not a launcher pod of the VMI: it is ignored, and neither its creation nor its
//! deletion changes anything. A pod that was left behind (`--cascade=orphan`) has no owner any more. It still
//! runs its guest, and is identified by its uid alone.

use super::{FOUND_BY, Key, Kind, LAUNCHER, names, owner};
use api::meta::ObjectMeta;
use api::vmi::VirtualMachineInstance;
use serde_json::Value;
use std::collections::BTreeMap;

/// The label with the uid of a pod's VMI.
const OF: &str = FOUND_BY[1];

/// The launcher pods that a VMI has or would have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LauncherPods {
    namespace: String,
    /// Names by attempt, starting with the first.
    names: Vec<String>,
    owner: String,
    /// UIDs of the pods that were handed over, each with its node.
    active: BTreeMap<String, String>,
    /// Node of the guest.
    node: Option<String>,
    /// Pods count even if they are not in the status.
    any: bool,
}

impl LauncherPods {
    /// The launcher pods of a VMI; `None` if the VMI has no name or uid yet.
    pub fn of(vmi: &VirtualMachineInstance) -> Option<LauncherPods> {
        let status = vmi.status.as_ref();
        let active = status.map(|status| status.active_pods.clone());
        let node = status.and_then(|status| status.node_name.clone());
        LauncherPods::named(&vmi.metadata, active.unwrap_or_default(), node)
    }

    /// The same for a VMI as untyped JSON.
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
        // The guest of a VMI cannot be migrated yet: its start is the only attempt.
        let names = vec![names::pod(name, &owner, names::FIRST)];
        Some(LauncherPods { namespace, names, owner, active, node, any: false })
    }

    /// Keys of the pods, the first attempt's first.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.names.iter().map(|name| Key::new(Kind::Pod, &self.namespace, name))
    }

    /// The same set with a weaker test, for deciding that nothing of the VMI runs any more: every pod with
    /// such a name counts unless it has another owner, even if the status names another pod or the owner
    /// reference was removed before the hand-over. A status may be forged, and the VMI must not go before all
    /// of these pods are gone.
    #[must_use]
    pub fn any(self) -> LauncherPods {
        LauncherPods { any: true, ..self }
    }

    /// True if the pod's name, owner and labels are those of a launcher pod of this VMI.
    pub fn has(&self, pod: &ObjectMeta) -> bool {
        let uid = pod.uid.as_deref().unwrap_or_default();
        let is_here = pod.namespace.as_deref() == Some(&self.namespace)
            && self.names.iter().any(|name| pod.name.as_ref() == Some(name));
        // A watch of launcher pods does not show pods without these labels, not even their deletion. With
        // `any`, the pods are listed at the API server, and removed labels change nothing.
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

    /// True if the pod was handed over to this node, so that its virt-handler may act on it.
    fn is_on(&self, pod: &ObjectMeta, node: &str) -> bool {
        let uid = pod.uid.as_deref().unwrap_or_default();
        self.has(pod) && self.active.get(uid).is_some_and(|on| on == node)
    }

    /// The launcher pod that may run the guest, at most one of those that belong to the VMI.
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

    /// The launcher pod handed over to `node`; `None` if two pods claim that node.
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

    /// A watch by labels does not report a pod whose labels differ, not even its deletion.
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

    /// Two attempts with a pod each, as after a migration.
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
