//! The way from a VMI to a `Machine`, as the admission of a cluster goes it: defaults, then the judgement.

use api::defaults::{self, Given};
use api::fault::Fault;
use api::machine::{Machine, Settings};
use api::uuid;
use api::vmi::VirtualMachineInstance;
use api::wire::Path;

/// Fills in what is left open. A guest that is started again finds the computer that it knows.
pub(crate) fn complete(vmi: &mut VirtualMachineInstance) {
    let name = vmi.metadata.name.as_deref().unwrap_or_default();
    defaults::apply(vmi, &Given::new(uuid::of_vm(name)));
}

/// The `Machine`, or everything that is wrong with it; its spec was written at `at`.
pub(crate) fn machine(vmi: &VirtualMachineInstance, at: &str) -> Result<Machine, Vec<Fault>> {
    Machine::check(vmi, &Settings::of_laptop().standing_at(Path::of(at)))
}
