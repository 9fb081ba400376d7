//! Effects of a keeper: performs its actions.
//!
//! | action | performed by |
//! |---|---|
//! | connect | [`super::connection`] |
//! | read the last state | [`super::last_state`] |
//! | hand over | [`super::hand_over`] |
//! | connections of a migration | [`super::migrate`] |
//! | requests, status, events, router advertisements, guest agent | here |

use super::Node;
use super::action::KeeperAction;
use super::connection::Connection;
use super::event::KeeperEvent;
use super::facts::Facts;
use super::last_state::last_state;
use super::migrate::MigrationConnections;
use super::state::{GuestReport, State};
use crate::blocking::Blocking;
use crate::bounds;
use crate::error::{Error, Result};
use crate::filesystems::Filesystems;
use crate::network::{self, Advertisers};
use crate::pod::folder::NOT_SEEN;
use crate::vmi::apply::{self, Cluster};
use crate::vmi::decide::Event;
use crate::vmi::pace::Pace;
use crate::vmi::patch::patch;
use crate::vmi::retry::Retry;
use api::launcher::{Answer, Request};
use api::machine::Machine;
use api::vmi::Status;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Time limit for the preparation of a VMI's volumes and network.
pub(super) const PREPARING: Duration = Duration::from_secs(60);

/// State of a keeper with its connection and the router of its guest.
pub(super) type LiveState = State<Connection, Advertisers>;
/// Event of a keeper with its connection and the router of its guest.
pub(super) type LiveEvent = KeeperEvent<Connection, Advertisers>;

/// Performs the actions of a keeper.
pub(super) struct Effects<C> {
    pub(super) node: Arc<Node<C>>,
    /// Preparation of the VMI, one task at a time: work that hangs is not started a second time.
    pub(super) preparing: Blocking,
    /// Names under which file systems are exported, kept over reconnects of the launcher.
    pub(super) filesystems: Filesystems,
    pub(super) pace: Pace,
    pub(super) retry: Retry,
    /// Connections of the VMI's migration.
    pub(super) migration: Option<MigrationConnections>,
}

impl<C: Cluster> Effects<C> {
    pub(super) fn new(node: Arc<Node<C>>) -> Effects<C> {
        Effects {
            node,
            preparing: Blocking::new("the VMI", 1),
            filesystems: Filesystems::default(),
            pace: Pace::default(),
            retry: Retry::default(),
            migration: None,
        }
    }

    /// Performs an action. Returns its result, if it has one.
    pub(super) async fn perform(
        &mut self,
        action: KeeperAction,
        state: &LiveState,
        facts: &mut Facts,
    ) -> Option<LiveEvent> {
        Some(match action {
            KeeperAction::RetryLater => {
                self.retry.postpone(Instant::now());
                return None;
            }
            KeeperAction::ForgetRetry => {
                self.retry.forget();
                return None;
            }
            KeeperAction::Record(events) => {
                self.record(facts, &events, false).await;
                return None;
            }
            KeeperAction::CloseMigration => {
                self.migration = None;
                return None;
            }
            KeeperAction::Announce(uid) => self.announce(uid),
            KeeperAction::Order(order) => self.order(state, facts, *order).await,
            KeeperAction::Open { uid, source } => self.open(facts, uid, source).await,
            KeeperAction::Connect => self.connect(state, facts).await,
            KeeperAction::ReadLastState { why } => {
                KeeperEvent::LastState { last: last_state(facts).await, why }
            }
            KeeperAction::HandOver => self.hand_over(state, facts).await,
            KeeperAction::Request { request, event } => {
                let result = send(state, facts, request).await;
                if let KeeperEvent::Requested(_) = result {
                    self.record(facts, event.as_slice(), false).await;
                }
                result
            }
            KeeperAction::WriteStatus { status, events, is_last } => {
                self.write(facts, &status, &events, is_last).await
            }
            KeeperAction::Advertise(machine) => self.advertise(state, facts, *machine).await,
            KeeperAction::AskAgent => self.ask_agent(state, facts).await,
        })
    }

