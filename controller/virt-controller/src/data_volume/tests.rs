//! Stories of a DataVolume: what is made, what is said, and what is never done.

use crate::sim::others::{worker_ends, worker_reports, worker_runs, worker_says};
use crate::sim::{Sim, data_volume};
use api::job::{Report, Stage};
use cluster_model::objects::{Attempt, Failure, Key, Kind};
use cluster_model::plan::Step;
use cluster_model::worker::ATTEMPT;
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

fn with(source: Value) -> Value {
    data_volume("disk", source)
}

fn http() -> Value {
    json!({"http": {"url": "https://images.example/a.qcow2", "secretRef": "login", "certConfigMap": "ca"}})
}

pub(super) fn class(sim: &mut Sim, mode: &str) {
    let annotations = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    sim.put(
        Kind::StorageClass,
        json!({"metadata": {"name": "fast", "annotations": annotations}, "provisioner": "p", "volumeBindingMode": mode}),
    );
}

pub(super) fn bound(sim: &mut Sim) {
    sim.bind(&claim());
}

fn runs(sim: &mut Sim) {
    worker_runs(sim, &pod(), true);
}

/// A DataVolume whose worker runs.
fn running() -> Sim {
    let mut sim = Sim::new();
    class(&mut sim, "Immediate");
    sim.put(Kind::DataVolume, with(http()));
    sim.settle();
    bound(&mut sim);
    sim.settle();
    runs(&mut sim);
    sim
}

fn phase(sim: &Sim) -> &str {
    sim.phase(&disk())
}

pub(super) fn said(sim: &Sim, kind: &str) -> (String, String, String) {
    sim.condition(&disk(), kind).unwrap_or_else(|| panic!("no condition {kind}: {:#}", sim.get(&disk())))
}

#[test]
fn an_import_is_a_pvc_and_a_pod_and_ends() {
    let mut sim = Sim::new();
    class(&mut sim, "Immediate");
    sim.put(Kind::DataVolume, with(http()));
    sim.settle();
    assert_eq!(phase(&sim), "Pending");
    assert_eq!(sim.get(&claim())["spec"]["storageClassName"], "fast");
    assert_eq!(said(&sim, "Bound").1, "Pending");
    assert!(said(&sim, "Running").2.contains("StorageClass fast"), "{:?}", said(&sim, "Running"));
    assert!(!sim.objects.contains_key(&pod()), "no pod before the volume");

    bound(&mut sim);
    sim.settle();
    assert_eq!(phase(&sim), "ImportScheduled");
    let made = sim.get(&pod()).clone();
    let env = &made["spec"]["containers"][0]["env"];
    let job: api::job::Import = serde_json::from_str(env[0]["value"].as_str().unwrap()).unwrap();
    assert_eq!(job.size, Some(1 << 30));
    assert_eq!(made["spec"]["volumes"][2]["secret"]["secretName"], "login");
    assert_eq!(made["spec"]["volumes"][3]["configMap"]["name"], "ca");
    assert_eq!(made["spec"]["restartPolicy"], "Never");

    runs(&mut sim);
    assert_eq!(phase(&sim), "ImportInProgress");
    let report = Report {
        stage: Stage::Moving,
        done: 1 << 29,
        total: Some(1 << 30),
        rate: 1 << 20,
        seconds_left: Some(512),
        ..Report::default()
    };
    worker_says(&mut sim, &pod(), report);
    assert_eq!(sim.get(&disk())["status"]["progress"], "50.00%");
    assert_eq!(
        said(&sim, "Transferring"),
        ("True".into(), "Moving".into(), "512.0 MiB of 1.0 GiB, 1.0 MiB a second, 9 min left".into())
    );
    assert_eq!(sim.get(&claim())["metadata"]["annotations"]["cdi.kubevirt.io/storage.pod.phase"], "Running");

    worker_ends(&mut sim, &pod(), Some(Stage::Done));
    sim.settle();
    assert_eq!(phase(&sim), "Succeeded");
    assert_eq!(sim.get(&disk())["status"]["progress"], "100.0%");
    assert_eq!(said(&sim, "Ready").0, "True");
    assert_eq!(
        sim.get(&claim())["metadata"]["annotations"]["cdi.kubevirt.io/storage.pod.phase"],
        "Succeeded"
    );
    assert!(!sim.objects.contains_key(&pod()), "its log is nothing to anybody");
    assert_eq!(
        sim.reasons(),
        ["Pending", "ImportScheduled", "ImportInProgress", "ImportSucceeded"].map(String::from)
    );
    assert_eq!(sim.warnings, [""; 0]);
}

