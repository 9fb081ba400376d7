//! Stories of PVCs with a `dataSourceRef`.

mod free_volume;
mod labels;

use super::tests::class;
use crate::sim::Sim;
use crate::sim::others::{worker_ends, worker_runs, worker_says};
use api::job::Stage;
use cluster_model::objects::{Attempt, Key, Kind};
use serde_json::{Value, json};

fn target() -> Key {
    Key::new(Kind::PersistentVolumeClaim, "n", "disk")
}

fn prime(sim: &Sim) -> Key {
    Key::new(Kind::PersistentVolumeClaim, "n", format!("prime-{}", sim.uid(&target())))
}

fn pod(sim: &Sim) -> Key {
    Key::new(Kind::Pod, "n", format!("importer-{}", prime(sim).name))
}

fn volume() -> Key {
    Key::new(Kind::PersistentVolume, "", "pv-1")
}

fn note(sim: &Sim, key: &Key, name: &str) -> String {
    let note = &sim.get(key)["metadata"]["annotations"][format!("cdi.kubevirt.io/{name}")];
    note.as_str().unwrap_or_default().to_owned()
}

/// A PVC of a kind, and what it names.
fn wanted(mode: &str, kind: Kind) -> Sim {
    let mut sim = Sim::new();
    class(&mut sim, mode);
    let spec = match kind {
        Kind::VolumeImportSource => json!({"source": {"http": {"url": "https://images.example/a.qcow2"}}}),
        _ => json!({}),
    };
    sim.put(kind, json!({"metadata": {"namespace": "n", "name": "gold"}, "spec": spec}));
    sim.put(Kind::PersistentVolumeClaim, claim(kind.name()));
    sim.settle();
    sim
}

fn claim(kind: &str) -> Value {
    json!({
        "metadata": {"namespace": "n", "name": "disk"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "1Gi"}},
            "dataSourceRef": {"apiGroup": "cdi.kubevirt.io", "kind": kind, "name": "gold"},
        },
    })
}

