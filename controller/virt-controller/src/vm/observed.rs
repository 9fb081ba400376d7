//! A VM as its objects are now. Its written status may be of an earlier leader, or of before an outage.

use super::{carrier, change, disks, failure, is_of, status};
use crate::vmi::volume_update;
use api::vm::VirtualMachine;
use cluster_model::objects::World;
use jiff::Timestamp;

/// The VM with the status that follows from its VMI, its pods and its disks.
pub(crate) fn observed(world: &World, vm: &VirtualMachine, now: Timestamp) -> VirtualMachine {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let found = world.vmis.get(&text(&vm.metadata.namespace), &text(&vm.metadata.name));
    let vmi = found.filter(|vmi| is_of(vm, vmi)).map(|vmi| crate::vmi::observed(world, vmi, now));
    let run = carrier::run_of(vmi.as_ref());
    let mut next = vm.clone();
    let strategy = vm.run_strategy();
    failure::count(&mut next, run, now);
    change::forget_if_halted(&mut next, &strategy);
    change::remove_done(&mut next, &strategy, run);
    let update = volume_update::find(world, vm, run);
    let disks = disks::find(world, vm, vmi.as_ref()).unless_broken(&update);
    status::write(&mut next, &strategy, run, (&disks, &update), None, now);
    next
}
