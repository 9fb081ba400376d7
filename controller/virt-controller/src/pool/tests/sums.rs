//! Sums of templates, as an upgrade or another program leaves them.

use super::*;
use crate::template::SUM;

const OTHER: &str = "v9.0123456789abcdef.0123456789abcdef.0123456789abcdef";

/// An update would restart the VM, and one of its disks would delete it.
#[test]
fn a_vm_with_sums_of_another_rule_is_left_and_gets_those_of_today() {
    for sums in [json!(OTHER), json!("0123"), Value::Null] {
        let storage = json!({"resources": {"requests": {"storage": "1Gi"}}});
        let disk =
            json!({"metadata": {"name": "data"}, "spec": {"source": {"blank": {}}, "storage": storage}});
        let spec = json!({"virtualMachineTemplate": {"spec": {"dataVolumeTemplates": [disk]}}});
        let (mut sim, key) = begin(1, "Manual", spec);
        let known = sim.get(&vm_key(0))["metadata"]["annotations"][SUMS].clone();
        let asked = json!([{"action": "Start"}]);
        let notes =
            json!({"metadata": {"annotations": {SUMS: sums}}, "status": {"stateChangeRequests": asked}});
        let before = sim.get(&vm_key(0))["spec"].clone();
        let uid = sim.get(&vm_key(0))["metadata"]["uid"].clone();
        sim.change(&vm_key(0), notes);
        sim.put(Kind::VirtualMachineInstance, run_of(&sim));
        sim.settle();
        let vm = sim.get(&vm_key(0));
        assert_eq!((&vm["metadata"]["annotations"][SUMS], &vm["spec"]), (&known, &before), "{sums}");
        assert_eq!((&vm["metadata"]["uid"], crate::sim::is_going(vm)), (&uid, false), "{sums}");
        assert_eq!(going(&sim), [], "{sums}");
        // What is changed from now on is told from it.
        sim.change(&key, grown());
        sim.settle();
        assert_eq!(guest(&sim, &vm_key(0)), "256Mi", "{sums}");
    }
}

/// The VMI of the VM, as it was made.
fn run_of(sim: &Sim) -> Value {
    let vm = sim.get(&vm_key(0));
    let owner = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "web-0", "controller": true,
        "uid": vm["metadata"]["uid"],
    });
    let mut vmi = crate::sim::vmi("web-0");
    vmi["metadata"]["ownerReferences"] = json!([owner]);
    vmi["metadata"]["labels"] = vm["spec"]["template"]["metadata"]["labels"].clone();
    vmi
}

#[test]
fn a_vmi_with_a_sum_of_another_rule_is_not_restarted() {
    for sum in [json!("v9.0123456789abcdef"), Value::Null] {
        let (mut sim, key) = begin(1, "Always", json!({}));
        boot(&mut sim, 1);
        let known = sim.get(&run_key(0))["metadata"]["annotations"][SUM].clone();
        sim.change(&run_key(0), json!({"metadata": {"annotations": {SUM: sum}}}));
        let plan = crate::decide(&sim.world, &key, sim.now);
        assert!(plan.is_empty(), "{plan:?}");
        sim.settle();
        assert_eq!(going(&sim), [], "{sum}");
        assert_eq!(sim.condition(&vm_key(0), "RestartRequired"), None, "{sum}");
        assert_eq!(sim.get(&run_key(0))["metadata"]["annotations"][SUM], known, "{sum}");
        sim.change(&key, grown());
        sim.settle();
        assert_eq!(going(&sim), [run_key(0)], "{sum}");
    }
}
