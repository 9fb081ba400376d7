//! Time that passes: the tick, and work that does not return.

use super::{Driver, TICK};
use crate::vm::blocking_work::{self, Outcome};
use crate::vm::grace::Grace;
use crate::vm::migration::Control;
use crate::vm::queue::Mode;
use crate::vm::work::Work;
use std::path::PathBuf;
use tokio::time::Instant;

impl Driver {
    pub(super) fn ticked(&mut self) {
        self.tick = None;
        let Some(known) = &self.known else { return };
        let (hypervisor, name) = (self.parts.hypervisor.clone(), known.name.clone());
        match (self.queue.mode(), &self.disk_error) {
            (Mode::Preparing, _) if self.work.is_none() => match self.broken_start.clone() {
                Some(why) => self.end_broken_start(&name, why),
                None => self.start(),
            },
            (Mode::Stopping, _) if self.work.is_none() => {
                self.tick = Some(Instant::now() + TICK);
                let press = move || Outcome::WentOn(hypervisor.shutdown(&name));
                self.work = Some(Work::begin("shutdown".to_owned(), press));
            }
            (Mode::Paused, Some(error)) if error.no_space => {
                self.tick = Some(Instant::now() + TICK);
                if self.work.is_none() {
                    let path = PathBuf::from(&error.path);
                    let go_on = move || blocking_work::go_on_with_room(&*hypervisor, &name, &path);
                    self.work = Some(Work::begin("resume".to_owned(), go_on));
                }
            }
            (Mode::Stopping, _) => self.tick = Some(Instant::now() + TICK),
            _ => {}
        }
    }

    /// Handles work that takes too long.
    pub(super) fn work_hangs(&mut self) {
        let Some(known) = &self.known else { return };
        let grace = known.machine.grace_period;
        if let (None, Some(seconds)) = (self.grace, self.queue.waiting_shutdown(grace)) {
            // The guest may not receive the request before its time is over.
            self.grace = Some(Grace::begin(None, seconds, Instant::now()));
        }
        let Some(work) = &mut self.work else { return };
        // A migration ends by its abort, if it can.
        if self.queue.is_to_end(grace) && self.migration.as_deref().is_none_or(Control::hangs) {
            work.force(&self.parts.hypervisor, &known.name);
        }
        // A migration takes its time, at both ends.
        if let Some(late) = work.looked()
            && self.migration.is_none()
            && self.queue.mode() != Mode::Receiving
        {
            tracing::warn!("{late}");
            self.publisher.change(|state| state.message = Some(late));
        }
    }
}
