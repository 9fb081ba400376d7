//! What a changed template leaves as it is in a VM.

use super::*;
use api::defaults::{DefaultsContext, apply_to_vm};

/// `kubectl label vm`. The webhook completes the VM; it is not asked about changes of a VM by virt-controller.
fn label(sim: &mut Sim, number: usize) {
    let before = sim.get(&vm_key(number)).clone();
    let mut vm: VirtualMachine = wire::read(before.clone()).unwrap();
    let given: DefaultsContext = sim.world.config().defaults_context(api::uuid::of_vm(&vm_key(number).name));
    apply_to_vm(&mut vm, &given);
    vm.metadata.labels.insert("team".to_owned(), "a".to_owned());
    if let Some(change) = cluster_model::plan::difference(&before, &vm.write()) {
        sim.change(&vm_key(number), change);
    }
}

fn of_vms(spec: Value) -> Value {
    json!({"spec": {"virtualMachineTemplate": {"spec": spec}}})
}

/// The first VM was completed by the webhook when it was created, the other one by none.
#[test]
fn a_label_on_a_vm_whose_template_was_changed_restarts_no_guest() {
    let (mut sim, key) = begin(2, "Always", json!({}));
    label(&mut sim, 0);
    boot(&mut sim, 2);
    sim.change(&key, grown());
    sim.settle();
    (0..2).for_each(|number| ends(&mut sim, &run_key(number)));
    assert_eq!(going(&sim), [], "both have the new template");
    let spec = sim.get(&vm_key(0))["spec"].clone();
    (0..2).for_each(|number| label(&mut sim, number));
    sim.settle();
    assert_eq!(going(&sim), []);
    assert_eq!(sim.get(&vm_key(0))["spec"], spec, "the webhook finds nothing to complete");
    assert_eq!(sim.condition(&vm_key(0), "RestartRequired"), None);
}

/// A guest keeps its hardware where the default has become another; the template may choose it.
#[test]
fn a_vm_keeps_the_machine_type_that_its_template_does_not_set() {
    let (mut sim, key) = begin(1, "Halted", json!({}));
    let own = json!({"architecture": "amd64", "domain": {"machine": {"type": "pc-q35-7.2"}}});
    let notes = json!({"annotations": {"kubevirt.io/pci-topology-version": "v2"}});
    sim.change(&vm_key(0), json!({"spec": {"template": {"metadata": notes, "spec": own}}}));
    sim.change(&key, grown());
    sim.settle();
    let template = |sim: &Sim| sim.get(&vm_key(0))["spec"]["template"].clone();
    assert_eq!(guest(&sim, &vm_key(0)), "256Mi");
    assert_eq!(template(&sim)["spec"]["domain"]["machine"]["type"], "pc-q35-7.2");
    assert_eq!(template(&sim)["metadata"]["annotations"]["kubevirt.io/pci-topology-version"], "v2");
    // An empty type is one that is not set.
    sim.change(&key, of_vms(json!({"template": {"spec": {"domain": {"machine": {"type": ""}}}}})));
    sim.settle();
    assert_eq!(template(&sim)["spec"]["domain"]["machine"]["type"], "pc-q35-7.2");
    sim.change(&key, of_vms(json!({"template": {"spec": {"domain": {"machine": {"type": "q35"}}}}})));
    sim.settle();
    assert_eq!(template(&sim)["spec"]["domain"]["machine"]["type"], "q35");
}

/// Another preference prefers another machine type, as for a new VM.
#[test]
fn a_vm_with_another_preference_gets_its_machine_type() {
    let (mut sim, key) = begin(1, "Halted", json!({}));
    let preferred = |machine: &str| json!({"machine": {"preferredMachineType": machine}});
    for (name, machine) in [("one", "pc-q35-7.2"), ("two", "pc-q35-8.2")] {
        let meta = json!({"namespace": "n", "name": name});
        sim.put(Kind::VirtualMachinePreference, json!({"metadata": meta, "spec": preferred(machine)}));
        let preference = json!({"name": name, "kind": "VirtualMachinePreference"});
        sim.change(&key, of_vms(json!({"preference": preference})));
        sim.settle();
        let spec = sim.get(&vm_key(0))["spec"].clone();
        assert_eq!(spec["template"]["spec"]["domain"]["machine"]["type"], machine, "{spec}");
    }
}

