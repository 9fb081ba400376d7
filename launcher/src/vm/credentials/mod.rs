//! SSH keys and passwords that the guest agent hands over, while the guest runs (`accessCredentials` with `qemuGuestAgent`).
//!
//! ```text
//!  folders of Secrets ──every 15 s──► Wish ── differs, failed, or 5 min old? ──► guest agent: keys of each user, passwords
//!    (kubelet, `coracle run`)                                                           │
//!  State::credentials ◄── the guest has all of them, or why not ◄───────────────────────┘
//! ```
//!
//! As upstream: the `authorized_keys` of a user that is named belongs to the Secrets, and what else is in it goes, so that a key
//! which was taken out of a Secret lets nobody in, also where that was done while no launcher ran; a password that somebody
//! changed in the guest is set again. Where the guest agent begins anew, everything is handed over anew.
//!
//! **Guarantees.** A password is in the command to the guest agent and nowhere else: in no argument, log, error or file of
//! ours. Nothing is asked of a guest that is paused, or whose file systems are frozen: it could not answer.
//! **Trust.** The guest says whether it did what it was asked for, and may lie; its words are bounded ([`Guest`]).
//!
//! One task, from the start of the launcher; it reads what the VM wants when the VM runs, as [`super::metrics`].

mod wish;

use super::guest::Guest;
use super::handle::Handle;
use crate::error::Result;
use crate::hypervisor::{Error, ErrorKind};
use crate::root::Root;
use api::launcher::{AGENT_OFFLINE, Credentials, Life, Resolved, State, Sync};
use api::machine::{Credential, Machine};
use std::fs;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use wish::Wish;

/// The time between two looks at the Secrets.
const LOOK: Duration = Duration::from_secs(15);
/// The time after which everything is handed over again.
const RESYNC: Duration = Duration::from_secs(300);
/// The reasons of what the guest has not.
const SECRET_NOT_READABLE: &str = "SecretNotReadable";
const AGENT_FAILED: &str = "GuestAgentFailed";
/// So many failures are told, and so many letters of them.
const TOLD: (usize, usize) = (3, 1000);

/// Begins to hand over, whenever there is a VM that wants it. Called inside a runtime of tokio.
pub(crate) fn start(handle: Handle) {
    tokio::spawn(run(handle, LOOK));
}

/// What a VM wants to be handed over, and where that is.
#[derive(Clone)]
struct Wanted {
    credentials: Vec<Credential>,
    resolved: Resolved,
}

/// What was handed over last.
struct Done {
    wish: Wish,
    at: Instant,
}

async fn run(handle: Handle, look: Duration) {
    let mut state = handle.state();
    let runs = |state: &State| matches!(state.life, Life::Running | Life::Paused | Life::Stopping);
    // Without a state the launcher ends.
    while state.wait_for(|state| runs(state)).await.is_ok() {
        let root = handle.root.clone();
        let wanted = spawn_blocking(move || wanted(&root)).await.ok().flatten();
        let hand_over = async {
            match &wanted {
                Some(wanted) => keep(&handle, wanted, look).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = hand_over => return,
            over = state.wait_for(|state| !runs(state)) => {
                if over.is_err() {
                    return;
                }
            }
        }
    }
}

/// What the VM of a folder wants; nothing where it wants nothing. Blocks.
fn wanted(root: &Root) -> Option<Wanted> {
    let sync: Sync = serde_json::from_slice(&fs::read(root.vm()).ok()?).ok()?;
    let machine = Machine::check_again(&api::wire::read(sync.vmi).ok()?).ok()?;
    let credentials: Vec<Credential> =
        machine.credentials.into_iter().filter(Credential::is_of_agent).collect();
    (!credentials.is_empty()).then_some(Wanted { credentials, resolved: sync.resolved })
}

/// How it is with the guest agent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Agent {
    /// It does not answer.
    Offline,
    /// It would, but its vCPUs stand still: nothing is asked, and what was said stays.
    Still,
    /// It answers.
    There,
}

impl Agent {
    fn of(state: &State) -> Agent {
        match (state.agent, state.life) {
            (false, _) => Agent::Offline,
            (true, Life::Paused) => Agent::Still,
            (true, _) => Agent::There,
        }
    }
}

