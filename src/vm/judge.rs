//! The way from an instance to a machine, as the admission of a cluster goes it: defaults, then the judgement.

use api::defaults::{self, Given};
use api::fault::Fault;
use api::machine::{Machine, Settings};
use api::uuid;
use api::vmi::VirtualMachineInstance;
use api::wire::Path;

/// Fills in what is left open. A guest that is started again finds the computer that it knows.
pub(crate) fn complete(instance: &mut VirtualMachineInstance) {
    let name = instance.metadata.name.as_deref().unwrap_or_default();
    defaults::apply(instance, &Given::new(uuid::of_vm(name)));
}

/// The machine, or everything that is wrong with it; its spec was written at `at`.
pub(crate) fn machine(instance: &VirtualMachineInstance, at: &str) -> Result<Machine, Vec<Fault>> {
    Machine::check(instance, &Settings::of_laptop().standing_at(Path::of(at)))
}
