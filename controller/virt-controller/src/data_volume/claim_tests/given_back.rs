//! Bounds of an adoption: owners and finalizers of others stay, and so do PVCs that were not adopted and volumes that are not reserved.

use super::*;
use crate::sim::door::carry_out;
use cluster_model::plan::{Plan, Step};

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

/// An adoption that is about to give the PVC to its DataVolume: the cluster, and the rest of the plan.
fn begun() -> (Sim, Plan) {
    let mut sim = Sim::new();
    class(&mut sim, "Immediate");
    sim.put(Kind::PersistentVolumeClaim, found(json!({"cdi.kubevirt.io/allowClaimAdoption": "true"})));
    sim.put(Kind::DataVolume, volume(json!({})));
    let mut plan = crate::decide(&sim.world, &disk(), sim.now);
    let gives = |step: &Step| matches!(step, Step::Patch { key, .. } if *key == claim());
    let at = plan.steps.iter().position(gives).unwrap();
    let late = Plan { steps: plan.steps.split_off(at), again: None };
    assert!(carry_out(&mut sim, plan).failed.is_none());
    assert_eq!(sim.get(&disk())["metadata"]["finalizers"], json!([ADOPTS]));
    (sim, late)
}

/// The PVC is there, without an owner.
fn is_free(sim: &Sim) {
    let meta = &sim.get(&claim())["metadata"];
    assert!(meta["ownerReferences"].as_array().is_none_or(Vec::is_empty), "{meta}");
    assert!(meta["annotations"][NOTE].is_null() && meta["deletionTimestamp"].is_null(), "{meta}");
}

/// The answer was lost, and the watch of DataVolumes is before that of PVCs.
#[test]
fn a_pvc_whose_adoption_is_not_known_yet_is_given_back() {
    for is_known in [true, false] {
        let (mut sim, late) = begun();
        let before = sim.get(&claim()).clone();
        assert!(
            carry_out(&mut sim, Plan { steps: vec![late.steps[0].clone()], again: None }).failed.is_none()
        );
        let adopted = sim.get(&claim()).clone();
        sim.delete(&disk());
        sim.world.remove(&claim());
        if is_known {
            sim.world.put(Kind::PersistentVolumeClaim, before, sim.now);
        }
        let plan = crate::decide(&sim.world, &disk(), sim.now);
        assert!(carry_out(&mut sim, plan).failed.is_some(), "{is_known}");
        assert!(sim.objects.contains_key(&disk()), "{is_known}");
        sim.world.put(Kind::PersistentVolumeClaim, adopted, sim.now);
        sim.settle();
        assert!(!sim.objects.contains_key(&disk()), "{is_known}");
        is_free(&sim);
    }
}

/// The former leader asked for it, and the next one decides before that is done.
#[test]
fn a_late_request_gives_no_pvc_to_a_datavolume_that_is_gone() {
    let (mut sim, late) = begun();
    sim.delete(&disk());
    sim.settle();
    assert!(!sim.objects.contains_key(&disk()));
    is_free(&sim);
    assert!(carry_out(&mut sim, late).failed.is_some());
    is_free(&sim);
    // The next DataVolume of its name may have it.
    sim.put(Kind::DataVolume, volume(json!({})));
    sim.settle();
    assert_eq!(phase(&sim), "Succeeded");
}

/// The plan broke off between the refusal and the finalizer.
#[test]
fn a_refusal_is_written_once() {
    let (mut sim, _) = begun();
    sim.delete(&disk());
    let refusal = |plan: &Plan| {
        let of_claim = |step: &&Step| matches!(step, Step::Patch { key, .. } if *key == claim());
        plan.steps.iter().filter(of_claim).count()
    };
    let mut plan = crate::decide(&sim.world, &disk(), sim.now);
    assert_eq!(refusal(&plan), 1, "{plan:?}");
    plan.steps.truncate(1);
    assert!(carry_out(&mut sim, plan).failed.is_none());
    let plan = crate::decide(&sim.world, &disk(), sim.now);
    assert_eq!(refusal(&plan), 0, "{plan:?}");
    assert!(carry_out(&mut sim, plan).failed.is_none());
    assert!(!sim.objects.contains_key(&disk()));
    is_free(&sim);
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
