//! Step of a keeper: its next state and its next actions after an event. Pure.

use super::action::KeeperAction;
use super::event::KeeperEvent;
use super::facts::Facts;
use super::migration::{
    MigrationEnd, Next, Role, Stage, is_held, next_of_arrival, next_of_source, next_of_target, open_migration,
};
use super::state::{Contact, Router, ShutdownRequest, State};
use crate::migration::Findings;
use crate::network;
use crate::now::Now;
use crate::pod::layout::COMPUTE;
use crate::vmi::decide::{DecisionInput, Event, SHUTTING_DOWN, decide, grace};
use crate::vmi::link_requests::NO_LINK_REQUESTS;
use api::launcher::{Life, Request};
use api::vmi::Phase;
use std::time::Duration;
use tokio::time::Instant;

/// Time limit for the kubelet to report the end of a launcher that left no final state: as long as
/// virt-controller waits for virt-handler. Until the kubelet has reported it, QEMU may still run.
const KUBELET: Duration = Duration::from_secs(60);
/// Beginning of the event of a target that cannot be prepared now, as upstream has it.
const TARGET_FAILED: &str = "syncing migration target failed";
/// Pauses between queries of the guest agent: after its first report, and later.
const ASK_AGENT: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// Time of a step, and permitted actions.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) now: Instant,
    /// The same time, for values that readers see.
    pub(super) clock: Now,
    /// The pause after a failure is over.
    pub(super) may_try: bool,
    /// States of the launcher may be read.
    pub(super) may_listen: bool,
    /// The launcher may get requests: the last one did not fail just now.
    pub(super) may_request: bool,
    pub(super) writes: Writes,
    /// Findings about the connections of a migration.
    pub(super) findings: Findings,
}

/// Writes of the status that are permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writes {
    All,
    /// Only the final status.
    Last,
    None,
}

/// Result of a step.
#[derive(Debug)]
pub(super) struct Step<C, R> {
    pub(super) state: State<C, R>,
    /// Actions in their order. At most one has a result, the last one.
    pub(super) actions: Vec<KeeperAction>,
}

/// Next state and actions after an event.
pub(super) fn step<C, R>(
    state: State<C, R>,
    event: KeeperEvent<C, R>,
    facts: &Facts,
    moment: &Moment,
) -> Step<C, R> {
    let (mut state, now) = (state, moment.now);
    let mut actions = Vec::new();
    match event {
        KeeperEvent::Changed | KeeperEvent::Written | KeeperEvent::WriteDelayed => {}
        KeeperEvent::SettingsChanged => actions.push(KeeperAction::ForgetRetry),
        KeeperEvent::Heard { newest, is_open } => {
            if let Some(session) = state.session_mut() {
                if let Some(newest) = newest {
                    session.launcher = newest;
                }
                if !is_open {
                    session.contact = Contact::Lost { silent_since: None };
                }
            }
            state = state.settle(now);
        }
        KeeperEvent::Connected { connection, first } => {
            actions.push(KeeperAction::ForgetRetry);
            state = state.connected(connection, first).settle(now);
        }
        // A VMI runs only if its launcher listened, to this or an earlier virt-handler.
        KeeperEvent::NotListening if state.session().is_some() || facts.is_running() => {
            return Step { state, actions: vec![KeeperAction::ReadLastState { why: None }] };
        }
        KeeperEvent::NotListening | KeeperEvent::NotConnected | KeeperEvent::NotWritten => {
            actions.push(KeeperAction::RetryLater);
        }
        KeeperEvent::LastState { last, why } => {
            let is_final = last.as_ref().is_some_and(|last| last.life.is_final());
            let silent_since = state.silence_mut().map(|since| *since.get_or_insert(now));
            let is_late = silent_since.is_some_and(|since| now.saturating_duration_since(since) >= KUBELET);
            if why.is_some() || is_final || is_late {
                state = State::Ended { last, why };
            } else {
                actions.push(KeeperAction::RetryLater);
            }
        }
        KeeperEvent::HandedOver { links, events } => {
            actions.extend([KeeperAction::ForgetRetry, KeeperAction::Record(events)]);
            state = match state {
                State::Connected { session, .. } => State::Prepared { session, links },
                other => other,
            };
        }
        KeeperEvent::NotHandedOver { links: made, failure: new } => {
            actions.push(KeeperAction::RetryLater);
            if let State::Connected { links, failure, .. } = &mut state {
                // The source's node has the conditions of the VMI.
                if facts.role == Role::Target
                    && failure.as_ref().is_none_or(|known| known.message != new.message)
                {
                    let message = format!("{TARGET_FAILED}: {}", new.message);
                    actions.push(KeeperAction::Record(vec![Event::warning("SyncFailed", message)]));
                }
                *failure = Some(new);
                *links = made.unwrap_or_else(|| std::mem::take(links));
            }
        }
        KeeperEvent::Requested(request) => {
            // A guest that does not go on by it is released again.
            if matches!(request, Request::Release(_)) {
                actions.push(KeeperAction::RetryLater);
            }
            requested(&mut state, &request, facts, true);
        }
        KeeperEvent::NotRequested(request) => {
            actions.push(KeeperAction::RetryLater);
            requested(&mut state, &request, facts, false);
        }
        KeeperEvent::Asked(report) => {
            if let Some(agent) = state.run_mut().and_then(|run| run.agent.as_mut()) {
                let is_first = agent.report.is_none();
                agent.ask_at = now + if is_first { ASK_AGENT.0 } else { ASK_AGENT.1 };
                agent.report = report.or(agent.report.take());
            }
        }
        KeeperEvent::AskDelayed(at) => {
            if let Some(agent) = state.run_mut().and_then(|run| run.agent.as_mut()) {
                agent.ask_at = at;
            }
        }
        KeeperEvent::Announced { uid, certificate } => {
            end_of(&mut state, MigrationEnd::new(&uid, certificate, Stage::Announced));
        }
        KeeperEvent::Ordered { uid, refused } => {
            let end = state.run_mut().and_then(|run| run.migration.as_mut());
            if let Some(end) = end.filter(|end| end.uid == uid) {
                end.stage = refused.map_or(Stage::Ordered, Stage::Refused);
            }
        }
        KeeperEvent::Opened(end) => {
            actions.push(KeeperAction::ForgetRetry);
            end_of(&mut state, *end);
        }
        KeeperEvent::NotOpened => actions.push(KeeperAction::RetryLater),
        KeeperEvent::Advertised(router) => {
            if let Some(run) = state.run_mut() {
                run.router = Router::On(router);
            }
        }
        KeeperEvent::NotAdvertised => {
            if let Some(Router::Off { retry }) = state.run_mut().map(|run| &mut run.router) {
                retry.postpone(now);
            }
        }
    }
    if let State::Running { session, run } = &mut state
        && let Some(end) = &mut run.migration
    {
        if end.stage != Stage::Cut {
            end.findings.clone_from(&moment.findings);
        }
        end.hear(&session.launcher, now);
        if end.cut(now) {
            actions.push(KeeperAction::CloseMigration);
        }
    }
    if close_migration(&mut state, facts) {
        actions.push(KeeperAction::CloseMigration);
    }
    let may_try = actions.iter().fold(moment.may_try, |may_try, action| match action {
        KeeperAction::RetryLater => false,
        KeeperAction::ForgetRetry => true,
        _ => may_try,
    });
    actions.extend(next(&state, facts, &Moment { may_try, ..moment.clone() }));
    Step { state, actions }
}

