//! Watches the VMIs and pods of this node and the settings of the cluster, and tells the keepers.
//!
//! ```text
//!  the KubeVirt object in the namespace of the installation ┐                  ┌─► keeper
//!  VMIs whose guest runs on NODE, or migrates to it ─────────┼─► NodeVmis ──────┼─► keeper     one KeeperInput each
//!  pods with kubevirt.io=virt-launcher on NODE ─────────────┘   (pure)         └─► keeper
//! ```
//!
//! A broken watch is started again with a list, which shows deletions meanwhile. The keeper of a VMI gets a
//! pod only if it is one of its launcher pods ([`LauncherPods`]), was handed over to this node, and runs the guest here.
//! Other pods are ignored, whatever their labels, and their deletion changes nothing.

use super::apply::Cluster;
use super::keeper::{KeeperInput, Node, Role};
use super::keepers::Keepers;
use super::permitted::Permitted;
use crate::pod::Pod;
use api::machine::Settings;
use api::meta::ObjectMeta;
use cluster_client::history::History;
use cluster_client::union::follow_union;
use cluster_client::watch::WatchMessage;
use cluster_model::config::node::NodeSettings;
use cluster_model::objects::{Home, Key, Kind, LauncherPods, Program};
use serde_json::Value;
use serve::health::Health;
use serve::settings::{Dials, installation};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Most events that wait to be handled.
const WAITING: usize = 32;

/// Manages the VMIs of a node, as long as the history of the cluster is continuous.
pub(crate) async fn run<C: Cluster>(
    client: kube::Client,
    home: Home,
    node: Arc<Node<C>>,
    health: Health,
    itself: SettingsSenders,
) {
    let (tell, seen) = mpsc::channel(WAITING);
    let history = Arc::<History>::default();
    let follows = FOLLOWED.map(|kind| {
        let selections = kind.followed_by(Program::Handler, &home);
        follow_union(client.clone(), kind, selections, tell.clone(), Arc::clone(&history))
    });
    let follows = futures_util::future::join_all(follows);
    drop(tell);
    tokio::select! {
        () = async { tokio::join!(follows, feed_keepers(seen, home, node, health, itself)); } => {}
        // A VMI that was being deleted may be wanted again, and its keeper accepts no older object.
        why = history.wait() => tracing::error!(
            "virt-handler restarts with the current objects of the cluster, because etcd was restored from a snapshot or replaced: {why}"
        ),
    }
}

/// Receivers of the KubeVirt object's settings for virt-handler itself, and for its node.
pub(crate) struct SettingsSenders {
    /// Settings of the program.
    pub(crate) dials: Arc<Dials>,
    /// Settings of the node.
    pub(crate) nodes: watch::Sender<Option<NodeSettings>>,
}

impl SettingsSenders {
    fn update(&self, namespace: &str, seen: &WatchMessage) {
        self.dials.see(seen);
        if let Some(object) = installation(namespace, seen) {
            let settings = Some(NodeSettings::from_kubevirt(object));
            self.nodes.send_if_modified(|now| std::mem::replace(now, settings.clone()) != settings);
        }
    }
}

/// Tells the keepers of each change.
async fn feed_keepers<C: Cluster>(
    mut seen: mpsc::Receiver<WatchMessage>,
    home: Home,
    node: Arc<Node<C>>,
    health: Health,
    itself: SettingsSenders,
) {
    let mut keepers = Keepers::new(node);
    let mut vmis = NodeVmis::new(home);
    while let Some(seen) = seen.recv().await {
        itself.update(&vmis.home.namespace, &seen);
        let uids = vmis.update(seen);
        if vmis.listed.len() == FOLLOWED.len() {
            health.set_ready();
        }
        for uid in uids {
            keepers.want(&uid, vmis.keeper_input(&uid));
        }
    }
}

/// Kinds that are watched: VMIs of the node, their pods, and the settings. Each has to be listed before the state is known.
pub(crate) const FOLLOWED: [Kind; 3] = [Kind::VirtualMachineInstance, Kind::Pod, Kind::KubeVirt];

/// VMIs of this node, with pods and settings. Pure.
#[derive(Debug, Default)]
struct NodeVmis {
    home: Home,
    /// VMIs by UID.
    vmis: BTreeMap<String, KnownVmi>,
    /// All pods with the label of launchers, also of other owners, by namespace and name.
    pods: BTreeMap<Key, KnownPod>,
    /// KubeVirt objects by name. There is one.
    settings: BTreeMap<String, Arc<Settings>>,
    /// Kinds that were listed.
    listed: BTreeSet<Kind>,
}

