//! Decision about one VMI. Pure: all input is in `DecisionInput`.
//!
//! | VMI | launcher | action |
//! |---|---|---|
//! | Scheduled | present, without a domain | prepare the volumes, sync |
//! | Running | present, without a domain | Failed: the guest ran in another launcher before, and may still run in it |
//! | Scheduled, Running | has a domain | its life becomes the phase |
//! | any of these | gone | its last state becomes the phase; without one, Failed |
//! | Running | its links differ from the spec | change one of them |
//! | migrates away | tells how it goes on | its progress and its end are written; a guest that has gone is virt-controller's |
//! | migrates to this node | present, without a domain | prepare the volumes, sync; of the status only the migration is written |
//! | is being deleted | has a domain | shutdown within the grace period of the spec; again, if that became shorter, or the earlier request is unknown |
//! | is being deleted | present, without a domain | Failed: it never started |
//! | final | any | nothing: virt-controller removes the pod |
//!
//! The launcher counts the grace period from the first shutdown request, by a monotonic clock. The decision
//! here depends on no clock: neither a node whose clock is ahead nor a virt-handler that was away shortens
//! the guest's time.

use super::keeper::{MigrationEnd, Role, has_moved, open_migration, target_state};
use super::link_requests::{LinkRequests, NO_LINK_REQUESTS};
use super::status::{self, StatusFacts};
use crate::now::Now;
use api::launcher::{GuestInfo, Life, Request, State};
use api::vmi::{InterfaceStatus, Phase, Status, VirtualMachineInstance};

/// Input of a decision about one VMI.
#[derive(Clone, Debug)]
pub struct DecisionInput<'a> {
    pub vmi: &'a VirtualMachineInstance,
    /// Launcher of the VMI.
    pub launcher: &'a Launcher,
    /// Report of the guest agent.
    pub guest: Option<&'a GuestInfo>,
    /// Message about omitted parts of that report.
    pub left_out: Option<&'a str>,
    /// Interfaces of the spec, as this node made them, with the pod's addresses.
    pub interfaces: &'a [InterfaceStatus],
    /// Failure of the last hand-over to the launcher.
    pub trouble: Option<&'a HandOverFailure>,
    /// True if the VMI can be handed to its launcher now. It was not handed over yet, and neither the pause
    /// after a failure nor the settings of the cluster are waited for.
    pub may_begin: bool,
    /// The guest runs on emulated processors.
    pub emulated: bool,
    /// Grace period in seconds that this virt-handler sent to the launcher. `None` if it sent none; an
    /// earlier virt-handler may have.
    pub told_grace: Option<u64>,
    /// Changes of links that this virt-handler requested.
    pub link_requests: &'a LinkRequests,
    /// Part of this node: the guest runs on it, or migrates to it.
    pub role: Role,
    /// This end of the VMI's migration.
    pub migration: Option<&'a MigrationEnd>,
}

impl<'a> DecisionInput<'a> {
    /// Input without further knowledge.
    pub fn new(vmi: &'a VirtualMachineInstance, launcher: &'a Launcher) -> DecisionInput<'a> {
        DecisionInput {
            vmi,
            launcher,
            guest: None,
            left_out: None,
            interfaces: &[],
            trouble: None,
            may_begin: true,
            emulated: false,
            told_grace: None,
            link_requests: &NO_LINK_REQUESTS,
            role: Role::Guest,
            migration: None,
        }
    }
}

/// State of the launcher of a VMI.
#[derive(Clone, Debug, PartialEq)]
pub enum Launcher {
    /// The pod is not known here yet, or its launcher does not listen yet.
    NotYet,
    /// The launcher reports this state.
    Speaks(Box<State>),
    /// The launcher has ended.
    Gone {
        /// Its last state, if known.
        last: Option<Box<State>>,
        /// End of its container according to the kubelet.
        why: Option<String>,
    },
}

/// Failure of a hand-over to the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandOverFailure {
    pub message: String,
    /// A retry does not help.
    pub hopeless: bool,
}

/// Result of a decision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Actions {
    /// New status, if it differs from the current one.
    pub status: Option<Box<Status>>,
    /// Hand the VMI to the launcher.
    pub begin: bool,
    /// Request to the launcher.
    pub request: Option<Request>,
    pub events: Vec<Event>,
}

/// Default grace period of a guest in seconds.
const GRACE: i64 = 30;

/// Message of a VMI that ran, and whose new launcher has no guest: a kubelet has started the pod again, as
/// after a restore of etcd.
const ANEW: &str = "the launcher began anew, and does not know of the guest that ran; the guest is not started a second time";

/// Reason of the event that goes with the shutdown request.
pub(super) const SHUTTING_DOWN: &str = "ShuttingDown";

/// An event for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// True for the type `Warning`, false for `Normal`.
    pub warning: bool,
    /// CamelCase reason of the event.
    pub reason: &'static str,
    pub message: String,
}