/// The author of an image names the size of its VMs; what the owner of the PVC says of it stays, and nothing else is believed.
#[test]
fn the_labels_of_an_image_are_on_the_pvc_when_it_is_whole() {
    let mut sim = running();
    let label = "instancetype.kubevirt.io/default-preference";
    sim.change(&claim(), json!({"metadata": {"labels": {label: "mine"}}}));
    sim.settle();
    let labels = [
        ("instancetype.kubevirt.io/default-instancetype", "u1.small"),
        ("instancetype.kubevirt.io/default-instancetype-kind", "no label"),
        ("instancetype.kubevirt.io/object-name", "a"),
        ("kubevirt.io/created-by", "7"),
        (label, "theirs"),
    ];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    worker_reports(&mut sim, &pod(), 0, &Report { stage: Stage::Done, labels, ..Report::default() });
    sim.settle();
    assert_eq!(phase(&sim), "Succeeded");
    let there = sim.get(&claim())["metadata"]["labels"].as_object().unwrap();
    let said: Vec<(&str, &Value)> = there
        .iter()
        .filter(|(name, _)| name.contains("kubevirt.io/"))
        .map(|(name, value)| (&**name, value))
        .collect();
    let size = "instancetype.kubevirt.io/default-instancetype";
    assert_eq!(said, [(size, &json!("u1.small")), (label, &json!("mine"))]);
}

/// The disk may be too short, and only its owner can tell.
#[test]
fn a_disk_of_unknown_length_is_said_to_be_one_in_a_condition_and_an_event() {
    for length_unknown in [true, false] {
        let mut sim = running();
        let report = Report { stage: Stage::Done, length_unknown, ..Report::default() };
        worker_reports(&mut sim, &pod(), 0, &report);
        sim.settle();
        assert_eq!(phase(&sim), "Succeeded");
        assert_eq!(said(&sim, "Ready").0, "True");
        let (is, reason, message) = said(&sim, "Transferring");
        let expected = if length_unknown { "LengthUnknown" } else { "Completed" };
        assert_eq!((is.as_str(), reason.as_str()), ("False", expected));
        assert_eq!(message.contains("set spec.source.http.checksum"), length_unknown, "{message}");
        sim.advance(3600);
        sim.settle();
        let told = sim.reasons().iter().filter(|reason| *reason == "LengthUnknown").count();
        assert_eq!(told, usize::from(length_unknown), "it is told once");
        assert_eq!(sim.warnings.len(), told);
    }
}

/// The leader dies behind the mark on the PVC, and the kubelet tells of the container before it tells of the pod.
#[test]
fn a_disk_of_unknown_length_is_said_to_be_one_by_the_next_leader_as_well() {
    let mut sim = running();
    let done = Report { stage: Stage::Done, length_unknown: true, ..Report::default() };
    let ended = json!({"exitCode": 0, "message": done.termination(), "finishedAt": sim.now.to_string()});
    let state = json!({"terminated": ended, "running": null});
    let container = json!([{"name": "importer", "ready": false, "state": state}]);
    let noted = json!({"metadata": {"annotations": {"cdi.kubevirt.io/storage.pod.phase": "Succeeded"}}});
    sim.change(&claim(), noted);
    sim.change(&pod(), json!({"status": {"containerStatuses": container}}));
    assert_eq!(sim.get(&pod())["status"]["phase"], "Running");
    sim.settle();
    assert_eq!((phase(&sim), said(&sim, "Ready").0), ("Succeeded", "True".to_owned()));
    assert_eq!(said(&sim, "Transferring").1, "LengthUnknown");
}