#[derive(Debug)]
struct KnownVmi {
    object: Arc<Value>,
    pods: Option<LauncherPods>,
}

#[derive(Debug)]
struct KnownPod {
    meta: ObjectMeta,
    pod: Arc<Pod>,
}

impl NodeVmis {
    fn new(home: Home) -> NodeVmis {
        NodeVmis { home, ..NodeVmis::default() }
    }

    /// Takes an event. Returns the UIDs of affected VMIs.
    fn update(&mut self, seen: WatchMessage) -> Vec<String> {
        match seen {
            WatchMessage::Listed(kind, objects) => {
                self.listed.insert(kind);
                let mut about: BTreeSet<String> = BTreeSet::new();
                match kind {
                    Kind::Pod => {
                        let gone: Vec<Key> = std::mem::take(&mut self.pods).into_keys().collect();
                        about.extend(gone.iter().flat_map(|key| self.called(key)));
                    }
                    Kind::KubeVirt => {
                        self.settings.clear();
                        about.extend(self.vmis.keys().cloned());
                    }
                    _ => about.extend(std::mem::take(&mut self.vmis).into_keys()),
                }
                about.extend(objects.into_iter().flat_map(|object| self.put(kind, object)));
                about.into_iter().collect()
            }
            WatchMessage::Changed(kind, object) => self.put(kind, object),
            // No object is watched by name here.
            WatchMessage::Only(..) => Vec::new(),
            WatchMessage::Gone(key, uid) if key.kind == Kind::Pod => {
                // A new pod of this name may exist by now.
                if self.pods.get(&key).is_some_and(|known| known.meta.uid.as_deref() == Some(&uid)) {
                    self.pods.remove(&key);
                }
                self.called(&key)
            }
            WatchMessage::Gone(key, _) if key.kind == Kind::KubeVirt => {
                self.settings.remove(&key.name);
                self.vmis.keys().cloned().collect()
            }
            WatchMessage::Gone(_, uid) => {
                self.vmis.remove(&uid);
                vec![uid]
            }
        }
    }

