//! The VM of another launcher, which migrates it here.
//!
//! ```text
//!  the first sync ──► recorded as elsewhere ──► Mode::Receiving ──► here: taken over as it runs     not here: Mode::Moved
//!                                                      └──► here and paused: held ── Request::Release ──► taken over
//! ```
//!
//! **One guest.** A VM arrives paused. The source says on a connection of its own that its domain is gone, and only then the guest
//! goes on (`hypervisor::receiver`). If that word does not come, virt-handler gives it once the VMI's status has it.
//!
//! The record is written before the VM is kept, and removed when the VM is here: no launcher on this folder ever starts it, whenever
//! one is killed.

use super::Driver;
use crate::hypervisor::Event;
use crate::vm::blocking_work::Arrival;
use crate::vm::handle::CurrentVm;
use crate::vm::life::{Before, Standing};
use crate::vm::queue::Mode;
use crate::vm::reception;
use crate::vm::work::Work;
use api::launcher::{AWAITS_RELEASE, Answer, Life, NOT_RECEIVED, Release};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;

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
        let Some(known) = self.known.clone() else { return };
        let (seen, kernel_boot) = match arrived {
            Ok(Arrival::Released { seen, kernel_boot }) => (seen, kernel_boot),
            Ok(Arrival::Held(why)) => return self.await_release(why),
            Err(why) => {
                tracing::warn!("{}", why.message);
                self.awaits_release = false;
                return self.over(&why, Mode::Moved);
            }
        };
        self.awaits_release = false;
        self.no_migration();
        let _ = self.name.set(known.name.clone());
        self.publisher.change(|state| state.kernel_boot = kernel_boot);
        self.take_over_guest(known, &seen);
        self.handle_early_events();
    }

    /// Keeps a VM paused that is here, and of which the source may still have a domain.
    pub(super) fn await_release(&mut self, why: Option<String>) {
        self.mode(Mode::Receiving);
        self.awaits_release = true;
        let message = why.unwrap_or_else(|| HELD.to_owned());
        tracing::warn!("{message}");
        self.stands(&Standing { life: Life::Paused, reason: AWAITS_RELEASE, message });
    }

    /// Lets the VM go on. `None` for one that is not held.
    pub(super) fn release(&mut self, release: Release) -> Option<Answer> {
        let known = self.known.clone().filter(|_| self.awaits_release)?;
        if self.work.is_some() {
            return Some(Answer::Ignored { reason: "the VM is being released already".into() });
        }
        let hypervisor = self.parts.hypervisor.clone();
        let go_on = move || reception::release(&*hypervisor, &known, release);
        self.work = Some(Work::begin("release".to_owned(), go_on));
        Some(Answer::Queued)
    }

    /// Ends a reception whose launcher is to end.
    pub(super) fn end_reception(&mut self) {
        let held = self.known.clone().filter(|_| self.awaits_release);
        match held {
            None => self.parts.hypervisor.stop_receiving(),
            Some(known) if self.work.is_none() && self.is_release_late() => {
                let hypervisor = self.parts.hypervisor.clone();
                let end = move || reception::drop_held(&*hypervisor, &known);
                self.work = Some(Work::begin("end".to_owned(), end));
            }
            Some(_) => {}
        }
    }

    /// True if the source has not released the VM for so long since the launcher was told to end that it is dropped.
    fn is_release_late(&mut self) -> bool {
        let now = Instant::now();
        now.duration_since(*self.held_to_end.get_or_insert(now)) >= RELEASED
    }

    /// An event of a VM that is held: most wait until it is released.
    pub(super) fn event_of_held(&mut self, event: Event) {
        match event {
            Event::Ended(end) if self.work.is_none() => {
                let message = format!("{LOST} ({end:?})");
                self.received(Err(Standing::failed(NOT_RECEIVED, message)));
            }
            event => self.early.push(event),
        }
    }
}

/// Time for the source's word to come after the launcher was told to end: the source may have gone, and only its word be late.
const RELEASED: Duration = Duration::from_secs(if cfg!(test) { 3 } else { 30 });
/// Message of a VM that has not been released.
const HELD: &str =
    "the VM has arrived, and is paused until its source has said that it does not run there any more";
/// Message of a VM that ended before.
const LOST: &str = "the VM had arrived, and its QEMU ended before the source had released it";