#[test]
fn a_worker_that_falls_silent_is_said_to_be_so_with_the_time_and_its_last_words() {
    let mut sim = running();
    let report = Report { stage: Stage::Moving, done: 1 << 29, total: Some(1 << 30), ..Report::default() };
    worker_says(&mut sim, &pod(), report);
    let (uid, at) = (sim.uid(&pod()), ("n".to_owned(), "importer-disk".to_owned()));
    let since = sim.now;
    sim.advance(40);
    sim.world.silent.insert(at.clone(), (uid, since));
    sim.settle();
    let (status, reason, message) = said(&sim, "Transferring");
    assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "Silent"));
    let stamp = cluster_model::conditions::stamp(since);
    assert!(
        message
            .starts_with(&format!("the worker has not answered since {stamp}; its last report: 512.0 MiB")),
        "{message}"
    );
    sim.advance(600);
    assert_eq!(sim.round(), 0, "it is said once");
    sim.world.silent.remove(&at);
    sim.settle();
    assert_eq!(said(&sim, "Transferring").0, "True");
    // Of another pod of that name.
    sim.world.silent.insert(at, ("another".to_owned(), since));
    assert_eq!(sim.round(), 0);
}

#[test]
fn pods_that_are_killed_for_memory_come_to_an_end_with_their_number() {
    let mut sim = running();
    for count in 1..=10 {
        assert_eq!(phase(&sim), "ImportInProgress", "{count}");
        let ended = json!({"exitCode": 137, "reason": "OOMKilled", "finishedAt": sim.now.to_string()});
        let status = json!([{"name": "importer", "state": {"terminated": ended, "running": null}}]);
        sim.change(&pod(), json!({"status": {"phase": "Failed", "containerStatuses": status}}));
        sim.settle();
        if count < 10 {
            sim.advance(301);
            sim.settle();
            runs(&mut sim);
        }
    }
    assert_eq!((phase(&sim), said(&sim, "Running").1.as_str()), ("Failed", "OOMKilled"));
    let message = said(&sim, "Running").2;
    assert!(message.contains("10 pods ended") && message.contains("128Mi"), "{message}");
    // Others go on for ever: a node may come back.
    let mut sim = running();
    for _ in 0..12 {
        worker_ends(&mut sim, &pod(), None);
        sim.settle();
        sim.advance(301);
        sim.settle();
        runs(&mut sim);
    }
    assert_eq!(phase(&sim), "ImportInProgress");
}

#[test]
fn what_cannot_be_mended_ends_once_and_says_why() {
    let mut sim = running();
    let report = Report {
        stage: Stage::Failed,
        reason: "NotFound".into(),
        message: "the server has no a.qcow2 (404)".into(),
        ..Report::default()
    };
    worker_ends(&mut sim, &pod(), Some(Stage::Failed));
    let message = json!({"message": report.termination()});
    let mut ended = sim.get(&pod())["status"]["containerStatuses"].clone();
    ended[0]["state"]["terminated"]["message"] = message["message"].clone();
    sim.change(&pod(), json!({"status": {"containerStatuses": ended}}));
    sim.settle();
    assert_eq!(phase(&sim), "Failed");
    assert_eq!(said(&sim, "Running").1, "NotFound");
    assert_eq!(said(&sim, "Running").2, report.message);
    assert!(sim.objects.contains_key(&pod()), "its log can be read");
    sim.advance(3600);
    sim.settle();
    assert_eq!(sim.reasons().iter().filter(|reason| *reason == "ImportFailed").count(), 1);
    assert_eq!(sim.warnings, ["ImportFailed"]);
}

