//! Connection of a keeper to its launcher.

use super::effects::{Effects, LiveEvent, LiveState};
use super::event::KeeperEvent;
use super::facts::Facts;
use super::state::Links;
use crate::bounds;
use crate::error::{Error, ErrorKind, Result};
use crate::growing_disks::GrowingDisks;
use crate::launcher_client::{Client, States};
use crate::launchers::Registration;
use crate::measures;
use crate::pod::Process;
use crate::vmi::apply::Cluster;
use crate::vmi::pace;
use api::launcher::{self, Life, Link};
use futures_util::FutureExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// Time limit for the first state of a launcher after the connection.
const FIRST: Duration = Duration::from_secs(20);

/// Connection to a launcher, which is in the registry meanwhile.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: Client,
    /// Never locked: the mutex makes the connection `Sync`.
    states: Box<Mutex<States>>,
    pub(super) process: Option<Arc<Process>>,
    pub(super) listed: Registration,
}

impl Connection {
    /// The next state; `None` at the end. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<Option<launcher::State>> {
        self.states.get_mut().unwrap_or_else(PoisonError::into_inner).next().await
    }

    /// Takes a state for metrics and disk pressure. Names of devices come from the spec, never from the
    /// launcher alone.
    fn observe(
        &self,
        facts: &Facts,
        links: &Links,
        before: Option<&launcher::State>,
        state: &launcher::State,
    ) {
        measures::count_panic(before, state, &facts.vmi.metadata);
        measures::observe_migration(&facts.vmi.metadata, state);
        self.listed.update(state);
        let taps = links.iter().filter_map(|(name, link)| match link {
            Link::Tap { name: tap, .. } => Some((tap.clone(), name.clone())),
            Link::Device { .. } | Link::Sidecar { .. } | Link::Passt { .. } | Link::User { .. } => None,
        });
        let is_volume = |name: &str| facts.vmi.spec.volumes.iter().any(|volume| volume.name == name);
        let targets = state.targets.iter().filter(|(name, _)| is_volume(name));
        let disks = targets.map(|(name, target)| (target.clone(), name.clone()));
        // The guest agent of a paused guest does not answer, and delays its callers.
        let asks_agent = state.agent && state.life == Life::Running;
        self.listed.devices(taps.collect(), disks.collect(), asks_agent);
    }
}

impl<C: Cluster> Effects<C> {
    /// Connects to the launcher, and waits for its first state, which is due at once. A silent launcher is
    /// disconnected.
    pub(super) async fn connect(&mut self, state: &LiveState, facts: &Facts) -> LiveEvent {
        let Ok(place) = &facts.place else { return KeeperEvent::NotConnected };
        let client = Client::new(&facts.name(), place.clone());
        let (states, process) = match client.watch().await {
            Ok((states, process)) => (Box::new(Mutex::new(states)), process.map(Arc::new)),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                tracing::debug!("{}", e.chain());
                return KeeperEvent::NotListening;
            }
            Err(e) => {
                tracing::warn!("{}", e.chain());
                return KeeperEvent::NotConnected;
            }
        };
        let listed = self.node.launchers.list(&facts.vmi.metadata, &client, &self.filesystems);
        listed.set_launcher(Some(&facts.pod), process.clone(), &facts.vmi.spec.domain);
        listed.grows(GrowingDisks::for_vmi(&facts.vmi, place));
        let mut connection = Connection { client, states, process, listed };
        let late = || Error::failed(format!("the launcher of {} sent no state in time", facts.name()));
        let first = timeout(FIRST, connection.next()).await.unwrap_or_else(|_| Err(late()));
        self.pace.count_state();
        match first.map(|first| first.map(bounds::state)) {
            Ok(Some(first)) => {
                connection.observe(facts, state.links(), state.reported(), &first);
                KeeperEvent::Connected { connection, first: Box::new(first) }
            }
            Ok(None) => KeeperEvent::NotConnected,
            Err(e) => {
                tracing::warn!("{}", e.chain());
                KeeperEvent::NotConnected
            }
        }
    }

    /// Takes a state and those that came meanwhile: the newest one counts.
    pub(super) fn take_states(
        &mut self,
        first: Result<Option<launcher::State>>,
        state: &mut LiveState,
        facts: &Facts,
    ) -> LiveEvent {
        let (mut next, mut left) = (Some(first), pace::AT_ONCE);
        let (mut newest, mut is_open) = (None::<Box<launcher::State>>, true);
        while let Some(heard) = next {
            self.pace.count_state();
            match heard.map(|heard| heard.map(bounds::state)) {
                Ok(Some(heard)) => {
                    if let Some(connection) = state.connection() {
                        let before = newest.as_deref().or(state.reported());
                        connection.observe(facts, state.links(), before, &heard);
                    }
                    newest = Some(Box::new(heard));
                }
                Ok(None) => is_open = false,
                Err(e) => {
                    tracing::warn!("{}", e.chain());
                    is_open = false;
                }
            }
            let may_read = is_open && left > 0;
            left = left.saturating_sub(1);
            let connection = state.connection_mut().filter(|_| may_read);
            next = connection.and_then(|connection| connection.next().now_or_never());
        }
        KeeperEvent::Heard { newest, is_open }
    }
}
