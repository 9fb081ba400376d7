//! Reception of a VM that runs under another launcher, as blocking work.

use super::blocking_work::{Arrival, Outcome, checksums, hooks_of};
use super::handle::CurrentVm;
use super::life::Standing;
use super::prepare::{PrepareMode, prepare};
use crate::hypervisor::{Event, Hypervisor, Tell};
use crate::root::Root;
use api::launcher::NOT_RECEIVED;
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
        prepare(&known.machine, &known.sync.resolved, root, PrepareMode::Receive(&wishes)).map(drop)
    };
    let arrives = || {
        hypervisor.receive(&known.name, socket, &mut || tell(Event::Receives))?;
        // The guest runs from here on, and each later event has to be heard.
        hypervisor.watch(&known.name, tell)?;
        hypervisor.state(&known.name)
    };
    let arrived = prepared().map_err(|e| e.chain()).and_then(|()| arrives().map_err(|e| e.to_string()));
    Outcome::Received(match arrived {
        Ok(seen) => Ok(Arrival { seen, kernel_boot: checksums(known) }),
        Err(why) => Err(Standing::failed(NOT_RECEIVED, why)),
    })
}