/// Hands over, again and again, as long as the launcher is there.
async fn keep(handle: &Handle, wanted: &Wanted, look: Duration) {
    let mut state = handle.state();
    let mut done: Option<Done> = None;
    loop {
        let agent = Agent::of(&state.borrow_and_update());
        let told = match agent {
            Agent::There => {
                let (handle, wanted, before) = (handle.clone(), wanted.clone(), done.take());
                let round = spawn_blocking(move || {
                    let guest =
                        Guest { hypervisor: &*handle.hypervisor, name: handle.name().unwrap_or_default() };
                    round(&guest, &wanted, before, Instant::now())
                });
                match round.await {
                    Ok((now, told)) => {
                        done = now;
                        told
                    }
                    Err(e) => Some(not_yet(AGENT_FAILED, format!("the launcher has a fault: {e}"))),
                }
            }
            Agent::Still => None,
            Agent::Offline => {
                done = None;
                Some(not_yet(AGENT_OFFLINE, "Guest agent is offline"))
            }
        };
        if let Some(told) = told {
            handle.credentials(told).await;
        }
        tokio::select! {
            () = sleep(look) => {}
            changed = state.wait_for(|state| Agent::of(state) != agent) => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

fn not_yet(reason: &str, message: impl Into<String>) -> Credentials {
    Credentials { synchronized: false, reason: reason.to_owned(), message: message.into() }
}

/// One look, by a guest agent that is there: what was handed over, and what is to be said of it, where that is new. Blocks.
fn round(
    guest: &Guest<'_>,
    wanted: &Wanted,
    done: Option<Done>,
    now: Instant,
) -> (Option<Done>, Option<Credentials>) {
    let wish = match Wish::read(&wanted.credentials, &wanted.resolved) {
        Ok(wish) => wish,
        Err(e) => return (None, Some(not_yet(SECRET_NOT_READABLE, e.chain()))),
    };
    let is_fresh = |done: &Done| done.wish == wish && now.saturating_duration_since(done.at) < RESYNC;
    if done.as_ref().is_some_and(is_fresh) || guest.is_frozen() {
        return (done, None);
    }
    match hand_over(guest, &wish) {
        Ok(()) => {
            (Some(Done { wish, at: now }), Some(Credentials { synchronized: true, ..Credentials::default() }))
        }
        Err(why) => (None, Some(not_yet(AGENT_FAILED, why))),
    }
}

/// What one user is given.
enum What<'a> {
    Keys(&'a [String]),
    Password(&'a str),
}

/// Each user for themselves: one who is not there keeps no other from their keys.
fn hand_over(guest: &Guest<'_>, wish: &Wish) -> std::result::Result<(), String> {
    let keys = wish.keys.iter().map(|(user, keys)| (user, What::Keys(keys)));
    let passwords = wish.passwords.iter().map(|(user, word)| (user, What::Password(&word.0)));
    let by_program = !wish.keys.is_empty() && guest.writes_keys_by_program();
    let mut failures = Vec::new();
    for (user, what) in keys.chain(passwords) {
        let (doing, done) = match what {
            What::Keys(keys) => {
                let done = if by_program { guest.write_keys(user, keys) } else { guest.set_keys(user, keys) };
                ("writing ssh pub key access credentials", done)
            }
            What::Password(word) => ("setting password", guest.set_password(user, word)),
        };
        let Err(e) = done else { continue };
        failures.push(format!("Error encountered {doing} for user [{user}]: {e}"));
        if is_silent(&e) {
            break;
        }
    }
    match failures.len() {
        0 => Ok(()),
        all => {
            let (most, letters) = TOLD;
            failures.truncate(most);
            let more = all.checked_sub(most).filter(|more| *more > 0);
            let more = more.map_or_else(String::new, |more| format!("; and {more} more"));
            let text: String = failures.join("; ").chars().take(letters).collect();
            Err(text + &more)
        }
    }
}

/// It does not answer at all: nothing more is asked of it now.
fn is_silent(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::NoAgent | ErrorKind::TimedOut | ErrorKind::NotNow | ErrorKind::NotFound)
}

#[cfg(test)]
mod tests;
