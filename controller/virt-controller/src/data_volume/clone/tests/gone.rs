//! A source that is deleted while it is cloned: by somebody, or by the DataImportCron whose newer image has taken its place.

use super::*;

const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// Somebody deletes a PVC, which stays as long as a pod uses it.
fn deleted(sim: &mut Sim, claim: &Key) {
    sim.change(claim, json!({"metadata": {"finalizers": [PROTECTION]}}));
    sim.delete(claim);
    sim.settle();
}

#[test]
fn a_source_that_is_read_is_read_to_its_end() {
    let mut sim = copying();
    deleted(&mut sim, &golden());
    assert_eq!(phase(&sim), "CloneInProgress", "{:?}", said(&sim, "Running"));
    let pod = source_pod(&sim);
    assert!(!crate::sim::is_going(sim.get(&pod)) && !crate::sim::is_going(sim.get(&importer())));
    sim.advance(60);
    sim.settle();
    worker_ends(&mut sim, &importer(), Some(Stage::Done));
    sim.settle();
    assert_eq!(phase(&sim), "Succeeded");
    // Then nothing keeps the source any more.
    assert!(crate::sim::is_going(sim.get(&pod)));
}

/// The kubelet starts no pod on a PVC that is being deleted.
#[test]
fn a_source_that_is_deleted_before_its_pod_runs_is_not_waited_for() {
    let mut sim = begun();
    assert!(sim.objects.contains_key(&source_pod(&sim)));
    deleted(&mut sim, &golden());
    assert_eq!((phase(&sim), said(&sim, "Running").1.as_str()), ("Pending", "CloneSourceNotFound"));
    assert!(!sim.objects.contains_key(&source_pod(&sim)), "nobody reads");
    sim.vanish(&golden());
    source(&mut sim, S);
    sim.advance(60);
    sim.settle();
    assert_eq!(phase(&sim), "CloneScheduled", "another of its name is there: {:?}", said(&sim, "Running"));
}

/// A PVC in T, as a DataImportCron makes one after the other.
fn image(sim: &mut Sim, name: &str) -> Key {
    let spec = sim.get(&golden())["spec"].clone();
    let claim =
        json!({"metadata": {"namespace": T, "name": name}, "spec": spec, "status": {"phase": "Bound"}});
    let key = sim.put(Kind::PersistentVolumeClaim, claim);
    data_source(sim, T, "os", json!({"pvc": {"namespace": T, "name": name}}));
    key
}

/// A clone of what the DataSource T/os leads to, whose PVC has its volume.
fn of_data_source() -> (Sim, Key) {
    let mut sim = cluster();
    let first = image(&mut sim, "os-1");
    sim.put(Kind::DataVolume, json!({"metadata": {"namespace": T, "name": "disk"}, "spec": referred(T)}));
    sim.settle();
    bound(&mut sim);
    assert_eq!(phase(&sim), "CloneScheduled");
    (sim, first)
}

#[test]
fn before_the_first_byte_the_data_source_is_followed_again() {
    let (mut sim, first) = of_data_source();
    let pod = key(Kind::Pod, T, &names::cloner(&uid(&sim)));
    let owner = |sim: &Sim| sim.get(&pod)["metadata"]["ownerReferences"][0]["uid"].clone();
    assert_eq!(owner(&sim), sim.get(&first)["metadata"]["uid"]);
    // An importer pod that has not begun is none that has read.
    runs(&mut sim, &pod, "cdi-clone-source");
    assert!(sim.objects.contains_key(&importer()));
    let second = image(&mut sim, "os-2");
    sim.vanish(&first);
    sim.vanish(&pod);
    sim.settle();
    assert_eq!(sim.get(&claim())["metadata"]["annotations"][CLONE_REQUEST], "t/os-2");
    assert_ne!(phase(&sim), "Failed", "{:?}", said(&sim, "Running"));
    sim.advance(120);
    sim.settle();
    assert_eq!(owner(&sim), sim.get(&second)["metadata"]["uid"]);
    runs(&mut sim, &pod, "cdi-clone-source");
    runs(&mut sim, &importer(), "importer");
    assert_eq!(phase(&sim), "CloneInProgress");
    worker_ends(&mut sim, &importer(), Some(Stage::Done));
    sim.settle();
    assert_eq!(phase(&sim), "Succeeded");
}

