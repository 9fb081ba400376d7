//! The end of a launcher, and what is known of its VMI then.
//!
//! | source | is there |
//! |---|---|
//! | the states that the launcher told | while virt-handler listened |
//! | `state.json` in its folder | until the kubelet removes the volumes of the pod |
//! | the termination message of its container | as long as the pod |
//!
//! All of them are the launcher's own words, about its own VMI.

use super::{Contact, Keeper};
use crate::pod::PodFolder;
use crate::pod::layout::COMPUTE;
use crate::vmi::apply::Cluster;
use crate::vmi::decide::Launcher;
use api::launcher::{Ending, State};
use std::time::Duration;
use tokio::time::Instant;

/// How long the kubelet may take to tell how a launcher ended that says nothing itself: as long as virt-controller waits for
/// virt-handler. Until the kubelet has told, QEMU may still run.
const KUBELET: Duration = Duration::from_secs(60);

impl<C: Cluster> Keeper<C> {
    /// Nothing listens any more. Where the launcher does not say how the VMI ended, the kubelet does, sooner or later: its word
    /// for how the container ended brings the launcher's own with it. See [`Keeper::connect`].
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

    /// The last state of the VMI: as it was told, as the launcher wrote it down in its folder, or as it left it to the kubelet.
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
