//! The steps from a VMI to a `Machine`, as admission in a cluster does them: defaults first, then the checks.

use api::defaults::{self, DefaultsContext};
use api::fault::Fault;
use api::machine::{Machine, Settings};
use api::uuid;
use api::vmi::VirtualMachineInstance;
use api::wire::Path;

/// Applies the defaults. The firmware UUID follows from the name, so a guest that is started again finds the
/// same hardware.
pub(crate) fn complete(vmi: &mut VirtualMachineInstance) {
    let name = vmi.metadata.name.as_deref().unwrap_or_default();
    defaults::apply(vmi, &DefaultsContext::new(uuid::of_vm(name)));
}

/// The `Machine`, or all faults of the VMI; `at` is the path of its spec in the file.
pub(crate) fn machine(vmi: &VirtualMachineInstance, at: &str) -> Result<Machine, Vec<Fault>> {
    Machine::check(vmi, &Settings::of_laptop().at_path(Path::of(at)))
}
