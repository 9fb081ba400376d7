//! Stories of an upload: what is made for the client, what is said meanwhile, and what is left when the disk is whole.

use super::tests::{bound, class, said};
use crate::sim::others::{worker_ends, worker_is_late, worker_runs, worker_says};
use crate::sim::{Sim, data_volume};
use api::job::{Import, Report, Source, Stage};
use cluster_model::objects::{Attempt, Key, Kind};
use cluster_model::plan::Step;
use cluster_model::uploads::TARGET;
use cluster_model::worker::ATTEMPT;
use serde_json::{Value, json};

const AT_ONCE: &str = "cdi.kubevirt.io/storage.bind.immediate.requested";

fn key(kind: Kind) -> Key {
    let name = match kind {
        Kind::DataVolume | Kind::PersistentVolumeClaim => "disk",
        _ => "cdi-upload-disk",
    };
    Key::new(kind, "n", name)
}

fn note(sim: &Sim, name: &str) -> String {
    let notes = &sim.get(&key(Kind::PersistentVolumeClaim))["metadata"]["annotations"];
    notes[format!("cdi.kubevirt.io/storage.{name}")].as_str().unwrap_or_default().to_owned()
}

fn phase(sim: &Sim) -> &str {
    sim.phase(&key(Kind::DataVolume))
}

/// The authorities of the certificates, as the installation makes them.
pub(super) fn authorities(sim: &mut Sim) {
    let certificates = cluster_model::objects::certificates(&sim.world);
    for _ in 0..50 {
        if crate::certificates::uploads::certificate_span(&sim.world, sim.now).is_some() {
            return;
        }
        let plan = crate::decide(&sim.world, &certificates, sim.now);
        if plan.is_empty() {
            sim.advance(10);
        }
        sim.apply(plan);
    }
    panic!("there are no authorities");
}

/// A cluster that can take uploads.
fn cluster(mode: &str) -> Sim {
    let mut sim = Sim::new();
    authorities(&mut sim);
    class(&mut sim, mode);
    sim.told.clear();
    sim
}

fn volume() -> Value {
    data_volume("disk", json!({"upload": {}}))
}

/// The PVC of `virtctl image-upload pvc`.
fn alone(notes: Value) -> Value {
    let mut notes = notes;
    notes[TARGET] = json!("");
    notes["cdi.kubevirt.io/storage.contentType"] = json!("kubevirt");
    let resources = json!({"requests": {"storage": "1Gi"}});
    json!({
        "metadata": {"namespace": "n", "name": "disk", "annotations": notes},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": resources},
        "status": {"phase": "Pending"},
    })
}

fn runs(sim: &mut Sim, is_ready: bool) {
    worker_runs(sim, &key(Kind::Pod), is_ready);
}

fn reports(sim: &mut Sim, report: Report) {
    worker_says(sim, &key(Kind::Pod), report);
}

/// A DataVolume whose upload pod is ready.
fn ready() -> Sim {
    let mut sim = cluster("Immediate");
    sim.put(Kind::DataVolume, volume());
    sim.settle();
    bound(&mut sim);
    sim.settle();
    runs(&mut sim, true);
    sim
}

fn made() -> [Kind; 3] {
    [Kind::Pod, Kind::Service, Kind::Secret]
}

