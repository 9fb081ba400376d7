//! What is to be done about one VMI. Pure: everything it knows is in `Seen`.
//!
//! | VMI | launcher | what is done |
//! |---|---|---|
//! | Scheduled | is there, empty | volumes ready, sync |
//! | Running | is there, empty | Failed: the guest ran in another launcher before, and may still run in it |
//! | Scheduled, Running | has a domain | its life becomes the phase |
//! | any of these | gone | its last words become the phase; without any, Failed |
//! | Running | its links are not as in the spec | one of them is changed |
//! | is being deleted | has a domain | it is asked to end within the grace period of the spec; again, where that became shorter, or it is not known what it was told |
//! | is being deleted | is there, empty | Failed: it never began |
//! | final | any | nothing: the cluster's controller takes the pod away |
//!
//! The launcher counts the grace period, from when the guest was first asked and by a clock that nobody sets. What is told here
//! depends on no clock: neither a node whose clock is ahead nor a virt-handler that was away takes from the guest's time.

use super::status::{self, Story};
use crate::now::Now;
use api::launcher::{GuestInfo, Life, Request, State};
use api::vmi::{InterfaceState, InterfaceStatus, Phase, Status, VirtualMachineInstance};

/// What is known of one VMI.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// The VMI.
    pub vmi: &'a VirtualMachineInstance,
    /// Its launcher.
    pub launcher: &'a Launcher,
    /// What the guest agent says.
    pub guest: Option<&'a GuestInfo>,
    /// What of its words is left out.
    pub left_out: Option<&'a str>,
    /// The interfaces of its spec, as this node made them and the pod has addresses.
    pub interfaces: &'a [InterfaceStatus],
    /// Why the VMI could not be handed to the launcher the last time.
    pub trouble: Option<&'a Trouble>,
    /// The VMI can be handed to its launcher: that was not done yet, and waits neither for the pause after a failure nor for
    /// the settings of the cluster.
    pub may_begin: bool,
    /// The guest runs on emulated processors.
    pub emulated: bool,
    /// Seconds that the guest was given to end, as this virt-handler told the launcher. Nothing where it told none: another one may
    /// have.
    pub told_grace: Option<u64>,
}

impl<'a> Seen<'a> {
    /// Nothing else is known yet.
    pub fn new(vmi: &'a VirtualMachineInstance, launcher: &'a Launcher) -> Seen<'a> {
        Seen {
            vmi,
            launcher,
            guest: None,
            left_out: None,
            interfaces: &[],
            trouble: None,
            may_begin: true,
            emulated: false,
            told_grace: None,
        }
    }
}

/// The launcher of a VMI.
#[derive(Clone, Debug, PartialEq)]
pub enum Launcher {
    /// Its pod is not known here yet, or it does not listen yet.
    NotYet,
    /// It speaks.
    Speaks(Box<State>),
    /// It has ended. What it said last, if that is known.
    Gone {
        /// Its last state.
        last: Option<Box<State>>,
        /// How its container ended, as the kubelet tells it.
        why: Option<String>,
    },
}

/// Why a VMI could not be handed to its launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// In a sentence.
    pub message: String,
    /// Trying again does not help.
    pub hopeless: bool,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Actions {
    /// The status that should be there, where it differs from what is there.
    pub status: Option<Box<Status>>,
    /// The launcher is handed the VMI.
    pub begin: bool,
    /// The launcher is asked for something.
    pub request: Option<Request>,
    /// What is told to people: type, reason and message of events.
    pub events: Vec<Event>,
}

/// Seconds that a guest has to end where its spec says nothing.
const GRACE: i64 = 30;

/// The end of a VMI that ran, and whose launcher has no guest: a kubelet has started the pod again, as after a restore of etcd.
const ANEW: &str = "the launcher began anew, and does not know of the guest that ran; the guest is not started a second time";

/// The reason of the event that goes with the question to end.
pub(super) const SHUTTING_DOWN: &str = "ShuttingDown";

/// Something that people are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `Warning`, else `Normal`.
    pub warning: bool,
    /// A word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

impl Event {
    /// An ordinary one.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Event {
        Event { warning: false, reason, message: message.into() }
    }

    /// One that somebody should look at.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Event {
        Event { warning: true, reason, message: message.into() }
    }
}

/// What is to be done. `now` is for what people read.
pub fn decide(seen: &Seen<'_>, now: &Now) -> Actions {
    let old = seen.vmi.status.clone().unwrap_or_default();
    let phase = old.phase.clone().unwrap_or_default();
    let mut plan = Actions::default();
    // Not ours yet, or no more.
    if !matches!(phase, Phase::Scheduled | Phase::Running) {
        return plan;
    }
    let deleting = seen.vmi.metadata.deletion_timestamp.is_some();
    let mut story = Story::of(seen);
    match seen.launcher {
        Launcher::NotYet => {}
        Launcher::Speaks(state) if state.life == Life::Empty => {
            if phase == Phase::Running {
                story.end(Phase::Failed, ANEW);
            } else if deleting {
                story.end(Phase::Failed, "the VMI was deleted before its guest started");
            } else if let Some(trouble) = seen.trouble.filter(|trouble| trouble.hopeless) {
                story.end(Phase::Failed, &trouble.message);
            } else if seen.may_begin {
                plan.begin = true;
            }
        }
        Launcher::Speaks(state) => {
            let is_new = !is_ending(state);
            let grace = grace(seen.vmi);
            // Of what was told, a launcher takes the earlier end: telling it once more puts nothing off.
            let told = state.grace.into_iter().chain(seen.told_grace).min();
            let is_sooner = || told.is_none_or(|told| grace < told);
            if deleting && !state.life.is_final() && (is_new || is_sooner()) {
                plan.request = Some(Request::Shutdown { grace: Some(grace) });
            }
            if plan.request.is_some() && is_new {
                plan.events.push(Event::normal(SHUTTING_DOWN, "Signaled Graceful Shutdown"));
            }
            if !deleting && matches!(state.life, Life::Running | Life::Paused) {
                plan.request = link(seen.vmi, state);
            }
        }
        Launcher::Gone { last, why } => {
            let ended = last.as_ref().is_some_and(|last| last.life.is_final());
            if !ended {
                let why = why.as_deref().map_or_else(String::new, |why| format!(": {why}"));
                story.end(Phase::Failed, &format!("the launcher ended before the VMI did{why}"));
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

/// The first interface whose link is not as the spec says. An interface that the launcher does not tell of has no link that
/// can be changed; one that is to go leaves with the next start.
fn link(vmi: &VirtualMachineInstance, state: &State) -> Option<Request> {
    vmi.spec.domain.devices.interfaces.iter().find_map(|interface| {
        let up = match &interface.state {
            None | Some(InterfaceState::Up) => true,
            Some(InterfaceState::Down) => false,
            Some(InterfaceState::Absent | InterfaceState::Other(_)) => return None,
        };
        let is_up = *state.links.get(&interface.name)?;
        (is_up != up).then(|| Request::Link { interface: interface.name.clone(), up })
    })
}

/// It was asked already.
fn is_ending(state: &State) -> bool {
    state.life == Life::Stopping || state.doing.as_deref() == Some("shutdown")
}

/// Seconds that the guest has to end, as the spec says; a forced stop makes them fewer.
pub(super) fn grace(vmi: &VirtualMachineInstance) -> u64 {
    let seconds = vmi.spec.termination_grace_period_seconds.unwrap_or(GRACE);
    u64::try_from(seconds).unwrap_or(0)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
