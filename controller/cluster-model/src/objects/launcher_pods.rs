//! Selection of the launcher pods of a VMI, and of the one that may run its guest. Pure. virt-controller and
//! virt-handler use it on the same data.
//!
//! | field | must be |
//! |---|---|
//! | namespace | the VMI's |
//! | name | what follows from the VMI's name, its uid and the attempt in the pod's labels ([`super::names::pod`]); the start's, or one that `status.migrationState` names |
//! | controlling owner | the VMI: `kubevirt.io/v1`, `VirtualMachineInstance`, its uid |
//! | labels | those that launcher pods are found by, with the values of a launcher pod and of this VMI |
//! | uid | one of `status.activePods`, once the VMI is handed over to a node |
//!
//! **A set with one active pod.** Each attempt at a VMI has a pod of its own ([`LauncherAttempt`]): its start is the
//! first, and each live migration has another one. However many there are, at most one may run the guest: the start's
//! if it is the only one, otherwise the one that was handed over to the node in `status.nodeName`. The target of a
//! migration that has not ended is handed over to its node as well, and receives the guest there.
//!
//! A user who may create pods in a namespace can create one with the labels of a launcher and a VMI as its
//! owner. Such a pod is not a launcher pod of the VMI: it is ignored, and neither its creation nor its
//! deletion changes anything. A pod that was left behind (`--cascade=orphan`) has no owner any more. It still
//! runs its guest, and is identified by its uid alone.

use super::{FOUND_BY, Key, Kind, LAUNCHER, LauncherAttempt, names, owner};
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
    /// Name of the VMI.
    vmi: String,
    /// UID of the VMI.
    owner: String,
    /// Names of the pods: the start's, and those of the source and the target of the latest migration.
    names: Vec<String>,
    /// Name of the pod that runs the guest, by the status.
    guest: String,
    /// The pod that receives the guest, while it has not arrived. Boxed: few VMIs have one.
    target: Option<Box<Receiver>>,
    /// UIDs of the pods that were handed over, each with its node.
    active: BTreeMap<String, String>,
    /// Node of the guest.
    node: Option<String>,
    /// Pods count even if they are not in the status.
    any: bool,
}

/// The pod that receives a guest.
#[derive(Clone, Debug, PartialEq)]
struct Receiver {
    /// Name of the pod.
    name: String,
    /// Name of its node.
    node: String,
}

/// The ends of a migration, by `status.migrationState`.
struct MigrationEnds {
    /// Name of the source pod.
    source: Option<String>,
    /// Name of the target pod.
    target: Option<String>,
    target_node: Option<String>,
}

impl LauncherPods {
    /// The launcher pods of a VMI; `None` if the VMI has no name or uid yet.
    pub fn for_vmi(vmi: &VirtualMachineInstance) -> Option<LauncherPods> {
        let status = vmi.status.clone().unwrap_or_default();
        let migration = status.migration_state.unwrap_or_default();
        let ends = MigrationEnds {
            source: migration.source_pod,
            target: migration.target_pod,
            target_node: migration.target_node,
        };
        LauncherPods::from_parts(&vmi.metadata, status.active_pods, status.node_name, ends)
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
        let ends = MigrationEnds {
            source: text("/status/migrationState/sourcePod"),
            target: text("/status/migrationState/targetPod"),
            target_node: text("/status/migrationState/targetNode"),
        };
        LauncherPods::from_parts(&meta, active.collect(), text("/status/nodeName"), ends)
    }

    fn from_parts(
        meta: &ObjectMeta,
        active: BTreeMap<String, String>,
        node: Option<String>,
        ends: MigrationEnds,
    ) -> Option<LauncherPods> {
        let (vmi, owner) = (meta.name.clone()?, meta.uid.clone().filter(|uid| !uid.is_empty())?);
        let namespace = meta.namespace.clone()?;
        let start = names::pod(&vmi, &owner, LauncherAttempt::Start);
        let is_launcher = |name: &String| name.starts_with(names::LAUNCHER);
        let (source, target) = (ends.source.filter(is_launcher), ends.target.filter(is_launcher));
        let has_arrived = node.is_some() && node == ends.target_node;
        let guest = target.clone().filter(|_| has_arrived).or(source.clone()).unwrap_or(start.clone());
        let receiver = target.clone().zip(ends.target_node).filter(|_| !has_arrived);
        let receiver = receiver.map(|(name, node)| Box::new(Receiver { name, node }));
        let mut names = vec![start];
        for name in [source, target].into_iter().flatten() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Some(LauncherPods { namespace, vmi, owner, names, guest, target: receiver, active, node, any: false })
    }