#[test]
fn an_upload_is_a_certificate_a_service_and_a_pod_and_ends() {
    let mut sim = cluster("Immediate");
    sim.put(Kind::DataVolume, volume());
    sim.settle();
    assert_eq!(phase(&sim), "Pending");
    assert_eq!(sim.get(&key(Kind::PersistentVolumeClaim))["metadata"]["annotations"][TARGET], "");
    assert_eq!(note(&sim, "contentType"), "kubevirt");
    assert_eq!(note(&sim, "pod.ready"), "false");
    bound(&mut sim);
    sim.settle();
    assert_eq!((phase(&sim), note(&sim, "pod.phase").as_str()), ("UploadScheduled", "Pending"));
    assert_eq!(note(&sim, "uploadPodName"), "cdi-upload-disk");

    let claim = sim.get(&key(Kind::PersistentVolumeClaim))["metadata"]["uid"].clone();
    for kind in made() {
        let object = sim.get(&key(kind));
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], claim, "{kind:?}");
        assert_eq!(object["metadata"]["labels"]["cdi.kubevirt.io/uploadTarget"], claim, "{kind:?}");
        assert_eq!(object["metadata"]["labels"]["cdi.kubevirt.io"], "cdi-upload-server", "{kind:?}");
    }
    let service = &sim.get(&key(Kind::Service))["spec"];
    let pod = sim.get(&key(Kind::Pod)).clone();
    assert_eq!((&service["clusterIP"], &service["publishNotReadyAddresses"]), (&json!("None"), &json!(true)));
    for (label, value) in service["selector"].as_object().unwrap() {
        assert_eq!(pod["metadata"]["labels"][label], *value, "the Service finds the pod");
    }
    let container = &pod["spec"]["containers"][0];
    assert_eq!((&container["name"], &container["args"]), (&json!("cdi-upload-server"), &json!(["upload"])));
    let env = |name: &str| {
        let list = container["env"].as_array().unwrap();
        let found = list.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        found["value"].as_str().unwrap().to_owned()
    };
    let job: Import = serde_json::from_str(&env("CDI_JOB")).unwrap();
    assert!(matches!(job.source, Source::Upload(_)) && job.size == Some(1 << 30), "{job:?}");
    assert_eq!(env("CLIENT_NAME"), "client.upload-server.cdi.kubevirt.io");
    let deadline: jiff::Timestamp = env("DEADLINE").parse().unwrap();
    let left = deadline.duration_since(sim.now).as_hours();
    assert!((1..=12).contains(&left), "{left} hours");
    let tls = pod["spec"]["volumes"].as_array().unwrap().iter().find(|one| one["secret"].is_object());
    assert_eq!(tls.unwrap()["secret"]["secretName"], "cdi-upload-disk");
    let data = sim.get(&key(Kind::Secret))["data"].clone();
    assert!(["tls.key", "tls.crt", "ca.crt"].iter().all(|file| data[file].is_string()), "{data}");

    runs(&mut sim, false);
    assert_eq!((phase(&sim), note(&sim, "pod.ready").as_str()), ("UploadScheduled", "false"));
    runs(&mut sim, true);
    assert_eq!((phase(&sim), note(&sim, "pod.ready").as_str()), ("UploadReady", "true"));
    let disk = key(Kind::DataVolume);
    let waits = said(&sim, "Transferring").2;
    assert!(waits.contains("virtctl image-upload dv disk -n n"), "{waits}");

    reports(
        &mut sim,
        Report {
            stage: Stage::Moving,
            done: 1 << 28,
            total: Some(1 << 30),
            rate: 1 << 20,
            ..Report::default()
        },
    );
    assert_eq!(sim.get(&disk)["status"]["progress"], "25.00%");
    assert_eq!((said(&sim, "Transferring").0.as_str(), phase(&sim)), ("True", "UploadReady"));

    worker_ends(&mut sim, &key(Kind::Pod), Some(Stage::Done));
    sim.settle();
    assert_eq!((phase(&sim), note(&sim, "pod.phase").as_str()), ("Succeeded", "Succeeded"));
    assert_eq!((said(&sim, "Ready").0.as_str(), note(&sim, "pod.ready").as_str()), ("True", "false"));
    for kind in made() {
        assert!(!sim.objects.contains_key(&key(kind)), "{kind:?} is nothing to anybody");
    }
    assert_eq!(sim.reasons(), ["Pending", "UploadScheduled", "UploadReady", "UploadSucceeded"]);
    sim.advance(3600);
    assert_eq!(sim.round(), 0, "and then there is silence");
}

/// The pod may vanish a moment later, with its last words.
#[test]
fn a_disk_that_is_reported_whole_is_noted_at_once_and_before_the_pod_goes() {
    for is_alone in [false, true] {
        let mut sim = if is_alone { cluster("Immediate") } else { ready() };
        if is_alone {
            sim.put(Kind::PersistentVolumeClaim, alone(json!({})));
            bound(&mut sim);
            sim.settle();
            runs(&mut sim, true);
        }
        let uid = sim.uid(&key(Kind::Pod));
        let done = Report { stage: Stage::Done, done: 1 << 30, total: Some(1 << 30), ..Report::default() };
        sim.world.reports.insert(("n".into(), "cdi-upload-disk".into()), (uid, done));
        let plan = crate::decide(&sim.world, &key(Kind::DataVolume), sim.now);
        let notes = plan.steps.iter().position(|step| {
            matches!(step, Step::Patch { key, change, .. } if key.kind == Kind::PersistentVolumeClaim
                && change.to_string().contains("Succeeded"))
        });
        let goes = plan
            .steps
            .iter()
            .position(|step| matches!(step, Step::Delete { key, .. } if key.kind == Kind::Pod));
        assert!(notes.is_some() && notes < goes, "{plan:#?}");
        sim.settle();
        assert_eq!(note(&sim, "pod.phase"), "Succeeded");
        assert!(made().iter().all(|kind| !sim.objects.contains_key(&key(*kind))));
    }
}

