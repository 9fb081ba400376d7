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

/// The hand-over is held back, and kube-controller-manager binds the PVC to a free volume meanwhile.
#[test]
fn a_filled_prime_proves_its_own_volume_alone_and_stays() {
    let (mut sim, worker) = filled_with_its_pod();
    let filled = prime(&sim);
    assert_eq!(note(&sim, &filled, "storage.pod.phase"), "Succeeded");
    let by = json!({"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}});
    let bound = json!({"metadata": by, "spec": {"volumeName": "pv-static"}, "status": {"phase": "Bound"}});
    sim.change(&target(), bound);
    sim.settle();
    sim.vanish(&worker);
    sim.settle();
    assert_ne!(note(&sim, &target(), "storage.pod.phase"), "Succeeded");
    assert!(sim.objects.contains_key(&filled), "the imported content is deleted");
    assert_eq!(note(&sim, &target(), "storage.condition.running.reason"), "ErrClaimNotValid");
    let message = note(&sim, &target(), "storage.condition.running.message");
    assert!(message.contains("pv-static") && message.contains("create it again"), "{message}");
    assert_eq!(sim.warnings, ["ErrClaimNotValid"]);
    let mut object = crate::sim::vmi("web");
    object["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
    let vmi = sim.put(Kind::VirtualMachineInstance, object);
    sim.settle();
    assert_eq!(sim.pod_of(&vmi), None, "the VMI starts on an unfilled disk");
    // Without the prime, nothing proves more.
    sim.vanish(&filled);
    sim.settle();
    assert_ne!(note(&sim, &target(), "storage.pod.phase"), "Succeeded");
}

/// The watch of volumes is behind that of PVCs, and the prime is gone.
#[test]
fn a_pvc_is_not_said_to_be_filled_before_its_volume_is_known_as_its_own() {
    for is_free in [false, true] {
        let mut sim = wanted("Immediate", Kind::VolumeImportSource);
        is_bound(&mut sim);
        let filled = prime(&sim);
        let by = json!({"pv.kubernetes.io/bound-by-controller": "yes"});
        let bound = json!({"spec": {"volumeName": "pv-2"}, "status": {"phase": "Bound"}});
        sim.change(&target(), json!({"metadata": {"annotations": by}}));
        sim.change(&target(), bound);
        sim.vanish(&filled);
        sim.settle();
        let is_said = |sim: &Sim| {
            let said = note(sim, &target(), "storage.pod.phase") == "Succeeded";
            (said, sim.warnings.len(), note(sim, &target(), "storage.populator.pvcPrime") == filled.name)
        };
        assert_eq!(is_said(&sim), (false, 0, true), "the volume is not known");
        let spec = json!({"storageClassName": "fast", "persistentVolumeReclaimPolicy": "Retain"});
        let seen = json!({"metadata": {"name": "pv-2"}, "spec": spec, "status": {"phase": "Available"}});
        let volume = sim.put(Kind::PersistentVolume, seen);
        sim.settle();
        assert_eq!(is_said(&sim), (false, 0, true), "the volume is known as it was before");
        let annotations = if is_free { by } else { json!({}) };
        let of = json!({"namespace": "n", "name": "disk", "uid": sim.uid(&target())});
        let own = json!({"metadata": {"annotations": annotations}, "spec": {"claimRef": of}});
        sim.change(&volume, own);
        sim.settle();
        assert_eq!(is_said(&sim), (!is_free, usize::from(is_free), false));
    }
}
