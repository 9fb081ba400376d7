//! Clones that the storage makes itself, and why it does not.

use super::*;
use cluster_model::clones::CLONE_INTO;
use cluster_model::objects::Failure;
use cluster_model::plan::{Plan, Step};

/// A profile of the class, and another class of another provisioner.
fn profile(sim: &mut Sim, spec: Value) {
    let mut object = json!({"metadata": {"name": "fast"}});
    object["spec"] = spec;
    sim.put(Kind::StorageProfile, object);
}

#[test]
fn a_csi_driver_that_clones_is_left_to_it() {
    let mut sim = cluster();
    profile(&mut sim, json!({"cloneStrategy": "csi-clone"}));
    source(&mut sim, T);
    sim.put(Kind::DataVolume, json!({"metadata": {"namespace": T, "name": "disk"}, "spec": pvc(T)}));
    sim.settle();
    let made = sim.get(&claim()).clone();
    assert_eq!(made["spec"]["dataSource"], json!({"kind": "PersistentVolumeClaim", "name": "golden"}));
    assert_eq!(made["metadata"]["annotations"][CLONE_TYPE], "csi-clone");
    assert_eq!((phase(&sim), said(&sim, "Cloning").1.as_str()), ("CSICloneInProgress", "csi-clone"));
    bound(&mut sim);
    assert_eq!(phase(&sim), "Succeeded");
    assert_eq!(left(&sim), [], "no pod");
    assert!(sim.keys(Kind::Pod).is_empty());
}

/// A StorageClass whose CSI driver clones, a source beside the target, and nobody who clones it yet.
fn csi() -> Sim {
    let mut sim = cluster();
    profile(&mut sim, json!({"cloneStrategy": "csi-clone"}));
    source(&mut sim, T);
    sim
}

