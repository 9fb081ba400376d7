//! Bounds of an adoption: owners and finalizers of others stay, and so do PVCs that were not adopted and volumes that are not reserved.

use super::*;

const ADOPTS: &str = cluster_model::objects::ADOPTS;
const NOTE: &str = "cdi.kubevirt.io/storage.adoptedBy";

fn other_owner() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "other"})
}

/// A DataVolume that is being deleted with this finalizer and a foreign one, and its PVC.
fn deleted(finalizer: &str, note: Option<&str>) -> Sim {
    let mut sim = Sim::new();
    class(&mut sim, "Immediate");
    let mut object = volume(json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/held", finalizer]);
    sim.put(Kind::DataVolume, object);
    let uid = sim.get(&disk())["metadata"]["uid"].clone();
    let owner = json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": "disk", "uid": uid, "controller": true});
    let mut object = found(json!({"cdi.kubevirt.io/storage.pod.phase": "Succeeded"}));
    object["metadata"]["ownerReferences"] = json!([other_owner(), owner]);
    if let Some(note) = note {
        object["metadata"]["annotations"][NOTE] = if note == "own" { uid } else { json!(note) };
    }
    sim.put(Kind::PersistentVolumeClaim, object);
    sim.delete(&disk());
    sim
}

#[test]
fn a_pvc_is_given_back_with_its_other_owners_and_the_datavolume_keeps_other_finalizers() {
    let mut sim = deleted(ADOPTS, Some("own"));
    sim.settle();
    assert_eq!(sim.get(&claim())["metadata"]["ownerReferences"], json!([other_owner()]));
    assert!(sim.get(&claim())["metadata"]["annotations"][NOTE].is_null());
    assert_eq!(sim.get(&disk())["metadata"]["finalizers"], json!(["example.com/held"]));
}

/// A PVC that its DataVolume created is deleted with it: a finalizer or an annotation alone does not end an adoption.
#[test]
fn a_pvc_that_was_not_adopted_is_not_given_back() {
    for (finalizer, note) in [(ADOPTS, None), (ADOPTS, Some("another")), ("example.com/other", Some("own"))] {
        let mut sim = deleted(finalizer, note);
        let before = sim.get(&claim())["metadata"].clone();
        sim.settle();
        let after = &sim.get(&claim())["metadata"];
        assert_eq!(after["ownerReferences"], before["ownerReferences"], "{finalizer} {note:?}");
        assert_eq!(after["annotations"][NOTE], before["annotations"][NOTE], "{finalizer} {note:?}");
    }
}

#[test]
fn an_adoption_keeps_the_finalizers_of_others() {
    let mut sim = Sim::new();
    class(&mut sim, "Immediate");
    sim.put(Kind::PersistentVolumeClaim, found(json!({"cdi.kubevirt.io/allowClaimAdoption": "true"})));
    let mut object = volume(json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/held"]);
    sim.put(Kind::DataVolume, object);
    sim.settle();
    assert_eq!(phase(&sim), "Succeeded");
    assert_eq!(sim.get(&disk())["metadata"]["finalizers"], json!(["example.com/held"]));
}

/// A released volume has the content of its former PVC, and a volume with a uid in its claimRef is reserved for another PVC.
#[test]
fn a_volume_that_is_not_free_is_not_taken_whatever_the_datavolume_asks_for() {
    for (phase, uid, is_taken) in
        [("Available", "", true), ("Released", "", false), ("Available", "other", false)]
    {
        let mut sim = Sim::new();
        class(&mut sim, "Immediate");
        let spec =
            json!({"claimRef": {"namespace": "n", "name": "disk", "uid": uid}, "storageClassName": "static"});
        sim.put(
            Kind::PersistentVolume,
            json!({"metadata": {"name": "pv"}, "spec": spec, "status": {"phase": phase}}),
        );
        sim.put(Kind::DataVolume, volume(json!({"cdi.kubevirt.io/storage.checkStaticVolume": ""})));
        sim.settle();
        assert_eq!(sim.get(&claim())["spec"]["volumeName"] == "pv", is_taken, "{phase} {uid:?}");
    }
}
