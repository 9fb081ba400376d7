//! The way from an instance to a machine, as the admission of a cluster goes it: defaults, then the judgement.

use api::fault::Fault;
use api::machine::Machine;
use api::vmi::VirtualMachineInstance;

/// Fills in what is left open.
pub(crate) fn defaults(_instance: &mut VirtualMachineInstance) {}

/// The machine, or everything that is wrong with it.
pub(crate) fn machine(_instance: &VirtualMachineInstance) -> Result<Machine, Vec<Fault>> {
    Err(vec![Fault::not_yet("spec")])
}
