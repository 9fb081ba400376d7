//! Work that broke off by a fault of the launcher: a thread panicked, or could not begin.
//!
//! A request has failed by that. A start has, too, but its QEMU may run: the VM is not said to have ended before
//! QEMU is gone.

use super::{Driver, TICK};
use crate::hypervisor::{Error, ErrorKind};
use crate::vm::blocking_work::{self, Outcome};
use crate::vm::life::Standing;
use crate::vm::queue::{Mode, word};
use crate::vm::work::Work;
use api::launcher::{NOT_RECEIVED, START_FAILED};
use tokio::time::Instant;

impl Driver {
    pub(super) fn broke(&mut self, why: String) {
        tracing::error!("{why}");
        if self.queue.mode() == Mode::Receiving {
            self.received(Err(Standing::failed(NOT_RECEIVED, why)));
        } else if self.queue.mode() == Mode::Preparing {
            // The end of QEMU may break off as well.
            self.tick = Some(Instant::now() + TICK);
            self.broken_start.get_or_insert(Standing::failed(START_FAILED, why));
        } else if let Some(request) = self.queue.doing().cloned() {
            let error = Error::new(ErrorKind::Failed, word(&request), why);
            self.done(&request, Err(error));
        }
    }

    pub(super) fn end_broken_start(&mut self, name: &str, why: Standing) {
        let (hypervisor, name) = (self.parts.hypervisor.clone(), name.to_owned());
        let end = move || {
            blocking_work::end_failed_start(&*hypervisor, &name);
            Outcome::Started(Err(why))
        };
        self.work = Some(Work::begin("start".to_owned(), end));
    }
}
