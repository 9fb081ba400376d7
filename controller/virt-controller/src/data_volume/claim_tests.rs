//! Stories of PVCs: one that was there before its DataVolume, one that is too small, one that something else fills.

mod given_back;
mod unfinished;

use super::tests::{class, said};
use crate::sim::others::{worker_ends, worker_runs};
use crate::sim::{Sim, data_volume};
use api::job::{Report, Stage};
use cluster_model::objects::{Attempt, Key, Kind};
use serde_json::{Value, json};

fn disk() -> Key {
    Key::new(Kind::DataVolume, "n", "disk")
}

fn claim() -> Key {
    Key::new(Kind::PersistentVolumeClaim, "n", "disk")
}

fn pod() -> Key {
    Key::new(Kind::Pod, "n", "importer-disk")
}

fn phase(sim: &Sim) -> String {
    sim.phase(&disk()).to_owned()
}

/// A DataVolume that would be fetched.
fn volume(annotations: Value) -> Value {
    let mut object = data_volume("disk", json!({"http": {"url": "https://images.example/a.qcow2"}}));
    object["metadata"]["annotations"] = annotations;
    object
}

/// A PVC that nobody looks after.
fn found(annotations: Value) -> Value {
    let mut object = json!({
        "metadata": {"namespace": "n", "name": "disk"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound"},
    });
    object["metadata"]["annotations"] = annotations;
    object
}

/// Its adoption is allowed, and its pod did this last.
fn allowed_beside(phase: &str) -> Value {
    json!({"cdi.kubevirt.io/allowClaimAdoption": "true", "cdi.kubevirt.io/storage.pod.phase": phase})
}

#[test]
fn a_pvc_is_taken_as_it_is_where_somebody_says_so() {
    let (allowed, of_disk) = (
        json!({"cdi.kubevirt.io/allowClaimAdoption": "true"}),
        json!({"cdi.kubevirt.io/storage.populatedFor": "disk"}),
    );
    let filled = json!({"cdi.kubevirt.io/storage.pod.phase": "Succeeded"});
    let restored = json!({"cdi.kubevirt.io/storage.prePopulated": "disk"});
    for (on_volume, on_claim, is_taken) in [
        // A DataVolume is quickly made: the PVC says so itself.
        (allowed.clone(), json!({}), false),
        (json!({}), allowed, true),
        (json!({}), of_disk, true),
        (restored.clone(), filled.clone(), false),
        (restored, json!({}), false),
        (json!({}), filled, false),
        // Half a disk is not one.
        (allowed_beside("Running"), allowed_beside("Running"), false),
        (json!({}), allowed_beside("Failed"), false),
        (allowed_beside(""), allowed_beside("Succeeded"), true),
        (json!({"cdi.kubevirt.io/allowClaimAdoption": "false"}), json!({}), false),
        (json!({}), json!({"cdi.kubevirt.io/allowClaimAdoption": "false"}), false),
        (json!({}), json!({"cdi.kubevirt.io/storage.populatedFor": "other"}), false),
    ] {
        let mut sim = Sim::new();
        class(&mut sim, "Immediate");
        sim.put(Kind::PersistentVolumeClaim, found(on_claim.clone()));
        sim.put(Kind::DataVolume, volume(on_volume.clone()));
        sim.settle();
        let told = format!("{on_volume} {on_claim}");
        assert!(!sim.objects.contains_key(&pod()), "{told}");
        let owner = &sim.get(&claim())["metadata"]["ownerReferences"][0];
        if is_taken {
            assert_eq!(phase(&sim), "Succeeded", "{told}");
            assert_eq!(owner["uid"], sim.get(&disk())["metadata"]["uid"], "{told}");
            assert_eq!(said(&sim, "Ready").0, "True", "{told}");
            assert_eq!(sim.reasons(), ["ClaimAdopted"], "{told}");
            let notes = &sim.get(&claim())["metadata"]["annotations"];
            assert_eq!(notes["cdi.kubevirt.io/storage.pod.phase"], "Succeeded", "{told}");
        } else {
            let (_, reason, message) = said(&sim, "Running");
            assert!(
                reason == "ErrResourceExists"
                    && (message.contains("annotate the PVC") || message.contains("is not whole")),
                "{told}: {message}"
            );
            assert!(owner.is_null(), "{told}");
        }
    }
}

#[test]
fn a_pvc_that_somebody_looks_after_is_not_taken_whatever_is_said() {
    let mut sim = Sim::new();
    class(&mut sim, "Immediate");
    let mut object = found(json!({"cdi.kubevirt.io/allowClaimAdoption": "true"}));
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "a", "controller": true}]);
    sim.put(Kind::PersistentVolumeClaim, object);
    sim.put(Kind::DataVolume, volume(json!({})));
    sim.settle();
    assert_eq!(said(&sim, "Running").1, "ErrResourceExists");
}