/// Remembers this end of a migration.
fn end_of<C, R>(state: &mut State<C, R>, end: MigrationEnd) {
    if let Some(run) = state.run_mut() {
        run.migration = Some(end);
    }
}

/// Forgets this end of a migration that is not open any more. True if there was one.
fn close_migration<C, R>(state: &mut State<C, R>, facts: &Facts) -> bool {
    let status = facts.vmi.status.as_ref();
    let open = status.and_then(|status| open_migration(status, facts.role)).map(|(uid, _)| uid);
    let is_over = |end: &MigrationEnd| open != Some(end.uid.as_str());
    let Some(run) = state.run_mut() else { return false };
    run.migration.take_if(|end| is_over(end)).is_some()
}

/// Remembers a request, and whether the launcher took it.
fn requested<C, R>(state: &mut State<C, R>, request: &Request, facts: &Facts, is_taken: bool) {
    let State::Running { session, run } = state else { return };
    match request {
        Request::Link { interface, up } => {
            run.link_requests.record(interface, *up, &session.launcher, is_taken);
        }
        Request::Release(_) => {}
        Request::AbortMigration { id } => run.aborted = is_taken.then(|| id.clone()),
        _ if is_taken => {
            let (number, grace) = (session.launcher.number, grace(&facts.vmi));
            run.shutdown = Some(ShutdownRequest { number, grace });
        }
        _ => {}
    }
}

/// Next action with a result; `None` if there is nothing to do until the next event.
fn next<C, R>(state: &State<C, R>, facts: &Facts, moment: &Moment) -> Option<KeeperAction> {
    if facts.is_final() {
        return None;
    }
    // The launcher takes nothing else before a guest that is held goes on.
    let is_held = matches!(state, State::Running { session, .. } if is_held(&session.launcher));
    let arrival = || is_held.then(|| migration(state, facts, moment)).flatten();
    let act = connection(state, facts, moment)
        .or_else(arrival)
        .or_else(|| decision(state, facts, moment))
        .or_else(|| migration(state, facts, moment));
    if facts.role == Role::Target {
        return act;
    }
    act.or_else(|| router(state, facts, moment.now))
        .or_else(|| state.ask_at().filter(|at| *at <= moment.now).map(|_| KeeperAction::AskAgent))
}