    /// Keeps an object. Returns the UIDs of affected VMIs.
    fn put(&mut self, kind: Kind, object: Value) -> Vec<String> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        match kind {
            Kind::Pod => {
                let Some(pod) = Pod::read(&object) else { return Vec::new() };
                let meta: Option<ObjectMeta> =
                    api::wire::read_in_part(object["metadata"].clone(), &mut Vec::new());
                let Some(meta) = meta else { return Vec::new() };
                let key = cluster_model::objects::key(Kind::Pod, &meta);
                self.pods.insert(key.clone(), KnownPod { meta, pod: Arc::new(pod) });
                self.called(&key)
            }
            Kind::KubeVirt => {
                let name = text("/metadata/name").unwrap_or_default();
                self.settings.insert(name, Arc::new(Settings::of_cluster(&object).on_node()));
                self.vmis.keys().cloned().collect()
            }
            _ => {
                let Some(uid) = text("/metadata/uid") else { return Vec::new() };
                let pods = LauncherPods::of_object(&object);
                self.vmis.insert(uid.clone(), KnownVmi { object: Arc::new(object), pods });
                vec![uid]
            }
        }
    }

    /// UIDs of the VMIs that may have a launcher pod of this name.
    fn called(&self, key: &Key) -> Vec<String> {
        let is = |vmi: &KnownVmi| vmi.pods.iter().flat_map(LauncherPods::keys).any(|own| own == *key);
        let found = self.vmis.iter().filter(|(_, vmi)| is(vmi));
        found.map(|(uid, _)| uid.clone()).collect()
    }

    fn keeper_input(&self, uid: &str) -> Option<KeeperInput> {
        let KnownVmi { object, pods } = self.vmis.get(uid)?;
        let known = || pods.iter().flat_map(LauncherPods::keys).filter_map(|key| self.pods.get(&key));
        let node = &self.home.node;
        let received = pods.as_ref().and_then(|own| own.receiving_on(known(), |known| &known.meta, node));
        let (role, here) = match received {
            Some(received) => (Role::Target, Some(received)),
            None => {
                let runs = pods.as_ref().and_then(|own| own.running_on(known(), |known| &known.meta, node));
                (Role::Guest, runs)
            }
        };
        // The guest has left: its keeper ends.
        let on = object.pointer("/status/nodeName").and_then(Value::as_str);
        if role == Role::Guest && on.is_some_and(|on| on != node) {
            return None;
        }
        let pod = here.map(|known| known.pod.clone());
        Some(KeeperInput { object: object.clone(), pod, permitted: self.permissions(), role })
    }

    fn permissions(&self) -> Permitted {
        match self.settings.values().next() {
            Some(settings) => Permitted::By(settings.clone()),
            None if self.listed.contains(&Kind::KubeVirt) => Permitted::Nothing(self.home.namespace.clone()),
            None => Permitted::NotKnown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;
    use crate::launchers::Launchers;
    use crate::pod::Pods;
    use crate::vmi::decide::Event;
    use serde_json::json;
    use std::time::Duration;

    /// Client of keepers that passes on each change of a VMI.
    struct Changes(mpsc::UnboundedSender<(Option<String>, Value)>);

    impl Cluster for Changes {
        async fn change(&self, vmi: &ObjectMeta, change: &Value) -> Result<Option<Value>> {
            drop(self.0.send((vmi.uid.clone(), change.clone())));
            Ok(None)
        }

        async fn record_event(&self, _: &ObjectMeta, _: &Event) {}
    }

    fn vmis() -> NodeVmis {
        NodeVmis::new(Home { node: "node1".into(), namespace: "kubevirt".into() })
    }

    /// A VMI that was handed over with this pod.
    fn vmi(uid: &str, pod: &str) -> Value {
        json!({
            "metadata": {"namespace": "n", "name": "web", "uid": uid}, "spec": {"domain": {}},
            "status": {"nodeName": "node1", "activePods": {pod: "node1"}},
        })
    }

    fn pod(uid: &str, owner: &str) -> Value {
        json!({"metadata": {
            "namespace": "n", "name": cluster_model::objects::names::pod("web", owner, cluster_model::objects::LauncherAttempt::Start), "uid": uid,
            "labels": {
                "kubevirt.io": "virt-launcher", "kubevirt.io/created-by": owner, "vmi.kubevirt.io/id": "web",
                "vm.kubevirt.io/name": "web",
            },
            "ownerReferences": [{
                "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "web", "uid": owner,
                "controller": true,
            }],
        }})
    }

    fn changed(kind: Kind, object: Value) -> WatchMessage {
        WatchMessage::Changed(kind, object)
    }

    fn gone(pod: &Value) -> WatchMessage {
        let text = |name: &str| pod["metadata"][name].as_str().unwrap().to_owned();
        WatchMessage::Gone(Key::new(Kind::Pod, text("namespace"), text("name")), text("uid"))
    }

    fn has(vmis: &NodeVmis, uid: &str) -> Option<String> {
        Some(vmis.keeper_input(uid)?.pod?.metadata.uid.clone())
    }

    /// A VMI that was to be stopped may have to run again: a program that remembers the later state must end.
    #[tokio::test]
    async fn virt_handler_ends_where_the_history_of_the_cluster_went_back() {
        let server = kit::ApiServer::default();
        let settings = |label: &str| json!({"metadata": {"namespace": "kubevirt", "name": "kubevirt", "labels": {"a": label}}, "spec": {}});
        server.put_object(Kind::KubeVirt, settings("1"));
        let home = Home { node: "node1".into(), namespace: "kubevirt".into() };
        let dials = Dials::new(Program::Handler, home.clone());
        let folder = std::env::temp_dir();
        let node = Arc::new(Node {
            cluster: cluster_client::Writer::on_node(server.client(), "virt-handler", "node1"),
            pods: Pods::of_kubelet(folder.clone()),
            findings: folder,
            launchers: Launchers::default(),
            address: None,
        });
        let itself = SettingsSenders { dials: Arc::clone(&dials), nodes: watch::channel(None).0 };
        let running = tokio::spawn(run(server.client(), home, node, Health::default(), itself));
        let snapshot = server.snapshot();
        server.put_object(Kind::KubeVirt, settings("2"));
        let path = "/apis/kubevirt.io/v1/namespaces/kubevirt/kubevirts/kubevirt";
        let version = server.object(path).unwrap()["metadata"]["resourceVersion"].to_string();
        while !String::from_utf8_lossy(&dials.version.answer()).contains(&version) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(!running.is_finished());
        server.restore(&snapshot, 0);
        let ended = async {
            while !running.is_finished() {
                server.breaks();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(60), ended).await;
        ended.expect("it goes on with its old picture");
    }

    #[tokio::test]
    async fn health_settings_and_keepers_follow_the_watches() {
        let (changed, mut changes) = mpsc::unbounded_channel();
        let folder = tempfile::tempdir().unwrap();
        let node = Arc::new(Node {
            cluster: Changes(changed),
            pods: Pods::played(folder.path()),
            findings: folder.path().join("none"),
            launchers: Launchers::default(),
            address: None,
        });
        let home = vmis().home;
        let (nodes, mut settings) = watch::channel(None);
        let itself = SettingsSenders { dials: Dials::new(Program::Handler, home.clone()), nodes };
        let (tell, seen) = mpsc::channel(WAITING);
        let health = Health::default();
        let kept = tokio::spawn(feed_keepers(seen, home, node, health.clone(), itself));
        let is_ready = || health.probed("/readyz").unwrap().status().is_success();
        let settings_of = |label: &str| json!({"metadata": {"namespace": "kubevirt", "name": "kubevirt", "labels": {"a": label}}, "spec": {}});
        let mut vmi = vmi("a", "p");
        vmi["status"]["phase"] = json!("Scheduled");
        let messages = [
            (WatchMessage::Listed(Kind::KubeVirt, vec![settings_of("1")]), true),
            (WatchMessage::Changed(Kind::KubeVirt, settings_of("2")), false),
            (WatchMessage::Listed(Kind::Pod, vec![pod("p", "a")]), false),
            (WatchMessage::Listed(Kind::VirtualMachineInstance, vec![vmi]), false),
        ];
        for (message, has_settings) in messages {
            assert!(!is_ready(), "before {message:?}");
            tell.send(message).await.unwrap();
            while tell.capacity() < WAITING {
                tokio::task::yield_now().await;
            }
            assert_eq!(settings.has_changed().unwrap(), has_settings);
            assert!(settings.borrow_and_update().is_some());
        }
        assert!(is_ready(), "all kinds were listed");
        let change = tokio::time::timeout(Duration::from_secs(60), changes.recv()).await;
        let (uid, change) = change.expect("no keeper begins").unwrap();
        assert_eq!(uid.as_deref(), Some("a"));
        assert!(change.to_string().contains("is not a launcher pod"), "{change}");
        drop(tell);
        kept.await.unwrap();
    }

    #[test]
    fn a_vmi_and_its_pod_come_together_in_any_order() {
        let mut vmis = vmis();
        assert!(vmis.update(changed(Kind::Pod, pod("p", "a"))).is_empty(), "nobody waits for it yet");
        assert!(vmis.keeper_input("a").is_none());
        assert_eq!(vmis.update(changed(Kind::VirtualMachineInstance, vmi("a", "p"))), ["a"]);
        assert_eq!(has(&vmis, "a").as_deref(), Some("p"));
        assert_eq!(vmis.update(gone(&pod("p", "a"))), ["a"]);
        assert_eq!(has(&vmis, "a"), None);
        assert_eq!(vmis.update(changed(Kind::Pod, pod("p", "a"))), ["a"]);
        assert_eq!(has(&vmis, "a").as_deref(), Some("p"));
    }

    #[test]
    fn a_strangers_pod_neither_comes_to_a_vmi_nor_takes_its_own_away() {
        let mut vmis = vmis();
        vmis.update(changed(Kind::Pod, pod("p", "a")));
        vmis.update(changed(Kind::VirtualMachineInstance, vmi("a", "p")));
        let mut strange = pod("s", "a");
        strange["metadata"]["name"] = json!("stranger");
        assert!(vmis.update(changed(Kind::Pod, strange.clone())).is_empty());
        assert_eq!(has(&vmis, "a").as_deref(), Some("p"));
        assert!(vmis.update(gone(&strange)).is_empty());
        assert_eq!(has(&vmis, "a").as_deref(), Some("p"));
        // A second pod of this name is not the one that was handed over, …
        let twin = pod("q", "a");
        vmis.update(changed(Kind::Pod, twin.clone()));
        assert_eq!(has(&vmis, "a"), None);
        vmis.update(changed(Kind::Pod, pod("p", "a")));
        // … and its deletion says nothing about that one.
        assert_eq!(vmis.update(gone(&twin)), ["a"]);
        assert_eq!(has(&vmis, "a").as_deref(), Some("p"));
    }

    /// The keeper of a VMI hears of the pods of both ends of its migration.
    #[test]
    fn a_vmi_in_migration_follows_both_of_its_pods() {
        let mut vmis = vmis();
        let mut moving = vmi("a", "p");
        moving["status"]["migrationState"] = json!({"targetPod": "virt-launcher-web-target"});
        vmis.update(changed(Kind::VirtualMachineInstance, moving));
        let mut target = pod("t", "a");
        target["metadata"]["name"] = json!("virt-launcher-web-target");
        assert_eq!(vmis.update(changed(Kind::Pod, pod("p", "a"))), ["a"]);
        assert_eq!(vmis.update(changed(Kind::Pod, target)), ["a"]);
    }

    #[test]
    fn one_that_was_not_handed_over_here_is_not_touched() {
        let mut vmis = vmis();
        vmis.update(changed(Kind::Pod, pod("p", "a")));
        let mut elsewhere = vmi("a", "p");
        elsewhere["status"]["activePods"]["p"] = json!("node2");
        vmis.update(changed(Kind::VirtualMachineInstance, elsewhere));
        assert_eq!(has(&vmis, "a"), None);
        let mut nowhere = vmi("a", "p");
        nowhere["status"] = json!({"phase": "Scheduled"});
        vmis.update(changed(Kind::VirtualMachineInstance, nowhere));
        assert_eq!(has(&vmis, "a"), None);
    }

    #[test]
    fn the_settings_reach_every_keeper_and_their_going_too() {
        let mut vmis = vmis();
        vmis.update(changed(Kind::VirtualMachineInstance, vmi("a", "p")));
        let permitted = |vmis: &NodeVmis| vmis.keeper_input("a").unwrap().permitted;
        assert_eq!(permitted(&vmis), Permitted::NotKnown);
        assert_eq!(vmis.update(WatchMessage::Listed(Kind::KubeVirt, Vec::new())), ["a"]);
        assert_eq!(permitted(&vmis), Permitted::Nothing("kubevirt".into()));
        let object = json!({
            "metadata": {"namespace": "kubevirt", "name": "kubevirt"},
            "spec": {"configuration": {"developerConfiguration": {"featureGates": ["HostDisk"]}}},
        });
        assert_eq!(vmis.update(changed(Kind::KubeVirt, object)), ["a"]);
        let Permitted::By(settings) = permitted(&vmis) else { panic!("none") };
        assert!(settings.gate("HostDisk") && !settings.gate("Root"));
        let key = Key::new(Kind::KubeVirt, "kubevirt", "kubevirt");
        assert_eq!(vmis.update(WatchMessage::Gone(key, "u".into())), ["a"]);
        assert_eq!(permitted(&vmis), Permitted::Nothing("kubevirt".into()));
        let object = json!({"metadata": {"namespace": "kubevirt", "name": "kubevirt"}});
        assert_eq!(vmis.update(WatchMessage::Listed(Kind::KubeVirt, vec![object])), ["a"]);
        assert!(matches!(permitted(&vmis), Permitted::By(_)));
        assert_eq!(vmis.update(WatchMessage::Listed(Kind::KubeVirt, Vec::new())), ["a"]);
        assert_eq!(permitted(&vmis), Permitted::Nothing("kubevirt".into()), "the list has it no longer");
    }

    #[test]
    fn what_a_list_does_not_tell_is_gone() {
        let mut vmis = vmis();
        for uid in ["a", "b"] {
            vmis.update(changed(Kind::VirtualMachineInstance, vmi(uid, uid)));
            vmis.update(changed(Kind::Pod, pod(uid, uid)));
        }
        let listed = WatchMessage::Listed(Kind::VirtualMachineInstance, vec![vmi("b", "b")]);
        assert_eq!(vmis.update(listed), ["a", "b"], "what is gone, and what was told");
        assert!(vmis.keeper_input("a").is_none() && vmis.keeper_input("b").is_some());
        assert_eq!(vmis.update(WatchMessage::Listed(Kind::Pod, Vec::new())), ["b"]);
        assert_eq!(has(&vmis, "b"), None);
        assert!(vmis.keeper_input("b").is_some(), "a list of pods says nothing about VMIs");
    }

    #[test]
    fn a_vmi_that_is_gone_has_no_keeper() {
        let mut vmis = vmis();
        for uid in ["a", "b"] {
            vmis.update(changed(Kind::VirtualMachineInstance, vmi(uid, uid)));
        }
        let key = Key::new(Kind::VirtualMachineInstance, "n", "web");
        assert_eq!(vmis.update(WatchMessage::Gone(key, "a".into())), ["a"]);
        assert!(vmis.keeper_input("a").is_none() && vmis.keeper_input("b").is_some());
    }
}