/// One that goes, one that a pod of ours still writes to, and one whose annotation is of its `dataSourceRef`.
#[test]
fn a_pvc_that_is_not_free_or_not_whole_is_not_taken_whatever_is_said() {
    let (allowed, of_disk) = ("cdi.kubevirt.io/allowClaimAdoption", "cdi.kubevirt.io/storage.populatedFor");
    let filler = json!({"apiGroup": "cdi.kubevirt.io", "kind": "VolumeUploadSource", "name": "gold"});
    for (about, note, change) in [
        (
            "goes",
            (allowed, "true"),
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["held"]}}),
        ),
        ("written", (allowed, "true"), json!({})),
        ("ended", (allowed, "true"), json!({})),
        ("populated", (of_disk, "disk"), json!({"spec": {"dataSourceRef": filler}})),
        ("free", (of_disk, "disk"), json!({})),
    ] {
        let mut sim = Sim::new();
        class(&mut sim, "Immediate");
        let mut object = found(json!({note.0: note.1}));
        cluster_model::plan::merge(&mut object, &change);
        sim.put(Kind::PersistentVolumeClaim, object);
        if let Some(phase) =
            [("written", "Running"), ("ended", "Succeeded")].iter().find(|(is, _)| *is == about)
        {
            let uid = sim.get(&claim())["metadata"]["uid"].clone();
            let owner = json!([{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "disk", "uid": uid, "controller": true}]);
            let labels = json!({"kubevirt.io": "cdi-worker", "cdi.kubevirt.io": "importer"});
            let meta = json!({"namespace": "n", "name": "importer-disk", "labels": labels, "ownerReferences": owner});
            sim.put(Kind::Pod, json!({"metadata": meta, "status": {"phase": phase.1}}));
        }
        sim.put(Kind::DataVolume, volume(json!({})));
        let plan = crate::decide(&sim.world, &disk(), sim.now);
        sim.apply(plan);
        let is_taken = !sim.get(&claim())["metadata"]["ownerReferences"].is_null();
        assert_eq!(is_taken, ["free", "ended"].contains(&about), "{about}");
    }
}

/// `kubectl delete dv --cascade=orphan`, or somebody who detaches the PVC: who takes it again has it deleted with the DataVolume.
#[test]
fn a_pvc_that_was_taken_away_from_its_datavolume_is_not_taken_again() {
    let mut sim = imported();
    worker_ends(&mut sim, &pod(), Some(Stage::Done));
    sim.settle();
    assert_eq!(phase(&sim), "Succeeded");
    assert_eq!(sim.get(&claim())["metadata"]["annotations"]["cdi.kubevirt.io/storage.populatedFor"], "disk");
    sim.change(&claim(), json!({"metadata": {"ownerReferences": null}}));
    sim.settle();
    assert!(sim.get(&claim())["metadata"]["ownerReferences"].is_null());
    let (_, reason, message) = said(&sim, "Ready");
    assert!(reason == "NotOwned" && message.contains("allowClaimAdoption"), "{reason}: {message}");
    sim.vanish(&disk());
    sim.settle();
    assert!(sim.objects.contains_key(&claim()), "the disk was to be kept");
    // The next one may have it.
    sim.put(Kind::DataVolume, volume(json!({})));
    sim.settle();
    assert_eq!(phase(&sim), "Succeeded");
    assert_eq!(
        sim.get(&claim())["metadata"]["ownerReferences"][0]["uid"],
        sim.get(&disk())["metadata"]["uid"]
    );
}