#[test]
fn a_csi_driver_is_not_asked_while_a_vmi_runs_on_the_source() {
    let mut sim = csi();
    let mut vmi = crate::sim::vmi("web");
    vmi["metadata"]["namespace"] = json!(T);
    vmi["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "golden"}}]);
    let running = sim.put(Kind::VirtualMachineInstance, vmi);
    sim.boot(&running);
    sim.put(Kind::DataVolume, json!({"metadata": {"namespace": T, "name": "disk"}, "spec": pvc(T)}));
    sim.settle();
    assert_eq!((phase(&sim), said(&sim, "Running").1.as_str()), ("Pending", "CloneSourceInUse"));
    assert!(!sim.objects.contains_key(&claim()), "the driver would copy what is being written");
    sim.agent_says(&running, "Succeeded");
    let pod = sim.pod_of(&running).unwrap();
    sim.pod_ends(&pod, "Succeeded", 0);
    sim.settle();
    assert_eq!(sim.get(&claim())["spec"]["dataSource"]["name"], "golden");
}

/// A driver that copies a disk which is written meanwhile makes what a power failure leaves.
#[test]
fn no_vmi_starts_on_the_source_while_a_csi_driver_copies_it() {
    let mut sim = csi();
    sim.put(Kind::DataVolume, json!({"metadata": {"namespace": T, "name": "disk"}, "spec": pvc(T)}));
    sim.settle();
    let mut vmi = crate::sim::vmi("web");
    vmi["metadata"]["namespace"] = json!(T);
    vmi["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "golden"}}]);
    let waiting = sim.put(Kind::VirtualMachineInstance, vmi);
    sim.settle();
    assert_eq!(sim.pod_of(&waiting), None);
    let why = sim.condition(&waiting, "DataVolumesReady").unwrap().2;
    assert!(why.contains("PVC t/golden is being cloned by its storage, into PVC disk"), "{why}");
    // The clone is there, and that wakes the VMI.
    sim.bind(&claim());
    assert!(sim.world.dependents(&claim()).contains(&waiting));
    sim.settle();
    assert!(sim.pod_of(&waiting).is_some());
}

/// A VMI on the source of a clone by the storage.
fn vmi_on_source(sim: &mut Sim) -> Key {
    let mut vmi = crate::sim::vmi("web");
    vmi["metadata"]["namespace"] = json!(T);
    vmi["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "golden"}}]);
    sim.put(Kind::VirtualMachineInstance, vmi)
}

/// Decides on an object alone.
fn decided(sim: &mut Sim, key: &Key) {
    for _ in 0..4 {
        let plan = crate::decide(&sim.world, key, sim.now);
        sim.apply(plan);
    }
}

/// The announcements on the source of a clone by the storage.
fn announced(sim: &Sim) -> usize {
    let notes = &sim.get(&key(Kind::PersistentVolumeClaim, T, "golden"))["metadata"]["annotations"];
    notes.as_object().into_iter().flatten().filter(|(note, _)| note.starts_with(CLONE_INTO)).count()
}

/// The plan of a clone by the storage until its last look at the pods, and from there on.
fn in_two_parts(sim: &mut Sim) -> (Plan, Plan) {
    sim.put(Kind::DataVolume, json!({"metadata": {"namespace": T, "name": "disk"}, "spec": pvc(T)}));
    let mut plan = crate::decide(&sim.world, &disk(), sim.now);
    let is_look = |step: &Step| matches!(step, Step::RequireNoMounter { .. });
    let at = plan.steps.iter().rposition(is_look).unwrap();
    let late = Plan { steps: plan.steps.split_off(at), again: None };
    assert!(plan.steps.iter().any(is_look), "nothing is announced while a pod writes: {plan:?}");
    (plan, late)
}

/// The request that makes its PVC is slow, or of a leader that is being replaced.
#[test]
fn no_vmi_starts_on_the_source_while_the_request_for_its_clone_is_on_its_way() {
    let mut sim = csi();
    let (plan, mut late) = in_two_parts(&mut sim);
    let look = Plan { steps: vec![late.steps.remove(0)], again: None };
    for plan in [plan, look] {
        assert!(crate::sim::door::carry_out(&mut sim, plan).failed.is_none());
    }
    let waiting = vmi_on_source(&mut sim);
    decided(&mut sim, &waiting);
    assert_eq!(sim.pod_of(&waiting), None);
    let why = sim.condition(&waiting, "DataVolumesReady").unwrap().2;
    assert!(why.contains("PVC t/golden is being cloned by its storage, into PVC disk"), "{why}");
    sim.apply(late);
    assert!(sim.objects.contains_key(&claim()));
    sim.settle();
    assert_eq!((sim.pod_of(&waiting), announced(&sim)), (None, 0), "the PVC itself is seen from now on");
    sim.bind(&claim());
    sim.settle();
    assert!(sim.pod_of(&waiting).is_some());
}

/// Each had looked before the other one was there.
#[test]
fn a_vmi_whose_pod_is_made_beside_an_announced_clone_gives_way() {
    let mut sim = csi();
    let vmi = vmi_on_source(&mut sim);
    let makes_pod = |plan: &Plan| {
        let is_pod = |step: &Step| matches!(step, Step::Create { key, .. } | Step::CreateOnNetworks { key, .. } if key.kind == Kind::Pod);
        plan.steps.iter().any(is_pod)
    };
    let mut made = crate::decide(&sim.world, &vmi, sim.now);
    while !makes_pod(&made) {
        assert!(!made.is_empty(), "no pod is made");
        sim.apply(made);
        made = crate::decide(&sim.world, &vmi, sim.now);
    }
    let (plan, late) = in_two_parts(&mut sim);
    for plan in [plan, made] {
        let failed = crate::sim::door::carry_out(&mut sim, plan).failed;
        assert!(failed.is_none(), "{failed:?}");
    }
    let pod = sim.pod_of(&vmi).unwrap();
    let (_, error) = crate::sim::door::carry_out(&mut sim, late).failed.expect("the pod is seen");
    assert!(error.to_string().contains("mounts PVC golden for writing"), "{error}");
    sim.pod_runs(&pod, "node1");
    sim.settle();
    assert_eq!(sim.get(&vmi)["status"]["phase"], "Failed");
    assert_eq!(sim.condition(&vmi, "Synchronized").unwrap().1, "DisksChanged");
    assert!(!sim.objects.contains_key(&claim()), "its pod may still write");
    sim.pod_ends(&pod, "Succeeded", 0);
    sim.advance(120);
    sim.settle();
    assert!(sim.objects.contains_key(&claim()));
}

/// Its DataVolume was deleted before the PVC was made.
#[test]
fn an_announcement_of_a_clone_that_is_gone_holds_up_no_vmi_and_is_removed() {
    let mut sim = csi();
    let (plan, _) = in_two_parts(&mut sim);
    assert!(crate::sim::door::carry_out(&mut sim, plan).failed.is_none());
    assert_eq!(announced(&sim), 1);
    let golden = key(Kind::PersistentVolumeClaim, T, "golden");
    assert!(sim.world.dependents(&golden).contains(&disk()), "it is removed under this key");
    let vmi = vmi_on_source(&mut sim);
    decided(&mut sim, &vmi);
    assert_eq!(sim.pod_of(&vmi), None);
    sim.vanish(&disk());
    assert!(sim.world.dependents(&disk()).contains(&vmi), "its end wakes the VMI");
    decided(&mut sim, &vmi);
    assert!(sim.pod_of(&vmi).is_some());
    decided(&mut sim, &disk());
    assert_eq!(announced(&sim), 0);
}

/// A PVC of somebody's own that names another one in its dataSource may never be made: it holds up nobody.
#[test]
fn a_pvc_without_a_data_volume_keeps_no_vmi_waiting() {
    let mut sim = csi();
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": "2Gi"}},
        "dataSource": {"kind": "PersistentVolumeClaim", "name": "golden"},
    });
    sim.put(Kind::PersistentVolumeClaim, json!({"metadata": {"namespace": T, "name": "own"}, "spec": spec}));
    let mut vmi = crate::sim::vmi("web");
    vmi["metadata"]["namespace"] = json!(T);
    vmi["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "golden"}}]);
    let vmi = sim.put(Kind::VirtualMachineInstance, vmi);
    sim.settle();
    assert!(sim.pod_of(&vmi).is_some());
}

#[test]
fn a_csi_driver_is_not_asked_while_a_pod_mounts_the_source() {
    let mut sim = csi();
    sim.put(Kind::DataVolume, json!({"metadata": {"namespace": T, "name": "disk"}, "spec": pvc(T)}));
    // Its labels are not ours, and so it is in no picture.
    let shell = key(Kind::Pod, T, "shell");
    let spec = json!({
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "golden"}}],
        "containers": [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
    });
    let meta = json!({"namespace": T, "name": "shell"});
    let pod = json!({"metadata": meta, "spec": spec, "status": {"phase": "Running"}});
    sim.objects.insert(shell.clone(), pod);
    let plan = crate::decide(&sim.world, &disk(), sim.now);
    let (about, error) = crate::sim::door::carry_out(&mut sim, plan).failed.expect("somebody writes");
    assert_eq!(about, Some(Attempt::Make(Kind::PersistentVolumeClaim)));
    assert!(error.to_string().contains("pod shell mounts PVC golden for writing"), "{error}");
    assert!(!sim.objects.contains_key(&claim()));
    // Until it is tried again nobody is asked.
    let retry = sim.now.checked_add(jiff::SignedDuration::from_secs(5)).unwrap();
    let failure = Failure {
        about: Attempt::Make(Kind::PersistentVolumeClaim),
        message: error.to_string(),
        times: 1,
        retry,
    };
    sim.world.failures.insert(disk(), failure);
    let plan = crate::decide(&sim.world, &disk(), sim.now);
    assert!(!plan.steps.iter().any(|step| matches!(step, Step::RequireNoMounter { .. })), "{plan:?}");
    sim.apply(plan);
    assert!(said(&sim, "Running").2.contains("pod shell mounts"), "{:?}", said(&sim, "Running"));
    sim.world.failures.clear();
    sim.objects.remove(&shell);
    sim.settle();
    assert!(sim.objects.contains_key(&claim()));
}

