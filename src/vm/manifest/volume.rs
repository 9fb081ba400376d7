//! What a DataVolume on a laptop may ask for: what an import serves.

use api::datavolume::DataVolume;
use api::fault::{Fault, Reason};
use api::job;

/// Everything that is wrong with it.
pub(super) fn judge(volume: &DataVolume) -> Vec<Fault> {
    job::check(volume).into_iter().map(advised).collect()
}

/// A source that is not served, with those that are.
fn advised(fault: Fault) -> Fault {
    let source = fault.field.strip_prefix("spec.source.").is_some_and(|source| !source.contains('.'));
    match (fault.reason, source) {
        (Reason::NotSupported, true) => fault.hint("on a laptop a disk comes from http, registry or blank"),
        _ => fault,
    }
}