/// Action towards a connection with the launcher, or its end.
fn connection<C, R>(state: &State<C, R>, facts: &Facts, moment: &Moment) -> Option<KeeperAction> {
    // A launcher that breaks off again and again is not read more often than others.
    if !state.is_disconnected() || !moment.may_listen || facts.place.is_err() {
        return None;
    }
    match facts.pod.end_description(COMPUTE) {
        Some(why) => Some(KeeperAction::ReadLastState { why: Some(why) }),
        None => moment.may_try.then_some(KeeperAction::Connect),
    }
}

/// Action that [`decide`] asks for.
fn decision<C, R>(state: &State<C, R>, facts: &Facts, moment: &Moment) -> Option<KeeperAction> {
    let launcher = state.launcher();
    let interfaces = facts.interfaces(state.links(), state.reported());
    let report = state.report();
    let is_connected = matches!(state, State::Connected { .. }) && state.connection().is_some();
    let seen = DecisionInput {
        vmi: &facts.vmi,
        launcher: &launcher,
        guest: report.map(|report| &report.info),
        left_out: report.and_then(|report| report.left_out.as_deref()),
        interfaces: &interfaces,
        trouble: state.failure().or(facts.place.as_ref().err()),
        may_begin: is_connected && moment.may_try && !facts.permitted.is_not_known(),
        emulated: facts.is_emulated(),
        told_grace: state.run().and_then(|run| run.shutdown).map(|shutdown| shutdown.grace),
        link_requests: state.run().map_or(&NO_LINK_REQUESTS, |run| &run.link_requests),
        role: facts.role,
        migration: state.migration(),
    };
    let decided = decide(&seen, &moment.clock);
    if decided.begin {
        return Some(KeeperAction::HandOver);
    }
    let (mut of_request, of_status): (Vec<_>, Vec<_>) =
        decided.events.into_iter().partition(|event| event.reason == SHUTTING_DOWN);
    if let Some(request) = decided.request
        && moment.may_request
        && is_new(&request, state, facts)
    {
        return Some(KeeperAction::Request { request, event: of_request.pop() });
    }
    let status = decided.status?;
    let is_last = status.phase.as_ref().is_some_and(Phase::is_final);
    let may_write = match moment.writes {
        Writes::All => true,
        Writes::Last => is_last,
        Writes::None => false,
    };
    may_write.then_some(KeeperAction::WriteStatus { status, events: of_status, is_last })
}

/// Action towards the migration of the VMI.
fn migration<C, R>(state: &State<C, R>, facts: &Facts, moment: &Moment) -> Option<KeeperAction> {
    let (State::Running { session, run }, Some(_)) = (state, state.connection()) else { return None };
    // What failed is tried again after the pause.
    if !moment.may_try {
        return None;
    }
    let (status, end) = (facts.vmi.status.as_ref()?, run.migration.as_ref());
    let launcher = &session.launcher;
    let next = match facts.role {
        Role::Guest => next_of_arrival(status, launcher)
            .or_else(|| next_of_source(status, || facts.machine(), launcher, end, run.aborted.as_deref())),
        Role::Target => next_of_target(status, launcher, end),
    };
    Some(match next? {
        Next::Announce(uid) => KeeperAction::Announce(uid),
        Next::Order(order) => KeeperAction::Order(order),
        Next::Abort(_) | Next::Release(_) if !moment.may_request => return None,
        Next::Abort(id) => KeeperAction::Request { request: Request::AbortMigration { id }, event: None },
        Next::Release(release) => KeeperAction::Request { request: Request::Release(release), event: None },
        Next::Open { uid, source } => KeeperAction::Open { uid, source },
    })
}

/// False for a request that the launcher got already, and for all while it is not connected.
fn is_new<C, R>(request: &Request, state: &State<C, R>, facts: &Facts) -> bool {
    let (State::Running { session, run }, Some(_)) = (state, state.connection()) else { return false };
    let launcher = &session.launcher;
    match request {
        Request::Link { .. } => true,
        _ => run.shutdown != Some(ShutdownRequest { number: launcher.number, grace: grace(&facts.vmi) }),
    }
}

/// Router advertisements begin once the guest runs, also if an earlier virt-handler sent them.
fn router<C, R>(state: &State<C, R>, facts: &Facts, now: Instant) -> Option<KeeperAction> {
    let (State::Running { session, run }, Some(_)) = (state, state.connection()) else { return None };
    let Router::Off { retry } = &run.router else { return None };
    // The next event after the pause is an occasion to retry.
    if !matches!(session.launcher.life, Life::Running | Life::Paused) || retry.at.is_some_and(|at| at > now) {
        return None;
    }
    let machine = facts.machine().filter(network::may_advertise)?;
    Some(KeeperAction::Advertise(Box::new(machine)))
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
