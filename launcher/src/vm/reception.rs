//! Reception of a VM that runs under another launcher, as blocking work.

use super::blocking_work::{Arrival, Outcome, checksums, hooks_of};
use super::handle::CurrentVm;
use super::life::Standing;
use super::prepare::{PrepareMode, prepare};
use crate::domain;
use crate::error::Error;
use crate::hypervisor::{Event, Hypervisor, Tell};
use crate::root::Root;
use api::launcher::NOT_RECEIVED;
use api::machine::IoThreads;
use std::path::Path;

/// Creates the parts of the VM, and waits for it. The first event says that the other launcher may connect to `socket`.
pub(super) fn receive(
    hypervisor: &dyn Hypervisor,
    known: &CurrentVm,
    root: &Root,
    socket: &Path,
    tell: Tell,
) -> Outcome {
    let prepared = || {
        let wishes = hooks_of(known)?;
        // The other launcher's QEMU writes to the devices: they are claimed when the VM is here.
        let how = PrepareMode::Receive(&wishes);
        let (mut host, _) = prepare(&known.machine, &known.sync.resolved, root, how)?;
        // No driver is open that could be asked. A libvirt that knows folders of shared storage knows this, too.
        host.iothread_mapping = matches!(known.machine.io_threads, IoThreads::Pool(_));
        let drawn = domain::render(&known.machine, &host)
            .map_err(|e| Error::refused("cannot draw the domain").because(e))?;
        wishes.domain(drawn)
    };
    let arrives = |domain: String| {
        hypervisor.receive(&known.name, &domain, socket, &mut || tell(Event::Receives))?;
        // The guest runs from here on, and each later event has to be heard.
        hypervisor.watch(&known.name, tell)?;
        hypervisor.state(&known.name)
    };
    let arrived =
        prepared().map_err(|e| e.chain()).and_then(|domain| arrives(domain).map_err(|e| e.to_string()));
    Outcome::Received(match arrived {
        Ok(seen) => Ok(Arrival { seen, kernel_boot: checksums(known) }),
        Err(why) => Err(Standing::failed(NOT_RECEIVED, why)),
    })
}