#[test]
fn a_pod_that_breaks_off_is_followed_by_another_and_counted_once() {
    let mut sim = running();
    for count in 1..4 {
        worker_ends(&mut sim, &pod(), None);
        sim.settle();
        assert_eq!(sim.get(&disk())["status"]["restartCount"], count);
        let (is, _, message) = said(&sim, "Running");
        assert!(is == "False" && message.contains("the next pod begins at"), "{message}");
        assert!(sim.objects.contains_key(&pod()), "the pause is not over");
        sim.advance(300);
        sim.settle();
        assert_eq!(sim.get(&pod())["metadata"]["annotations"][ATTEMPT], count.to_string());
        assert!(sim.get(&pod())["status"].is_null(), "another pod");
        runs(&mut sim);
        assert_eq!(phase(&sim), "ImportInProgress");
    }
}

#[test]
fn a_volume_that_waits_for_its_consumer_is_made_where_the_vmi_can_run() {
    let mut sim = Sim::new();
    class(&mut sim, "WaitForFirstConsumer");
    sim.put(Kind::DataVolume, with(json!({"blank": {}})));
    sim.settle();
    assert_eq!(phase(&sim), "WaitForFirstConsumer");
    assert!(!sim.objects.contains_key(&pod()));
    let mut vmi = crate::sim::vmi("web");
    vmi["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    vmi["spec"]["volumes"] = json!([{"name": "root", "dataVolume": {"name": "disk"}}]);
    sim.put(Kind::VirtualMachineInstance, vmi);
    sim.settle();
    assert_eq!(sim.get(&pod())["spec"]["nodeSelector"]["disk"], "ssd");
}

#[test]
fn a_volume_that_is_wanted_at_once_is_made_without_a_consumer() {
    let mut sim = Sim::new();
    class(&mut sim, "WaitForFirstConsumer");
    let mut object = with(json!({"blank": {}}));
    object["metadata"]["annotations"] = json!({"cdi.kubevirt.io/storage.bind.immediate.requested": ""});
    sim.put(Kind::DataVolume, object);
    sim.settle();
    assert!(sim.objects.contains_key(&pod()));
}

#[test]
fn what_somebody_else_made_is_never_taken() {
    let mut sim = Sim::new();
    class(&mut sim, "Immediate");
    sim.put(
        Kind::PersistentVolumeClaim,
        json!({"metadata": {"namespace": "n", "name": "disk"}, "status": {"phase": "Bound"}}),
    );
    sim.put(Kind::DataVolume, with(json!({"blank": {}})));
    sim.settle();
    assert_eq!(said(&sim, "Running").1, "ErrResourceExists");
    assert!(!sim.objects.contains_key(&pod()));
}

#[test]
fn what_is_not_served_is_refused_by_name() {
    let mut sim = Sim::new();
    sim.put(Kind::DataVolume, with(json!({"vddk": {"url": "https://a"}})));
    sim.settle();
    assert_eq!(phase(&sim), "Failed");
    assert!(said(&sim, "Running").2.contains("vddk"), "{:?}", said(&sim, "Running"));
    assert!(!sim.objects.contains_key(&claim()));
}

#[test]
fn without_settings_nothing_is_made() {
    let mut sim = Sim::empty();
    class(&mut sim, "Immediate");
    sim.put(Kind::DataVolume, with(json!({"blank": {}})));
    sim.settle();
    assert!(!sim.objects.contains_key(&claim()));
}

/// The PVC is held as long as a pod names it, and the pod goes with the PVC.
#[test]
fn a_disk_that_is_deleted_takes_its_worker_along() {
    for orphans in [false, true] {
        let mut sim = running();
        sim.change(&pod(), json!({"spec": {"nodeName": "node1"}}));
        if orphans {
            // `--cascade=orphan`: the PVC stays.
            sim.change(&claim(), json!({"metadata": {"ownerReferences": null}}));
        } else {
            sim.change(&claim(), json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}}));
        }
        sim.delete(&disk());
        let plan = crate::decide(&sim.world, &disk(), sim.now);
        sim.apply(plan);
        let going = sim.objects.get(&pod()).is_none_or(crate::sim::is_going);
        assert!(going, "orphans: {orphans}");
    }
}

