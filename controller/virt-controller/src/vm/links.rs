//! Links of interfaces that go down or up while the guest runs: `state` of the VM's template reaches the VMI at once, and
//! virt-handler the launcher. Nothing else of an interface does.

use api::vm::VirtualMachine;
use api::vmi::{InterfaceState, VirtualMachineInstance};
use api::wire::Wire;
use cluster_model::objects::Kind;
use cluster_model::plan::Plan;

/// A state that an interface can be given while its guest runs.
pub(super) fn is_live(state: &InterfaceState) -> bool {
    match state {
        InterfaceState::Up | InterfaceState::Down => true,
        // One that is to go, goes with the next start.
        InterfaceState::Absent | InterfaceState::Other(_) => false,
    }
}

/// Gives the interfaces of a VMI the states that its VM has.
pub(super) fn follow(vm: &VirtualMachine, vmi: &VirtualMachineInstance, plan: &mut Plan) {
    let has_ended = crate::vmi::phase(vmi).is_final() || vmi.metadata.deletion_timestamp.is_some();
    let Some(template) = vm.spec.template.as_ref().filter(|_| !has_ended) else { return };
    let mut next = vmi.clone();
    for interface in &mut next.spec.domain.devices.interfaces {
        let wanted =
            template.spec.domain.devices.interfaces.iter().find(|wanted| wanted.name == interface.name);
        let Some(wanted) = wanted else { continue };
        let live = |state: &Option<InterfaceState>| state.as_ref().is_none_or(is_live);
        let is_down = |state: &Option<InterfaceState>| *state == Some(InterfaceState::Down);
        if live(&wanted.state)
            && live(&interface.state)
            && is_down(&wanted.state) != is_down(&interface.state)
        {
            interface.state.clone_from(&wanted.state);
        }
    }
    if next.spec != vmi.spec {
        plan.update(Kind::VirtualMachineInstance, &vmi.metadata, &vmi.write(), &next.write(), false);
    }
}