    async fn write(
        &mut self,
        facts: &mut Facts,
        status: &Status,
        events: &[Event],
        is_last: bool,
    ) -> LiveEvent {
        if !self.pace.try_write(is_last) {
            // The status is decided again later, on the newest state, and its events are recorded with it.
            return KeeperEvent::WriteDelayed;
        }
        let change = patch(facts.vmi.status.as_ref(), status).unwrap_or_default();
        let written = self.node.cluster.change(&facts.vmi.metadata, &change).await;
        let read = written.and_then(|object| {
            object.map(|object| apply::read(object.clone()).map(|vmi| (object, vmi))).transpose()
        });
        match read {
            Ok(Some((object, vmi))) => {
                facts.set(object, vmi);
                self.record(facts, events, is_last).await;
                KeeperEvent::Written
            }
            // The new object comes through the watch; if it does not, the write is retried.
            Ok(None) => KeeperEvent::NotWritten,
            Err(e) => {
                tracing::warn!("{}", e.chain());
                KeeperEvent::NotWritten
            }
        }
    }

    /// Records events, unless there were too many. `is_last`: events of the end.
    async fn record(&mut self, facts: &Facts, events: &[Event], is_last: bool) {
        for event in events {
            let Some(untold) = self.pace.try_record_event(is_last) else { continue };
            let mut event = event.clone();
            if untold > 0 {
                event.message = format!("{} ({untold} events before this one were omitted)", event.message);
            }
            self.node.cluster.record_event(&facts.vmi.metadata, &event).await;
        }
    }

    /// Starts router advertisements. Without them the guest runs with the addresses that it gets otherwise.
    async fn advertise(&self, state: &LiveState, facts: &Facts, machine: Machine) -> LiveEvent {
        match self.advertisers(state, facts, machine).await {
            Ok(advertisers) => KeeperEvent::Advertised(advertisers),
            Err(e) => {
                tracing::warn!("{}: {}", facts.name(), e.chain());
                KeeperEvent::NotAdvertised
            }
        }
    }

    async fn advertisers(&self, state: &LiveState, facts: &Facts, machine: Machine) -> Result<Advertisers> {
        let process = state.connection().and_then(|connection| connection.process.clone());
        let (Some(process), Ok(place)) = (process, facts.place.clone()) else {
            return Err(Error::failed(NOT_SEEN));
        };
        let open = move || {
            place.check_process(&process)?;
            network::advertisers(&machine, &process)
        };
        let opened = self.preparing.run("advertising the guest's router", PREPARING, open).await?;
        Ok(Advertisers::start(opened))
    }

    async fn ask_agent(&mut self, state: &LiveState, facts: &Facts) -> LiveEvent {
        let Some(connection) = state.connection() else { return KeeperEvent::Asked(None) };
        if let Err(at) = self.pace.questions.take(Instant::now()) {
            return KeeperEvent::AskDelayed(at);
        }
        let said = connection.client.guest_info().await;
        connection.listed.load(said.as_ref().ok().and_then(|info| bounds::load(info.load?)));
        KeeperEvent::Asked(match said {
            Ok(info) => {
                let macs = facts.macs(state.links(), state.reported());
                let (info, left_out) = bounds::guest(info, &macs);
                Some(GuestReport { info, left_out })
            }
            Err(e) => {
                tracing::debug!("{}", e.chain());
                None
            }
        })
    }
}

/// Sends a request to the launcher.
async fn send(state: &LiveState, facts: &Facts, request: Request) -> LiveEvent {
    let Some(connection) = state.connection() else { return KeeperEvent::NotRequested(request) };
    match connection.client.request(&request).await {
        Ok(Answer::Denied(denial)) => {
            tracing::warn!("the launcher of {} refused {request:?}: {denial}", facts.name());
            KeeperEvent::NotRequested(request)
        }
        Ok(answer @ (Answer::Queued | Answer::Ignored { .. })) => {
            tracing::info!("sent {request:?} to {}: {answer:?}", facts.name());
            KeeperEvent::Requested(request)
        }
        Err(e) => {
            tracing::warn!("{}", e.chain());
            KeeperEvent::NotRequested(request)
        }
    }
}