/// The kubelet tells what was left before the container was killed.
#[test]
fn a_pod_that_is_killed_behind_its_last_words_is_believed() {
    let mut sim = ready();
    let done = Report { stage: Stage::Done, ..Report::default() };
    let ended = json!({"exitCode": 137, "reason": "OOMKilled", "finishedAt": sim.now.to_string(), "message": done.termination()});
    let status = json!([{"name": "cdi-upload-server", "ready": false, "state": {"terminated": ended, "running": null}}]);
    sim.change(&key(Kind::Pod), json!({"status": {"phase": "Failed", "containerStatuses": status}}));
    sim.settle();
    assert_eq!((phase(&sim), note(&sim, "pod.phase").as_str()), ("Succeeded", "Succeeded"));
}

/// A tenant may make objects of any name in his namespace, and have made them before.
#[test]
fn what_somebody_else_has_under_the_names_of_an_upload_is_neither_deleted_nor_believed() {
    for (kind, owner) in [(Kind::Secret, "another-pvc"), (Kind::Service, "another-pvc"), (Kind::Secret, "")] {
        let mut sim = cluster("Immediate");
        let owners = json!([{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "x", "uid": owner, "controller": true}]);
        let owners = if owner.is_empty() { Value::Null } else { owners };
        let meta = json!({"namespace": "n", "name": "cdi-upload-disk", "ownerReferences": owners});
        sim.put(kind, json!({"metadata": meta, "data": {"a": "YQ=="}}));
        let theirs = sim.get(&key(kind)).clone();
        sim.put(Kind::DataVolume, volume());
        sim.settle();
        bound(&mut sim);
        let done = (0..5).find_map(|_| {
            let plan = crate::decide(&sim.world, &key(Kind::DataVolume), sim.now);
            crate::sim::door::carry_out(&mut sim, plan).failed
        });
        let (about, error) = done.expect("it is refused");
        assert_eq!(about, Some(Attempt::Make(kind)));
        let said = error.to_string();
        assert!(said.contains("cdi-upload-disk is there already") && said.contains("delete it"), "{said}");
        assert!(!sim.objects.contains_key(&key(Kind::Pod)), "{kind:?}");
        assert_eq!(*sim.get(&key(kind)), theirs);
        // And when the upload is over, by whatever way.
        let claim = sim.world.pvcs.get("n", "disk").unwrap().clone();
        sim.apply(super::upload::take_away(&claim));
        assert_eq!(*sim.get(&key(kind)), theirs, "{kind:?}");
    }
}

#[test]
fn a_pod_whose_secret_was_deleted_before_it_began_is_followed_by_another() {
    let mut sim = cluster("Immediate");
    sim.put(Kind::DataVolume, volume());
    sim.settle();
    bound(&mut sim);
    sim.settle();
    let pod = sim.uid(&key(Kind::Pod));
    sim.delete(&key(Kind::Secret));
    let warn = |sim: &mut Sim, message: &str| {
        let pod = sim.uid(&key(Kind::Pod));
        let (reason, message) = ("FailedMount".to_owned(), message.to_owned());
        let warning = cluster_model::objects::Warning { pod, reason, message };
        sim.world.warnings.insert(("n".into(), "cdi-upload-disk".into()), warning);
        sim.settle();
    };
    warn(&mut sim, "MountVolume.SetUp failed for volume \"disk\" : rpc error");
    sim.advance(600);
    sim.settle();
    assert_eq!(sim.get(&key(Kind::Pod))["metadata"]["uid"], pod, "that of a volume is the volume's");
    warn(&mut sim, "MountVolume.SetUp failed for volume \"tls\" : secret \"cdi-upload-disk\" not found");
    sim.advance(10);
    sim.settle();
    assert_ne!(sim.get(&key(Kind::Pod))["metadata"]["uid"], pod);
    assert!(sim.objects.contains_key(&key(Kind::Secret)), "with a Secret of its own");
    // The next one is given its time.
    let next = sim.uid(&key(Kind::Pod));
    warn(&mut sim, "MountVolume.SetUp failed for volume \"tls\" : secret \"cdi-upload-disk\" not found");
    assert_eq!(sim.get(&key(Kind::Pod))["metadata"]["uid"], next);
    assert!(
        said(&sim, "Running").2.contains("it was deleted, and another pod"),
        "{:?}",
        said(&sim, "Running")
    );
    let plan = crate::decide(&sim.world, &key(Kind::DataVolume), sim.now);
    assert!(plan.again.is_some());
}

