//! Router advertisements for the guest of a VMI.

use super::{Contact, Keeper, PREPARING};
use crate::network;
use crate::vmi::apply::Cluster;
use crate::vmi::decide::Launcher;
use api::launcher::Life;
use api::machine::Machine;
use tokio::time::Instant;

impl<C: Cluster> Keeper<C> {
    /// Starts router advertisements once the guest runs, also if an earlier virt-handler sent them.
    pub(super) async fn advertise(&mut self) {
        let (Contact::There { process: Some(process), .. }, Some(place), Launcher::Speaks(state)) =
            (&self.contact, &self.place, &self.launcher)
        else {
            return;
        };
        if self.advertisers.is_some() || !matches!(state.life, Life::Running | Life::Paused) {
            return;
        }
        if self.router_again.at.is_some_and(|at| at > Instant::now()) {
            return;
        }
        let machine = Machine::check_again(&self.vmi).ok().filter(network::may_advertise);
        let Some(machine) = machine else { return };
        let (process, place) = (process.clone(), place.clone());
        let open = move || {
            place.owns(&process)?;
            network::advertisers(&machine, &process)
        };
        let opened = self.preparing.run("advertising the guest's router", PREPARING, open).await;
        match opened {
            Ok(opened) => self.advertisers = Some(network::Advertisers::begin(opened)),
            // Without them the guest runs with the addresses that it gets otherwise. The next change is an
            // occasion to retry.
            Err(e) => {
                tracing::warn!("{}: {}", self.name(), e.chain());
                self.router_again.later();
            }
        }
    }
}
