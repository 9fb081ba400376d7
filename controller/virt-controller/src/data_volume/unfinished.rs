//! Reason why a PVC may not be taken with the content that it has: it is being written, or has yet to be.
//!
//! | sign | what it says |
//! |---|---|
//! | the annotations of CDI | a pod began to write and did not end, or an upload is to come ([`PersistentVolumeClaim::not_whole`]) |
//! | the volume | it is not the one that was made from the source of the PVC ([`crate::volume_origin`]) |
//! | an importer or upload pod that has not ended | it writes, also before that is noted on the PVC |
//! | a `dataSourceRef` of CDI, and no note that the PVC is filled, of ours or of upstream's CDI | another PVC is filled in its place |

use crate::volume_origin::{incomplete, is_cloned_by_upstream};
use cluster_model::objects::{PersistentVolumeClaim, World};

/// Reason why the content of a PVC is unfinished, as the end of a sentence about it; `None` if nothing says so.
pub(super) fn unfinished(world: &World, claim: &PersistentVolumeClaim) -> Option<String> {
    if let Some(why) = incomplete(world, claim) {
        return Some(why);
    }
    if let Some(pod) = world.worker_of(claim).filter(|pod| !pod.has_ended()) {
        let name = pod.meta.name.as_deref().unwrap_or_default();
        return Some(format!("is written by pod {name}: wait until it has ended"));
    }
    let is_filled = claim.is_filled() || is_cloned_by_upstream(world, claim);
    let populator = claim.populator().filter(|_| !is_filled)?;
    Some(format!("is not filled yet from its dataSourceRef, {} {}", populator.kind, populator.name))
}
