//! State of a keeper: knowledge about one attempt at a VMI. Pure.

use super::migration::MigrationEnd;
use crate::vmi::decide::{HandOverFailure, Launcher};
use crate::vmi::link_requests::LinkRequests;
use crate::vmi::retry::Retry;
use api::launcher::{self, GuestInfo, Life, Link};
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Links of a VMI to its networks, by interface.
pub(super) type Links = BTreeMap<String, Link>;

/// State of a keeper; see [`super`]. `C`: connection to the launcher. `R`: router of the guest.
#[derive(Debug, PartialEq)]
pub(super) enum State<C, R> {
    /// The launcher was not connected yet.
    Waiting {
        /// Time since which a launcher that has listened to an earlier virt-handler has no socket.
        silent_since: Option<Instant>,
    },
    /// The launcher has no VMI.
    Connected {
        session: Session<C>,
        /// Links that a hand-over which failed has made.
        links: Links,
        /// Failure of the last hand-over.
        failure: Option<HandOverFailure>,
    },
    /// The launcher accepted the VMI, and does not report it yet.
    Prepared { session: Session<C>, links: Links },
    /// The launcher has the VMI, from the preparation of its disks to the shutdown of its guest.
    Running { session: Session<C>, run: Box<Run<R>> },
    /// The VMI or its launcher has ended.
    Ended {
        /// Last state of the VMI, if known.
        last: Option<Box<launcher::State>>,
        /// End of the launcher's container according to the kubelet.
        why: Option<String>,
    },
}

/// Launcher that reported its state.
#[derive(Debug, PartialEq)]
pub(super) struct Session<C> {
    pub(super) contact: Contact<C>,
    /// Last state that it reported.
    pub(super) launcher: Box<launcher::State>,
}

/// Connection to a launcher that was connected once.
#[derive(Debug, PartialEq)]
pub(super) enum Contact<C> {
    There(C),
    Lost {
        /// Time since which the launcher's socket is gone, while the end of its VMI is unknown.
        silent_since: Option<Instant>,
    },
}

/// VMI that its launcher reports.
#[derive(Debug, PartialEq)]
pub(super) struct Run<R> {
    /// Links that this keeper made; empty if an earlier virt-handler made them.
    pub(super) links: Links,
    /// True if this keeper handed the VMI over; false if an earlier virt-handler did.
    pub(super) is_handed_over: bool,
    /// Guest agent, while it is connected.
    pub(super) agent: Option<Agent>,
    /// Last shutdown request, which is repeated if the launcher's state or the grace period changes.
    pub(super) shutdown: Option<ShutdownRequest>,
    pub(super) link_requests: LinkRequests,
    pub(super) router: Router<R>,
    /// This end of the VMI's migration.
    pub(super) migration: Option<MigrationEnd>,
    /// UID of the migration that the launcher was asked to abort. An earlier virt-handler may have begun it.
    pub(super) aborted: Option<String>,
}

/// Guest agent that is connected.
#[derive(Debug, PartialEq)]
pub(super) struct Agent {
    /// Time of the next query.
    pub(super) ask_at: Instant,
    pub(super) report: Option<GuestReport>,
}

/// Report of a guest agent, within the limits of `bounds`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GuestReport {
    pub(super) info: GuestInfo,
    /// Message about omitted parts.
    pub(super) left_out: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShutdownRequest {
    /// Number of the launcher's state.
    pub(super) number: u64,
    /// Grace period in seconds.
    pub(super) grace: u64,
}

/// Router advertisements for the guest.
#[derive(Debug, PartialEq)]
pub(super) enum Router<R> {
    Off { retry: Retry },
    On(R),
}

static NO_LINKS: Links = Links::new();

impl<C, R> Default for State<C, R> {
    fn default() -> State<C, R> {
        State::Waiting { silent_since: None }
    }
}

impl<C, R> State<C, R> {
    /// Launcher that was connected once, unless the VMI has ended.
    pub(super) fn session(&self) -> Option<&Session<C>> {
        match self {
            State::Connected { session, .. }
            | State::Prepared { session, .. }
            | State::Running { session, .. } => Some(session),
            State::Waiting { .. } | State::Ended { .. } => None,
        }
    }

    pub(super) fn session_mut(&mut self) -> Option<&mut Session<C>> {
        match self {
            State::Connected { session, .. }
            | State::Prepared { session, .. }
            | State::Running { session, .. } => Some(session),
            State::Waiting { .. } | State::Ended { .. } => None,
        }
    }

    /// Last state that the launcher reported, unless the VMI has ended.
    pub(super) fn reported(&self) -> Option<&launcher::State> {
        Some(&*self.session()?.launcher)
    }

    pub(super) fn connection(&self) -> Option<&C> {
        match &self.session()?.contact {
            Contact::There(connection) => Some(connection),
            Contact::Lost { .. } => None,
        }
    }

    pub(super) fn connection_mut(&mut self) -> Option<&mut C> {
        match &mut self.session_mut()?.contact {
            Contact::There(connection) => Some(connection),
            Contact::Lost { .. } => None,
        }
    }