impl Event {
    /// Event of the type `Normal`.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Event {
        Event { warning: false, reason, message: message.into() }
    }

    /// Event of the type `Warning`.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Event {
        Event { warning: true, reason, message: message.into() }
    }
}

/// Decides about one VMI. `now` is only for values that readers see.
pub fn decide(seen: &DecisionInput<'_>, now: &Now) -> Actions {
    let old = seen.vmi.status.clone().unwrap_or_default();
    let phase = old.phase.clone().unwrap_or_default();
    let mut plan = Actions::default();
    // Other phases belong to virt-controller.
    if !matches!(phase, Phase::Scheduled | Phase::Running) {
        return plan;
    }
    if seen.role == Role::Target {
        return receive(seen, &old, now);
    }
    let deleting = seen.vmi.metadata.deletion_timestamp.is_some();
    let mut story = StatusFacts::from_input(seen);
    match seen.launcher {
        Launcher::NotYet => {}
        Launcher::Speaks(state) if state.life == Life::Empty => {
            if phase == Phase::Running {
                story.end_vmi(Phase::Failed, ANEW);
            } else if deleting {
                story.end_vmi(Phase::Failed, "the VMI was deleted before its guest started");
            } else if let Some(trouble) = seen.trouble.filter(|trouble| trouble.hopeless) {
                story.end_vmi(Phase::Failed, &trouble.message);
            } else if seen.may_begin {
                plan.begin = true;
            }
        }
        // The guest runs at the target of its migration, or nobody knows: virt-controller decides that by both.
        Launcher::Speaks(state) if has_moved(&old, state) => {}
        Launcher::Speaks(state) => {
            let is_new = !is_ending(state);
            let grace = grace(seen.vmi);
            // The launcher keeps the earliest end that it was sent: a repeated request delays nothing.
            let told = state.grace.into_iter().chain(seen.told_grace).min();
            let is_sooner = || told.is_none_or(|told| grace < told);
            if deleting && !state.life.is_final() && (is_new || is_sooner()) {
                plan.request = Some(Request::Shutdown { grace: Some(grace) });
            }
            if plan.request.is_some() && is_new {
                plan.events.push(Event::normal(SHUTTING_DOWN, "Signaled Graceful Shutdown"));
            }
            if !deleting && matches!(state.life, Life::Running | Life::Paused) {
                plan.request = seen.link_requests.next(seen.vmi, state);
            }
        }
        Launcher::Gone { last, why } => {
            let ended = last.as_ref().is_some_and(|last| last.life.is_final());
            // A guest that migrates may have left the launcher: virt-controller decides by both ends.
            let migrates = open_migration(&old, Role::Guest).is_some();
            if !ended && !migrates {
                let why = why.as_deref().map_or_else(String::new, |why| format!(": {why}"));
                story.end_vmi(Phase::Failed, &format!("the launcher ended before the VMI did{why}"));
            }
        }
    }
    let new = status::status(&old, &story, now);
    if new != old {
        plan.events.extend(status::events(&old, &new, &story));
        plan.status = Some(Box::new(new));
    }
    plan
}

/// Decides about a VMI that migrates to this node: it is handed to the launcher, and of its status only the migration is written.
fn receive(seen: &DecisionInput<'_>, old: &Status, now: &Now) -> Actions {
    let mut plan = Actions::default();
    let launcher = match seen.launcher {
        Launcher::Speaks(state) => Some(&**state),
        Launcher::NotYet | Launcher::Gone { .. } => None,
    };
    let is_empty = launcher.is_some_and(|state| state.life == Life::Empty);
    let hopeless = seen.trouble.filter(|trouble| is_empty && trouble.hopeless);
    if is_empty && hopeless.is_none() {
        plan.begin = seen.may_begin;
        return plan;
    }
    let trouble = hopeless.map(|trouble| trouble.message.as_str());
    let migration = target_state(old, launcher, seen.migration, trouble, &now.text);
    if let Some(migration) = migration.filter(|new| old.migration_state.as_ref() != Some(new)) {
        let before = old.migration_state.as_ref().and_then(|before| before.target_certificate.as_ref());
        if let Some(address) = &migration.target_node_address
            && before != migration.target_certificate.as_ref()
        {
            let ports: Vec<&str> =
                migration.target_direct_migration_node_ports.keys().map(String::as_str).collect();
            let message =
                format!("Migration Target is listening at {address}, on ports: {}", ports.join(","));
            plan.events.push(Event::normal("PreparingTarget", message));
        }
        plan.status = Some(Box::new(Status { migration_state: Some(migration), ..old.clone() }));
    }
    plan
}

/// True if a shutdown was requested already.
fn is_ending(state: &State) -> bool {
    state.life == Life::Stopping || state.doing.as_deref() == Some("shutdown")
}

/// Grace period of the spec in seconds; a forced stop shortens it.
pub(super) fn grace(vmi: &VirtualMachineInstance) -> u64 {
    let seconds = vmi.spec.termination_grace_period_seconds.unwrap_or(GRACE);
    u64::try_from(seconds).unwrap_or(0)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