    /// Keys of the pods, the start's first.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.names.iter().map(|name| Key::new(Kind::Pod, &self.namespace, name))
    }

    /// Key of the pod that runs the guest, by the status.
    pub fn guest_key(&self) -> Key {
        Key::new(Kind::Pod, &self.namespace, &self.guest)
    }

    /// True if the pod of this uid was handed over to the guest's node.
    pub fn is_guests(&self, uid: &str) -> bool {
        self.active.get(uid).is_some_and(|on| self.node.as_ref() == Some(on))
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
    pub fn contains(&self, pod: &ObjectMeta) -> bool {
        let uid = pod.uid.as_deref().unwrap_or_default();
        let is_here = pod.namespace.as_deref() == Some(&self.namespace)
            && self.names.iter().any(|name| pod.name.as_ref() == Some(name));
        let own_name = || names::pod(&self.vmi, &self.owner, LauncherAttempt::from_pod(pod));
        let is_attempt = self.any || pod.name.as_ref().is_some_and(|name| *name == own_name());
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
        is_here
            && is_attempt
            && (is_found || self.any)
            && is_owned
            && (is_active || self.any || self.active.is_empty())
    }

    /// True if the pod was handed over to this node.
    fn is_on(&self, pod: &ObjectMeta, node: &str) -> bool {
        let uid = pod.uid.as_deref().unwrap_or_default();
        self.contains(pod) && self.active.get(uid).is_some_and(|on| on == node)
    }

    /// The launcher pod that may run the guest, at most one of those that belong to the VMI.
    pub fn active<'a, P>(
        &self,
        pods: impl IntoIterator<Item = &'a P>,
        meta: fn(&P) -> &ObjectMeta,
    ) -> Option<&'a P> {
        let own: Vec<&P> = pods.into_iter().filter(|pod| self.contains(meta(pod))).collect();
        match own[..] {
            [only] if self.is_start_with_guest(meta(only)) => Some(only),
            _ => self.handed_over_to(own, meta, self.node.as_deref()?),
        }
    }

    /// True for the pod of the start whose guest has not migrated. It is known by its name alone.
    fn is_start_with_guest(&self, pod: &ObjectMeta) -> bool {
        LauncherAttempt::from_pod(pod) == LauncherAttempt::Start && pod.name.as_ref() == Some(&self.guest)
    }

    /// The launcher pod that runs the guest on `node`, so that its virt-handler may act on it. `None` if the guest runs
    /// elsewhere: the node may be the target of its migration.
    pub fn running_on<'a, P>(
        &self,
        pods: impl IntoIterator<Item = &'a P>,
        meta: fn(&P) -> &ObjectMeta,
        node: &str,
    ) -> Option<&'a P> {
        let is_guests = self.node.as_deref() == Some(node);
        is_guests.then(|| self.handed_over_to(pods, meta, node)).flatten()
    }

    /// The launcher pod on `node` that receives the guest of another node.
    pub fn receiving_on<'a, P>(
        &self,
        pods: impl IntoIterator<Item = &'a P>,
        meta: fn(&P) -> &ObjectMeta,
        node: &str,
    ) -> Option<&'a P> {
        let receiver = self.target.as_ref().filter(|receiver| receiver.node == node)?;
        let pod = self.handed_over_to(pods, meta, node)?;
        (meta(pod).name.as_ref() == Some(&receiver.name)).then_some(pod)
    }

    /// The launcher pod handed over to `node`; `None` if two pods claim that node.
    fn handed_over_to<'a, P>(
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
    use crate::objects::MIGRATION_JOB;
    use serde_json::json;

    fn of(active: &Value) -> LauncherPods {
        let object = json!({
            "metadata": {"namespace": "n", "name": "web", "uid": "1"}, "status": {"activePods": active},
        });
        LauncherPods::of_object(&object).unwrap()
    }

    fn pod() -> Value {
        json!({
            "namespace": "n", "name": names::pod("web", "1", LauncherAttempt::Start), "uid": "p",
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
        assert!(on.contains(&with("", Value::Null)) && on.contains(&with("/uid", json!("q"))));
        assert!(!on.contains(&with("/ownerReferences/0/uid", json!("2"))));
        let labels = pod()["labels"].clone();
        let freed =
            json!({"namespace": "n", "name": on.keys().next().unwrap().name, "uid": "q", "labels": labels});
        let freed = api::wire::read(freed).unwrap();
        assert!(
            on.contains(&freed) && !of(&json!({})).contains(&freed),
            "it was set free before it was handed over"
        );
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
            assert!(!fresh.contains(&pod) && !on.contains(&pod) && !on.is_on(&pod, "node1"), "{pointer}");
            assert!(on.clone().any().contains(&pod), "{pointer}: its VMI may run all the same");
        }
        assert!(fresh.contains(&with("/labels/mine", json!("b"))), "others are anybody's");
    }

    #[test]
    fn every_fact_must_agree() {
        let (fresh, on) = (of(&json!({})), of(&json!({"p": "node1"})));
        let right = with("", Value::Null);
        assert!(fresh.contains(&right) && on.contains(&right));
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
            assert!(!fresh.contains(&with(pointer, value.clone())), "{pointer}");
            let left_behind = pointer == "/ownerReferences" || pointer == "/ownerReferences/0/controller";
            assert_eq!(on.contains(&with(pointer, value)), left_behind, "{pointer}");
        }
        let another = with("/uid", json!("q"));
        assert!(
            fresh.contains(&another) && !on.contains(&another),
            "the one that was handed over is another"
        );
    }

    const SECOND: LauncherAttempt<'static> = LauncherAttempt::Migration("m");

    /// The pod of a migration of the VMI.
    fn migrated(uid: &str) -> ObjectMeta {
        let mut pod = with("/name", json!(names::pod("web", "1", SECOND)));
        pod.labels.insert(MIGRATION_JOB.to_owned(), "m".to_owned());
        pod.uid = Some(uid.into());
        pod
    }

    /// The pods of two attempts, as during a migration.
    fn two(status: &Value) -> (LauncherPods, [ObjectMeta; 2]) {
        let first = names::pod("web", "1", LauncherAttempt::Start);
        let mut object = json!({"metadata": {"namespace": "n", "name": "web", "uid": "1"}, "status": status});
        let target = names::pod("web", "1", SECOND);
        object["status"]["migrationState"] =
            json!({"sourcePod": first, "targetPod": target, "targetNode": "node2"});
        let pods = LauncherPods::of_object(&object).unwrap();
        let vmi = api::wire::read(object).unwrap();
        assert_eq!(LauncherPods::for_vmi(&vmi).as_ref(), Some(&pods), "typed and untyped");
        (pods, [with("", Value::Null), migrated("q")])
    }

    #[test]
    fn the_pod_of_a_migration_belongs_to_the_vmi_whose_status_names_it() {
        let (pods, [first, second]) = two(&json!({}));
        assert_eq!(pods.keys().count(), 2, "the source is the start's pod");
        assert!(pods.contains(&first) && pods.contains(&second));
        assert!(!of(&json!({})).contains(&second), "no migration is known");
        let mut other = second.clone();
        other.labels.insert(MIGRATION_JOB.to_owned(), "another".to_owned());
        assert!(!pods.contains(&other), "its name is that of another attempt");
        other.labels.remove(MIGRATION_JOB);
        assert!(!pods.contains(&other) && pods.clone().any().contains(&other), "it is not the start's");
        let strange = json!({
            "metadata": {"namespace": "n", "name": "web", "uid": "1"},
            "status": {"migrationState": {"sourcePod": "database-0", "targetPod": ""}},
        });
        assert_eq!(
            LauncherPods::of_object(&strange).unwrap().keys().count(),
            1,
            "no launcher pod has such a name"
        );
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

    /// Both virt-handlers see the VMI during a migration.
    #[test]
    fn a_node_acts_on_the_pod_that_runs_the_guest_and_not_on_the_one_that_receives_it() {
        let uid = |guest: &str, node: &str| {
            let (pods, there) = two(&json!({"nodeName": guest, "activePods": {"p": "node1", "q": "node2"}}));
            pods.running_on(&there, |meta| meta, node)?.uid.clone()
        };
        assert_eq!((uid("node1", "node1").as_deref(), uid("node1", "node2")), (Some("p"), None));
        assert_eq!((uid("node2", "node1"), uid("node2", "node2").as_deref()), (None, Some("q")));
        assert_eq!(uid("node3", "node1"), None);
        let receives = |guest: &str, node: &str| {
            let (pods, there) = two(&json!({"nodeName": guest, "activePods": {"p": "node1", "q": "node2"}}));
            pods.receiving_on(&there, |meta| meta, node)?.uid.clone()
        };
        assert_eq!((receives("node1", "node2").as_deref(), receives("node1", "node1")), (Some("q"), None));
        assert_eq!(receives("node2", "node2"), None, "the guest has arrived");
        let guest = |node: &str| two(&json!({"nodeName": node})).0.guest_key().name;
        assert_eq!(guest("node1"), names::pod("web", "1", LauncherAttempt::Start));
        assert_eq!(guest("node2"), names::pod("web", "1", SECOND));
        assert_eq!(of(&json!({})).guest_key().name, names::pod("web", "1", LauncherAttempt::Start));
    }

    #[test]
    fn the_only_pod_is_active_whatever_the_status_says_of_nodes() {
        let (pods, [first, second]) =
            two(&json!({"nodeName": "node9", "activePods": {"p": "node1", "q": "node2"}}));
        assert_eq!(pods.active([&first], |meta| meta), Some(&first));
        let strange = with("/ownerReferences/0/uid", json!("2"));
        assert_eq!(pods.active([&strange, &first], |meta| meta), Some(&first));
        assert_eq!(pods.active([&strange], |meta| meta), None);
        assert_eq!(pods.active([&second], |meta| meta), None, "a target has no guest before it has arrived");
        let (pods, [first, second]) =
            two(&json!({"nodeName": "node2", "activePods": {"p": "node1", "q": "node2"}}));
        assert_eq!(pods.active([&first], |meta| meta), None, "its guest has left");
        assert_eq!(pods.active([&second], |meta| meta), Some(&second));
    }
}
