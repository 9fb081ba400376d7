//! Running keepers of a node, one for each attempt at a VMI.
//!
//! An attempt is (UID of the VMI, UID of its launcher pod): the start of the VMI is the first one, the target
//! of a live migration would be the next. A keeper knows one attempt. If the pod of a VMI is exchanged, its
//! keeper ends, and another one begins without any knowledge of the former launcher.

use super::apply::Cluster;
use super::keeper::{self, KeeperInput, Node};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Running keepers of a node.
pub(super) struct Keepers<C> {
    node: Arc<Node<C>>,
    running: BTreeMap<Attempt, RunningKeeper>,
}

/// Attempt at a VMI.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Attempt {
    /// UID of the VMI.
    vmi: String,
    /// UID of the launcher pod.
    pod: String,
}

struct RunningKeeper {
    input: watch::Sender<KeeperInput>,
    task: JoinHandle<()>,
}

impl<C: Cluster> Keepers<C> {
    pub(super) fn new(node: Arc<Node<C>>) -> Keepers<C> {
        Keepers { node, running: BTreeMap::new() }
    }

    /// Passes the input on to the keeper of the VMI, and begins or ends keepers. `None`: the VMI is gone.
    pub(super) fn want(&mut self, vmi: &str, input: Option<KeeperInput>) {
        let known = self.attempts(vmi);
        let Some(input) = input else {
            // The keeper sees that the channel is closed, and ends.
            for attempt in &known {
                self.running.remove(attempt);
            }
            return;
        };
        let Some(pod) = &input.pod else {
            // A launcher may run longer than the object of its pod.
            for attempt in &known {
                self.send(attempt, &input);
            }
            return;
        };
        let attempt = Attempt { vmi: vmi.to_owned(), pod: pod.metadata.uid.clone() };
        let others = known.into_iter().filter(|other| *other != attempt);
        let former: Vec<RunningKeeper> = others.filter_map(|other| self.running.remove(&other)).collect();
        if self.send(&attempt, &input) {
            return;
        }
        if keeper::is_final(&input.object) {
            self.running.remove(&attempt);
            return;
        }
        for keeper in &former {
            keeper.task.abort();
        }
        let node = self.node.clone();
        let (sender, receiver) = watch::channel(input);
        let task = tokio::spawn(async move {
            // Two keepers of one VMI would write its status in turn.
            for keeper in former {
                drop(keeper.task.await);
            }
            keeper::manage(node, receiver).await;
        });
        self.running.insert(attempt, RunningKeeper { input: sender, task });
    }

    /// Attempts at a VMI that have a keeper.
    fn attempts(&self, vmi: &str) -> Vec<Attempt> {
        let first = Attempt { vmi: vmi.to_owned(), pod: String::new() };
        let all = self.running.range(first..).map(|(attempt, _)| attempt);
        all.take_while(|attempt| attempt.vmi == vmi).cloned().collect()
    }

    /// Sends the input to the keeper of an attempt; false if none runs. A keeper that ends at this moment has nothing more to do.
    fn send(&self, attempt: &Attempt, input: &KeeperInput) -> bool {
        let keeper = self.running.get(attempt).filter(|keeper| !keeper.task.is_finished());
        keeper.map(|keeper| drop(keeper.input.send(input.clone()))).is_some()
    }
}