#[test]
fn a_pod_whose_end_has_no_time_is_followed_by_another() {
    let mut sim = running();
    let ended = json!({"exitCode": 137, "reason": "ContainerStatusUnknown", "finishedAt": null});
    let status = json!([{"name": "importer", "state": {"terminated": ended, "running": null}}]);
    sim.change(&pod(), json!({"status": {"phase": "Failed", "containerStatuses": status}}));
    sim.settle();
    for _ in 0..3 {
        sim.advance(3);
        sim.settle();
    }
    assert!(sim.get(&pod())["status"].is_null(), "another pod: {:#}", sim.get(&pod()));
}

/// A leader that wakes late, or a status that was lost.
#[test]
fn a_disk_that_is_whole_is_never_written_again() {
    let mut sim = running();
    worker_ends(&mut sim, &pod(), Some(Stage::Done));
    sim.settle();
    sim.change(&disk(), json!({"status": {"phase": "ImportInProgress"}}));
    sim.settle();
    assert_eq!(phase(&sim), "Succeeded");
    assert!(!sim.objects.contains_key(&pod()));
    // One that was made all the same goes, also while it runs.
    let uid = sim.get(&claim())["metadata"]["uid"].clone();
    let owner = json!([{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "disk", "uid": uid, "controller": true}]);
    let labels = json!({"kubevirt.io": "cdi-worker", "cdi.kubevirt.io": "importer"});
    sim.put(
        Kind::Pod,
        json!({"metadata": {"namespace": "n", "name": "importer-disk", "labels": labels, "ownerReferences": owner}}),
    );
    runs(&mut sim);
    assert!(!sim.objects.contains_key(&pod()));
}

#[test]
fn a_pod_that_is_taken_away_again_and_again_is_made_at_a_pace() {
    let mut sim = running();
    sim.vanish(&pod());
    sim.settle();
    let mut made = usize::from(sim.objects.contains_key(&pod()));
    for _ in 0..10 {
        if sim.objects.contains_key(&pod()) {
            sim.vanish(&pod());
        }
        sim.advance(1);
        sim.settle();
        made += usize::from(sim.objects.contains_key(&pod()));
    }
    assert!((1..=4).contains(&made), "{made} pods in ten seconds");
}

#[test]
fn a_disk_whose_pvc_is_gone_is_not_ready() {
    let mut sim = running();
    worker_ends(&mut sim, &pod(), Some(Stage::Done));
    sim.settle();
    sim.vanish(&claim());
    sim.settle();
    assert_eq!((said(&sim, "Bound").0.as_str(), said(&sim, "Ready").0.as_str()), ("False", "False"));
}

/// The plan of a VMI makes its launcher pod first, and writes its phase afterwards.
#[test]
fn under_a_launcher_pod_nothing_is_written_whatever_the_phase_of_its_vmi() {
    for mode in ["Immediate", "WaitForFirstConsumer"] {
        let mut sim = Sim::new();
        let vmi = sim.put(Kind::VirtualMachineInstance, crate::sim::vmi("web"));
        for _ in 0..3 {
            let mut plan = crate::decide(&sim.world, &vmi, sim.now);
            let is_pod = |step: &Step| matches!(step, Step::Create { key, .. } if key.kind == Kind::Pod);
            if let Some(at) = plan.steps.iter().position(is_pod) {
                // Whoever carries it out is killed behind this step.
                plan.steps.truncate(at + 1);
            }
            if sim.pod_of(&vmi).is_none() {
                sim.apply(plan);
            }
        }
        let launcher = sim.pod_of(&vmi).expect("a launcher pod");
        assert!(cluster_model::objects::is_waiting(sim.world.vmis.get("n", "web").unwrap()));
        sim.pod_runs(&launcher, "node1");
        let volumes = json!([{"name": "root", "dataVolume": {"name": "disk"}}]);
        sim.change(&vmi, json!({"spec": {"volumes": volumes}}));
        class(&mut sim, mode);
        sim.put(Kind::DataVolume, with(json!({"blank": {}})));
        let decide = |sim: &mut Sim| {
            let plan = crate::decide(&sim.world, &disk(), sim.now);
            let again = plan.again;
            sim.apply(plan);
            again
        };
        decide(&mut sim);
        bound(&mut sim);
        for phase in ["Pending", "Scheduling", "Failed"] {
            sim.change(&vmi, json!({"status": {"phase": phase}}));
            decide(&mut sim);
            assert!(decide(&mut sim).is_some_and(|again| again > sim.now), "it looks again");
            assert!(!sim.objects.contains_key(&pod()), "{mode}, {phase}");
            let (is, reason, message) = said(&sim, "Running");
            assert_eq!((is.as_str(), reason.as_str()), ("False", "CloneSourceInUse"), "{mode}, {phase}");
            assert!(message.contains("VMI web uses PVC disk"), "{message}");
        }
        sim.pod_ends(&launcher, "Failed", 1);
        decide(&mut sim);
        assert!(sim.objects.contains_key(&pod()), "{mode}: the launcher has ended");
    }
}