    /// Time since which the launcher's socket is gone; `None` if the launcher is connected or has ended.
    pub(super) fn silence_mut(&mut self) -> Option<&mut Option<Instant>> {
        match self {
            State::Waiting { silent_since } => Some(silent_since),
            _ => match &mut self.session_mut()?.contact {
                Contact::Lost { silent_since } => Some(silent_since),
                Contact::There(_) => None,
            },
        }
    }

    /// True if the launcher is to be connected.
    pub(super) fn is_disconnected(&self) -> bool {
        !matches!(self, State::Ended { .. }) && self.connection().is_none()
    }

    /// Links that this keeper made.
    pub(super) fn links(&self) -> &Links {
        match self {
            State::Connected { links, .. } | State::Prepared { links, .. } => links,
            State::Running { run, .. } => &run.links,
            State::Waiting { .. } | State::Ended { .. } => &NO_LINKS,
        }
    }

    /// Failure of the last hand-over.
    pub(super) fn failure(&self) -> Option<&HandOverFailure> {
        match self {
            State::Connected { failure, .. } => failure.as_ref(),
            _ => None,
        }
    }

    pub(super) fn run(&self) -> Option<&Run<R>> {
        match self {
            State::Running { run, .. } => Some(run),
            _ => None,
        }
    }

    pub(super) fn run_mut(&mut self) -> Option<&mut Run<R>> {
        match self {
            State::Running { run, .. } => Some(run),
            _ => None,
        }
    }

    /// This end of the VMI's migration.
    pub(super) fn migration(&self) -> Option<&MigrationEnd> {
        self.run()?.migration.as_ref()
    }

    /// Time at which the connections of its migration are closed.
    pub(super) fn cut_at(&self) -> Option<Instant> {
        self.migration()?.cut_at()
    }

    /// Report of the guest agent.
    pub(super) fn report(&self) -> Option<&GuestReport> {
        self.run()?.agent.as_ref()?.report.as_ref()
    }

    /// Time of the next query of the guest agent.
    pub(super) fn ask_at(&self) -> Option<Instant> {
        self.connection()?;
        Some(self.run()?.agent.as_ref()?.ask_at)
    }

    /// The launcher, for a decision.
    pub(super) fn launcher(&self) -> Launcher {
        match self {
            State::Waiting { .. } => Launcher::NotYet,
            State::Connected { session, .. }
            | State::Prepared { session, .. }
            | State::Running { session, .. } => Launcher::Speaks(session.launcher.clone()),
            State::Ended { last, why } => Launcher::Gone { last: last.clone(), why: why.clone() },
        }
    }

    /// The state after a connection, with the first state of the launcher.
    #[must_use]
    pub(super) fn connected(self, connection: C, first: Box<launcher::State>) -> State<C, R> {
        let session = Session { contact: Contact::There(connection), launcher: first };
        match self {
            State::Waiting { .. } => State::Connected { session, links: Links::new(), failure: None },
            State::Connected { links, failure, .. } => State::Connected { session, links, failure },
            State::Prepared { links, .. } => State::Prepared { session, links },
            State::Running { run, .. } => State::Running { session, run },
            ended @ State::Ended { .. } => ended,
        }
    }

    /// The state that follows from the last report of the launcher.
    #[must_use]
    pub(super) fn settle(self, now: Instant) -> State<C, R> {
        match self {
            State::Connected { session, .. }
            | State::Prepared { session, .. }
            | State::Running { session, .. }
                if session.launcher.life.is_final() =>
            {
                State::Ended { last: Some(session.launcher), why: None }
            }
            State::Connected { session, links, .. } if !session.is_empty() => {
                State::running(session, Box::new(Run::new(links, false)), now)
            }
            State::Prepared { session, links } if !session.is_empty() => {
                State::running(session, Box::new(Run::new(links, true)), now)
            }
            State::Running { session, run } if !session.is_empty() => State::running(session, run, now),
            // The launcher began anew in its pod.
            State::Running { session, run } if run.is_handed_over => {
                State::Prepared { session, links: run.links }
            }
            State::Running { session, run } => State::Connected { session, links: run.links, failure: None },
            other => other,
        }
    }

    fn running(session: Session<C>, mut run: Box<Run<R>>, now: Instant) -> State<C, R> {
        run.agent = match run.agent {
            _ if !session.launcher.agent => None,
            None => Some(Agent { ask_at: now, report: None }),
            known => known,
        };
        State::Running { session, run }
    }
}

impl<C> Session<C> {
    /// True if the launcher has no VMI.
    fn is_empty(&self) -> bool {
        self.launcher.life == Life::Empty
    }
}

impl<R> Run<R> {
    pub(super) fn new(links: Links, is_handed_over: bool) -> Run<R> {
        let router = Router::Off { retry: Retry::default() };
        Run {
            links,
            is_handed_over,
            agent: None,
            shutdown: None,
            link_requests: LinkRequests::default(),
            router,
            migration: None,
            aborted: None,
        }
    }
}
