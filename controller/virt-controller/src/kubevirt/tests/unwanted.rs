//! KubeVirt objects beside that of the installation. They have no effect, and their end is not the end of the VMs.

use super::*;

fn other(namespace: &str, name: &str) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name}, "spec": {}})
}

fn going(sim: &Sim, key: &Key) -> bool {
    crate::sim::is_going(sim.get(key))
}

/// `a` comes before the object of the installation by its name, `second` behind it.
#[test]
fn the_deletion_of_another_kubevirt_object_deletes_no_vm() {
    for (namespace, name) in [("other", "kubevirt"), ("kubevirt", "second"), ("kubevirt", "a")] {
        let (mut sim, key) = begin();
        webhooks(&mut sim, true);
        let of_vm = sim.put(Kind::VirtualMachine, vm("web", "Always"));
        let run = Key::new(Kind::VirtualMachineInstance, "n", "web");
        sim.boot(&run);
        sim.change(&key, json!({"spec": {"uninstallStrategy": "BlockUninstallIfWorkloadsExist"}}));
        let mut held = other(namespace, name);
        // An earlier version of virt-controller added the finalizer to each KubeVirt object.
        held["metadata"]["finalizers"] = json!(["foregroundDeleteKubeVirt", "example.com/held"]);
        let other = sim.put(Kind::KubeVirt, held);
        sim.settle();
        sim.delete(&other);
        sim.settle();
        assert!(!going(&sim, &of_vm) && !going(&sim, &run), "{namespace}/{name}");
        assert_eq!(sim.get(&other)["metadata"]["finalizers"], json!(["example.com/held"]));
        assert_ne!(sim.get(&other)["status"]["phase"], "Deleting", "{namespace}/{name}");
        sim.change(&other, json!({"metadata": {"finalizers": []}}));
        sim.settle();
        assert!(!sim.objects.contains_key(&other) && sim.objects.contains_key(&key));
        assert_eq!(sim.condition(&key, "Available").unwrap().0, "True");
    }
}

/// The installation was moved to another namespace, and the object of the former one is deleted.
#[test]
fn the_deletion_of_the_kubevirt_object_of_a_former_namespace_deletes_no_vm() {
    let mut sim = Sim::empty();
    let meta = json!({"namespace": "former", "name": "kubevirt", "finalizers": ["foregroundDeleteKubeVirt"]});
    let former = sim.put(Kind::KubeVirt, json!({"metadata": meta, "spec": {}}));
    let of_vm = sim.put(Kind::VirtualMachine, vm("web", "Always"));
    sim.settle();
    let own = Key::new(Kind::KubeVirt, "kubevirt", "kubevirt");
    assert!(sim.objects.contains_key(&own), "the installation has one of its own");
    sim.delete(&former);
    sim.settle();
    assert!(!going(&sim, &of_vm) && !sim.objects.contains_key(&former));
}

#[test]
fn another_kubevirt_object_says_once_that_it_has_no_effect() {
    let (mut sim, key) = begin();
    let ca = json!({"ca": {"duration": "20m"}});
    let mut strange = other("other", "kubevirt");
    strange["spec"] = json!({
        "certificateRotateStrategy": {"selfSigned": ca}, "configuration": {"developerConfiguration": {"useEmulation": true}},
    });
    strange["status"] = json!({"phase": "Deployed"});
    let strange = sim.put(Kind::KubeVirt, strange);
    sim.settle();
    let (status, reason, said) = sim.condition(&strange, "Synchronized").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ExistingDeployment"));
    assert_eq!(
        said,
        "KubeVirt kubevirt/kubevirt is in use, and a cluster has only one KubeVirt object: this one has no effect; delete it"
    );
    assert_eq!(sim.condition(&strange, "Available").unwrap().0, "False");
    assert_eq!(sim.get(&strange)["status"]["phase"], Value::Null);
    assert!(sim.get(&strange)["metadata"]["finalizers"].is_null());
    assert_eq!(sim.condition(&key, "Synchronized").unwrap().0, "True");
    assert!(!sim.world.config().use_emulation);
    let writes = sim.writes;
    sim.advance(3600);
    sim.settle();
    assert_eq!(sim.writes, writes, "it is said once");
    assert_eq!(sim.reasons().iter().filter(|reason| **reason == "ExistingDeployment").count(), 1);
}

/// A user deletes the installation, and the other object is not looked at.
#[test]
fn the_installation_ends_though_another_kubevirt_object_stays() {
    let (mut sim, key) = begin();
    webhooks(&mut sim, true);
    let other = sim.put(Kind::KubeVirt, other("other", "kubevirt"));
    let halted = sim.put(Kind::VirtualMachine, vm("web", "Halted"));
    sim.settle();
    sim.delete(&key);
    sim.settle();
    assert!(!sim.objects.contains_key(&halted), "the VMs are deleted");
    let plan = crate::certificates::decide(&sim.world, sim.now);
    sim.apply(plan);
    assert!(sim.keys(Kind::ValidatingWebhookConfiguration).is_empty(), "the webhooks are deleted");
    let dependents = sim.world.dependents(&Key::new(Kind::VirtualMachine, "n", "web"));
    assert!(dependents.contains(&key) && !dependents.contains(&other), "{dependents:?}");
    sim.settle();
    assert!(!sim.objects.contains_key(&key) && sim.objects.contains_key(&other));
    let note = Key::new(Kind::ConfigMap, "kubevirt", REMOVED);
    assert!(sim.objects.contains_key(&note), "the removal is recorded");
    sim.settle();
    assert!(!sim.objects.contains_key(&key) && sim.objects.contains_key(&note), "it is not created again");
}

/// The object of another namespace is the first of all.
#[test]
fn certificates_are_renewed_as_the_object_of_the_installation_says() {
    let strategy =
        |hours: &str| json!({"certificateRotateStrategy": {"selfSigned": {"ca": {"duration": hours}}}});
    let lengths = |is_stray: bool| {
        let (mut sim, key) = begin();
        sim.change(&key, json!({"spec": strategy("100h")}));
        if is_stray {
            let mut stray = other("a", "kubevirt");
            stray["spec"] = strategy("20m");
            sim.put(Kind::KubeVirt, stray);
        }
        let plan = crate::certificates::decide(&sim.world, sim.now);
        format!("{:?}", plan.steps)
    };
    assert_eq!(lengths(true), lengths(false));
}