#[test]
fn a_pvc_without_a_data_volume_takes_an_upload() {
    let mut sim = cluster("WaitForFirstConsumer");
    sim.put(Kind::PersistentVolumeClaim, alone(json!({})));
    sim.settle();
    assert_eq!(note(&sim, "condition.running.reason"), "WaitForFirstConsumer");
    assert!(!sim.objects.contains_key(&key(Kind::Pod)));
    // `--force-bind`.
    sim.change(&key(Kind::PersistentVolumeClaim), json!({"metadata": {"annotations": {AT_ONCE: ""}}}));
    sim.settle();
    assert!(sim.objects.contains_key(&key(Kind::Pod)) && sim.objects.contains_key(&key(Kind::Secret)));
    bound(&mut sim);
    runs(&mut sim, true);
    assert_eq!((note(&sim, "pod.phase"), note(&sim, "pod.ready")), ("Running".into(), "true".into()));
    // What went wrong is said here, too.
    let message = "the image is damaged".to_owned();
    reports(
        &mut sim,
        Report { stage: Stage::Waiting, reason: "InvalidImage".into(), message, ..Report::default() },
    );
    assert_eq!(note(&sim, "condition.running"), "true");
    assert_eq!(note(&sim, "condition.running.message"), "the image is damaged");
    for count in 1..3 {
        worker_ends(&mut sim, &key(Kind::Pod), None);
        sim.settle();
        assert_eq!(
            (note(&sim, "pod.restarts"), note(&sim, "pod.ready")),
            (count.to_string(), "false".into())
        );
        sim.advance(300);
        sim.settle();
        assert_eq!(sim.get(&key(Kind::Pod))["metadata"]["annotations"][ATTEMPT], count.to_string());
        runs(&mut sim, true);
    }
    worker_ends(&mut sim, &key(Kind::Pod), Some(Stage::Done));
    sim.settle();
    assert_eq!(note(&sim, "pod.phase"), "Succeeded");
    assert!(made().iter().all(|kind| !sim.objects.contains_key(&key(*kind))));
    let about = ["UploadReady", "UploadSucceeded"].map(|word| sim.reasons().contains(&word.to_owned()));
    assert_eq!(about, [true, true]);
    sim.advance(3600);
    assert_eq!(sim.round(), 0, "and then there is silence");
}

#[test]
fn a_pod_whose_certificate_ends_makes_room_for_another_and_counts_for_nothing() {
    let mut sim = ready();
    let (pod, secret) = (sim.get(&key(Kind::Pod))["metadata"]["uid"].clone(), key(Kind::Secret));
    let certificate = sim.get(&secret)["data"]["tls.crt"].clone();
    sim.advance(11 * 3600);
    authorities(&mut sim);
    worker_is_late(&mut sim, &key(Kind::Pod));
    sim.settle();
    assert_eq!((phase(&sim), note(&sim, "pod.ready").as_str()), ("UploadScheduled", "false"));
    sim.advance(10);
    sim.settle();
    assert_ne!(sim.get(&key(Kind::Pod))["metadata"]["uid"], pod);
    assert_ne!(sim.get(&secret)["data"]["tls.crt"], certificate, "another certificate");
    assert!(sim.get(&key(Kind::DataVolume))["status"]["restartCount"].is_null());
    runs(&mut sim, true);
    assert_eq!(phase(&sim), "UploadReady");
    assert!(!sim.reasons().contains(&"UploadFailed".to_owned()));
}

#[test]
fn an_upload_that_failed_is_followed_by_another_and_never_ends_the_data_volume() {
    let mut sim = ready();
    // In its pod: it stays, and the next one may come at once.
    let message = "disk.img of 2.0 GiB does not fit".to_owned();
    let failed =
        Report { stage: Stage::Waiting, reason: "DataVolumeTooSmall".into(), message, ..Report::default() };
    reports(&mut sim, failed.clone());
    assert_eq!(phase(&sim), "UploadReady");
    assert_eq!(said(&sim, "Running").2, failed.message);
    assert!(said(&sim, "Transferring").2.contains("does not fit; waits for an upload"));
    let told = |sim: &Sim| sim.reasons().iter().filter(|reason| *reason == "UploadFailed").count();
    assert_eq!(told(&sim), 1);
    // It is told once, however often it is looked at.
    reports(&mut sim, Report { failures: 1, ..failed.clone() });
    assert_eq!(told(&sim), 1);
    // Behind the answer to its client: the pod ends, and another one takes the next upload.
    worker_ends(&mut sim, &key(Kind::Pod), Some(Stage::Failed));
    sim.settle();
    assert_eq!(
        (phase(&sim), sim.get(&key(Kind::DataVolume))["status"]["restartCount"].as_i64()),
        ("UploadScheduled", Some(1))
    );
    assert!(sim.reasons().contains(&"UploadFailed".to_owned()));
    sim.advance(300);
    sim.settle();
    runs(&mut sim, true);
    assert_eq!(phase(&sim), "UploadReady");
}

