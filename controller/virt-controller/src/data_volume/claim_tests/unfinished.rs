//! PVCs that are being written, or have yet to be: no DataVolume adopts them, whatever is allowed.

use super::*;

const ALLOWED: &str = "cdi.kubevirt.io/allowClaimAdoption";
const BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// A PVC that may be adopted, with this change, and the DataVolume of its name.
fn beside(change: &Value) -> Sim {
    let mut sim = Sim::new();
    class(&mut sim, "Immediate");
    let mut object = found(json!({ALLOWED: "true"}));
    cluster_model::plan::merge(&mut object, change);
    sim.put(Kind::PersistentVolumeClaim, object);
    sim.put(Kind::DataVolume, volume(json!({})));
    sim
}

fn is_taken(sim: &Sim) -> bool {
    let owners = sim.get(&claim())["metadata"]["ownerReferences"].clone();
    owners
        .as_array()
        .is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == sim.get(&disk())["metadata"]["uid"]))
}

fn said_reason(sim: &Sim) -> String {
    said(sim, "Running").1
}

fn from_snapshot(status: &str) -> Value {
    let source = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "monday"});
    json!({"spec": {"dataSource": source}, "status": {"phase": status}})
}

/// The PVC is bound to a volume that the control plane has chosen among free ones.
fn is_bound_to_a_free_volume(sim: &mut Sim) {
    let by = json!({BY_CONTROLLER: "yes"});
    volume_of_the_pvc(sim, "pv-free", &by);
    sim.change(&claim(), json!({"metadata": {"annotations": by}}));
    sim.change(&claim(), json!({"spec": {"volumeName": "pv-free"}, "status": {"phase": "Bound"}}));
}

