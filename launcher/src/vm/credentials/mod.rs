//! SSH keys and passwords that the guest agent sets while the guest runs (`accessCredentials` with
//! `qemuGuestAgent`).
//!
//! ```text
//!  folders of Secrets ──every 15 s──► DesiredCredentials ── differs, failed, or 5 min old? ──► guest agent: keys of each user, passwords
//!    (kubelet, `coracle run`)                                                                         │
//!  State::credentials ◄── synchronized, or the reason why not ◄───────────────────────────────────────┘
//! ```
//!
//! As upstream, the `authorized_keys` of a named user belongs to the Secrets, and other keys in it are
//! removed. So a key that was removed from a Secret gives no access any more, even if that happened while no
//! launcher ran. A password that was changed in the guest is set again. When the guest agent restarts,
//! everything is set again.
//!
//! **Guarantees.** A password is in the command to the guest agent and nowhere else: in no argument, log,
//! error or file of the launcher. A guest that is paused, or whose file systems are frozen, gets no requests: it could not
//! answer.
//!
//! One task, from the start of the launcher. It reads the credentials of the VM when the VM runs, as
//! [`super::metrics`].

mod desired;

use super::guest::Guest;
use super::handle::Handle;
use crate::error::Result;
use crate::hypervisor::{Error, ErrorKind};
use crate::root::Root;
use api::launcher::{AGENT_OFFLINE, Credentials, Life, Resolved, State, Sync};
use api::machine::{Credential, Machine};
use desired::DesiredCredentials;
use std::fs;
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Time between two reads of the Secrets.
const LOOK: Duration = Duration::from_secs(15);
/// Time after which everything is set again.
const RESYNC: Duration = Duration::from_secs(300);
/// Reasons why the guest does not have all credentials.
const SECRET_NOT_READABLE: &str = "SecretNotReadable";
const AGENT_FAILED: &str = "GuestAgentFailed";
/// Most failures in a message, and most characters of them.
const TOLD: (usize, usize) = (3, 1000);

/// Starts the task, which waits for a VM with such credentials. Called inside a runtime of tokio.
pub(crate) fn start(handle: Handle) {
    tokio::spawn(run(handle, LOOK));
}

/// Credentials that a VM asks for, and the folders of their Secrets.
#[derive(Clone)]
struct AgentCredentials {
    credentials: Vec<Credential>,
    resolved: Resolved,
}

/// Credentials that were set last.
struct Done {
    wish: DesiredCredentials,
    at: Instant,
}

async fn run(handle: Handle, look: Duration) {
    let mut state = handle.state();
    let runs = |state: &State| matches!(state.life, Life::Running | Life::Paused | Life::Stopping);
    // The state has no publisher, so the launcher is ending.
    while state.wait_for(|state| runs(state)).await.is_ok() {
        let root = handle.root.clone();
        let wanted = spawn_blocking(move || agent_credentials(&root)).await.ok().flatten();
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

/// The credentials of the VM in a folder; `None` if it has none for the guest agent. Blocks.
fn agent_credentials(root: &Root) -> Option<AgentCredentials> {
    let sync: Sync = serde_json::from_slice(&fs::read(root.vm()).ok()?).ok()?;
    let machine = Machine::check_again(&api::wire::read(sync.vmi).ok()?).ok()?;
    let credentials: Vec<Credential> =
        machine.credentials.into_iter().filter(Credential::is_of_agent).collect();
    (!credentials.is_empty()).then_some(AgentCredentials { credentials, resolved: sync.resolved })
}

/// Availability of the guest agent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Agent {
    Offline,
    /// The agent would answer, but the vCPUs are stopped. Nothing is requested, and the last report stays.
    Still,
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

/// Sets the credentials again and again, until the launcher ends.
async fn keep(handle: &Handle, wanted: &AgentCredentials, look: Duration) {
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

/// One round with an available guest agent: reads the Secrets, sets what is due, and returns the new report
/// if it has changed. Blocks.
fn round(
    guest: &Guest<'_>,
    wanted: &AgentCredentials,
    done: Option<Done>,
    now: Instant,
) -> (Option<Done>, Option<Credentials>) {
    let wish = match DesiredCredentials::read(&wanted.credentials, &wanted.resolved) {
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

/// Credential of one user.
enum What<'a> {
    Keys(&'a [String]),
    Password(&'a str),
}

/// Sets the credentials of each user. A user that does not exist has no effect on others.
fn hand_over(guest: &Guest<'_>, wish: &DesiredCredentials) -> std::result::Result<(), String> {
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

/// True if the guest agent does not answer at all: further requests are pointless now.
fn is_silent(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::NoAgent | ErrorKind::TimedOut | ErrorKind::NotNow | ErrorKind::NotFound)
}

#[cfg(test)]
mod tests;
