//! Clones that the storage makes itself, and why it does not.

use super::*;

/// A profile of the class, and another class of another provisioner.
fn profile(sim: &mut Sim, spec: Value) {
    sim.put(Kind::StorageProfile, json!({"metadata": {"name": "fast"}, "spec": spec}));
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
    assert!(said(&sim, "Running").2.contains("of another namespace"), "{:?}", said(&sim, "Running"));
}