/// The picture has the DataVolume still: a PVC that is owned by what is gone is collected.
#[test]
fn no_pvc_is_taken_for_a_datavolume_that_is_gone_or_going() {
    for is_going in [true, false] {
        let mut sim = Sim::new();
        class(&mut sim, "Immediate");
        sim.put(Kind::PersistentVolumeClaim, found(json!({"cdi.kubevirt.io/allowClaimAdoption": "true"})));
        sim.put(Kind::DataVolume, volume(json!({})));
        let plan = crate::decide(&sim.world, &disk(), sim.now);
        match sim.objects.get_mut(&disk()) {
            Some(object) if is_going => object["metadata"]["deletionTimestamp"] = json!(sim.now.to_string()),
            _ => drop(sim.objects.remove(&disk())),
        }
        let done = crate::sim::door::carry_out(&mut sim, plan);
        let (_, error) = done.failed.expect("it is looked at");
        assert_eq!(error.kind(), cluster_client::error::ErrorKind::Conflict, "{error}");
        assert!(sim.get(&claim())["metadata"]["ownerReferences"].is_null(), "going: {is_going}");
        // What it is instead is learned.
        assert_eq!((done.answers.len(), done.gone.len()), if is_going { (1, 0) } else { (0, 1) });
    }
}

/// Another CDI fills the disks from now on.
fn is_left(sim: &mut Sim) {
    let spec = json!({"service": {"name": "cdi-api", "namespace": "cdi"}});
    sim.put(Kind::APIService, json!({"metadata": {"name": cluster_model::objects::UPLOADS}, "spec": spec}));
    assert!(!crate::cdi::fills_disks(&sim.world));
}

/// When another CDI takes the disks over.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Left {
    No,
    /// Before the DataVolume is deleted.
    Before,
    /// In the moment in which it is deleted.
    Now,
}

/// Whenever it is deleted: a PVC goes with a DataVolume that has it, and with no other. Also where the disks were left to another
/// CDI meanwhile, which knows nothing of the finalizer.
#[test]
fn a_datavolume_that_is_deleted_while_it_takes_a_pvc_does_not_take_it_along() {
    let begins = || {
        let mut sim = Sim::new();
        class(&mut sim, "Immediate");
        sim.put(Kind::PersistentVolumeClaim, found(json!({"cdi.kubevirt.io/allowClaimAdoption": "true"})));
        sim.put(Kind::DataVolume, volume(json!({})));
        let plan = crate::decide(&sim.world, &disk(), sim.now);
        (sim, plan)
    };
    let ends = |mut sim: Sim, left: Left, why: &str| {
        if left != Left::No {
            is_left(&mut sim);
        }
        // It is looked at before it is deleted, too.
        if left == Left::Before {
            let owners = sim.get(&claim())["metadata"]["ownerReferences"].clone();
            sim.settle();
            assert_eq!(sim.get(&claim())["metadata"]["ownerReferences"], owners, "{why}");
        }
        let has_it = sim.objects.get(&disk()).is_some_and(|volume| volume["status"]["phase"] == "Succeeded");
        sim.delete(&disk());
        sim.settle();
        assert!(!sim.objects.contains_key(&disk()), "{why}");
        assert_eq!(sim.objects.contains_key(&claim()), !has_it, "{why}");
        if !has_it {
            let meta = &sim.get(&claim())["metadata"];
            assert!(meta["ownerReferences"].as_array().is_none_or(Vec::is_empty), "{why}: {meta}");
            assert!(meta["annotations"]["cdi.kubevirt.io/storage.adoptedBy"].is_null(), "{why}: {meta}");
        }
    };
    let mut had = 0;
    let lefts = [Left::No, Left::Before, Left::Now];
    for (at, left) in (0..14).flat_map(|at| lefts.map(|left| (at, left))) {
        let (requests, is_done) = (at / 2, at % 2 == 1);
        let (mut sim, plan) = begins();
        sim.wire.breaks = Some((requests, is_done));
        drop(crate::sim::door::carry_out(&mut sim, plan));
        sim.wire.breaks = None;
        had += usize::from(phase(&sim) == "Succeeded");
        ends(sim, left, &format!("{requests} {is_done} {left:?}"));
    }
    assert!((1..42).contains(&had), "{had}");
    // Between two steps, and the picture does not have it yet.
    for (at, left) in (0..4).flat_map(|at| [(at, Left::No), (at, Left::Now)]) {
        let (mut sim, mut plan) = begins();
        let late = cluster_model::plan::Plan { steps: plan.steps.split_off(at), again: None };
        assert!(crate::sim::door::carry_out(&mut sim, plan).failed.is_none(), "{at}");
        sim.delete(&disk());
        let done = crate::sim::door::carry_out(&mut sim, late);
        assert!(done.failed.is_some(), "{at}");
        ends(sim, left, &format!("before step {at} {left:?}"));
    }
}

