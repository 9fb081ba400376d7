//! Stories of a StorageProfile: made for its class, resolved, and gone with it.

// A `json!` reads better where it is handed over than behind a `&`.
#![allow(clippy::needless_pass_by_value)]

use super::*;
use crate::sim::Sim;
use crate::sim::event::Fault;
use crate::sim::history::Run;

const NAME: &str = "fast";

fn profile() -> Key {
    Key::new(Kind::StorageProfile, "", NAME)
}

fn class_key() -> Key {
    Key::new(Kind::StorageClass, "", NAME)
}

fn class(provisioner: &str, parameters: Value) -> Value {
    json!({"metadata": {"name": NAME}, "provisioner": provisioner, "parameters": parameters})
}

/// A cluster with one class, and its profile.
fn with(provisioner: &str, parameters: Value) -> Sim {
    let mut sim = Sim::new();
    sim.put(Kind::StorageClass, class(provisioner, parameters));
    sim.settle();
    sim
}

fn recognized(sim: &Sim) -> (String, String, String) {
    sim.condition(&profile(), RECOGNIZED).expect("the condition Recognized")
}

#[test]
fn each_class_has_a_profile_and_takes_it_along() {
    let mut sim = with("rbd.csi.ceph.com", json!({"pool": "vms"}));
    let made = sim.get(&profile()).clone();
    assert_eq!((&made["kind"], &made["spec"]), (&json!("StorageProfile"), &json!({})));
    let status = &made["status"];
    assert_eq!((&status["storageClass"], &status["provisioner"]), (&json!(NAME), &json!("rbd.csi.ceph.com")));
    assert_eq!(
        status["claimPropertySets"],
        json!([
            {"accessModes": ["ReadWriteMany"], "volumeMode": "Block"},
            {"accessModes": ["ReadWriteOnce"], "volumeMode": "Block"},
            {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"},
        ])
    );
    assert_eq!(
        (&status["cloneStrategy"], &status["dataImportCronSourceFormat"]),
        (&json!("copy"), &json!("pvc"))
    );
    let said = recognized(&sim);
    assert_eq!((said.0.as_str(), said.1.as_str()), ("True", "RecognizedProvisioner"));
    sim.delete(&class_key());
    sim.settle();
    assert!(!sim.objects.contains_key(&profile()));
}

#[test]
fn of_a_provisioner_that_nobody_knows_the_least_is_taken_and_said() {
    let sim = with("example.com/volumes", json!({}));
    let sets = &sim.get(&profile())["status"]["claimPropertySets"];
    assert_eq!(*sets, json!([{"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}]));
    let said = recognized(&sim);
    assert_eq!((said.0.as_str(), said.1.as_str()), ("False", "UnrecognizedProvisioner"));
    assert!(
        said.2.contains("example.com/volumes") && said.2.contains("spec.claimPropertySets"),
        "{}",
        said.2
    );

    let sim = with("csi.trident.netapp.io", json!({}));
    assert_eq!(recognized(&sim).1, "UnrecognizedStorageClassParameters");
    let sim = with("rook-ceph.ceph.rook.io/bucket", json!({}));
    assert_eq!(sim.get(&profile())["status"]["claimPropertySets"], Value::Null);
}

#[test]
fn the_administrator_says_it_first() {
    let mut sim = with("csi.trident.netapp.io", json!({"backendType": "ontap-san"}));
    let strategy = |sim: &Sim| sim.get(&profile())["status"]["cloneStrategy"].clone();
    assert_eq!(strategy(&sim), "copy", "no VolumeSnapshotClass is known");
    sim.change(&profile(), json!({"spec": {"snapshotClass": "snaps"}}));
    sim.settle();
    let status = &sim.get(&profile())["status"];
    assert_eq!((&status["cloneStrategy"], &status["snapshotClass"]), (&json!("snapshot"), &json!("snaps")));
    assert_eq!(status["dataImportCronSourceFormat"], "snapshot");
    sim.change(&class_key(), json!({"metadata": {"annotations": {CLONES: "csi-clone"}}}));
    sim.settle();
    assert_eq!(strategy(&sim), "csi-clone");
    let sets = json!([{"accessModes": ["ReadWriteOnce", "ReadWriteMany"], "volumeMode": "Filesystem"}]);
    let spec =
        json!({"cloneStrategy": "copy", "claimPropertySets": sets, "dataImportCronSourceFormat": "pvc"});
    sim.change(&profile(), json!({"spec": spec}));
    sim.settle();
    let status = &sim.get(&profile())["status"];
    assert_eq!(status["claimPropertySets"], sets);
    assert_eq!(
        (&status["cloneStrategy"], &status["dataImportCronSourceFormat"]),
        (&json!("copy"), &json!("pvc"))
    );
    assert_eq!(sim.get(&profile())["spec"]["snapshotClass"], "snaps", "the spec is the administrator's");
    sim.change(&profile(), json!({"spec": {"claimPropertySets": null}}));
    sim.settle();
    let sets = &sim.get(&profile())["status"]["claimPropertySets"];
    assert_eq!(*sets, json!([{"accessModes": ["ReadWriteMany"], "volumeMode": "Block"}]));
}

#[test]
fn a_set_that_no_pvc_can_ask_for_is_left_out_by_name() {
    let mut sim = with("rbd.csi.ceph.com", json!({}));
    let good = json!({"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"});
    let sets = json!([
        {"accessModes": [], "volumeMode": "Block"},
        {"accessModes": ["ReadOften"], "volumeMode": "Block"},
        good,
        {"accessModes": ["ReadWriteOnce"], "volumeMode": "Tape"},
    ]);
    sim.change(&profile(), json!({"spec": {"claimPropertySets": sets}}));
    sim.settle();
    assert_eq!(sim.get(&profile())["status"]["claimPropertySets"], json!([good]));
    let said = recognized(&sim).2;
    for words in ["[0] is ignored", "[1] is ignored", "\"ReadOften\"", "[3] is ignored"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("[2]"), "{said}");
    // Where none is left, it is as if the spec said nothing.
    sim.change(&profile(), json!({"spec": {"claimPropertySets": [{"volumeMode": "Block"}]}}));
    sim.settle();
    let sets = &sim.get(&profile())["status"]["claimPropertySets"];
    assert_eq!((sets.as_array().map(Vec::len), &sets[0]["volumeMode"]), (Some(3), &json!("Block")));
    assert!(recognized(&sim).2.contains("[0] is ignored: it has no accessModes"), "{}", recognized(&sim).2);
}

#[test]
fn a_profile_that_is_there_before_its_class_stays() {
    let mut sim = Sim::new();
    let sets = json!([{"accessModes": ["ReadWriteMany"], "volumeMode": "Filesystem"}]);
    sim.put(Kind::StorageProfile, json!({"metadata": {"name": NAME}, "spec": {"claimPropertySets": sets}}));
    sim.settle();
    assert_eq!(sim.get(&profile())["status"], Value::Null);
    sim.put(Kind::StorageClass, class("example.com/volumes", json!({})));
    sim.settle();
    assert_eq!(sim.get(&profile())["status"]["claimPropertySets"], sets);
    sim.delete(&class_key());
    sim.settle();
    assert!(!sim.objects.contains_key(&profile()));
}

#[test]
fn without_a_kubevirt_object_nothing_is_written() {
    let mut sim = Sim::empty();
    sim.put(Kind::StorageClass, class("rbd.csi.ceph.com", json!({})));
    for _ in 0..3 {
        let plan = decide(&sim.world, NAME, sim.now);
        assert!(plan.is_empty(), "{plan:?}");
    }
    let settings = crate::sim::kubevirt(json!({}));
    sim.world.put(Kind::KubeVirt, settings, sim.now);
    let touched = sim.world.dependents(&Key::new(Kind::KubeVirt, "kubevirt", "kubevirt"));
    assert!(touched.contains(&profile()), "{touched:?}");
    assert!(!decide(&sim.world, NAME, sim.now).is_empty());
}

#[test]
fn the_smallest_volume_is_what_the_class_says_or_what_is_known() {
    let of = |provisioner: &str, said: Option<&str>| {
        let mut class = StorageClass { provisioner: provisioner.to_owned(), ..StorageClass::default() };
        class.parameters.insert("type".to_owned(), "gp3".to_owned());
        class
            .meta
            .annotations
            .extend(said.map(|said| ("cdi.kubevirt.io/minimumSupportedPvcSize".to_owned(), said.to_owned())));
        smallest(&class)
    };
    assert_eq!(of("ebs.csi.aws.com", None), 1 << 30);
    assert_eq!(of("ebs.csi.aws.com", Some("8Gi")), 8 << 30);
    assert_eq!(of("ebs.csi.aws.com", Some("much")), 1 << 30);
    assert_eq!(of("rbd.csi.ceph.com", None), 0);
    assert_eq!(of("example.com/volumes", Some("4Gi")), 4 << 30);
}

/// Whatever goes wrong while a class comes and goes: in the end it has one profile with a status, and then none.
#[test]
fn what_goes_wrong_meanwhile_changes_no_end() {
    for after in 0..8 {
        for fault in [
            Fault::Restart(2),
            Fault::Break(0, true),
            Fault::Break(1, false),
            Fault::Deaf(Kind::StorageProfile, 4, true),
            Fault::Deaf(Kind::StorageClass, 4, false),
            Fault::Slow(2),
            Fault::Twin(4),
            Fault::Meddle,
        ] {
            let mut run = Run::new();
            run.expect(&[(after, fault.clone())]);
            run.sim.put(Kind::StorageClass, class("nfs.csi.k8s.io", json!({})));
            run.settle();
            let sets = &run.sim.get(&profile())["status"]["claimPropertySets"];
            assert_eq!(sets[0]["accessModes"][0], "ReadWriteMany", "{after} {fault:?}");
            run.expect(&[(after, fault.clone())]);
            run.sim.delete(&class_key());
            run.settle();
            assert_eq!(run.sim.keys(Kind::StorageProfile), [], "{after} {fault:?}");
        }
    }
}
