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
use crate::node::follow::{Event, Objects, follow};
use crate::node::pod::Pod;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Looks after the machines of a node, for ever.
pub async fn run<C: Cluster>(client: kube::Client, name: &str, node: Arc<Node<C>>, health: Health) {
    let instances = Objects {
        path: "/apis/kubevirt.io/v1/virtualmachineinstances".into(),
        selector: format!("labelSelector=kubevirt.io%2FnodeName%3D{name}"),
    };
    let pods = Objects {
        path: "/api/v1/pods".into(),
        selector: format!("labelSelector=kubevirt.io%3Dvirt-launcher&fieldSelector=spec.nodeName%3D{name}"),
    };
    let (tell_instances, instances_told) = mpsc::channel(16);
    let (tell_pods, pods_told) = mpsc::channel(16);
    tokio::join!(
        follow(client.clone(), instances, tell_instances),
        follow(client, pods, tell_pods),
        keep(instances_told, pods_told, node, health),
    );
}

/// One keeper per instance, as events come.
pub async fn keep<C: Cluster>(
    mut instances: mpsc::Receiver<Event>,
    mut pods: mpsc::Receiver<Event>,
    node: Arc<Node<C>>,
    health: Health,
) {
    let mut keepers = Keepers { node, running: BTreeMap::new() };
    let mut machines = Machines::default();
    loop {
        let uids = tokio::select! {
            Some(event) = instances.recv() => machines.instance(event),
            Some(event) = pods.recv() => machines.pod(event),
            else => return,
        };
        if machines.whole == (true, true) {
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
    /// What a list that is under way has told so far.
    listed: (Option<Vec<String>>, Option<Vec<String>>),
    /// A list of each has come whole.
    whole: (bool, bool),
}

impl Machines {
    /// Takes an event; gives back the uids of the instances that it is about.
    fn instance(&mut self, event: Event) -> Vec<String> {
        let uid = |object: &Value| Some(object.pointer("/metadata/uid")?.as_str()?.to_owned());
        let listed = &mut self.listed.0;
        match event {
            Event::Begin => *listed = Some(Vec::new()),
            Event::Whole => {
                self.whole.0 = true;
                return gone(&mut self.instances, listed.take());
            }
            Event::There(object) => {
                let Some(uid) = uid(&object) else { return Vec::new() };
                listed.iter_mut().for_each(|listed| listed.push(uid.clone()));
                self.instances.insert(uid.clone(), Arc::new(object));
                return vec![uid];
            }
            Event::Gone(object) => {
                return uid(&object).into_iter().inspect(|uid| drop(self.instances.remove(uid))).collect();
            }
        }
        Vec::new()
    }

    fn pod(&mut self, event: Event) -> Vec<String> {
        let listed = &mut self.listed.1;
        let owned = |object: &Value| {
            let pod = Pod::read(object)?;
            Some((pod.owner()?.to_owned(), pod))
        };
        match event {
            Event::Begin => *listed = Some(Vec::new()),
            Event::Whole => {
                self.whole.1 = true;
                return gone(&mut self.pods, listed.take());
            }
            Event::There(object) => {
                let Some((uid, pod)) = owned(&object) else { return Vec::new() };
                listed.iter_mut().for_each(|listed| listed.push(uid.clone()));
                self.pods.insert(uid.clone(), Arc::new(pod));
                return vec![uid];
            }
            Event::Gone(object) => {
                let Some((uid, _)) = owned(&object) else { return Vec::new() };
                self.pods.remove(&uid);
                return vec![uid];
            }
        }
        Vec::new()
    }

    fn wanted(&self, uid: &str) -> Option<Wanted> {
        let object = self.instances.get(uid)?.clone();
        Some(Wanted { object, pod: self.pods.get(uid).cloned() })
    }
}

/// Takes away what a list did not tell.
fn gone<T>(known: &mut BTreeMap<String, T>, listed: Option<Vec<String>>) -> Vec<String> {
    let Some(listed) = listed else { return Vec::new() };
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
        assert_eq!(machines.pod(Event::There(pod("p", "a"))), ["a"]);
        assert!(machines.wanted("a").is_none());
        assert_eq!(machines.instance(Event::There(instance("a"))), ["a"]);
        assert_eq!(machines.wanted("a").unwrap().pod.unwrap().metadata.uid, "p");
        assert_eq!(machines.pod(Event::Gone(pod("p", "a"))), ["a"]);
        assert!(machines.wanted("a").unwrap().pod.is_none());
    }

    #[test]
    fn what_a_list_does_not_tell_is_gone() {
        let mut machines = Machines::default();
        for uid in ["a", "b"] {
            machines.instance(Event::There(instance(uid)));
        }
        machines.instance(Event::Begin);
        machines.instance(Event::There(instance("b")));
        assert_eq!(machines.instance(Event::Whole), ["a"]);
        assert!(machines.wanted("a").is_none() && machines.wanted("b").is_some());
    }
}