#[test]
fn a_datavolume_that_has_taken_a_pvc_is_held_no_longer() {
    let mut sim = Sim::new();
    class(&mut sim, "Immediate");
    sim.put(Kind::PersistentVolumeClaim, found(json!({"cdi.kubevirt.io/allowClaimAdoption": "true"})));
    sim.put(Kind::DataVolume, volume(json!({})));
    sim.settle();
    assert_eq!(phase(&sim), "Succeeded");
    let held = sim.get(&disk())["metadata"]["finalizers"].clone();
    assert!(held.as_array().is_none_or(Vec::is_empty), "{held}");
    assert!(sim.get(&claim())["metadata"]["annotations"]["cdi.kubevirt.io/storage.adoptedBy"].is_null());
    assert_eq!(
        sim.get(&claim())["metadata"]["ownerReferences"][0]["uid"],
        sim.get(&disk())["metadata"]["uid"]
    );
}

/// A PVC that is its own and not known to be whole would be filled.
#[test]
fn an_adoption_that_breaks_off_writes_over_no_disk() {
    let mut sim = Sim::new();
    class(&mut sim, "Immediate");
    sim.put(Kind::PersistentVolumeClaim, found(json!({"cdi.kubevirt.io/allowClaimAdoption": "true"})));
    sim.put(Kind::DataVolume, volume(json!({})));
    // The DataVolume is looked at and held, the PVC is written, and the status is not.
    sim.wire.breaks = Some((3, false));
    let plan = crate::decide(&sim.world, &disk(), sim.now);
    assert!(crate::sim::door::carry_out(&mut sim, plan).failed.is_some());
    assert!(!sim.get(&claim())["metadata"]["ownerReferences"].is_null());
    assert_eq!(phase(&sim), "");
    for _ in 0..5 {
        sim.round();
        assert!(!sim.objects.contains_key(&pod()));
    }
    assert_eq!(phase(&sim), "Succeeded");
}

/// A backup has the objects as they stood; what it brings back has other uids, no owners and no status.
#[test]
fn a_disk_that_a_backup_brings_back_is_whole() {
    let mut sim = imported();
    worker_ends(&mut sim, &pod(), Some(Stage::Done));
    sim.settle();
    let (saved_volume, saved_claim) = (sim.get(&disk()).clone(), sim.get(&claim()).clone());
    sim.vanish(&disk());
    sim.settle();
    assert!(!sim.objects.contains_key(&claim()));
    for claim_first in [true, false] {
        let restored = |saved: &Value, status: Value| {
            let meta = &saved["metadata"];
            let meta = json!({
                "namespace": "n", "name": "disk", "labels": meta["labels"], "annotations": meta["annotations"],
            });
            json!({"metadata": meta, "spec": saved["spec"], "status": status})
        };
        let mut volume = restored(&saved_volume, json!({}));
        if !claim_first {
            volume["metadata"]["annotations"] = json!({"cdi.kubevirt.io/storage.prePopulated": "disk"});
            sim.put(Kind::DataVolume, volume.clone());
            sim.settle();
            assert!(!sim.objects.contains_key(&claim()), "none is made");
            assert!(
                said(&sim, "Running").2.contains("is provided with its content"),
                "{:?}",
                said(&sim, "Running")
            );
        }
        sim.put(Kind::PersistentVolumeClaim, restored(&saved_claim, json!({"phase": "Pending"})));
        if claim_first {
            sim.put(Kind::DataVolume, volume);
        }
        sim.settle();
        assert_eq!(phase(&sim), "Succeeded", "claim first: {claim_first}");
        assert!(!sim.objects.contains_key(&pod()));
        let owner = &sim.get(&claim())["metadata"]["ownerReferences"][0]["uid"];
        assert_eq!(*owner, sim.get(&disk())["metadata"]["uid"]);
        sim.vanish(&disk());
        sim.settle();
    }
}

/// A DataVolume whose worker runs, of a class whose volumes may grow.
fn imported() -> Sim {
    importing(volume(json!({})), true)
}

fn importing(volume: Value, may_grow: bool) -> Sim {
    let mut sim = Sim::new();
    class(&mut sim, "Immediate");
    sim.change(&Key::new(Kind::StorageClass, "", "fast"), json!({"allowVolumeExpansion": may_grow}));
    sim.put(Kind::DataVolume, volume);
    sim.settle();
    let capacity = sim.get(&claim())["spec"]["resources"]["requests"].clone();
    sim.change(&claim(), json!({"status": {"phase": "Bound", "capacity": capacity}}));
    sim.settle();
    runs(&mut sim);
    sim
}

fn runs(sim: &mut Sim) {
    worker_runs(sim, &pod(), true);
}