#[test]
fn why_the_storage_does_not_clone_is_said() {
    let fallback = |change: fn(&mut Sim), namespace: &str| {
        let mut sim = cluster();
        profile(&mut sim, json!({"cloneStrategy": "csi-clone"}));
        source(&mut sim, T);
        change(&mut sim);
        let object = volume(&sim, pvc(namespace));
        sim.put(Kind::DataVolume, object);
        sim.settle();
        let note =
            sim.get(&claim())["metadata"]["annotations"]["cdi.kubevirt.io/cloneFallbackReason"].clone();
        assert!(sim.get(&claim())["spec"]["dataSource"].is_null(), "{note}");
        assert!(said(&sim, "Cloning").2.contains(note.as_str().unwrap_or("StorageProfile")), "{note}");
        note
    };
    assert_eq!(fallback(|_| {}, S), "CrossNamespace");
    let of_other = |sim: &mut Sim| {
        sim.put(Kind::StorageClass, json!({"metadata": {"name": "other"}, "provisioner": "q"}));
        let golden = key(Kind::PersistentVolumeClaim, T, "golden");
        sim.change(&golden, json!({"spec": {"storageClassName": "other"}}));
    };
    assert_eq!(fallback(of_other, T), "NoProvisionerMatch");
    assert_eq!(fallback(|sim| class(sim, "WaitForFirstConsumer"), T), "WaitForFirstConsumer");
    assert_eq!(
        fallback(|sim| profile(sim, json!({"cloneStrategy": "snapshot"})), T),
        "NoVolumeSnapshotClass"
    );
    assert_eq!(fallback(|sim| profile(sim, json!({"cloneStrategy": "copy"})), T), json!(null));
}