/// The reason of a PVC or a pod that cannot be made stays until it is made: each try says nothing of its own.
#[test]
fn why_something_cannot_be_made_is_said_until_it_is_made() {
    let mut sim = Sim::new();
    class(&mut sim, "Immediate");
    for (kind, reason) in [(Kind::PersistentVolumeClaim, "ErrExceededQuota"), (Kind::Pod, "ErrStartingPod")] {
        let about = Attempt::Make(kind);
        let retry = sim.now.checked_add(jiff::SignedDuration::from_secs(5)).unwrap();
        let message = "is forbidden: exceeded quota: all, used: 1, limited: 1".to_owned();
        sim.world.failures.insert(disk(), Failure { about, message, times: 1, retry });
        if kind == Kind::PersistentVolumeClaim {
            sim.put(Kind::DataVolume, with(http()));
        } else {
            bound(&mut sim);
        }
        sim.settle();
        let (_, is, why) = said(&sim, "Running");
        assert_eq!(is, reason);
        assert!(why.contains("exceeded quota: all"), "{why}");
        sim.advance(6);
        let plan = super::decide(&sim.world, "n", "disk", sim.now);
        assert!(plan.steps.iter().any(|step| step.attempt() == Some(about)), "it is tried again: {plan:?}");
        let writes = |step: &Step| matches!(step, Step::Patch { key, .. } if *key == disk());
        assert!(!plan.steps.iter().any(writes), "nothing else is said meanwhile: {plan:?}");
        sim.world.failures.clear();
        sim.settle();
        assert_eq!(said(&sim, "Running").1, "Pending");
    }
}

/// The pod may run and end while virt-controller is away, and the DataVolume may be deleted with `--cascade=orphan` then.
#[test]
fn a_pvc_is_marked_as_not_whole_before_its_pod_is_made() {
    for is_marked in [false, true] {
        let mut sim = Sim::new();
        class(&mut sim, "Immediate");
        sim.put(Kind::DataVolume, with(http()));
        sim.settle();
        bound(&mut sim);
        let mut plan = crate::decide(&sim.world, &disk(), sim.now);
        let is_pod = |step: &Step| matches!(step, Step::Create { key, .. } if *key == pod());
        let is_mark = |step: &Step| matches!(step, Step::Patch { key, .. } if *key == claim());
        let mark = plan.steps.iter().position(is_mark).expect("the PVC is marked");
        assert!(plan.steps.iter().position(is_pod).is_some_and(|at| at > mark), "{plan:?}");
        // Another client is quicker, and the mark is refused; or whoever carries the plan out is killed behind it.
        plan.steps.truncate(mark + usize::from(is_marked));
        sim.apply(plan);
        let noted = &sim.get(&claim())["metadata"]["annotations"]["cdi.kubevirt.io/storage.pod.phase"];
        assert_eq!(noted == "Pending", is_marked, "{noted}");
        let why = sim.world.pvcs.get("n", "disk").unwrap().not_whole();
        assert_eq!(why.is_some_and(|why| why.contains("is \"Pending\"")), is_marked);
        sim.settle();
        assert!(sim.objects.contains_key(&pod()), "no pod was made, and the next one has to wait for none");
    }
}
