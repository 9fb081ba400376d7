//! Stories of a DataSource: what it means, and whether that can be taken.

// A `json!` reads better where it is handed over than behind a `&`.
#![allow(clippy::needless_pass_by_value)]

use super::*;
use crate::sim::{Sim, blank, data_volume};
use cluster_model::objects::Key;
use cluster_model::uploads::{POD_PHASE, TARGET};
use serde_json::{Value, json};

fn named(name: &str) -> Key {
    Key::new(Kind::DataSource, "n", name)
}

fn disk() -> Key {
    Key::new(Kind::PersistentVolumeClaim, "n", "disk")
}

/// A DataSource that says this of its source.
fn put(sim: &mut Sim, name: &str, source: Value) -> Key {
    let meta = json!({"namespace": "n", "name": name});
    let key = sim.put(Kind::DataSource, json!({"metadata": meta, "spec": {"source": source}}));
    sim.settle();
    key
}

fn pvc() -> Value {
    json!({"pvc": {"namespace": "n", "name": "disk"}})
}

fn pointer(namespace: &str, name: &str) -> Value {
    json!({"dataSource": {"namespace": namespace, "name": name}})
}

/// Status and reason of the condition Ready.
fn ready(sim: &Sim, name: &str) -> (String, String) {
    let (status, reason, message) = sim.condition(&named(name), READY).expect("the condition Ready");
    assert!(!message.is_empty());
    (status, reason)
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

fn claim(sim: &mut Sim, annotations: Value) {
    let meta = json!({"namespace": "n", "name": "disk", "annotations": annotations});
    sim.put(Kind::PersistentVolumeClaim, json!({"metadata": meta, "spec": {}}));
    sim.settle();
}

#[test]
fn it_is_ready_when_the_disk_is_there() {
    let mut sim = Sim::new();
    put(&mut sim, "os", pvc());
    assert_eq!(ready(&sim, "os"), is("False", "NotFound"));
    assert_eq!(sim.get(&named("os"))["status"]["source"], pvc());
    claim(&mut sim, json!({}));
    assert_eq!(ready(&sim, "os"), is("True", "Ready"));
    sim.vanish(&disk());
    sim.settle();
    assert_eq!(ready(&sim, "os"), is("False", "NotFound"));
}

#[test]
fn of_a_datavolume_the_phase_is_said_until_it_has_succeeded() {
    let mut sim = Sim::new();
    let volume = sim.put(Kind::DataVolume, data_volume("disk", json!({"blank": {}})));
    put(&mut sim, "os", pvc());
    assert_eq!(ready(&sim, "os"), is("False", "Pending"));
    sim.change(&volume, json!({"status": {"phase": "Succeeded"}}));
    sim.settle();
    assert_eq!(ready(&sim, "os"), is("True", "Ready"));
}

#[test]
fn a_pvc_that_waits_for_an_upload_is_not_ready() {
    let mut sim = Sim::new();
    claim(&mut sim, json!({TARGET: ""}));
    put(&mut sim, "os", pvc());
    assert_eq!(ready(&sim, "os"), is("False", "Pending"));
    claim(&mut sim, json!({TARGET: "", POD_PHASE: "Succeeded"}));
    assert_eq!(ready(&sim, "os"), is("True", "Ready"));
}

#[test]
fn half_a_disk_is_not_ready_with_and_without_its_datavolume() {
    for phase in ["Pending", "Running", "Failed"] {
        let mut sim = Sim::new();
        claim(&mut sim, json!({POD_PHASE: phase}));
        put(&mut sim, "os", pvc());
        assert_eq!(ready(&sim, "os"), is("False", "Pending"), "{phase}");
        // One of that name which has succeeded, and whose PVC this is not.
        let mut volume = data_volume("disk", json!({"blank": {}}));
        volume["status"]["phase"] = json!("Succeeded");
        sim.put(Kind::DataVolume, volume);
        sim.settle();
        assert_eq!(ready(&sim, "os"), is("False", "Pending"), "{phase}");
        claim(&mut sim, json!({POD_PHASE: "Succeeded"}));
        assert_eq!(ready(&sim, "os"), is("True", "Ready"), "{phase}");
    }
}

#[test]
fn of_another_namespace_it_is_said_whether_it_can_be_taken_and_no_more() {
    let mut sim = Sim::new();
    let meta = json!({"namespace": "m", "name": "disk"});
    put(&mut sim, "os", json!({"pvc": meta}));
    assert_eq!(ready(&sim, "os"), is("False", "NotFound"));
    let volume = sim.put(Kind::DataVolume, json!({"metadata": meta, "spec": blank()}));
    let mut told = std::collections::BTreeSet::new();
    for phase in ["Pending", "ImportInProgress", "Failed", "secret"] {
        sim.change(&volume, json!({"status": {"phase": phase}}));
        let plan = decide(&sim.world, "n", "os", sim.now);
        sim.apply(plan);
        told.insert(sim.condition(&named("os"), READY).unwrap());
    }
    let message = "PVC m/disk is not ready".to_owned();
    assert_eq!(Vec::from_iter(told), [("False".to_owned(), "NotReady".to_owned(), message)]);
    sim.change(&volume, json!({"status": {"phase": "Succeeded"}}));
    sim.settle();
    assert_eq!(ready(&sim, "os"), is("True", "Ready"));
    sim.vanish(&volume);
    let waits =
        json!({"metadata": {"namespace": "m", "name": "disk", "annotations": {TARGET: ""}}, "spec": {}});
    sim.put(Kind::PersistentVolumeClaim, waits);
    sim.settle();
    assert_eq!(ready(&sim, "os"), is("False", "NotReady"));
}

#[test]
fn one_may_name_another_of_its_namespace_and_no_further() {
    let mut sim = Sim::new();
    put(&mut sim, "os", pvc());
    put(&mut sim, "latest", pointer("n", "os"));
    put(&mut sim, "too-far", pointer("n", "latest"));
    assert_eq!(ready(&sim, "latest"), is("False", "NotFound"));
    claim(&mut sim, json!({}));
    assert_eq!(ready(&sim, "latest"), is("True", "Ready"));
    assert_eq!(sim.get(&named("latest"))["status"]["source"], pvc());
    assert_eq!(ready(&sim, "too-far"), is("False", "MaxReferenceDepthReached"));
    assert_eq!(sim.get(&named("too-far"))["status"]["source"], Value::Null);
    for (source, reason) in [
        (pointer("n", "self"), "SelfReference"),
        (pointer("m", "os"), "CrossNamespaceReference"),
        (pointer("n", "none"), "NotFound"),
        (json!({}), "NoSource"),
        (json!({"snapshot": {"namespace": "n", "name": "snap"}}), "Unsupported"),
    ] {
        put(&mut sim, "self", source.clone());
        assert_eq!(ready(&sim, "self"), is("False", reason), "{source}");
    }
}

/// What it depends on has it decided on: the PVC, its DataVolume, and the DataSource that it names.
#[test]
fn what_it_depends_on_touches_it() {
    let mut sim = Sim::new();
    put(&mut sim, "os", pvc());
    put(&mut sim, "latest", pointer("", "os"));
    let touches = |key: &Key, name: &str| sim.world.dependents(key).contains(&named(name));
    assert!(touches(&disk(), "os"));
    assert!(touches(&Key::new(Kind::DataVolume, "n", "disk"), "os"));
    assert!(touches(&named("os"), "latest") && touches(&named("os"), "os"));
    assert!(!touches(&named("latest"), "os"));
}

#[test]
fn without_a_kubevirt_object_nothing_is_written() {
    let mut sim = Sim::empty();
    let object = json!({"metadata": {"namespace": "n", "name": "os"}, "spec": {"source": pvc()}});
    sim.put(Kind::DataSource, object);
    assert!(decide(&sim.world, "n", "os", sim.now).is_empty());
}

#[test]
fn a_namespace_that_is_left_out_is_its_own() {
    let mut sim = Sim::new();
    claim(&mut sim, json!({}));
    put(&mut sim, "os", json!({"pvc": {"namespace": "", "name": "disk"}}));
    put(&mut sim, "latest", pointer("", "os"));
    assert_eq!([ready(&sim, "os"), ready(&sim, "latest")], [is("True", "Ready"), is("True", "Ready")]);
}

#[test]
fn the_phase_of_the_datavolume_is_the_reason_and_one_that_goes_is_left_alone() {
    let mut sim = Sim::new();
    let os = put(&mut sim, "os", pvc());
    sim.change(&os, json!({"metadata": {"finalizers": ["held"]}}));
    for (phase, reason) in [(Value::Null, "Pending"), (json!("ImportInProgress"), "ImportInProgress")] {
        let mut volume = data_volume("disk", json!({"blank": {}}));
        volume["status"]["phase"] = phase;
        sim.put(Kind::DataVolume, volume);
        let plan = crate::decide(&sim.world, &os, sim.now);
        sim.apply(plan);
        assert_eq!(ready(&sim, "os"), is("False", reason));
    }
    sim.vanish(&Key::new(Kind::DataVolume, "n", "disk"));
    sim.delete(&os);
    assert!(crate::decide(&sim.world, &os, sim.now).is_empty());
}

/// kube-controller-manager binds a PVC to any free volume of its class, whatever its dataSource names.
#[test]
fn a_pvc_with_a_source_is_ready_when_its_volume_is_known_to_be_of_that() {
    let mut sim = Sim::new();
    put(&mut sim, "os", pvc());
    let by = json!({"pv.kubernetes.io/bound-by-controller": "yes"});
    let source = json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "shot"});
    let meta = json!({"namespace": "n", "name": "disk", "annotations": by});
    sim.put(Kind::PersistentVolumeClaim, json!({"metadata": meta, "spec": {"dataSource": source}}));
    sim.settle();
    assert_eq!(ready(&sim, "os"), is("False", "Pending"), "it is not bound");
    sim.change(&disk(), json!({"spec": {"volumeName": "left-over"}, "status": {"phase": "Bound"}}));
    sim.settle();
    assert_eq!(ready(&sim, "os"), is("False", "Pending"), "its volume is not known");
    let of = json!({"namespace": "n", "name": "disk", "uid": sim.uid(&disk())});
    let meta = json!({"name": "left-over", "annotations": by});
    let volume =
        sim.put(Kind::PersistentVolume, json!({"metadata": meta, "spec": {"claimRef": of}, "status": {}}));
    assert!(sim.world.dependents(&volume).contains(&named("os")), "the volume wakes the DataSource");
    sim.settle();
    let (_, _, message) = sim.condition(&named("os"), READY).unwrap();
    assert!(message.contains("left-over, which existed already"), "{message}");
    let own = json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": null}}});
    sim.change(&volume, own);
    sim.settle();
    assert_eq!(ready(&sim, "os"), is("True", "Ready"));
}