/// What makes volumes has made that of the prime.
fn is_bound(sim: &mut Sim) {
    let prime = prime(sim);
    let claim = json!({"namespace": "n", "name": prime.name, "uid": sim.uid(&prime), "resourceVersion": "7"});
    let spec =
        json!({"claimRef": claim, "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "fast"});
    sim.put(
        Kind::PersistentVolume,
        json!({"metadata": {"name": "pv-1"}, "spec": spec, "status": {"phase": "Bound"}}),
    );
    sim.change(&prime, json!({"spec": {"volumeName": "pv-1"}, "status": {"phase": "Bound"}}));
    sim.settle();
}

fn runs(sim: &mut Sim) {
    worker_runs(sim, &pod(sim), true);
}

fn ends(sim: &mut Sim, stage: Stage) {
    let pod = pod(sim);
    worker_ends(sim, &pod, Some(stage));
}

/// A PVC whose prime is filled, and the worker pod, which is being deleted and is still there.
fn filled_with_its_pod() -> (Sim, Key) {
    let mut sim = wanted("Immediate", Kind::VolumeImportSource);
    is_bound(&mut sim);
    runs(&mut sim);
    let worker = pod(&sim);
    sim.change(&worker, json!({"metadata": {"finalizers": ["kubelet"]}}));
    ends(&mut sim, Stage::Done);
    sim.settle();
    (sim, worker)
}

/// What Kubernetes does with a volume that is reserved for a PVC.
fn is_handed_over(sim: &mut Sim) {
    assert_eq!(sim.get(&volume())["spec"]["claimRef"]["uid"], sim.uid(&target()));
    sim.change(&target(), json!({"spec": {"volumeName": "pv-1"}, "status": {"phase": "Bound"}}));
    sim.change(&prime(sim), json!({"status": {"phase": "Lost"}}));
    sim.settle();
}

#[test]
fn a_pvc_gets_the_volume_that_was_filled_in_its_place() {
    let mut sim = wanted("Immediate", Kind::VolumeImportSource);
    let prime = prime(&sim);
    let made = sim.get(&prime).clone();
    assert!(made["spec"]["dataSourceRef"].is_null());
    assert_eq!(made["metadata"]["labels"]["velero.io/exclude-from-backup"], "true");
    assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], sim.uid(&target()));
    assert_eq!(note(&sim, &target(), "storage.populator.pvcPrime"), prime.name);
    is_bound(&mut sim);
    let made = sim.get(&pod(&sim)).clone();
    assert_eq!(made["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], prime.name);
    runs(&mut sim);
    assert_eq!(note(&sim, &target(), "storage.pod.phase"), "Running");
    assert_eq!(note(&sim, &target(), "storage.condition.running"), "true");
    let report = api::job::Report { stage: Stage::Moving, done: 1, total: Some(4), ..Default::default() };
    let worker = pod(&sim);
    worker_says(&mut sim, &worker, report);
    assert_eq!(note(&sim, &target(), "storage.populator.progress"), "25.00%");

    ends(&mut sim, Stage::Done);
    sim.settle();
    assert!(!sim.objects.contains_key(&pod(&sim)));
    let passes = sim.get(&volume()).clone();
    assert_eq!(passes["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    assert!(passes["spec"]["claimRef"]["resourceVersion"].is_null(), "{passes:#}");
    assert_eq!(note(&sim, &target(), "storage.pod.phase"), "Running", "not before it is bound");
    assert!(sim.objects.contains_key(&prime));

    is_handed_over(&mut sim);
    assert!(!sim.objects.contains_key(&prime));
    let own = sim.get(&volume());
    assert_eq!(own["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    assert!(own["metadata"]["annotations"]["cdi.kubevirt.io/storage.populator.reclaimPolicy"].is_null());
    assert_eq!(note(&sim, &target(), "storage.pod.phase"), "Succeeded");
    assert_eq!(note(&sim, &target(), "storage.populatedFor"), "disk");
    assert_eq!(note(&sim, &target(), "storage.populator.pvcPrime"), "");
    let reasons = ["Pending", "ImportScheduled", "ImportInProgress", "ImportSucceeded"];
    assert_eq!(sim.reasons(), reasons, "{:?}", sim.told);
    assert_eq!(sim.warnings, [""; 0]);
}

#[test]
fn a_volume_that_waits_for_its_consumer_is_made_on_the_node_of_that() {
    let mut sim = wanted("WaitForFirstConsumer", Kind::VolumeImportSource);
    assert!(!sim.objects.contains_key(&prime(&sim)));
    assert_eq!(note(&sim, &target(), "storage.condition.running.reason"), "WaitForFirstConsumer");
    assert_eq!((sim.reasons(), sim.warnings.len()), (vec!["WaitForFirstConsumer".to_owned()], 0));
    let node = json!({"volume.kubernetes.io/selected-node": "node2"});
    sim.change(&target(), json!({"metadata": {"annotations": node}}));
    sim.settle();
    let notes = &sim.get(&prime(&sim))["metadata"]["annotations"];
    assert_eq!(notes["volume.kubernetes.io/selected-node"], "node2");
    assert!(sim.objects.contains_key(&pod(&sim)), "its pod is the consumer");
}

#[test]
fn a_volume_that_is_wanted_at_once_is_made_without_a_consumer() {
    let mut sim = wanted("WaitForFirstConsumer", Kind::VolumeImportSource);
    let at_once = json!({"cdi.kubevirt.io/storage.bind.immediate.requested": ""});
    sim.change(&target(), json!({"metadata": {"annotations": at_once}}));
    sim.settle();
    assert!(sim.objects.contains_key(&prime(&sim)));
}

#[test]
fn what_cannot_be_filled_says_why_and_makes_nothing() {
    let mut sim = Sim::new();
    class(&mut sim, "Immediate");
    sim.put(Kind::PersistentVolumeClaim, claim("VolumeImportSource"));
    sim.settle();
    assert_eq!(note(&sim, &target(), "storage.condition.running.reason"), "NotFound");
    let clone = json!({"spec": {"dataSourceRef": {"kind": "VolumeCloneSource"}}});
    sim.change(&target(), clone);
    sim.settle();
    assert_eq!(note(&sim, &target(), "storage.condition.running.reason"), "NotFound");
    for (source, expected) in [
        (
            json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "a"}),
            "spec.source.kind: a VolumeSnapshot",
        ),
        (
            json!({"kind": "PersistentVolumeClaim", "name": "a", "namespace": "other"}),
            "spec.source.namespace",
        ),
        (json!({"kind": "PersistentVolumeClaim", "name": "disk"}), "a clone of itself"),
    ] {
        let object = json!({"metadata": {"namespace": "n", "name": "gold"}, "spec": {"source": source}});
        sim.put(Kind::VolumeCloneSource, object);
        sim.settle();
        assert_eq!(note(&sim, &target(), "storage.condition.running.reason"), "Unsupported");
        let message = note(&sim, &target(), "storage.condition.running.message");
        assert!(message.contains(expected), "{message}");
    }
    let foreign = json!({"spec": {"dataSourceRef": {"kind": "VolumeImportSource", "namespace": "other"}}});
    sim.change(&target(), foreign);
    sim.settle();
    assert!(note(&sim, &target(), "storage.condition.running.message").contains("dataSourceRef.namespace"));
    assert_eq!(sim.keys(Kind::PersistentVolumeClaim), [target()]);
    // One of another group is nobody's business here.
    let other = json!({"spec": {"dataSourceRef": {"apiGroup": "example.com", "namespace": null}}});
    sim.change(&target(), other);
    assert_eq!(sim.round(), 0);
}

/// A PVC of this size that is to be a clone of another one of its namespace.
fn cloning(size: &str) -> Sim {
    let mut sim = Sim::new();
    super::upload_tests::authorities(&mut sim);
    sim.settle();
    sim.advance(60);
    class(&mut sim, "Immediate");
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}});
    sim.put(
        Kind::PersistentVolumeClaim,
        json!({"metadata": {"namespace": "n", "name": "source"}, "spec": spec, "status": {"phase": "Bound"}}),
    );
    let spec =
        json!({"source": {"kind": "PersistentVolumeClaim", "name": "source"}, "priorityClassName": "high"});
    sim.put(Kind::VolumeCloneSource, json!({"metadata": {"namespace": "n", "name": "gold"}, "spec": spec}));
    let mut claim = claim("VolumeCloneSource");
    claim["spec"]["resources"]["requests"]["storage"] = json!(size);
    sim.put(Kind::PersistentVolumeClaim, claim);
    sim.settle();
    sim
}

fn source_pod(sim: &Sim) -> Key {
    Key::new(Kind::Pod, "n", cluster_model::objects::names::cloner(&sim.uid(&prime(sim))))
}

fn serves(sim: &mut Sim) {
    worker_runs(sim, &source_pod(sim), true);
}

#[test]
fn a_pvc_becomes_a_clone_of_the_one_that_its_source_names() {
    let mut sim = cloning("1Gi");
    let notes = sim.get(&prime(&sim))["metadata"]["annotations"].clone();
    assert_eq!(
        (&notes["k8s.io/CloneRequest"], &notes["cdi.kubevirt.io/cloneType"]),
        (&json!("n/source"), &json!("copy"))
    );
    is_bound(&mut sim);
    let read = sim.get(&source_pod(&sim))["spec"]["volumes"][0]["persistentVolumeClaim"].clone();
    assert_eq!(read, json!({"claimName": "source", "readOnly": true}));
    assert!(!sim.objects.contains_key(&pod(&sim)), "it waits until the source answers");
    serves(&mut sim);
    let made = sim.get(&pod(&sim)).clone();
    let written = &made["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"];
    assert_eq!((written, &made["spec"]["priorityClassName"]), (&json!(prime(&sim).name), &json!("high")));
    runs(&mut sim);
    assert_eq!(note(&sim, &target(), "storage.pod.phase"), "Running");
    assert_eq!(note(&sim, &target(), "cloneType"), "copy");
    assert!(sim.objects.contains_key(&source_pod(&sim)), "it is read from");
    ends(&mut sim, Stage::Done);
    sim.settle();
    assert!(!sim.objects.contains_key(&pod(&sim)) && !sim.objects.contains_key(&source_pod(&sim)));
    is_handed_over(&mut sim);
    assert!(!sim.objects.contains_key(&prime(&sim)));
    assert_eq!(note(&sim, &target(), "storage.pod.phase"), "Succeeded");
    let left = sim.objects.keys().filter(|key| key.name.starts_with("clone-")).count();
    assert_eq!(left, 0, "nothing of the way is left");
}

#[test]
fn a_clone_that_is_not_wanted_any_more_lets_its_source_go() {
    let mut sim = cloning("1Gi");
    is_bound(&mut sim);
    serves(&mut sim);
    runs(&mut sim);
    sim.vanish(&Key::new(Kind::VolumeCloneSource, "n", "gold"));
    sim.settle();
    assert!(!sim.objects.contains_key(&pod(&sim)) && !sim.objects.contains_key(&source_pod(&sim)));
}

#[test]
fn a_pvc_smaller_than_what_it_clones_is_refused_with_both_numbers() {
    let mut sim = cloning("512Mi");
    is_bound(&mut sim);
    let message = note(&sim, &target(), "storage.condition.running.message");
    assert!(message.contains("536870912 bytes, and the source has 1073741824"), "{message}");
    assert!(!sim.objects.contains_key(&source_pod(&sim)));
}

/// A PVC of the prime's name that somebody else made is not filled, and its volume does not pass.
#[test]
fn a_stranger_of_the_primes_name_gets_nothing_and_gives_nothing() {
    let mut sim = Sim::new();
    class(&mut sim, "Immediate");
    sim.put(Kind::PersistentVolumeClaim, claim("VolumeUploadSource"));
    let stranger = json!({"metadata": {"namespace": "n", "name": prime(&sim).name}, "spec": {}});
    sim.put(Kind::PersistentVolumeClaim, stranger);
    sim.put(Kind::VolumeUploadSource, json!({"metadata": {"namespace": "n", "name": "gold"}, "spec": {}}));
    sim.settle();
    assert_eq!(note(&sim, &target(), "storage.condition.running.reason"), "ErrResourceExists");
    assert!(!sim.objects.contains_key(&pod(&sim)));
}

/// Whatever becomes of the PVC while its volume passes, the volume is reclaimed as it would have been.
#[test]
fn a_volume_whose_pvc_is_gone_has_its_own_policy_again() {
    let mut sim = wanted("Immediate", Kind::VolumeImportSource);
    is_bound(&mut sim);
    runs(&mut sim);
    ends(&mut sim, Stage::Done);
    sim.settle();
    assert_eq!(sim.get(&volume())["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    sim.vanish(&target());
    sim.settle();
    assert_eq!(sim.get(&volume())["spec"]["persistentVolumeReclaimPolicy"], "Delete");
}

/// Another CDI fills the disks meanwhile, and does not know that policy.
#[test]
fn a_volume_that_was_handed_over_has_its_own_policy_again_while_disks_are_left() {
    let mut sim = wanted("Immediate", Kind::VolumeImportSource);
    is_bound(&mut sim);
    runs(&mut sim);
    ends(&mut sim, Stage::Done);
    sim.settle();
    assert_eq!(sim.get(&volume())["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    let spec = json!({"service": {"name": "cdi-api", "namespace": "cdi"}});
    sim.put(Kind::APIService, json!({"metadata": {"name": cluster_model::objects::UPLOADS}, "spec": spec}));
    assert!(!crate::cdi::fills_disks(&sim.world));
    let bound = json!({"spec": {"volumeName": volume().name}, "status": {"phase": "Bound"}});
    sim.change(&target(), bound);
    sim.settle();
    assert_eq!(sim.get(&volume())["spec"]["persistentVolumeReclaimPolicy"], "Delete");
}

/// A volume passes only from the prime itself.
#[test]
fn the_volume_of_another_pvc_does_not_pass() {
    for other in [json!({"namespace": "m"}), json!({"name": "secret"}), json!({"uid": "other"})] {
        let mut sim = wanted("Immediate", Kind::VolumeImportSource);
        is_bound(&mut sim);
        runs(&mut sim);
        sim.change(&volume(), json!({"spec": {"claimRef": other}}));
        let before = sim.get(&volume()).clone();
        ends(&mut sim, Stage::Done);
        sim.settle();
        assert_eq!(sim.get(&volume()), &before, "{other}");
    }
}

/// Two may write to the volume while a pod that fills it is there, whatever the pod says of itself.
#[test]
fn a_volume_does_not_pass_before_the_pod_that_filled_it_is_gone() {
    let (mut sim, worker) = filled_with_its_pod();
    assert_eq!(note(&sim, &prime(&sim), "storage.pod.phase"), "Succeeded");
    assert_eq!(sim.get(&volume())["spec"]["claimRef"]["uid"], sim.uid(&prime(&sim)));
    sim.vanish(&worker);
    sim.settle();
    assert_eq!(sim.get(&volume())["spec"]["claimRef"]["uid"], sim.uid(&target()));
}

/// Until Kubernetes has bound the two to one another, the deletion of either would reclaim the disk.
#[test]
fn a_volume_has_its_own_policy_again_when_its_pvc_is_bound_to_it_and_not_before() {
    let mut sim = wanted("Immediate", Kind::VolumeImportSource);
    is_bound(&mut sim);
    runs(&mut sim);
    ends(&mut sim, Stage::Done);
    sim.settle();
    for (volume_name, phase, policy) in
        [("pv-1", "Pending", "Retain"), ("pv-2", "Bound", "Retain"), ("pv-1", "Bound", "Delete")]
    {
        sim.change(&target(), json!({"spec": {"volumeName": volume_name}, "status": {"phase": phase}}));
        let plan = crate::decide(&sim.world, &volume(), sim.now);
        sim.apply(plan);
        let own = &sim.get(&volume())["spec"]["persistentVolumeReclaimPolicy"];
        assert_eq!(own, policy, "{volume_name}, {phase}");
    }
}

/// A PVC that was made again under the name is another one: the volume is not its own.
#[test]
fn a_volume_whose_pvc_was_made_again_has_its_own_policy_again() {
    let mut sim = wanted("Immediate", Kind::VolumeImportSource);
    is_bound(&mut sim);
    runs(&mut sim);
    ends(&mut sim, Stage::Done);
    sim.settle();
    sim.vanish(&target());
    sim.put(Kind::PersistentVolumeClaim, json!({"metadata": {"namespace": "n", "name": "disk"}, "spec": {}}));
    sim.settle();
    assert_eq!(sim.get(&volume())["spec"]["persistentVolumeReclaimPolicy"], "Delete");
}

#[test]
fn a_volume_that_is_retained_anyway_stays_so() {
    let mut sim = wanted("Immediate", Kind::VolumeImportSource);
    is_bound(&mut sim);
    sim.change(&volume(), json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}}));
    runs(&mut sim);
    ends(&mut sim, Stage::Done);
    sim.settle();
    assert!(sim.get(&volume())["metadata"]["annotations"].is_null(), "there is nothing to remember");
    is_handed_over(&mut sim);
    assert_eq!(sim.get(&volume())["spec"]["persistentVolumeReclaimPolicy"], "Retain");
}

/// Kubernetes has bound the PVC to another volume: its content is not said to be that of its source.
#[test]
fn a_pvc_that_was_bound_to_another_volume_is_not_said_to_be_filled() {
    let mut sim = wanted("Immediate", Kind::VolumeImportSource);
    is_bound(&mut sim);
    runs(&mut sim);
    let filled = prime(&sim);
    sim.change(&target(), json!({"spec": {"volumeName": "pv-2"}, "status": {"phase": "Bound"}}));
    sim.settle();
    assert!(!sim.objects.contains_key(&filled), "nobody needs it any more");
    assert_eq!(note(&sim, &target(), "storage.populatedFor"), "");
    assert_ne!(note(&sim, &target(), "storage.pod.phase"), "Succeeded");
    assert_eq!(note(&sim, &target(), "storage.populator.pvcPrime"), "");
    assert_eq!(sim.warnings, ["ErrClaimNotValid"]);
}

#[test]
fn nothing_is_made_for_a_pvc_that_goes_nor_without_an_installation() {
    for is_deleted in [false, true] {
        let mut sim = if is_deleted { Sim::new() } else { Sim::empty() };
        class(&mut sim, "Immediate");
        sim.put(
            Kind::VolumeUploadSource,
            json!({"metadata": {"namespace": "n", "name": "gold"}, "spec": {}}),
        );
        let mut object = claim("VolumeUploadSource");
        if is_deleted {
            object["metadata"]["finalizers"] = json!(["kubernetes.io/pvc-protection"]);
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        sim.put(Kind::PersistentVolumeClaim, object);
        sim.settle();
        assert_eq!(sim.keys(Kind::PersistentVolumeClaim), [target()], "{is_deleted}");
    }
}

/// The settings of the source are those of the PVC that is filled.
#[test]
fn what_a_source_says_of_blocks_and_content_is_done() {
    for kind in [Kind::VolumeImportSource, Kind::VolumeUploadSource, Kind::VolumeCloneSource] {
        for preallocation in [None, Some(false), Some(true)] {
            let mut sim = Sim::new();
            class(&mut sim, "Immediate");
            let source = match kind {
                Kind::VolumeImportSource => json!({"http": {"url": "https://images.example/a.qcow2"}}),
                Kind::VolumeCloneSource => json!({"kind": "PersistentVolumeClaim", "name": "source"}),
                _ => Value::Null,
            };
            let spec = json!({"source": source, "preallocation": preallocation, "contentType": "archive"});
            sim.put(kind, json!({"metadata": {"namespace": "n", "name": "gold"}, "spec": spec}));
            sim.put(Kind::PersistentVolumeClaim, claim(kind.name()));
            let plan = crate::decide(&sim.world, &target(), sim.now);
            sim.apply(plan);
            let notes = &sim.get(&prime(&sim))["metadata"]["annotations"];
            let said = &notes["cdi.kubevirt.io/storage.preallocation.requested"];
            let expected = if preallocation == Some(true) { json!("true") } else { Value::Null };
            assert_eq!(said, &expected, "{kind:?} {preallocation:?}");
            // Only disks are cloned.
            let content = if kind == Kind::VolumeCloneSource { "kubevirt" } else { "archive" };
            assert_eq!(notes["cdi.kubevirt.io/storage.contentType"], content, "{kind:?}");
        }
    }
}

#[test]
fn an_import_that_failed_for_good_says_so_and_is_not_begun_again() {
    let mut sim = wanted("Immediate", Kind::VolumeImportSource);
    is_bound(&mut sim);
    runs(&mut sim);
    ends(&mut sim, Stage::Failed);
    sim.settle();
    assert_eq!(note(&sim, &target(), "storage.pod.phase"), "Failed");
    assert_eq!(note(&sim, &target(), "storage.condition.running.message"), "So it ended");
    sim.vanish(&pod(&sim));
    sim.advance(3600);
    sim.settle();
    assert!(!sim.objects.contains_key(&pod(&sim)));
}

#[test]
fn an_upload_is_taken_in_the_place_of_the_pvc() {
    let sim = wanted("Immediate", Kind::VolumeUploadSource);
    let notes = &sim.get(&prime(&sim))["metadata"]["annotations"];
    assert_eq!(notes["cdi.kubevirt.io/storage.upload.target"], "");
    assert_eq!(note(&sim, &target(), "storage.populator.pvcPrime"), prime(&sim).name);
    assert!(!note(&sim, &target(), "storage.condition.running.reason").is_empty());
}

/// A disk is that of one PVC: under a VMI that names the prime nothing passes.
#[test]
fn a_volume_does_not_pass_from_under_a_vmi() {
    let mut sim = wanted("Immediate", Kind::VolumeImportSource);
    is_bound(&mut sim);
    runs(&mut sim);
    let mut vmi = crate::sim::vmi("web");
    vmi["spec"]["volumes"] =
        json!([{"name": "root", "persistentVolumeClaim": {"claimName": prime(&sim).name}}]);
    let vmi = sim.put(Kind::VirtualMachineInstance, vmi);
    ends(&mut sim, Stage::Done);
    sim.settle();
    assert_eq!(sim.get(&volume())["spec"]["claimRef"]["uid"], sim.uid(&prime(&sim)));
    let launcher = sim.pod_of(&vmi);
    launcher.iter().for_each(|pod| sim.vanish(pod));
    sim.vanish(&vmi);
    sim.settle();
    assert_eq!(sim.get(&volume())["spec"]["claimRef"]["uid"], sim.uid(&target()));
}

/// What is mounted is protected by its PVC: a prime that goes would let go of a volume under a pod, also under one that reads.
#[test]
fn a_volume_does_not_pass_from_under_somebodys_pod() {
    for reads in [false, true] {
        does_not_pass_from_under_a_pod(reads);
    }
}

fn does_not_pass_from_under_a_pod(reads: bool) {
    let mut sim = wanted("Immediate", Kind::VolumeImportSource);
    is_bound(&mut sim);
    runs(&mut sim);
    ends(&mut sim, Stage::Done);
    let spec = json!({
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": prime(&sim).name, "readOnly": reads}}],
        "containers": [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": reads}]}],
    });
    let meta = json!({"namespace": "n", "name": "shell"});
    // Its labels are not ours, and so it is in no picture.
    let shell = Key::new(Kind::Pod, "n", "shell");
    sim.objects
        .insert(shell.clone(), json!({"metadata": meta, "spec": spec, "status": {"phase": "Running"}}));
    let mut failed = None;
    for _ in 0..10 {
        for key in sim.objects.keys().cloned().collect::<Vec<_>>() {
            let plan = crate::decide(&sim.world, &key, sim.now);
            failed = failed.or(crate::sim::door::carry_out(&mut sim, plan).failed);
        }
    }
    let (about, error) = failed.expect("somebody mounts it");
    assert_eq!(about, Some(Attempt::Make(Kind::PersistentVolumeClaim)));
    assert!(error.to_string().contains("pod shell mounts PVC prime-"), "{error}");
    assert_eq!(sim.get(&volume())["spec"]["claimRef"]["uid"], sim.uid(&prime(&sim)));
    assert_eq!(sim.get(&volume())["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    // As the loop keeps it.
    let retry = sim.now.checked_add(jiff::SignedDuration::from_secs(30)).unwrap();
    let about = Attempt::Make(Kind::PersistentVolumeClaim);
    let failure = cluster_model::objects::Failure { about, message: error.to_string(), times: 1, retry };
    let own = Key::new(Kind::DataVolume, "n", "disk");
    sim.world.failures.insert(own.clone(), failure);
    sim.settle();
    assert_eq!(note(&sim, &target(), "storage.condition.running.reason"), "InUse");
    assert!(note(&sim, &target(), "storage.condition.running.message").contains("pod shell mounts"));
    sim.objects.remove(&shell);
    sim.world.failures.remove(&own);
    sim.settle();
    assert_eq!(sim.get(&volume())["spec"]["claimRef"]["uid"], sim.uid(&target()));
    assert_ne!(note(&sim, &target(), "storage.condition.running.reason"), "InUse");
}

/// Nobody else knows the policy that the volume had.
#[test]
fn a_volume_has_its_own_policy_again_also_when_the_kubevirt_object_is_gone() {
    let mut sim = wanted("Immediate", Kind::VolumeImportSource);
    is_bound(&mut sim);
    runs(&mut sim);
    ends(&mut sim, Stage::Done);
    sim.settle();
    assert_eq!(sim.get(&volume())["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    sim.world.remove(&Key::new(Kind::KubeVirt, "kubevirt", "kubevirt"));
    sim.change(&target(), json!({"spec": {"volumeName": "pv-1"}, "status": {"phase": "Bound"}}));
    sim.settle();
    let own = sim.get(&volume());
    assert_eq!(own["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    assert!(own["metadata"]["annotations"]["cdi.kubevirt.io/storage.populator.reclaimPolicy"].is_null());
}

/// Whoever may annotate PVCs may make an upload of it, which would write to the same disk.
#[test]
fn a_pvc_that_is_imported_takes_no_upload_beside() {
    let mut sim = wanted("Immediate", Kind::VolumeImportSource);
    super::upload_tests::authorities(&mut sim);
    let prime = prime(&sim);
    sim.change(&prime, json!({"metadata": {"annotations": {cluster_model::uploads::TARGET: ""}}}));
    is_bound(&mut sim);
    let workers: Vec<Key> = sim.keys(Kind::Pod);
    assert_eq!(workers, [pod(&sim)]);
}
