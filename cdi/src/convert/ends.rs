//! How a run ends that did not get to its end: what stays, and what is said about it.

use super::{Prepared, first};
use crate::plan::Place;
use crate::run::watch::Watch;
use crate::{Error, Kind, target};
use std::path::PathBuf;

/// What a cut-short run leaves beside the target.
pub(super) struct Partial {
    path: Option<PathBuf>,
    resumable: Result<(), &'static str>,
}

impl Partial {
    pub(super) fn of(prepared: &Prepared) -> Self {
        let path = match &prepared.opened.facts.target {
            Place::File(name) => Some(PathBuf::from(name)),
            _ => None,
        };
        Partial { path, resumable: prepared.plan.resume }
    }

    /// Cleans up where going on makes no sense, and says how to go on where it does.
    pub(super) fn after(&self, e: Error, watch: &Watch) -> Error {
        let e = first(watch, e);
        let Some(path) = &self.path else { return e };
        let go_on = matches!(e.kind(), Kind::Interrupted | Kind::Failed) && self.resumable.is_ok();
        if go_on && watch.written() > 0 {
            return e.with_hint(format!(
                "{}.partial and its journal stay; the same command goes on from there",
                path.display()
            ));
        }
        // A target that was never ours (it is in use, it is a link) is not touched by this: it has no .partial of
        // this run, and one of another run is locked.
        if let Err(left) = target::discard(path) {
            tracing::debug!("nothing to clean up beside {}: {left}", path.display());
        }
        match self.resumable {
            Err(why) if e.kind() == Kind::Interrupted => e.with_hint(format!("nothing is kept: {why}")),
            _ => e,
        }
    }
}
