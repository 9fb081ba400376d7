//! PVCs with a dataSourceRef that Kubernetes bound to a volume that nothing filled.

use super::*;

/// kube-controller-manager binds a PVC to any free volume of its class, whatever its dataSourceRef names.
#[test]
fn a_datavolume_whose_pvc_was_bound_to_a_free_volume_does_not_succeed() {
    let mut sim = Sim::new();
    class(&mut sim, "Immediate");
    let spec = json!({"source": {"http": {"url": "https://images.example/a.qcow2"}}});
    sim.put(Kind::VolumeImportSource, json!({"metadata": {"namespace": "n", "name": "gold"}, "spec": spec}));
    let pvc = claim("VolumeImportSource")["spec"].clone();
    let meta = json!({"namespace": "n", "name": "disk"});
    let volume = sim.put(Kind::DataVolume, json!({"metadata": meta, "spec": {"pvc": pvc}}));
    sim.settle();
    sim.change(&target(), json!({"spec": {"volumeName": "pv-static"}, "status": {"phase": "Bound"}}));
    sim.settle();
    let mut object = crate::sim::vmi("web");
    object["spec"]["volumes"] = json!([{"name": "root", "dataVolume": {"name": "disk"}}]);
    let vmi = sim.put(Kind::VirtualMachineInstance, object);
    sim.settle();
    assert_eq!(sim.pod_of(&vmi), None, "{}", sim.get(&vmi)["status"]);
    assert_ne!(sim.get(&volume)["status"]["phase"], "Succeeded", "{}", sim.get(&volume)["status"]);
    let (_, reason, message) = sim.condition(&volume, "Running").unwrap();
    assert!(
        reason == "ErrClaimNotValid"
            && message.contains("pv-static, which is not filled from its dataSourceRef"),
        "{reason}: {message}"
    );
}

#[test]
fn a_vmi_does_not_start_on_a_pvc_that_nothing_filled() {
    let mut sim = wanted("Immediate", Kind::VolumeImportSource);
    sim.change(&target(), json!({"spec": {"volumeName": "pv-static"}, "status": {"phase": "Bound"}}));
    sim.settle();
    let mut object = crate::sim::vmi("web");
    object["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
    let vmi = sim.put(Kind::VirtualMachineInstance, object);
    sim.settle();
    assert_eq!(sim.pod_of(&vmi), None, "the VMI starts on an unfilled disk");
}
