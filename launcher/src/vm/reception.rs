//! Reception of a VM that runs under another launcher, as blocking work.

use super::blocking_work::{Arrival, Outcome, checksums, hooks_of};
use super::handle::CurrentVm;
use super::life::{self, Before, Standing};
use super::prepare::{PrepareMode, prepare};
use crate::domain;
use crate::error::Error;
use crate::hypervisor::{Condition, End, ErrorKind, Event, Hypervisor, Tell};
use crate::root::Root;
use api::launcher::{NOT_RECEIVED, Release};
use api::machine::IoThreads;
use std::fs::File;
use std::path::Path;
use storage::publish::sync_folder;

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
    let mut is_released = false;
    let arrives = |domain: String| {
        is_released = hypervisor.receive(&known.name, &domain, socket, &mut || tell(Event::Receives))?;
        // The guest runs from here on, and each later event has to be heard.
        hypervisor.watch(&known.name, tell)?;
        match is_released {
            true => released(hypervisor, known),
            // Of an end before the watch no event comes.
            false => match hypervisor.state(&known.name) {
                Err(e) if e.kind() == ErrorKind::NotFound => Err(e),
                seen => Ok(Arrival::Held(seen.err().map(|e| e.to_string()))),
            },
        }
    };
    let arrived = match prepared() {
        Err(e) => Err(Standing::failed(NOT_RECEIVED, e.chain())),
        Ok(domain) => arrives(domain).map_err(|e| match is_released || e.kind() == ErrorKind::Ended {
            true => lost(&e),
            false => Standing::failed(NOT_RECEIVED, e.to_string()),
        }),
    };
    Outcome::Received(arrived)
}

/// Lets a VM go on that has arrived.
pub(super) fn release(hypervisor: &dyn Hypervisor, known: &CurrentVm, release: Release) -> Outcome {
    let resumed = if release.runs { hypervisor.resume(&known.name) } else { Ok(()) };
    Outcome::Received(match resumed.and_then(|()| released(hypervisor, known)) {
        Err(e) if e.kind() == ErrorKind::NotFound => Err(lost(&e)),
        Err(e) => Ok(Arrival::Held(Some(e.to_string()))),
        Ok(arrival) => Ok(arrival),
    })
}

/// A VM that was released and is not there. Its disks are those of the guest now.
fn lost(why: &crate::hypervisor::Error) -> Standing {
    Standing { message: why.to_string(), ..life::ended(End::Unknown, &Before::default()) }
}

/// Ends a VM that was not released.
pub(super) fn drop_held(hypervisor: &dyn Hypervisor, known: &CurrentVm) -> Outcome {
    // It may have gone on, and only that be unknown.
    let runs = hypervisor.state(&known.name).is_ok_and(|seen| seen.condition == Condition::Running);
    let ended = hypervisor.destroy(&known.name).or_else(|e| match e.kind() {
        ErrorKind::NotFound | ErrorKind::NotNow => Ok(()),
        _ => Err(e),
    });
    Outcome::Received(match ended {
        Ok(()) if runs => {
            Err(Standing { message: DROPPED.to_owned(), ..life::ended(End::Unknown, &Before::default()) })
        }
        Ok(()) => Err(Standing::failed(NOT_RECEIVED, DROPPED.to_owned())),
        Err(e) => Ok(Arrival::Held(Some(e.to_string()))),
    })
}

fn released(hypervisor: &dyn Hypervisor, known: &CurrentVm) -> crate::hypervisor::Result<Arrival> {
    let seen = hypervisor.state(&known.name)?;
    if let Err(e) = store_variables(known) {
        tracing::warn!("the EFI variables of the VM are not known to be stored: {e}");
    }
    Ok(Arrival::Released { seen, kernel_boot: checksums(known) })
}

/// Writes the EFI variables to their storage. QEMU wrote the file when the guest went on, and syncs it at its own end alone.
fn store_variables(known: &CurrentVm) -> std::io::Result<()> {
    let place = known.sync.resolved.state.as_ref().filter(|_| known.machine.keeps_variables());
    let Some(file) = place.map(|place| &place.variables) else { return Ok(()) };
    File::open(file)?.sync_all()?;
    file.parent().map_or(Ok(()), |folder| Ok(sync_folder(File::open(folder)?)?))
}

/// Message of a VM that was ended before its source had released it.
const DROPPED: &str = "the launcher was told to end before the VM's source had released it";
