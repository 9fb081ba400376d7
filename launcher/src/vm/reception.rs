//! Reception of a VM that runs under another launcher, as blocking work.

use super::blocking_work::{Arrival, Outcome, checksums, hooks_of};
use super::handle::CurrentVm;
use super::life::Standing;
use super::prepare::{PrepareMode, prepare};
use crate::domain;
use crate::error::Error;
use crate::hypervisor::{ErrorKind, Event, Hypervisor, Tell};
use crate::root::Root;
use api::launcher::{NOT_RECEIVED, Release};
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
        let is_released = hypervisor.receive(&known.name, &domain, socket, &mut || tell(Event::Receives))?;
        // The guest runs from here on, and each later event has to be heard.
        hypervisor.watch(&known.name, tell)?;
        if is_released { released(hypervisor, known) } else { Ok(Arrival::Held(None)) }
    };
    let arrived =
        prepared().map_err(|e| e.chain()).and_then(|domain| arrives(domain).map_err(|e| e.to_string()));
    Outcome::Received(arrived.map_err(|why| Standing::failed(NOT_RECEIVED, why)))
}

/// Lets a VM go on that has arrived.
pub(super) fn release(hypervisor: &dyn Hypervisor, known: &CurrentVm, release: Release) -> Outcome {
    let resumed = if release.runs { hypervisor.resume(&known.name) } else { Ok(()) };
    let arrived = resumed.and_then(|()| released(hypervisor, known));
    Outcome::Received(Ok(arrived.unwrap_or_else(|e| Arrival::Held(Some(e.to_string())))))
}

/// Ends a VM that was not released.
pub(super) fn drop_held(hypervisor: &dyn Hypervisor, known: &CurrentVm) -> Outcome {
    let ended = hypervisor.destroy(&known.name).or_else(|e| match e.kind() {
        ErrorKind::NotFound | ErrorKind::NotNow => Ok(()),
        _ => Err(e),
    });
    Outcome::Received(match ended {
        Ok(()) => Err(Standing::failed(NOT_RECEIVED, DROPPED.to_owned())),
        Err(e) => Ok(Arrival::Held(Some(e.to_string()))),
    })
}

fn released(hypervisor: &dyn Hypervisor, known: &CurrentVm) -> crate::hypervisor::Result<Arrival> {
    let seen = hypervisor.state(&known.name)?;
    Ok(Arrival::Released { seen, kernel_boot: checksums(known) })
}

/// Message of a VM that was ended before its source had released it.
const DROPPED: &str = "the launcher was told to end before the VM's source had released it";
