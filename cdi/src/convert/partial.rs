//! The end of a run that was cut short: files that stay, and advice on how to continue.

use super::{Prepared, first};
use crate::journal::Mode;
use crate::plan::ResumeCommand;
use crate::run::watch::Watch;
use crate::target::real_folder::identity;
use crate::target::{self, Destination};
use crate::{Error, ErrorKind, Result};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The state that a cut-short run leaves beside the target.
pub(super) struct Partial {
    kept: Option<LeftFiles>,
    /// The command by which a later run continues, or the reason why none can.
    resumable: std::result::Result<ResumeCommand, &'static str>,
    /// Places at which a compressed stream is entered again, as a sentence ([`crate::plan::Plan::entry`]).
    entry: Option<&'static str>,
    state: Mutex<State>,
    /// The ID of the `.partial` that this run writes.
    identity: OnceLock<String>,
}

/// The files that stay.
enum LeftFiles {
    /// The `.partial` of this file, and its journal.
    File(PathBuf),
    /// The bytes written to a device, and its journal in a folder.
    Device { device: PathBuf, journals: PathBuf },
}

/// The owner of the `.partial`, or of a device's journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// An earlier run, if the file exists at all; or another run in progress.
    Foreign,
    /// Created by this run.
    Created,
    /// Continued by this run from an earlier one.
    Resumed,
}

impl Partial {
    pub(super) fn of(prepared: &Prepared) -> Self {
        let kept = match (&prepared.request.target, &prepared.request.convert_options.journals) {
            (Destination::File(path), _) => Some(LeftFiles::File(path.clone())),
            (Destination::Device(path), Some(journals)) => {
                Some(LeftFiles::Device { device: path.clone(), journals: journals.clone() })
            }
            _ => None,
        };
        let resumable = prepared.plan.resume.map(|go_on| match prepared.request.convert_options.resume {
            // This command has the flag already.
            Mode::Always => ResumeCommand::SameCommand,
            _ => go_on,
        });
        let entry = prepared.plan.entry();
        Partial { kept, resumable, entry, state: Mutex::new(State::Foreign), identity: OnceLock::new() }
    }

    /// Records the ID of the file that this run writes. Its name may lead to another one later.
    pub(super) fn writes(&self, identity: String) {
        // A run writes one file.
        let _ = self.identity.set(identity);
    }

    /// Fails if the open file of that path is not the one that this run writes.
    pub(super) fn refuse_other(&self, file: impl AsFd, path: &Path) -> Result<()> {
        let Some(own) = self.identity.get() else { return Ok(()) };
        let found = identity(file);
        if found.map_err(|e| Error::io(format!("cannot examine {}", path.display()), e))? == *own {
            return Ok(());
        }
        let what = format!(
            "{} was removed or replaced by another run, and the bytes of this one are lost; give the same command again, \
             which begins anew",
            path.display()
        );
        Err(Error::failed(what).of_lost_data())
    }

    /// Records that the target is claimed and its `.partial` belongs to this run. `resumed`: it holds an
    /// earlier run's bytes.
    pub(super) fn taken(&self, resumed: bool, watch: &Watch) {
        let now = if resumed { State::Resumed } else { State::Created };
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = now;
        if resumed {
            watch.marked();
        }
        if let Ok(go_on) = self.resumable {
            watch.keeps(self.how_to(go_on), self.entry.is_some());
        }
    }

    /// The reason why nothing of this run can be used: its compressed stream was nowhere entered again.
    fn without_entry(&self, watch: &Watch) -> Option<&'static str> {
        self.entry.filter(|_| !watch.has_mark())
    }

    /// Cleans up if a later run cannot continue, and otherwise adds a hint on how to.
    pub(super) fn after(&self, e: Error, watch: &Watch) -> Error {
        let e = first(watch, e);
        let Some(kept) = &self.kept else { return e };
        let state = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state == State::Foreign {
            return e;
        }
        if e.is_of_a_whole_disk() {
            return e;
        }
        let is_worth_it = e.may_go_on() && (watch.written() > 0 || state == State::Resumed);
        let without_entry = self.without_entry(watch).filter(|_| is_worth_it);
        if let (Ok(go_on), true, None) = (self.resumable, is_worth_it, without_entry) {
            return e.with_hint(self.how_to(go_on));
        }
        let cleaned = match kept {
            LeftFiles::File(path) => target::discard(path, self.identity.get().map(String::as_str)),
            LeftFiles::Device { device, journals } => target::forget(device, journals),
        };
        if let Err(left) = cleaned {
            tracing::debug!("nothing to clean up: {left}");
        }
        if let Some(entry) = without_entry {
            return e.with_hint(format!("nothing is kept: {entry}, and no such place was reached"));
        }
        match self.resumable {
            Err(why) if e.kind() == ErrorKind::Interrupted => e.with_hint(format!("nothing is kept: {why}")),
            _ => e,
        }
    }

    fn how_to(&self, go_on: ResumeCommand) -> String {
        let how = match go_on {
            ResumeCommand::SameCommand => "the same command goes on from there".to_owned(),
            ResumeCommand::WithResume(why) => {
                format!(
                    "the same command with --resume goes on from there; without it, it begins anew, since {why}"
                )
            }
        };
        match &self.kept {
            Some(LeftFiles::File(path)) => format!("{}.partial and its journal stay; {how}", path.display()),
            Some(LeftFiles::Device { device, .. }) => {
                format!("what was written to {} stays, and its journal; {how}", device.display())
            }
            None => how,
        }
    }
}