/// The number of guests that an update stops is that of `maxUnavailable`; an opportunistic one stops none.
#[test]
fn vms_that_were_started_one_by_one_run_on_when_the_template_gets_a_label() {
    for (strategy, of_template, own) in [
        ("opportunistic", "Halted", "Always"),
        ("proactive", "Halted", "Always"),
        ("proactive", "Always", "Halted"),
    ] {
        let more = json!({"updateStrategy": {strategy: {}}, "maxUnavailable": 1});
        let (mut sim, key) = begin(3, of_template, more);
        (0..3).for_each(|number| sim.change(&vm_key(number), json!({"spec": {"runStrategy": own}})));
        sim.settle();
        if own == "Always" {
            boot(&mut sim, 3);
        }
        let vmis = sim.keys(Kind::VirtualMachineInstance).len();
        let labels = json!({"labels": {"team": "a"}});
        sim.change(&key, json!({"spec": {"virtualMachineTemplate": {"metadata": labels}}}));
        sim.settle();
        assert_eq!(sim.get(&vm_key(0))["metadata"]["labels"]["team"], "a");
        assert_eq!(
            (going(&sim), sim.keys(Kind::VirtualMachineInstance).len()),
            (vec![], vmis),
            "{strategy} {own}"
        );
        (0..3).for_each(|number| assert_eq!(sim.get(&vm_key(number))["spec"]["runStrategy"], own));
    }
}

/// The template halts all of its VMs, and `running` is another word for the same.
#[test]
fn a_run_strategy_that_the_template_changes_is_that_of_all_vms() {
    let (mut sim, key) = begin(2, "Halted", json!({}));
    sim.change(&vm_key(0), json!({"spec": {"runStrategy": "Manual"}}));
    sim.change(&key, of_vms(json!({"runStrategy": "Always"})));
    sim.settle();
    (0..2).for_each(|number| assert_eq!(sim.get(&vm_key(number))["spec"]["runStrategy"], "Always"));
    sim.change(&vm_key(0), json!({"spec": {"runStrategy": "Manual"}}));
    sim.change(&key, of_vms(json!({"runStrategy": null, "running": true})));
    sim.settle();
    assert_eq!(sim.get(&vm_key(0))["spec"]["runStrategy"], "Manual", "the template says the same");
    sim.change(&key, of_vms(json!({"runStrategy": null, "running": false})));
    sim.settle();
    for number in 0..2 {
        let spec = &sim.get(&vm_key(number))["spec"];
        assert_eq!((&spec["running"], &spec["runStrategy"]), (&json!(false), &Value::Null));
    }
}

/// Its annotation has no sum of the run strategy: an earlier version wrote it.
#[test]
fn a_vm_of_an_earlier_version_keeps_its_run_strategy_and_the_sums_of_its_disks() {
    for is_known in [true, false] {
        let (mut sim, key) = begin(1, "Halted", json!({"updateStrategy": {"opportunistic": {}}}));
        let disk = json!({"metadata": {"name": "data"}, "spec": blank()});
        sim.change(&key, of_vms(json!({"dataVolumeTemplates": [disk]})));
        sim.settle();
        let sums =
            |sim: &Sim| sim.get(&vm_key(0))["metadata"]["annotations"][SUMS].as_str().unwrap().to_owned();
        let today = sums(&sim);
        let before = today.rsplit_once('.').unwrap().0.to_owned();
        sim.change(&vm_key(0), json!({"metadata": {"annotations": {SUMS: before}}}));
        sim.change(&vm_key(0), json!({"spec": {"runStrategy": "Manual"}}));
        if is_known {
            sim.settle();
            assert_eq!(sums(&sim), today, "the template is the same, so its run strategy is known");
        }
        sim.change(&key, of_vms(json!({"runStrategy": "Always"})));
        sim.settle();
        let strategy = if is_known { "Always" } else { "Manual" };
        assert_eq!(sim.get(&vm_key(0))["spec"]["runStrategy"], strategy);
    }
}
