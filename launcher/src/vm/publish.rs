//! The state of the VM, for its watchers: one writer, any number of readers, a rising number.
//!
//! An equal state is not published again. The last state is also stored in the VM's folder, so that a new
//! launcher (and an administrator) can read the end of the VM. A watcher refuses a state that is too long, so
//! the parts that grow with the age of the VM or come from elsewhere are bounded here.

use crate::hypervisor::embed::write_whole;
use api::launcher::{Life, State};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tokio::sync::watch;

/// Most phases of a life in the state.
const PHASES: usize = 32;
/// Phases of the start, which stay in the state. Of the later ones the oldest is forgotten.
const OF_START: usize = 2;
/// Most bytes of a message.
const MESSAGE: usize = 4 << 10;

/// The only writer of the state.
#[derive(Debug)]
pub struct Publisher {
    sender: watch::Sender<State>,
    file: PathBuf,
    clock: fn() -> String,
}

impl Publisher {
    /// Continues with the last state, or begins. `clock` returns RFC 3339.
    pub fn new(last: Option<State>, file: PathBuf, clock: fn() -> String) -> Publisher {
        let mut state = last.unwrap_or_else(|| empty(clock()));
        forget_phases(&mut state);
        cut_message(&mut state);
        Publisher { sender: watch::Sender::new(state), file, clock }
    }

    /// Receiver of this state and of its changes.
    pub fn reader(&self) -> watch::Receiver<State> {
        self.sender.subscribe()
    }

    pub fn state(&self) -> State {
        self.sender.borrow().clone()
    }

    /// Changes the state, and publishes it if it differs.
    pub fn change(&self, change: impl FnOnce(&mut State)) {
        let before = self.state();
        let mut state = before.clone();
        change(&mut state);
        cut_message(&mut state);
        if state == before {
            return;
        }
        let now = (self.clock)();
        if (state.life, &state.reason) != (before.life, &before.reason) {
            state.since.clone_from(&now);
        }
        if state.life != before.life {
            // A new life of the same VM begins a new list.
            if state.life == Life::Preparing {
                state.phases.clear();
            }
            state.phases.push((state.life, now));
            forget_phases(&mut state);
        }
        state.number = before.number + 1;
        self.keep(&state);
        self.sender.send_replace(state);
    }

    fn keep(&self, state: &State) {
        let written = serde_json::to_vec(state).map_err(std::io::Error::from);
        if let Err(e) = written.and_then(|text| write_whole(&self.file, &text)) {
            tracing::warn!("cannot keep the state in {}: {e}", self.file.display());
        }
    }
}

/// Forgets phases in the middle of a life with very many.
fn forget_phases(state: &mut State) {
    let excess = state.phases.len().saturating_sub(PHASES);
    if excess > 0 {
        state.phases.drain(OF_START..OF_START + excess);
    }
}

fn cut_message(state: &mut State) {
    let of_migration = state.migration.as_mut().and_then(|migration| migration.message.as_mut());
    for message in state.message.iter_mut().chain(of_migration) {
        message.truncate(message.floor_char_boundary(MESSAGE));
    }
}

/// The state at the beginning of a new life.
pub(super) fn emptied(state: &State) -> State {
    State {
        reason: None,
        message: None,
        doing: None,
        grace: None,
        qemu_pid: None,
        qemu_started: None,
        frozen: false,
        kernel_boot: None,
        agent: false,
        credentials: None,
        receives: false,
        migration: None,
        targets: BTreeMap::new(),
        sizes: BTreeMap::new(),
        links: BTreeMap::new(),
        ..state.clone()
    }
}

fn empty(now: String) -> State {
    State {
        number: 0,
        generation: 0,
        life: Life::Empty,
        reason: None,
        message: None,
        since: now,
        doing: None,
        grace: None,
        qemu_pid: None,
        qemu_started: None,
        frozen: false,
        selinux: None,
        kernel_boot: None,
        agent: false,
        credentials: None,
        receives: false,
        migration: None,
        targets: BTreeMap::new(),
        sizes: BTreeMap::new(),
        links: BTreeMap::new(),
        phases: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use launcher_client::LONGEST;

    /// States of a VM that a full disk paused and that was resumed all day long, and of one with long messages.
    #[test]
    fn a_state_fits_into_a_line_however_old_its_vm_is() {
        let place = tempfile::tempdir().unwrap();
        let publisher = |last| Publisher::new(last, place.path().join("state.json"), crate::clock::now);
        let first = publisher(None);
        let be = |publisher: &Publisher, life| publisher.change(|state| state.life = life);
        be(&first, Life::Preparing);
        for _ in 0..2000 {
            be(&first, Life::Running);
            be(&first, Life::Paused);
        }
        first.change(|state| state.message = Some("\u{e4}".repeat(LONGEST)));
        let is_short = |state: &State| serde_json::to_vec(state).unwrap().len() < LONGEST / 4;
        let state = first.state();
        assert!(is_short(&state), "{} phases", state.phases.len());
        let lives: Vec<Life> = state.phases.iter().map(|(life, _)| *life).collect();
        assert_eq!((lives.len(), &lives[..2]), (PHASES, &[Life::Preparing, Life::Running][..]));
        assert_eq!(lives.last(), Some(&Life::Paused));

        // A launcher takes the state of an older one, which had no bounds.
        let phases = vec![(Life::Running, "2026-11-30T05:51:24Z".to_owned()); 5000];
        let message = Some("x".repeat(LONGEST));
        let last = State { life: Life::Running, phases, message, ..State::default() };
        assert!(!is_short(&last) && is_short(&publisher(Some(last)).state()));
        be(&first, Life::Preparing);
        assert_eq!(first.state().phases.len(), 1, "a new life");
    }

    #[test]
    fn the_number_rises_with_every_change_and_only_then() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("state.json");
        let publisher = Publisher::new(None, file.clone(), || "now".into());
        let mut reader = publisher.reader();
        publisher.change(|state| state.life = Life::Preparing);
        publisher.change(|state| state.life = Life::Preparing);
        publisher.change(|state| state.life = Life::Running);
        assert!(reader.has_changed().unwrap());
        let state = reader.borrow_and_update().clone();
        assert_eq!((state.number, state.phases.len()), (2, 2));
        let kept: State = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!(kept, state);

        let next = Publisher::new(Some(kept), file, || "later".into());
        next.change(|state| state.agent = true);
        assert_eq!((next.state().number, next.state().since.as_str()), (3, "now"));
    }
}