#[test]
fn a_snapshot_is_restored_where_there_is_a_class_for_it() {
    let of = |namespace: &str| {
        let spec = json!({
            "source": {"snapshot": {"namespace": namespace, "name": "shot"}},
            "storage": {"resources": {"requests": {"storage": "1Gi"}}},
        });
        json!({"metadata": {"namespace": T, "name": "disk"}, "spec": spec})
    };
    let mut sim = cluster();
    sim.put(Kind::DataVolume, of(T));
    sim.settle();
    assert_eq!((phase(&sim), said(&sim, "Running").1.as_str()), ("Pending", "NoVolumeSnapshotClass"));
    profile(&mut sim, json!({"snapshotClass": "shots"}));
    sim.settle();
    let made = sim.get(&claim())["spec"]["dataSource"].clone();
    let expected = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "shot"});
    assert_eq!(made, expected);
    bound(&mut sim);
    assert_eq!(phase(&sim), "Succeeded");
    let mut sim = cluster();
    sim.put(Kind::DataVolume, of(S));
    sim.settle();
    assert_eq!(phase(&sim), "Failed");
    assert!(said(&sim, "Running").2.contains("in another namespace"), "{:?}", said(&sim, "Running"));
}

/// The volume is created for the first pod that uses it. A VMI that waited for the volume would wait for ever.
#[test]
fn a_vmi_is_the_first_consumer_of_a_volume_from_a_snapshot() {
    let mut sim = cluster();
    profile(&mut sim, json!({"snapshotClass": "shots"}));
    sim.change(
        &Key::new(Kind::StorageClass, "", "fast"),
        json!({"volumeBindingMode": "WaitForFirstConsumer"}),
    );
    let spec = json!({
        "source": {"snapshot": {"namespace": T, "name": "shot"}},
        "storage": {"resources": {"requests": {"storage": "1Gi"}}},
    });
    sim.put(Kind::DataVolume, json!({"metadata": {"namespace": T, "name": "disk"}, "spec": spec}));
    sim.settle();
    assert_eq!(phase(&sim), "PendingPopulation");
    let (_, _, message) = said(&sim, "Running");
    assert!(message.contains("on the node of the first pod that uses it"), "{message}");
    let mut vmi = crate::sim::vmi("web");
    vmi["metadata"]["namespace"] = json!(T);
    vmi["spec"]["volumes"] = json!([{"name": "root", "dataVolume": {"name": "disk"}}]);
    let vmi = sim.put(Kind::VirtualMachineInstance, vmi);
    sim.settle();
    assert!(sim.pod_of(&vmi).is_some(), "{}", sim.get(&vmi));
    bound(&mut sim);
    assert_eq!(phase(&sim), "Succeeded");
}