/// The DataSource leads nowhere for a while, and then to the next image.
#[test]
fn a_clone_whose_source_is_gone_waits_for_the_next_image() {
    let (mut sim, first) = of_data_source();
    sim.vanish(&first);
    sim.settle();
    sim.advance(600);
    sim.settle();
    assert_eq!(phase(&sim), "Pending", "{:?}", said(&sim, "Running"));
    image(&mut sim, "os-2");
    sim.advance(120);
    sim.settle();
    assert_eq!(sim.get(&claim())["metadata"]["annotations"][CLONE_REQUEST], "t/os-2");
    assert_eq!(phase(&sim), "CloneScheduled");
}

/// Half of one image and half of another is no disk.
#[test]
fn after_the_first_byte_no_other_source_is_followed() {
    let (mut sim, first) = of_data_source();
    let pod = key(Kind::Pod, T, &names::cloner(&uid(&sim)));
    runs(&mut sim, &pod, "cdi-clone-source");
    runs(&mut sim, &importer(), "importer");
    image(&mut sim, "os-2");
    sim.vanish(&first);
    sim.vanish(&pod);
    sim.settle();
    assert_eq!((phase(&sim), said(&sim, "Running").1.as_str()), ("Failed", "CloneSourceGone"));
    assert_eq!(sim.get(&claim())["metadata"]["annotations"][CLONE_REQUEST], "t/os-1");
}

/// Of another namespace, what the DataSource leads to now has to be permitted like what it led to before.
#[test]
fn another_source_of_another_namespace_is_permitted_anew() {
    let mut sim = cluster();
    data_source(&mut sim, S, "os", json!({"pvc": {"namespace": S, "name": "golden"}}));
    let object = volume(&sim, referred(S));
    sim.put(Kind::DataVolume, object);
    sim.settle();
    bound(&mut sim);
    assert_eq!(phase(&sim), "CloneScheduled");
    let spec = sim.get(&golden())["spec"].clone();
    let secret =
        json!({"metadata": {"namespace": S, "name": "secret"}, "spec": spec, "status": {"phase": "Bound"}});
    sim.put(Kind::PersistentVolumeClaim, secret);
    data_source(&mut sim, S, "os", json!({"pvc": {"namespace": S, "name": "secret"}}));
    sim.vanish(&golden());
    sim.settle();
    sim.advance(120);
    sim.settle();
    assert_eq!(sim.get(&claim())["metadata"]["annotations"][CLONE_REQUEST], "s/golden");
    let read = left(&sim).into_iter().filter(|key| key.namespace == S).count();
    assert_eq!(read, 0, "its token is for another PVC: {:?}", said(&sim, "Running"));
}

/// The storage has made the volume: what becomes of the source is nothing to it any more.
#[test]
fn a_clone_that_its_storage_has_made_needs_no_source() {
    let mut sim = cluster();
    source(&mut sim, T);
    let profile = json!({"metadata": {"name": "fast"}, "spec": {"cloneStrategy": "csi-clone"}, "status": {}});
    sim.put(Kind::StorageProfile, profile);
    sim.put(Kind::DataVolume, json!({"metadata": {"namespace": T, "name": "disk"}, "spec": pvc(T)}));
    sim.settle();
    assert_eq!(phase(&sim), "CSICloneInProgress", "{:?}", said(&sim, "Running"));
    sim.vanish(&key(Kind::PersistentVolumeClaim, T, "golden"));
    bound(&mut sim);
    assert_eq!(phase(&sim), "Succeeded", "{:?}", said(&sim, "Running"));
}
