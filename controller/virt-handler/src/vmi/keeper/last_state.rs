//! Last state of a VMI whose launcher has ended.
//!
//! | source | available |
//! |---|---|
//! | states that the launcher reported | while virt-handler was connected; a final one ends the VMI at once |
//! | `state.json` in its folder | until the kubelet removes the volumes of the pod |
//! | termination message of its container | as long as the pod |
//!
//! All of them come from the launcher, about its own VMI.

use super::facts::Facts;
use crate::pod::layout::COMPUTE;
use api::launcher::{self, Ending};

/// Last state of the VMI: from the launcher's file, or from its termination message.
pub(super) async fn last_state(facts: &Facts) -> Option<Box<launcher::State>> {
    let kept = match &facts.place {
        Ok(place) => place.last_state().await,
        Err(_) => None,
    };
    if kept.as_ref().is_some_and(|kept| kept.life.is_final()) {
        return kept.map(Box::new);
    }
    facts.pod.ending(COMPUTE).map(Ending::state).or(kept).map(Box::new)
}