#[test]
fn without_authorities_it_waits_and_says_for_what() {
    let mut sim = Sim::new();
    class(&mut sim, "Immediate");
    sim.put(Kind::DataVolume, volume());
    sim.settle();
    bound(&mut sim);
    sim.settle();
    assert_eq!((phase(&sim), said(&sim, "Running").1.as_str()), ("Pending", "CertificatesPending"));
    assert!(made().iter().all(|kind| !sim.objects.contains_key(&key(*kind))));
    let plan = crate::decide(&sim.world, &key(Kind::DataVolume), sim.now);
    assert!(plan.is_empty() && plan.again.is_some(), "it looks again: {plan:?}");
    authorities(&mut sim);
    sim.advance(15);
    sim.settle();
    assert_eq!(phase(&sim), "UploadScheduled");
}

/// The Service and the Secret of a PVC that is gone have the name of the next one's.
#[test]
fn a_disk_that_is_deleted_in_the_middle_takes_its_pod_along_and_is_made_anew() {
    let mut sim = ready();
    sim.change(&key(Kind::Pod), json!({"spec": {"nodeName": "node1"}}));
    let held = json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}});
    sim.change(&key(Kind::PersistentVolumeClaim), held);
    sim.delete(&key(Kind::DataVolume));
    sim.settle();
    assert!(sim.objects.get(&key(Kind::Pod)).is_none_or(crate::sim::is_going));
    sim.vanish(&key(Kind::Pod));
    let free = json!({"metadata": {"finalizers": null}});
    sim.change(&key(Kind::PersistentVolumeClaim), free);
    assert!(made().iter().all(|kind| !sim.objects.contains_key(&key(*kind))));
    sim.put(Kind::DataVolume, volume());
    sim.settle();
    bound(&mut sim);
    sim.settle();
    runs(&mut sim, true);
    assert_eq!(phase(&sim), "UploadReady");
}