/// The worker finds a disk of so many bytes.
fn is_too_small(sim: &mut Sim, required: u64) {
    worker_ends(sim, &pod(), Some(Stage::Failed));
    let report = Report {
        stage: Stage::Failed,
        reason: "DataVolumeTooSmall".into(),
        message: format!("DataVolume too small to contain image: the disk has {required} bytes"),
        required: Some(required),
        ..Report::default()
    };
    let mut ended = sim.get(&pod())["status"]["containerStatuses"].clone();
    ended[0]["state"]["terminated"]["message"] = json!(report.termination());
    sim.change(&pod(), json!({"status": {"containerStatuses": ended}}));
    sim.settle();
}

fn asked(sim: &Sim) -> u64 {
    let asked = &sim.get(&claim())["spec"]["resources"]["requests"]["storage"];
    api::quantity::Quantity::parse(asked.as_str().unwrap()).unwrap().bytes().unwrap()
}

fn job(sim: &Sim) -> api::job::Import {
    let env = &sim.get(&pod())["spec"]["containers"][0]["env"];
    serde_json::from_str(env[0]["value"].as_str().unwrap()).unwrap()
}

#[test]
fn a_pvc_grows_to_the_image_once_and_the_import_goes_on() {
    let mut sim = imported();
    is_too_small(&mut sim, 3 << 30);
    assert_eq!(phase(&sim), "ExpansionInProgress");
    let grown = asked(&sim);
    assert!(grown > 3 << 30 && grown < 4 << 30, "{grown}");
    assert!(!sim.objects.contains_key(&pod()), "it goes");
    assert!(said(&sim, "Running").2.contains("waits for"), "{:?}", said(&sim, "Running"));
    // The last step of a file system is done under a pod.
    let last = json!([{"type": "FileSystemResizePending", "status": "True"}]);
    sim.change(&claim(), json!({"status": {"conditions": last}}));
    sim.settle();
    assert!(job(&sim).size.unwrap() >= 3 << 30, "{:?}", job(&sim).size);
    sim.change(&claim(), json!({"status": {"conditions": [], "capacity": {"storage": grown.to_string()}}}));
    runs(&mut sim);
    assert_eq!(phase(&sim), "ImportInProgress");
    // The image is another meanwhile.
    is_too_small(&mut sim, 5 << 30);
    assert_eq!((phase(&sim).as_str(), asked(&sim)), ("Failed", grown));
    assert!(said(&sim, "Running").2.ends_with("; the PVC was expanded once already"));
    assert_eq!(sim.reasons().iter().filter(|reason| *reason == "ExpansionInProgress").count(), 1);
}

#[test]
fn a_pvc_does_not_grow_where_it_may_not_and_it_is_said_why() {
    let pvc = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let mut as_it_stands = volume(json!({}));
    as_it_stands["spec"]["pvc"] = pvc;
    as_it_stands["spec"]["storage"] = Value::Null;
    let mut limited = volume(json!({}));
    limited["spec"]["storage"]["resources"]["limits"] = json!({"storage": "2Gi"});
    for (object, may_grow, required, why) in [
        (volume(json!({})), false, 3 << 30, "; the StorageClass fast has no allowVolumeExpansion"),
        (as_it_stands, true, 3 << 30, "; a PVC of spec.pvc is not expanded"),
        (limited, true, 3 << 30, "; spec.storage.resources.limits.storage permits 2Gi"),
        (volume(json!({})), true, u64::MAX, "; a PVC cannot be that large"),
        // Whoever says so says it to have the pod made anew.
        (volume(json!({})), true, 5, "; the PVC requests"),
    ] {
        let mut sim = importing(object, may_grow);
        let before = asked(&sim);
        is_too_small(&mut sim, required);
        assert_eq!((phase(&sim).as_str(), asked(&sim)), ("Failed", before), "{why}");
        let message = said(&sim, "Running").2;
        assert!(
            message.contains(&format!("the disk has {required} bytes")) && message.contains(why),
            "{message}"
        );
        assert!(sim.objects.contains_key(&pod()), "its log can be read");
    }
}

