//! Watches the instances and pods of this node, and keeps one keeper per instance.
//!
//! ```text
//!  instances with the label kubevirt.io/nodeName=NODE ─┐                  ┌─► keeper
//!                                                      ├─► Machines ──────┼─► keeper     one Wanted each
//!  pods with kubevirt.io=virt-launcher on NODE ────────┘   (pure)         └─► keeper
//! ```
//!
//! A watch that breaks is begun anew, and lists first: what went meanwhile is then seen to be gone.

use super::apply::Cluster;
use super::decide::Now;
use super::keeper::{self, Node, Wanted};
use crate::health::Health;
use crate::kind::Kind;
use crate::node::pod::Pod;
use crate::watch::{Seen, Which, follow};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// What is seen and not yet looked at.
const WAITING: usize = 32;

/// Looks after the machines of a node, for ever.
pub async fn run<C: Cluster>(client: kube::Client, name: &str, node: Arc<Node<C>>, health: Health) {
    let [instances, pods] = which(name);
    let (tell, seen) = mpsc::channel(WAITING);
    tokio::join!(
        follow(client.clone(), instances, tell.clone()),
        follow(client, pods, tell),
        keep(seen, node, health),
    );
}

/// What the agent of a node follows: its instances, and their pods.
pub fn which(name: &str) -> [Which; 2] {
    let instances = Which::all(Kind::Instance, Some(&format!("kubevirt.io/nodeName={name}")));
    let fields = Some(format!("spec.nodeName={name}"));
    [instances, Which { fields, ..Which::all(Kind::Pod, Some("kubevirt.io=virt-launcher")) }]
}

/// One keeper per instance, as it is seen.
async fn keep<C: Cluster>(mut seen: mpsc::Receiver<Seen>, node: Arc<Node<C>>, health: Health) {
    let mut keepers = Keepers { node, running: BTreeMap::new() };
    let mut machines = Machines::default();
    while let Some(seen) = seen.recv().await {
        let uids = machines.see(seen);
        if machines.listed == (true, true) {
            health.is_ready();
        }
        for uid in uids {
            keepers.want(&uid, machines.wanted(&uid));
        }
    }
}

/// What is known of the machines of this node. Pure.
#[derive(Debug, Default)]
struct Machines {
    instances: BTreeMap<String, Arc<Value>>,
    /// By the uid of the instance that owns them.
    pods: BTreeMap<String, Arc<Pod>>,
    /// A list of each has come.
    listed: (bool, bool),
}

impl Machines {
    /// Takes what is seen; gives back the uids of the instances that it is about.
    fn see(&mut self, seen: Seen) -> Vec<String> {
        match seen {
            Seen::Listed(kind, objects) => {
                let told: Vec<String> =
                    objects.into_iter().filter_map(|object| self.put(kind, object)).collect();
                let mut about = match kind {
                    Kind::Pod => {
                        self.listed.1 = true;
                        gone(&mut self.pods, &told)
                    }
                    _ => {
                        self.listed.0 = true;
                        gone(&mut self.instances, &told)
                    }
                };
                about.extend(told);
                about
            }
            Seen::Changed(kind, object) => self.put(kind, object).into_iter().collect(),
            // None is followed by its name here.
            Seen::Only(..) => Vec::new(),
            Seen::Gone(key, uid) if key.kind == Kind::Pod => {
                let owner = self.pods.iter().find(|(_, pod)| pod.metadata.uid == uid);
                let owner = owner.map(|(owner, _)| owner.clone());
                owner.into_iter().inspect(|owner| drop(self.pods.remove(owner))).collect()
            }
            Seen::Gone(_, uid) => {
                self.instances.remove(&uid);
                vec![uid]
            }
        }
    }

    /// Keeps an object; gives back the uid of its instance.
    fn put(&mut self, kind: Kind, object: Value) -> Option<String> {
        if kind == Kind::Pod {
            let pod = Pod::read(&object)?;
            let owner = pod.owner()?.to_owned();
            self.pods.insert(owner.clone(), Arc::new(pod));
            return Some(owner);
        }
        let uid = object.pointer("/metadata/uid")?.as_str()?.to_owned();
        self.instances.insert(uid.clone(), Arc::new(object));
        Some(uid)
    }

    fn wanted(&self, uid: &str) -> Option<Wanted> {
        let object = self.instances.get(uid)?.clone();
        Some(Wanted { object, pod: self.pods.get(uid).cloned() })
    }
}

/// Takes away what a list did not tell.
fn gone<T>(known: &mut BTreeMap<String, T>, listed: &[String]) -> Vec<String> {
    let gone: Vec<String> = known.keys().filter(|uid| !listed.contains(uid)).cloned().collect();
    for uid in &gone {
        known.remove(uid);
    }
    gone
}

/// The keepers that run.
struct Keepers<C> {
    node: Arc<Node<C>>,
    running: BTreeMap<String, (watch::Sender<Wanted>, JoinHandle<()>)>,
}

impl<C: Cluster> Keepers<C> {
    fn want(&mut self, uid: &str, wanted: Option<Wanted>) {
        let Some(wanted) = wanted else {
            // Its keeper sees that nobody wants it any more, and ends.
            self.running.remove(uid);
            return;
        };
        if let Some((tell, task)) = self.running.get(uid)
            && !task.is_finished()
        {
            // One that ends at this moment has nothing more to do.
            drop(tell.send(wanted));
            return;
        }
        if keeper::is_final(&wanted.object) {
            self.running.remove(uid);
            return;
        }
        let (tell, told) = watch::channel(wanted);
        let task = tokio::spawn(keeper::keep(self.node.clone(), told));
        self.running.insert(uid.to_owned(), (tell, task));
    }
}

/// The time.
pub fn now() -> Now {
    let now = Timestamp::now();
    let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
    Now { text: whole.to_string(), seconds: now.as_second() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Key;
    use serde_json::json;

    fn instance(uid: &str) -> Value {
        json!({"metadata": {"name": uid, "uid": uid}, "spec": {"domain": {}}})
    }

    fn pod(uid: &str, owner: &str) -> Value {
        json!({"metadata": {"name": uid, "uid": uid, "ownerReferences": [
            {"kind": "VirtualMachineInstance", "name": owner, "uid": owner, "controller": true}
        ]}})
    }

    #[test]
    fn an_instance_and_its_pod_come_together_in_any_order() {
        let mut machines = Machines::default();
        assert_eq!(machines.see(Seen::Changed(Kind::Pod, pod("p", "a"))), ["a"]);
        assert!(machines.wanted("a").is_none());
        assert_eq!(machines.see(Seen::Changed(Kind::Instance, instance("a"))), ["a"]);
        assert_eq!(machines.wanted("a").unwrap().pod.unwrap().metadata.uid, "p");
        assert_eq!(machines.see(Seen::Gone(Key::new(Kind::Pod, "", "p"), "p".into())), ["a"]);
        assert!(machines.wanted("a").unwrap().pod.is_none());
    }

    #[test]
    fn what_a_list_does_not_tell_is_gone() {
        let mut machines = Machines::default();
        for uid in ["a", "b"] {
            machines.see(Seen::Changed(Kind::Instance, instance(uid)));
        }
        let listed = Seen::Listed(Kind::Instance, vec![instance("b")]);
        assert_eq!(machines.see(listed), ["a", "b"], "what is gone, and what was told");
        assert!(machines.wanted("a").is_none() && machines.wanted("b").is_some());
    }
}
