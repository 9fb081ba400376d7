//! How a run ends that did not get to its end: what stays, and what is said about it.

use super::{Prepared, first};
use crate::journal::Mode;
use crate::plan::GoOn;
use crate::run::watch::Watch;
use crate::target::{self, Destination};
use crate::{Error, ErrorKind};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// What a cut-short run leaves beside the target.
pub(super) struct Partial {
    path: Option<PathBuf>,
    /// By which command a later run goes on, or why none can.
    resumable: Result<GoOn, &'static str>,
    state: Mutex<State>,
}

/// Whose the `.partial` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// An earlier run's, if it is there at all; or another's that is going on.
    NotOurs,
    /// Begun by this run.
    Ours,
    /// Begun by an earlier run, and gone on with by this one.
    GoneOnWith,
}

impl Partial {
    pub(super) fn of(prepared: &Prepared) -> Self {
        let path = match &prepared.request.target {
            Destination::File(path) => Some(path.clone()),
            _ => None,
        };
        let resumable = prepared.plan.resume.map(|go_on| match prepared.request.wishes.resume {
            // This very command has the flag.
            Mode::Always => GoOn::SameCommand,
            _ => go_on,
        });
        Partial { path, resumable, state: Mutex::new(State::NotOurs) }
    }

    /// The target is claimed and its `.partial` is now this run's. `resumed`: it holds what an earlier run wrote.
    pub(super) fn taken(&self, resumed: bool, watch: &Watch) {
        let now = if resumed { State::GoneOnWith } else { State::Ours };
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = now;
        if let Ok(go_on) = self.resumable {
            watch.keeps(self.how_to(go_on));
        }
    }

    /// Cleans up where going on makes no sense, and says how to go on where it does.
    pub(super) fn after(&self, e: Error, watch: &Watch) -> Error {
        let e = first(watch, e);
        let Some(path) = &self.path else { return e };
        let state = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state == State::NotOurs {
            return e;
        }
        if e.is_of_a_whole_disk() {
            return e;
        }
        let is_worth_it = e.may_go_on() && (watch.written() > 0 || state == State::GoneOnWith);
        if let (Ok(go_on), true) = (self.resumable, is_worth_it) {
            return e.with_hint(self.how_to(go_on));
        }
        if let Err(left) = target::discard(path) {
            tracing::debug!("nothing to clean up beside {}: {left}", path.display());
        }
        match self.resumable {
            Err(why) if e.kind() == ErrorKind::Interrupted => e.with_hint(format!("nothing is kept: {why}")),
            _ => e,
        }
    }

    fn how_to(&self, go_on: GoOn) -> String {
        let path = self.path.as_deref().unwrap_or_else(|| "the target".as_ref()).display();
        let how = match go_on {
            GoOn::SameCommand => "the same command goes on from there".to_owned(),
            GoOn::WithResume(why) => {
                format!(
                    "the same command with --resume goes on from there; without it, it begins anew, since {why}"
                )
            }
        };
        format!("{path}.partial and its journal stay; {how}")
    }
}
