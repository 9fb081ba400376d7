//! End of a launcher, and the sources of the last state of its VMI.
//!
//! | source | available |
//! |---|---|
//! | states that the launcher reported | while virt-handler was connected |
//! | `state.json` in its folder | until the kubelet removes the volumes of the pod |
//! | termination message of its container | as long as the pod |
//!
//! All of them come from the launcher, about its own VMI.

use super::{Contact, Keeper};
use crate::pod::PodFolder;
use crate::pod::layout::COMPUTE;
use crate::vmi::apply::Cluster;
use crate::vmi::decide::Launcher;
use api::launcher::{Ending, State};
use std::time::Duration;
use tokio::time::Instant;

/// Time limit for the kubelet to report the end of a launcher that left no final state: as long as
/// virt-controller waits for virt-handler. Until the kubelet has reported it, QEMU may still run.
const KUBELET: Duration = Duration::from_secs(60);

impl<C: Cluster> Keeper<C> {
    /// Handles a launcher that no longer listens. If it left no final state, the kubelet reports the end of
    /// its container sooner or later, with the launcher's termination message. See [`Keeper::connect`].
    pub(super) async fn fell_silent(&mut self, place: &PodFolder) {
        let last = self.last_state(place).await;
        let since = *self.silent_since.get_or_insert_with(Instant::now);
        match last.as_ref().is_some_and(|last| last.life.is_final()) || since.elapsed() >= KUBELET {
            true => self.gone(last, None),
            false => self.again.later(),
        }
    }

    pub(super) fn gone(&mut self, last: Option<Box<State>>, why: Option<String>) {
        self.launcher = Launcher::Gone { last, why };
        self.contact = Contact::None;
    }

    /// Last state of the VMI: as reported, from the launcher's file, or from its termination message.
    pub(super) async fn last_state(&mut self, place: &PodFolder) -> Option<Box<State>> {
        if let Launcher::Speaks(state) = &self.launcher
            && state.life.is_final()
        {
            return Some(state.clone());
        }
        let kept = place.last_state().await;
        if kept.as_ref().is_some_and(|kept| kept.life.is_final()) {
            return kept.map(Box::new);
        }
        let left = self.pod.as_ref().and_then(|pod| pod.ending(COMPUTE)).map(Ending::state);
        left.or(kept).map(Box::new)
    }
}
