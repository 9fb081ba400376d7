//! Links of interfaces that go down or up while the guest runs: `state` of the VM's template reaches the VMI at once, and
//! virt-handler the launcher. Nothing else of an interface does.

use crate::template::is_live;
use api::vm::VirtualMachine;
use api::vmi::{InterfaceState, VirtualMachineInstance};
use api::wire::Wire;
use cluster_model::objects::Kind;
use cluster_model::plan::Plan;

/// Gives the interfaces of a VMI the states that its VM has.
pub(super) fn sync_states(vm: &VirtualMachine, vmi: &VirtualMachineInstance, plan: &mut Plan) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn domain(name: &str, state: &Value) -> Value {
        json!({"domain": {"devices": {"interfaces": [{"name": name, "bridge": {}, "state": state}]}}})
    }

    /// The state of the VMI's interface that is written; `None` if nothing is.
    fn followed(wanted: (&str, &Value), has: &Value, phase: &str, is_going: bool) -> Option<Value> {
        let template = json!({"spec": domain(wanted.0, wanted.1)});
        let vm = api::wire::read(json!({"metadata": {}, "spec": {"template": template}})).unwrap();
        let going = is_going.then_some("2027-01-01T00:00:00Z");
        let meta = json!({"namespace": "n", "name": "web", "uid": "u", "deletionTimestamp": going});
        let vmi = json!({"metadata": meta, "spec": domain("lan", has), "status": {"phase": phase}});
        let mut plan = Plan::default();
        sync_states(&vm, &api::wire::read(vmi).unwrap(), &mut plan);
        let cluster_model::plan::Step::Patch { change, .. } = plan.steps.first()? else { return None };
        Some(change["spec"]["domain"]["devices"]["interfaces"][0]["state"].clone())
    }

    /// A cable that is pulled, or put in, without a word.
    #[test]
    fn a_link_follows_its_vm_while_the_guest_runs() {
        let (none, up, down, absent) = (Value::Null, json!("up"), json!("down"), json!("absent"));
        for (wanted, has, written) in [
            (&down, &none, Some(&down)),
            (&down, &up, Some(&down)),
            (&up, &down, Some(&up)),
            (&none, &down, Some(&none)),
            (&up, &none, None),
            (&none, &up, None),
            (&down, &down, None),
            (&absent, &none, None),
            (&absent, &down, None),
            (&down, &absent, None),
            (&up, &absent, None),
        ] {
            let is = followed(("lan", wanted), has, "Running", false);
            assert_eq!(is.as_ref(), written, "{wanted} {has}");
        }
        assert_eq!(followed(("wan", &down), &none, "Running", false), None, "another interface");
        assert_eq!(followed(("lan", &down), &none, "Failed", false), None, "it has ended");
        assert_eq!(followed(("lan", &down), &none, "Running", true), None, "it ends");
    }
}