/// An image says any size in a few bytes, and no PVC becomes smaller again.
#[test]
fn a_pvc_grows_four_times_at_most_where_nobody_says_how_far() {
    const IMAGE: u64 = 16 << 40;
    let mut sim = imported();
    let before = asked(&sim);
    is_too_small(&mut sim, IMAGE);
    assert_eq!((phase(&sim).as_str(), asked(&sim)), ("Failed", before));
    let message = said(&sim, "Running").2;
    assert!(message.contains("spec.storage.resources.limits.storage: \"18"), "{message}");
    // Just beyond four times, with what a file system takes.
    let mut sim = imported();
    is_too_small(&mut sim, before * 4);
    assert_eq!((phase(&sim).as_str(), asked(&sim)), ("Failed", before));
    let mut sim = imported();
    is_too_small(&mut sim, before * 3);
    assert_eq!(phase(&sim), "ExpansionInProgress");
    let mut told = volume(json!({}));
    told["spec"]["storage"]["resources"]["limits"] = json!({"storage": "32Ti"});
    let mut sim = importing(told, true);
    is_too_small(&mut sim, IMAGE);
    assert_eq!(phase(&sim), "ExpansionInProgress");
    assert!(asked(&sim) > IMAGE);
}

#[test]
fn a_quota_that_does_not_admit_it_is_told_and_asked_again() {
    let mut sim = imported();
    let retry = sim.now.checked_add(jiff::SignedDuration::from_secs(30)).unwrap();
    let failure = cluster_model::objects::Failure {
        about: Attempt::Make(Kind::PersistentVolumeClaim),
        message: "exceeded quota: small".into(),
        times: 1,
        retry,
    };
    sim.world.failures.insert(disk(), failure);
    let before = asked(&sim);
    is_too_small(&mut sim, 3 << 30);
    assert_eq!((phase(&sim).as_str(), asked(&sim)), ("ExpansionInProgress", before));
    assert_eq!(said(&sim, "Running").1, "ErrExceededQuota");
    assert!(sim.objects.contains_key(&pod()));
    sim.advance(31);
    sim.settle();
    assert!(asked(&sim) > before);
}

#[test]
fn a_pvc_that_something_else_fills_is_made_and_waited_for() {
    for mode in ["Immediate", "WaitForFirstConsumer"] {
        let mut sim = Sim::new();
        class(&mut sim, mode);
        let reference = json!({"apiGroup": "example.com", "kind": "Image", "name": "a"});
        let storage = json!({"resources": {"requests": {"storage": "1Gi"}}, "dataSourceRef": reference});
        sim.put(
            Kind::DataVolume,
            json!({"metadata": {"namespace": "n", "name": "disk"}, "spec": {"storage": storage}}),
        );
        sim.settle();
        let made = sim.get(&claim());
        assert_eq!(made["spec"]["dataSourceRef"], reference);
        assert_eq!(made["metadata"]["annotations"]["cdi.kubevirt.io/externalPopulation"], "true");
        let waits = mode == "WaitForFirstConsumer";
        assert_eq!(phase(&sim), if waits { "PendingPopulation" } else { "Pending" });
        assert!(said(&sim, "Running").2.contains("is populated by Image a"), "{:?}", said(&sim, "Running"));
        assert!(!sim.objects.contains_key(&pod()));
        if waits {
            // The launcher pod of a VMI is the consumer.
            let mut vmi = crate::sim::vmi("web");
            vmi["spec"]["volumes"] = json!([{"name": "root", "dataVolume": {"name": "disk"}}]);
            let vmi = sim.put(Kind::VirtualMachineInstance, vmi);
            sim.settle();
            assert!(sim.pod_of(&vmi).is_some());
        }
        sim.bind(&claim());
        sim.settle();
        assert_eq!(phase(&sim), "Succeeded", "{mode}");
    }
}

#[test]
fn a_volume_that_is_reserved_is_taken_where_the_datavolume_asks_for_it() {
    for asks in [true, false] {
        let mut sim = Sim::new();
        class(&mut sim, "Immediate");
        let claim_ref = json!({"namespace": "n", "name": "disk"});
        let spec = json!({"claimRef": claim_ref, "storageClassName": "static"});
        sim.put(
            Kind::PersistentVolume,
            json!({"metadata": {"name": "pv"}, "spec": spec, "status": {"phase": "Available"}}),
        );
        let note = json!({"cdi.kubevirt.io/storage.checkStaticVolume": ""});
        sim.put(Kind::DataVolume, volume(if asks { note } else { json!({}) }));
        sim.settle();
        let made = &sim.get(&claim())["spec"];
        assert_eq!((made["volumeName"] == "pv", made["storageClassName"] == "static"), (asks, asks));
        sim.bind(&claim());
        sim.settle();
        assert_eq!((phase(&sim) == "Succeeded", sim.objects.contains_key(&pod())), (asks, !asks));
    }
}
