//! How a run ends that did not get to its end: what stays, and what is said about it.

use crate::run::watch::Watch;
use crate::{Error, Kind, target};
use std::path::Path;

/// Cleans up beside a file target where going on makes no sense, and says how to go on where it does.
pub(super) fn after(e: Error, path: &Path, resumable: Result<(), &'static str>, watch: &Watch) -> Error {
    let outside_cause = matches!(e.kind(), Kind::Interrupted | Kind::Failed);
    if outside_cause && resumable.is_ok() {
        let stays =
            format!("{}.partial and its journal stay; the same command goes on from there", path.display());
        return if watch.written() > 0 { e.with_hint(stays) } else { e };
    }
    // What is there is of no use to a later run: the input was refused, or nothing can go on from it.
    if let Err(left) = target::discard(path) {
        tracing::warn!("{}.partial is left behind: {left}", path.display());
    }
    match resumable {
        Err(why) if e.kind() == Kind::Interrupted => e.with_hint(format!("nothing is kept: {why}")),
        _ => e,
    }
}
