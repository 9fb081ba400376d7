//! The VM of another launcher, which migrates it here.
//!
//! ```text
//!  the first sync ──► recorded as elsewhere ──► Mode::Receiving ──► here: taken over as it runs     not here: Mode::Moved
//! ```
//!
//! The record is written before the VM is kept, and removed when the VM is here: no launcher on this folder ever starts it, whenever
//! one is killed.

use super::Driver;
use crate::vm::blocking_work::Arrival;
use crate::vm::handle::CurrentVm;
use crate::vm::life::{Before, Standing};
use crate::vm::queue::Mode;
use crate::vm::reception;
use crate::vm::work::Work;
use std::path::PathBuf;

impl Driver {
    /// Begins to receive the VM through `socket`.
    pub(super) fn receive(&mut self, known: CurrentVm, socket: PathBuf) {
        self.mode(Mode::Receiving);
        self.before = Before { acpi: known.machine.features.acpi, ..Before::default() };
        self.prepares(&known);
        self.known = Some(known.clone());
        let (hypervisor, root) = (self.parts.hypervisor.clone(), self.parts.root.clone());
        let tell = self.teller();
        let receive = move || reception::receive(&*hypervisor, &known, &root, &socket, tell);
        self.work = Some(Work::begin("receive".to_owned(), receive));
    }

    /// Takes the VM that has arrived.
    pub(super) fn received(&mut self, arrived: Result<Arrival, Standing>) {
        self.publisher.change(|state| state.receives = false);
        let (arrival, known) = match (arrived, self.known.clone()) {
            (Ok(arrival), Some(known)) => (arrival, known),
            (Err(why), _) => {
                tracing::warn!("{}", why.message);
                return self.over(&why, Mode::Moved);
            }
            (Ok(_), None) => return,
        };
        self.no_migration();
        let _ = self.name.set(known.name.clone());
        self.publisher.change(|state| state.kernel_boot = arrival.kernel_boot);
        self.take_over_guest(known, &arrival.seen);
        self.handle_early_events();
    }
}