/// kube-controller-manager binds a PVC to any free volume of its class, whatever its dataSource names.
#[test]
fn a_clone_by_storage_fails_to_complete_on_a_free_volume_that_no_driver_made_for_it() {
    let mut sim = csi();
    sim.put(Kind::DataVolume, json!({"metadata": {"namespace": T, "name": "disk"}, "spec": pvc(T)}));
    sim.settle();
    let uid = sim.uid(&claim());
    let by = json!({"pv.kubernetes.io/bound-by-controller": "yes"});
    let of = json!({"namespace": T, "name": "disk", "uid": uid});
    sim.put(Kind::PersistentVolume, json!({"metadata": {"name": "left-over-of-somebody", "annotations": by.clone()},
        "spec": {"claimRef": of, "storageClassName": "fast", "persistentVolumeReclaimPolicy": "Retain"}, "status": {"phase": "Bound"}}));
    let bound = json!({"metadata": {"annotations": by}, "spec": {"volumeName": "left-over-of-somebody"}, "status": {"phase": "Bound"}});
    sim.change(&claim(), bound);
    sim.settle();
    assert_ne!(phase(&sim), "Succeeded");
    let (_, reason, message) = said(&sim, "Running");
    assert!(
        reason == "ErrClaimNotValid" && message.contains("left-over-of-somebody, which existed already"),
        "{reason}: {message}"
    );
    let own = json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": null}}});
    sim.change(&Key::new(Kind::PersistentVolume, "", "left-over-of-somebody"), own);
    sim.settle();
    assert_eq!(phase(&sim), "Succeeded", "the provisioner reserves the volumes that it makes");
}

/// The source of the clone has a source of its own, and Kubernetes bound it to a free volume.
#[test]
fn a_volume_that_is_not_of_the_source_of_its_pvc_is_not_cloned() {
    let mut sim = cluster();
    let by = json!({"pv.kubernetes.io/bound-by-controller": "yes"});
    let snapshot = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "shot"});
    let spec = json!({"dataSource": snapshot, "volumeName": "left-over"});
    sim.change(&golden(), json!({"metadata": {"annotations": by}, "spec": spec}));
    let clone = volume(&sim, pvc(S));
    sim.put(Kind::DataVolume, clone);
    sim.settle();
    assert_eq!((phase(&sim), said(&sim, "Running").1.as_str()), ("Pending", "CloneSourceNotReady"));
    let of = json!({"namespace": S, "name": "golden", "uid": sim.uid(&golden())});
    let meta = json!({"name": "left-over", "annotations": by});
    let volume =
        sim.put(Kind::PersistentVolume, json!({"metadata": meta, "spec": {"claimRef": of}, "status": {}}));
    sim.settle();
    assert_eq!((phase(&sim), said(&sim, "Running").1.as_str()), ("Pending", "CloneSourceNotReady"));
    assert!(!sim.objects.contains_key(&claim()), "a clone of the volume of somebody else");
    let own = json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": null}}});
    sim.change(&volume, own);
    sim.settle();
    assert!(sim.objects.contains_key(&claim()), "{:?}", said(&sim, "Running"));
}

/// The watch of volumes is behind that of PVCs.
#[test]
fn a_clone_by_storage_is_not_complete_before_its_volume_is_known_as_its_own() {
    let mut sim = csi();
    sim.put(Kind::DataVolume, json!({"metadata": {"namespace": T, "name": "disk"}, "spec": pvc(T)}));
    sim.settle();
    sim.put(Kind::PersistentVolume, json!({"metadata": {"name": "left-over"}, "spec": {}, "status": {}}));
    let by = json!({"pv.kubernetes.io/bound-by-controller": "yes"});
    let bound = json!({"metadata": {"annotations": by}, "spec": {"volumeName": "left-over"}, "status": {"phase": "Bound"}});
    sim.change(&claim(), bound);
    sim.settle();
    assert_ne!(phase(&sim), "Succeeded", "the volume is known as it was before its binding");
}
