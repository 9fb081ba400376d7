//! Keeper of one attempt at a VMI: a task that manages it from the hand-over to the end. An attempt is the VMI
//! in one launcher pod; see [`super::keepers`].
//!
//! ```text
//!  select ◄─┬─ the VMI, its pod or the settings changed ┐
//!           ├─ the launcher told a state, or broke off  ├─► event ─► step (pure) ─► state, actions ─► effects
//!           ├─ the guest agent is asked again           │     ▲                                        │
//!           └─ what failed is tried again               ┘     └── result, until there is nothing to do ┘
//! ```
//!
//! | state | launcher | known in this state only | next |
//! |---|---|---|---|
//! | Waiting | was not connected yet | – | Connected, Running, Ended |
//! | Connected | has no VMI | failure of the last hand-over | Prepared, Running, Ended |
//! | Prepared | accepted the VMI | – | Running, Ended |
//! | Running | reports the VMI | guest agent, requests that were sent, router of the guest | Ended |
//! | Ended | reported a final state, or is gone | last state, end of its container | – |
//!
//! Connected, Prepared and Running know the launcher's last report, the links that were made, and either the
//! connection or the time since which the launcher's socket is gone. A launcher that begins anew without a VMI
//! leads from Running back to Prepared, or to Connected if an earlier virt-handler handed the VMI over.
//!
//! Besides a connection, a keeper remembers only failures and requests; all of them may be lost.

mod action;
mod connection;
mod effects;
mod event;
mod facts;
mod hand_over;
mod last_state;
mod migrate;
mod migration;
mod state;
mod step;

pub(crate) use facts::is_final;
pub use migration::{MigrationEnd, Role};
pub(crate) use migration::{has_moved, is_held, open_migration, source_state, target_state};

use super::apply::Cluster;
use super::permitted::Permitted;
use crate::error::Result;
use crate::launchers::Launchers;
use crate::now::now;
use crate::pod::{Pod, Pods};
use effects::{Effects, LiveEvent, LiveState};
use event::KeeperEvent;
use facts::Facts;
use migrate::MigrationConnections;
use serde_json::Value;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use step::{Moment, Writes, step};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Most writes of the status after one event: each of them changes the input of the next decision.
const WRITES: u32 = 8;

/// A VMI and its pod in the cluster.
#[derive(Clone, Debug)]
pub(crate) struct KeeperInput {
    /// Current object of the VMI.
    pub(crate) object: Arc<Value>,
    /// Launcher pod of the VMI on this node.
    pub(crate) pod: Option<Arc<Pod>>,
    /// Settings of the cluster.
    pub(crate) permitted: Permitted,
    /// Part of this node.
    pub(crate) role: Role,
}

/// Parts that all keepers of a node share.
pub(crate) struct Node<C> {
    /// Client that writes statuses and events.
    pub(crate) cluster: C,
    /// The kubelet's folders of pods.
    pub(crate) pods: Pods,
    /// Folder with the results of `virt-launcher node-info`.
    pub(crate) findings: PathBuf,
    /// Registry of connected launchers.
    pub(crate) launchers: Launchers,
    /// Address of this node's virt-handler, for the source of a migration.
    pub(crate) address: Option<IpAddr>,
}

/// Manages one attempt at a VMI, until the VMI has ended or the input is closed.
pub(crate) async fn manage<C: Cluster>(node: Arc<Node<C>>, mut input: watch::Receiver<KeeperInput>) {
    let first = input.borrow_and_update().clone();
    // An attempt has a pod.
    let Some(pod) = first.pod.clone() else { return };
    let facts = match Facts::new(&node.pods, first, pod) {
        Ok(facts) => facts,
        Err(e) => return tracing::error!("{}", e.chain()),
    };
    let mut keeper = Keeper { facts, state: LiveState::default(), effects: Effects::new(node) };
    let mut event = KeeperEvent::Changed;
    loop {
        keeper.handle(event).await;
        if keeper.facts.is_final() {
            return;
        }
        let Keeper { facts, state, effects } = &mut keeper;
        let (again, ask, cut) = (effects.retry.at, state.ask_at(), state.cut_at());
        let (write, listen) = (effects.pace.write_at, effects.pace.listen_at);
        event = tokio::select! {
            changed = input.changed() => match changed {
                Ok(()) => match facts.update(input.borrow_and_update().clone()) {
                    true => KeeperEvent::SettingsChanged,
                    false => KeeperEvent::Changed,
                },
                Err(_) => return,
            },
            heard = next_state(state), if listen.is_none() => effects.take_states(heard, state, facts),
            () = sleep_until_time(listen) => { effects.pace.listen_at = None; KeeperEvent::Changed },
            () = sleep_until_time(write) => { effects.pace.write_at = None; KeeperEvent::Changed },
            () = sleep_until_time(again) => { effects.retry.at = None; KeeperEvent::Changed },
            () = sleep_until_time(ask) => KeeperEvent::Changed,
            () = sleep_until_time(cut) => KeeperEvent::Changed,
            () = new_findings(&mut effects.migration) => KeeperEvent::Changed,
        };
    }
}

struct Keeper<C> {
    facts: Facts,
    state: LiveState,
    effects: Effects<C>,
}

impl<C: Cluster> Keeper<C> {
    /// Takes an event, and acts until there is nothing more to do.
    async fn handle(&mut self, event: LiveEvent) {
        let (mut writes, mut may_request) = (WRITES, true);
        let mut next = Some(event);
        while let Some(event) = next.take() {
            // What failed is not tried again before the next event from outside.
            match &event {
                KeeperEvent::Written => writes = writes.saturating_sub(1),
                KeeperEvent::NotWritten => writes = 0,
                KeeperEvent::NotRequested(_) => may_request = false,
                _ => {}
            }
            let moment = self.moment(writes, may_request);
            let done = step(std::mem::take(&mut self.state), event, &self.facts, &moment);
            self.state = done.state;
            for action in done.actions {
                next = self.effects.perform(action, &self.state, &mut self.facts).await;
            }
        }
    }

    fn moment(&self, writes: u32, may_request: bool) -> Moment {
        let Effects { pace, retry, migration, .. } = &self.effects;
        let writes = match (writes, pace.write_at) {
            (0, _) => Writes::None,
            (_, Some(_)) => Writes::Last,
            (_, None) => Writes::All,
        };
        Moment {
            now: Instant::now(),
            clock: now(),
            may_try: retry.at.is_none(),
            may_listen: pace.listen_at.is_none(),
            may_request,
            writes,
            findings: migration.as_ref().map(MigrationConnections::findings).unwrap_or_default(),
        }
    }
}

/// The next state from the launcher, once it is connected.
async fn next_state(state: &mut LiveState) -> Result<Option<api::launcher::State>> {
    match state.connection_mut() {
        Some(connection) => connection.next().await,
        None => std::future::pending().await,
    }
}

/// Waits for new findings about the connections of a migration.
async fn new_findings(migration: &mut Option<MigrationConnections>) {
    match migration {
        Some(connections) => connections.changed().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until_time(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
#[path = "../keeper_tests.rs"]
mod tests;