#[test]
fn a_vmi_waits_for_the_upload_into_its_pvc() {
    let mut sim = cluster("WaitForFirstConsumer");
    let mut vmi = crate::sim::vmi("web");
    vmi["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    vmi["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
    let vmi = sim.put(Kind::VirtualMachineInstance, vmi);
    sim.put(Kind::PersistentVolumeClaim, alone(json!({})));
    sim.settle();
    // It is the consumer: the volume is made where it can run.
    assert_eq!(sim.get(&key(Kind::Pod))["spec"]["nodeSelector"]["disk"], "ssd");
    assert_eq!(sim.pod_of(&vmi), None);
    bound(&mut sim);
    runs(&mut sim, true);
    assert_eq!(sim.pod_of(&vmi), None, "the disk is empty");
    worker_ends(&mut sim, &key(Kind::Pod), Some(Stage::Done));
    sim.settle();
    assert!(sim.pod_of(&vmi).is_some());
}

/// A disk under a VM that runs is not written to, whoever asks for it.
#[test]
fn a_pvc_that_a_vmi_uses_takes_no_upload() {
    let mut sim = cluster("Immediate");
    let mut claim = alone(json!({}));
    claim["metadata"]["annotations"] = json!({});
    claim["status"]["phase"] = json!("Bound");
    sim.put(Kind::PersistentVolumeClaim, claim);
    let mut vmi = crate::sim::vmi("web");
    vmi["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
    let vmi = sim.put(Kind::VirtualMachineInstance, vmi);
    sim.boot(&vmi);
    sim.change(&key(Kind::PersistentVolumeClaim), json!({"metadata": {"annotations": {TARGET: ""}}}));
    sim.settle();
    assert!(!sim.objects.contains_key(&key(Kind::Pod)));
    assert!(note(&sim, "condition.running.message").contains("VMI web uses PVC disk"));
}

#[test]
fn a_pvc_that_asks_for_what_is_not_served_says_so_until_it_is_put_right() {
    let mut sim = cluster("Immediate");
    let content = "cdi.kubevirt.io/storage.contentType";
    sim.put(Kind::PersistentVolumeClaim, alone(json!({})));
    sim.change(&key(Kind::PersistentVolumeClaim), json!({"metadata": {"annotations": {content: "film"}}}));
    sim.settle();
    assert_eq!(note(&sim, "condition.running.reason"), "Unsupported");
    assert!(note(&sim, "condition.running.message").contains("film"));
    assert_eq!(sim.reasons(), ["UploadFailed"]);
    sim.change(
        &key(Kind::PersistentVolumeClaim),
        json!({"metadata": {"annotations": {content: "kubevirt"}}}),
    );
    bound(&mut sim);
    sim.settle();
    assert!(sim.objects.contains_key(&key(Kind::Pod)));
}

/// A pod on a node that is silent outlives its PVC.
#[test]
fn a_pod_of_an_earlier_pvc_is_waited_for_without_a_write() {
    let mut sim = ready();
    sim.change(&key(Kind::Pod), json!({"spec": {"nodeName": "node1"}}));
    sim.delete(&key(Kind::DataVolume));
    assert!(sim.objects.contains_key(&key(Kind::Pod)), "its kubelet is silent");
    sim.put(Kind::DataVolume, volume());
    sim.settle();
    bound(&mut sim);
    sim.settle();
    assert_eq!((phase(&sim), said(&sim, "Running").1.as_str()), ("UploadScheduled", "ErrStartingPod"));
    sim.advance(3600);
    assert_eq!(sim.round(), 0, "it waits in silence");
    sim.vanish(&key(Kind::Pod));
    sim.settle();
    sim.advance(10);
    sim.settle();
    runs(&mut sim, true);
    assert_eq!(phase(&sim), "UploadReady");
}

/// A plan that breaks off, wherever: it is begun again, and nothing is left or made twice.
#[test]
fn a_plan_that_breaks_off_is_begun_again() {
    for (is_done, requests) in (0..8).flat_map(|requests| [(false, requests), (true, requests)]) {
        let mut sim = cluster("Immediate");
        sim.put(Kind::DataVolume, volume());
        sim.settle();
        bound(&mut sim);
        breaks(&mut sim, requests, is_done);
        sim.advance(10);
        sim.settle();
        assert!(made().iter().all(|kind| sim.objects.contains_key(&key(*kind))), "{requests} {is_done}");
        runs(&mut sim, true);
        worker_ends(&mut sim, &key(Kind::Pod), Some(Stage::Done));
        breaks(&mut sim, requests, is_done);
        sim.advance(10);
        sim.settle();
        assert_eq!(phase(&sim), "Succeeded");
        let left = made().into_iter().find(|kind| sim.objects.contains_key(&key(*kind)));
        assert_eq!(left, None, "{requests} {is_done}");
    }
}

/// Decides once on the disk, and one request of the plan is not answered.
fn breaks(sim: &mut Sim, requests: u8, is_done: bool) {
    sim.wire.breaks = Some((requests, is_done));
    let plan = crate::decide(&sim.world, &key(Kind::DataVolume), sim.now);
    // Whatever comes of it.
    drop(crate::sim::door::carry_out(sim, plan));
    sim.wire.breaks = None;
}

/// Two pods that write to one disk leave a mixture of both.
#[test]
fn no_upload_begins_while_an_importer_pod_writes() {
    let mut sim = cluster("Immediate");
    let disk = sim.put(Kind::PersistentVolumeClaim, alone(json!({})));
    let owner = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "disk",
        "uid": sim.uid(&disk), "controller": true});
    let labels = json!({"kubevirt.io": "cdi-worker", "cdi.kubevirt.io": "importer"});
    let meta =
        json!({"namespace": "n", "name": "importer-disk", "labels": labels, "ownerReferences": [owner]});
    let importer = sim.put(Kind::Pod, json!({"metadata": meta, "status": {"phase": "Running"}}));
    bound(&mut sim);
    sim.settle();
    assert!(!sim.objects.contains_key(&key(Kind::Pod)));
    let message = note(&sim, "condition.running.message");
    assert!(message.starts_with("pod importer-disk writes to PVC disk"), "{message}");
    sim.change(&importer, json!({"status": {"phase": "Failed"}}));
    sim.settle();
    assert!(sim.objects.contains_key(&key(Kind::Pod)), "it has ended");
}