/// A volume that is reserved for the PVC.
fn volume_of_the_pvc(sim: &mut Sim, name: &str, annotations: &Value) {
    let of = json!({"namespace": "n", "name": "disk", "uid": sim.uid(&claim())});
    let spec = json!({"claimRef": of, "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "fast"});
    let meta = json!({"name": name, "annotations": annotations});
    sim.put(Kind::PersistentVolume, json!({"metadata": meta, "spec": spec, "status": {"phase": "Bound"}}));
}

fn starts_a_vmi(sim: &mut Sim) -> bool {
    let mut object = crate::sim::vmi("web");
    object["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
    let vmi = sim.put(Kind::VirtualMachineInstance, object);
    sim.settle();
    sim.pod_of(&vmi).is_some()
}

/// No pod has begun, and no annotation says that one will.
#[test]
fn a_pvc_that_has_yet_to_be_filled_from_its_data_source_ref_is_not_taken() {
    let filler = json!({"apiGroup": "cdi.kubevirt.io", "kind": "VolumeImportSource", "name": "gold"});
    let mut sim = beside(&json!({"spec": {"dataSourceRef": filler}, "status": {"phase": "Pending"}}));
    let plan = crate::decide(&sim.world, &disk(), sim.now);
    sim.apply(plan);
    assert!(!is_taken(&sim), "{:#}", sim.get(&claim()));
    assert!(sim.get(&claim())["metadata"]["annotations"]["cdi.kubevirt.io/storage.pod.phase"].is_null());
    let (_, reason, message) = said(&sim, "Running");
    assert!(
        reason == "ErrResourceExists" && message.contains("not filled yet from its dataSourceRef"),
        "{reason}: {message}"
    );
}

/// Upstream's CDI writes `clonePhase` on its clones, and no phase of a pod. A manifest or a backup may bring it to a PVC that is new.
#[test]
fn a_clone_of_upstream_is_taken_where_it_is_said_to_be_done_and_has_a_volume_of_its_own() {
    let (of_its_own, free) = (json!({}), json!({BY_CONTROLLER: "yes"}));
    for (kind, said, on_volume, is_whole) in [
        ("VolumeCloneSource", json!("Succeeded"), Some(&of_its_own), true),
        ("VolumeCloneSource", json!("Succeeded"), Some(&free), false),
        ("VolumeCloneSource", json!("Succeeded"), None, false),
        ("VolumeCloneSource", json!("Pending"), Some(&of_its_own), false),
        ("VolumeCloneSource", Value::Null, Some(&of_its_own), false),
        ("VolumeImportSource", json!("Succeeded"), Some(&of_its_own), false),
    ] {
        let named = json!({"apiGroup": "cdi.kubevirt.io", "kind": kind, "name": "gold"});
        let mut sim = beside(&json!({
            "metadata": {"annotations": {"cdi.kubevirt.io/clonePhase": said, BY_CONTROLLER: "yes"}},
            "spec": {"dataSourceRef": named, "volumeName": "pv-1"},
            "status": {"phase": "Bound"},
        }));
        on_volume.into_iter().for_each(|annotations| volume_of_the_pvc(&mut sim, "pv-1", annotations));
        sim.settle();
        let about = format!("{kind} {said} {on_volume:?}");
        assert_eq!(is_taken(&sim), is_whole, "{about}");
        let noted = &sim.get(&claim())["metadata"]["annotations"]["cdi.kubevirt.io/storage.pod.phase"];
        assert_eq!(noted == "Succeeded", is_whole, "{about}");
        match is_whole {
            true => assert_eq!(phase(&sim), "Succeeded", "{about}"),
            false => assert_eq!(said_reason(&sim), "ErrResourceExists", "{about}"),
        }
        assert!(!sim.objects.contains_key(&pod()), "{about}");
        assert_eq!(starts_a_vmi(&mut sim), is_whole, "{about}");
    }
}

#[test]
fn a_pvc_that_a_pod_writes_is_not_taken_and_says_which() {
    let mut sim = beside(&json!({}));
    let owner = json!([{
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "disk", "uid": sim.uid(&claim()), "controller": true
    }]);
    let labels = json!({"kubevirt.io": "cdi-worker", "cdi.kubevirt.io": "importer"});
    let meta = json!({"namespace": "n", "name": "importer-disk", "labels": labels, "ownerReferences": owner});
    sim.put(Kind::Pod, json!({"metadata": meta, "status": {"phase": "Running"}}));
    let plan = crate::decide(&sim.world, &disk(), sim.now);
    sim.apply(plan);
    assert!(!is_taken(&sim));
    let message = said(&sim, "Running").2;
    assert!(message.contains("is written by pod importer-disk"), "{message}");
}

#[test]
fn a_pvc_whose_volume_is_not_of_its_source_is_not_taken() {
    let mut sim = beside(&from_snapshot("Pending"));
    is_bound_to_a_free_volume(&mut sim);
    sim.settle();
    assert!(!is_taken(&sim), "{:#}", sim.get(&claim()));
    let message = said(&sim, "Running").2;
    assert!(message.contains("pv-free, which existed already"), "{message}");
}

/// A backup restored the PVC, and its first consumer has it bound: the DataVolume must not wait for that.
#[test]
fn a_pvc_that_is_not_bound_yet_is_taken_and_is_not_said_to_be_filled() {
    for is_of_source in [true, false] {
        let mut sim = beside(&from_snapshot("Pending"));
        sim.settle();
        assert!(is_taken(&sim));
        assert_eq!(phase(&sim), "Succeeded");
        assert!(sim.get(&claim())["metadata"]["annotations"]["cdi.kubevirt.io/storage.pod.phase"].is_null());
        if is_of_source {
            sim.bind(&claim());
        } else {
            is_bound_to_a_free_volume(&mut sim);
        }
        sim.settle();
        assert!(!sim.objects.contains_key(&pod()), "it is not filled");
        assert_eq!(starts_a_vmi(&mut sim), is_of_source);
    }
}

/// The plan breaks off behind the owner of the PVC, which has no mark that it is filled.
#[test]
fn a_pvc_whose_adoption_had_begun_is_not_filled() {
    let mut sim = beside(&from_snapshot("Pending"));
    let mut plan = crate::decide(&sim.world, &disk(), sim.now);
    let is_owner = |step: &cluster_model::plan::Step| matches!(step, cluster_model::plan::Step::Patch { key, .. } if key.kind == Kind::PersistentVolumeClaim);
    let at = plan.steps.iter().position(is_owner).expect("the PVC gets its owner");
    plan.steps.truncate(at + 1);
    sim.apply(plan);
    assert!(is_taken(&sim));
    assert_ne!(phase(&sim), "Succeeded");
    sim.bind(&claim());
    sim.settle();
    assert!(!sim.objects.contains_key(&pod()), "an import writes over what was restored");
    assert_eq!(phase(&sim), "Succeeded");
}
