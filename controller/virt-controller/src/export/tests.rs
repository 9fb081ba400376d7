//! Stories of an export: what is made, what is said, and what is never done.

use crate::sim::others::{worker_ends, worker_reports, worker_runs, worker_says};
use crate::sim::{Sim, blank};
use api::job::{Export, Report, Stage};
use cluster_model::objects::{Attempt, Failure, Key, Kind};
use cluster_model::plan::Step;
use cluster_model::uploads::TARGET as UPLOADS;
use cluster_model::worker::ATTEMPT;
use serde_json::{Value, json};

const TARGET: &str = "docker://registry.example/os/golden:1";

fn claim() -> Key {
    Key::new(Kind::PersistentVolumeClaim, "n", "disk")
}

fn volume() -> Key {
    Key::new(Kind::DataVolume, "n", "disk")
}

fn pod() -> Key {
    Key::new(Kind::Pod, "n", "exporter-disk")
}

fn named(name: &str) -> String {
    format!("cdi.kubevirt.io/storage.export.{name}")
}

fn asks(said: &[(&str, &str)]) -> Value {
    let notes = said.iter().map(|(name, value)| (named(name), json!(value)));
    Value::Object(notes.collect())
}

/// A PVC that somebody filled, with these annotations.
fn pvc(notes: &Value) -> Value {
    json!({
        "metadata": {"namespace": "n", "name": "disk", "annotations": notes},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Bound"},
    })
}

fn asked() -> Sim {
    let mut sim = Sim::new();
    sim.put(Kind::PersistentVolumeClaim, pvc(&asks(&[("target", TARGET)])));
    sim.settle();
    sim
}

fn note(sim: &Sim, name: &str) -> String {
    let notes = &sim.get(&claim())["metadata"]["annotations"];
    notes[named(name)].as_str().unwrap_or_default().to_owned()
}

/// Phase and reason.
fn stands(sim: &Sim) -> (String, String) {
    (note(sim, "phase"), note(sim, "reason"))
}

fn is(phase: &str, reason: &str) -> (String, String) {
    (phase.to_owned(), reason.to_owned())
}

fn runs(sim: &mut Sim) {
    worker_runs(sim, &pod(), true);
}

fn reports(sim: &mut Sim, report: Report) {
    worker_says(sim, &pod(), report);
}

fn digest() -> String {
    format!("sha256:{}", "0a".repeat(32))
}

fn count(sim: &Sim, reason: &str) -> usize {
    sim.reasons().iter().filter(|told| *told == reason).count()
}

#[test]
fn a_pvc_that_asks_becomes_an_image_once() {
    let mut sim = Sim::new();
    let notes =
        asks(&[("target", TARGET), ("secretRef", "login"), ("certConfigMap", "ca"), ("format", "raw")]);
    sim.put(Kind::PersistentVolumeClaim, pvc(&notes));
    sim.settle();
    assert_eq!(stands(&sim), is("Pending", "Pending"));
    let made = sim.get(&pod()).clone();
    let container = &made["spec"]["containers"][0];
    assert_eq!((&container["name"], &container["args"]), (&json!("exporter"), &json!(["export"])));
    let job: Export = serde_json::from_str(container["env"][0]["value"].as_str().unwrap()).unwrap();
    assert_eq!((job.target.url.as_str(), job.disk.path().to_str()), (TARGET, Some("/data/disk.img")));
    let mounts = container["volumeMounts"].as_array().unwrap();
    let of_disk = mounts.iter().find(|mount| mount["mountPath"] == "/data").unwrap();
    assert_eq!(of_disk["readOnly"], true);
    assert_eq!(
        made["spec"]["volumes"][0]["persistentVolumeClaim"],
        json!({"claimName": "disk", "readOnly": true})
    );
    assert_eq!(made["spec"]["volumes"][2]["secret"]["secretName"], "login");
    assert_eq!(made["spec"]["volumes"][3]["configMap"]["name"], "ca");
    assert_eq!(made["metadata"]["ownerReferences"][0]["name"], "disk");

    runs(&mut sim);
    assert_eq!(note(&sim, "phase"), "Running");
    let message = "exports to docker://registry.example/os/golden:1".to_owned();
    reports(
        &mut sim,
        Report {
            stage: Stage::Moving,
            done: 1,
            total: Some(3),
            message: message.clone(),
            ..Report::default()
        },
    );
    assert_eq!((note(&sim, "progress"), note(&sim, "message")), ("33%".to_owned(), message));

    worker_ends(&mut sim, &pod(), Some(Stage::Done));
    sim.settle();
    assert_eq!(stands(&sim), is("Succeeded", "Completed"));
    assert_eq!((note(&sim, "digest"), note(&sim, "progress")), (digest(), "100%".to_owned()));
    assert_eq!(note(&sim, "message"), format!("{TARGET}@{}", digest()));
    assert!(!sim.objects.contains_key(&pod()), "its log is nothing to anybody");
    assert_eq!(sim.reasons(), ["ExportScheduled", "ExportSucceeded"].map(String::from));
    assert_eq!(sim.warnings, [""; 0]);
    sim.advance(3600);
    sim.settle();
    assert!(!sim.objects.contains_key(&pod()), "the same request is done once");

    sim.change(&claim(), json!({"metadata": {"annotations": asks(&[("id", "again")])}}));
    sim.settle();
    assert!(
        sim.objects.contains_key(&pod()) && note(&sim, "digest").is_empty(),
        "another request is another export"
    );
}

/// Where a quota wants limits, the CDIConfig gives them to the pods of exports and of clones as to all others.
#[test]
fn the_pod_takes_what_the_cdi_config_says_of_workers() {
    let mut sim = Sim::new();
    let said = json!({"limits": {"cpu": "2"}, "requests": {"memory": "100M"}});
    let spec = json!({"podResourceRequirements": said, "imagePullSecrets": [{"name": "login"}]});
    sim.put(Kind::CDIConfig, json!({"metadata": {"name": "config"}, "spec": spec}));
    sim.put(Kind::PersistentVolumeClaim, pvc(&asks(&[("target", TARGET)])));
    sim.settle();
    let spec = &sim.get(&pod())["spec"];
    let resources = &spec["containers"][0]["resources"];
    assert_eq!(
        (&resources["limits"]["cpu"], &resources["requests"]["memory"]),
        (&json!("2"), &json!("100M"))
    );
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "login"}]));
}

#[test]
fn a_block_device_is_read_where_workers_have_it() {
    let mut sim = Sim::new();
    let mut object = pvc(&asks(&[("target", TARGET)]));
    object["spec"]["volumeMode"] = json!("Block");
    sim.put(Kind::PersistentVolumeClaim, object);
    sim.settle();
    let container = &sim.get(&pod())["spec"]["containers"][0];
    let job: Export = serde_json::from_str(container["env"][0]["value"].as_str().unwrap()).unwrap();
    assert_eq!(job.disk.path().to_str(), Some("/dev/cdi-block-volume"));
    assert_eq!(container["volumeDevices"][0]["devicePath"], "/dev/cdi-block-volume");
}

#[test]
fn what_makes_no_sense_makes_no_pod_and_is_told_once() {
    for (name, value) in [("target", "registry.example/os"), ("secretRef", "../other"), ("format", "vmdk")] {
        let mut sim = Sim::new();
        let mut notes = asks(&[("target", TARGET)]);
        notes[named(name)] = json!(value);
        sim.put(Kind::PersistentVolumeClaim, pvc(&notes));
        sim.settle();
        assert_eq!(stands(&sim), is("Failed", "InvalidRequest"), "{name}");
        assert!(
            note(&sim, "message").contains(&format!("storage.export.{name}]: must be ")),
            "{}",
            note(&sim, "message")
        );
        assert!(!sim.objects.contains_key(&pod()));
        sim.advance(3600);
        sim.settle();
        assert_eq!(count(&sim, "ExportFailed"), 1);
    }
    let mut sim = Sim::new();
    let mut notes = asks(&[("target", TARGET)]);
    notes["cdi.kubevirt.io/storage.contentType"] = json!("archive");
    sim.put(Kind::PersistentVolumeClaim, pvc(&notes));
    sim.settle();
    assert_eq!(stands(&sim), is("Failed", "Unsupported"));
}

#[test]
fn a_disk_that_is_not_whole_is_waited_for() {
    let mut sim = Sim::new();
    let notes = asks(&[("target", TARGET)]);
    sim.put(
        Kind::DataVolume,
        json!({"metadata": {"namespace": "n", "name": "disk", "annotations": notes}, "spec": blank()}),
    );
    sim.settle();
    assert_eq!(stands(&sim), is("Pending", "NotFilled"));
    assert_eq!(note(&sim, "message"), "PVC disk has no volume yet");
    sim.bind(&claim());
    sim.settle();
    assert_eq!(note(&sim, "message"), "DataVolume disk is not filled: ImportScheduled");
    assert!(!sim.objects.contains_key(&pod()));
    worker_ends(&mut sim, &Key::new(Kind::Pod, "n", "importer-disk"), Some(Stage::Done));
    sim.settle();
    assert!(sim.objects.contains_key(&pod()), "{:?}", stands(&sim));
    worker_ends(&mut sim, &pod(), Some(Stage::Done));
    sim.settle();
    assert_eq!(stands(&sim), is("Succeeded", "Completed"));
    let phase = sim.get(&volume())["status"]["phase"].clone();
    assert_eq!(phase, "Succeeded", "the DataVolume stays what it is");
    // Who asked is told.
    assert_eq!(count(&sim, "ExportSucceeded"), 1);

    let mut sim = Sim::new();
    let mut notes = asks(&[("target", TARGET)]);
    notes[UPLOADS] = json!("");
    sim.put(Kind::PersistentVolumeClaim, pvc(&notes));
    sim.settle();
    assert_eq!(
        (stands(&sim), note(&sim, "message")),
        (is("Pending", "NotFilled"), "PVC disk waits for an upload".to_owned())
    );
}

/// kube-controller-manager binds a PVC to any free volume of its class, whatever its dataSource names.
#[test]
fn a_volume_that_is_not_of_the_source_of_its_pvc_is_not_exported() {
    let mut sim = Sim::new();
    let by = json!({"pv.kubernetes.io/bound-by-controller": "yes"});
    let mut object = pvc(&asks(&[("target", TARGET)]));
    cluster_model::plan::merge(&mut object, &json!({"metadata": {"annotations": by}}));
    object["spec"]["volumeName"] = json!("left-over");
    object["spec"]["dataSource"] =
        json!({"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "shot"});
    sim.put(Kind::PersistentVolumeClaim, object);
    sim.settle();
    assert_eq!(stands(&sim), is("Pending", "NotFilled"), "its volume is not known");
    let of = json!({"namespace": "n", "name": "disk", "uid": sim.uid(&claim())});
    let meta = json!({"name": "left-over", "annotations": by});
    let volume =
        sim.put(Kind::PersistentVolume, json!({"metadata": meta, "spec": {"claimRef": of}, "status": {}}));
    sim.settle();
    assert!(note(&sim, "message").contains("left-over, which existed already"), "{}", note(&sim, "message"));
    assert!(!sim.objects.contains_key(&pod()));
    let own = json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": null}}});
    sim.change(&volume, own);
    sim.settle();
    assert!(sim.objects.contains_key(&pod()), "{:?}", stands(&sim));
}

#[test]
fn a_secret_that_is_not_there_is_told_to_who_asked_once() {
    for (annotation, kind, word) in
        [("secretRef", "Secret", "secret"), ("certConfigMap", "ConfigMap", "configmap")]
    {
        let mut sim = Sim::new();
        sim.put(Kind::PersistentVolumeClaim, pvc(&asks(&[("target", TARGET), (annotation, "login")])));
        sim.settle();
        let uid = sim.uid(&pod());
        let message = format!("MountVolume.SetUp failed for volume \"login\" : {word} \"login\" not found");
        let warning = cluster_model::objects::Warning { pod: uid, reason: "FailedMount".to_owned(), message };
        sim.world.warnings.insert(("n".into(), "exporter-disk".into()), warning);
        for _ in 0..3 {
            sim.advance(30);
            sim.settle();
        }
        assert_eq!(stands(&sim), is("Pending", "FailedMount"));
        let says = format!(
            "{kind} login, which the annotation {} names, does not exist: create it, and the export begins",
            named(annotation)
        );
        assert_eq!(note(&sim, "message"), says);
        assert_eq!(count(&sim, "ExportWaits"), 1, "{:?}", sim.reasons());
    }
}

/// A VMI on the PVC.
fn vmi(sim: &mut Sim) -> Key {
    let mut vmi = crate::sim::vmi("web");
    vmi["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
    let vmi = sim.put(Kind::VirtualMachineInstance, vmi);
    sim.settle();
    vmi
}

#[test]
fn under_a_vmi_nothing_is_exported() {
    let mut sim = Sim::new();
    sim.put(Kind::PersistentVolumeClaim, pvc(&json!({})));
    let vmi = vmi(&mut sim);
    let launcher = sim.pod_of(&vmi).expect("a launcher pod");
    sim.change(&claim(), json!({"metadata": {"annotations": asks(&[("target", TARGET)])}}));
    sim.settle();
    assert_eq!(stands(&sim), is("Pending", "InUse"));
    assert!(note(&sim, "message").contains("VMI web uses PVC disk"));
    assert!(!sim.objects.contains_key(&pod()));
    sim.advance(60);
    sim.settle();
    assert_eq!(count(&sim, "ExportWaits"), 1);
    let plan = crate::decide(&sim.world, &claim(), sim.now);
    assert!(plan.again.is_some_and(|again| again > sim.now), "it looks again");
    sim.pod_runs(&launcher, "node1");
    sim.agent_says(&vmi, "Failed");
    sim.settle();
    assert!(!sim.objects.contains_key(&pod()), "the launcher pod has not ended");
    sim.pod_ends(&launcher, "Succeeded", 0);
    sim.settle();
    assert!(sim.objects.contains_key(&pod()), "{:?}", stands(&sim));
}

/// The plans of a VMI and of an export are carried out at the same time.
#[test]
fn a_vmi_that_may_get_its_pod_at_this_moment_is_waited_for() {
    let mut sim = Sim::new();
    sim.put(Kind::PersistentVolumeClaim, pvc(&json!({})));
    let mut object = crate::sim::vmi("web");
    object["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
    let vmi = sim.put(Kind::VirtualMachineInstance, object);
    sim.change(&claim(), json!({"metadata": {"annotations": asks(&[("target", TARGET)])}}));
    sim.world.busy.insert(vmi.clone());
    let plan = crate::decide(&sim.world, &volume(), sim.now);
    sim.apply(plan);
    assert_eq!(stands(&sim), is("Pending", "InUse"));
    sim.world.busy.clear();
    let plan = crate::decide(&sim.world, &volume(), sim.now);
    sim.apply(plan);
    assert_eq!(stands(&sim), is("Pending", "Starting"));
}

#[test]
fn an_export_whose_pod_was_made_with_a_launcher_pod_gives_way() {
    let mut sim = asked();
    runs(&mut sim);
    let exporter = sim.get(&pod()).clone();
    sim.vanish(&pod());
    let vmi = vmi(&mut sim);
    let launcher = sim.pod_of(&vmi).expect("a launcher pod");
    let pod = sim.put(Kind::Pod, exporter);
    sim.settle();
    assert!(!sim.objects.contains_key(&pod), "its image would have what the guest writes meanwhile");
    assert_eq!(stands(&sim), is("Pending", "InUse"));
    assert!(sim.get(&launcher)["metadata"]["deletionTimestamp"].is_null());
}

#[test]
fn a_vmi_that_comes_while_its_disk_is_exported_waits_and_says_so() {
    for is_cancelled in [false, true] {
        let mut sim = asked();
        runs(&mut sim);
        let vmi = vmi(&mut sim);
        assert!(sim.pod_of(&vmi).is_none(), "nothing may write to it");
        let (_, _, message) = sim.condition(&vmi, "Provisioning").expect("it says why");
        assert!(message.contains("PVC n/disk is being exported to an image"), "{message}");
        match is_cancelled {
            false => worker_ends(&mut sim, &pod(), Some(Stage::Done)),
            true => sim.change(&claim(), json!({"metadata": {"annotations": {named("target"): null}}})),
        }
        sim.settle();
        assert!(!sim.objects.contains_key(&pod()));
        assert!(sim.pod_of(&vmi).is_some());
        // A pod that is gone touches those who waited for it.
        let gone = sim.world.dependents(&pod());
        assert!(gone.is_empty(), "{gone:?}");
    }
}

#[test]
fn what_no_other_pod_could_mend_ends_the_export_until_it_is_asked_for_anew() {
    let mut sim = asked();
    runs(&mut sim);
    let report = Report {
        stage: Stage::Failed,
        reason: "Forbidden".into(),
        message: "the registry wants another login (401)".into(),
        ..Report::default()
    };
    worker_reports(&mut sim, &pod(), 1, &report);
    sim.settle();
    assert_eq!((stands(&sim), note(&sim, "message")), (is("Failed", "Forbidden"), report.message));
    let first = sim.get(&pod())["metadata"]["uid"].clone();
    sim.advance(3600);
    sim.settle();
    assert_eq!(sim.get(&pod())["metadata"]["uid"], first, "its log can be read");
    assert_eq!(count(&sim, "ExportFailed"), 1);
    sim.change(&claim(), json!({"metadata": {"annotations": asks(&[("secretRef", "login")])}}));
    sim.settle();
    assert_ne!(sim.get(&pod())["metadata"]["uid"], first, "another pod");
    assert_eq!(note(&sim, "phase"), "Pending");
}

#[test]
fn a_pod_that_breaks_off_is_followed_by_another_and_counted_once() {
    let mut sim = asked();
    runs(&mut sim);
    for restarts in 1..4 {
        worker_ends(&mut sim, &pod(), None);
        sim.settle();
        assert_eq!(note(&sim, "restarts"), restarts.to_string());
        assert!(note(&sim, "message").contains("the next pod begins at"), "{}", note(&sim, "message"));
        assert!(sim.objects.contains_key(&pod()), "the pause is not over");
        sim.advance(300);
        sim.settle();
        assert_eq!(sim.get(&pod())["metadata"]["annotations"][ATTEMPT], restarts.to_string());
        assert!(sim.get(&pod())["status"].is_null(), "another pod");
        runs(&mut sim);
        assert_eq!(note(&sim, "phase"), "Running");
    }
    assert_eq!((count(&sim, "ExportFailed"), count(&sim, "ExportScheduled")), (3, 1));
}

#[test]
fn who_takes_the_request_away_ends_the_export() {
    let mut sim = asked();
    runs(&mut sim);
    sim.change(&claim(), json!({"metadata": {"annotations": {named("target"): null}}}));
    sim.settle();
    assert!(!sim.objects.contains_key(&pod()));
    let notes = sim.get(&claim())["metadata"]["annotations"].clone();
    assert!(notes.as_object().is_none_or(serde_json::Map::is_empty), "nothing is left: {notes}");
    // A PVC that goes takes its pod along.
    let mut sim = asked();
    runs(&mut sim);
    sim.change(&claim(), json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}}));
    sim.delete(&claim());
    sim.settle();
    assert!(!sim.objects.contains_key(&pod()), "a PVC goes when no pod names it any more");
}

#[test]
fn a_pod_of_an_earlier_request_gives_way() {
    let mut sim = asked();
    runs(&mut sim);
    let first = sim.get(&pod())["metadata"]["uid"].clone();
    sim.change(
        &claim(),
        json!({"metadata": {"annotations": asks(&[("target", "docker://registry.example/os/golden:2")])}}),
    );
    sim.settle();
    let made = sim.get(&pod());
    assert_ne!(made["metadata"]["uid"], first);
    assert!(made["spec"]["containers"][0]["env"][0]["value"].as_str().unwrap().contains("golden:2"));
}

#[test]
fn a_worker_says_only_words_of_its_own_export() {
    let mut sim = asked();
    runs(&mut sim);
    let odd = format!("{}\u{1b}[2J\n", "x".repeat(5000));
    let report = Report { stage: Stage::Moving, message: odd.clone(), reason: odd, ..Report::default() };
    reports(&mut sim, report);
    for name in ["message", "reason"] {
        let said = note(&sim, name);
        assert!(said.len() <= 1000 && !said.chars().any(char::is_control), "{name} has {} bytes", said.len());
    }
    let report = Report { stage: Stage::Done, digest: "sha256:../../x".into(), ..Report::default() };
    worker_reports(&mut sim, &pod(), 0, &report);
    sim.settle();
    assert_eq!(stands(&sim), is("Failed", "Error"));
    assert!(note(&sim, "digest").is_empty());
}

#[test]
fn a_pod_of_a_stranger_is_not_taken_for_ours() {
    let mut sim = Sim::new();
    let labels = json!({"kubevirt.io": "cdi-worker", "cdi.kubevirt.io": "exporter"});
    sim.put(Kind::Pod, json!({"metadata": {"namespace": "n", "name": "exporter-disk", "labels": labels}}));
    sim.put(Kind::PersistentVolumeClaim, pvc(&asks(&[("target", TARGET)])));
    sim.settle();
    assert_eq!(stands(&sim), is("Pending", "ErrStartingPod"));
    assert!(note(&sim, "message").contains("pod exporter-disk exists already"));
    sim.vanish(&pod());
    sim.settle();
    assert!(sim.objects.contains_key(&pod()));
}

/// As of a fill: each try says nothing of its own.
#[test]
fn why_the_pod_cannot_be_made_is_said_until_it_is_made() {
    let mut sim = Sim::new();
    let retry = sim.now.checked_add(jiff::SignedDuration::from_secs(5)).unwrap();
    let message = "is forbidden: exceeded quota: all, used: 1, limited: 1".to_owned();
    sim.world
        .failures
        .insert(volume(), Failure { about: Attempt::Make(Kind::Pod), message, times: 1, retry });
    sim.put(Kind::PersistentVolumeClaim, pvc(&asks(&[("target", TARGET)])));
    sim.settle();
    assert_eq!(stands(&sim), is("Pending", "ErrStartingPod"));
    assert!(note(&sim, "message").contains("exceeded quota: all"), "{}", note(&sim, "message"));
    sim.advance(6);
    let plan = crate::decide(&sim.world, &claim(), sim.now);
    assert!(
        plan.steps.iter().any(|step| step.attempt() == Some(Attempt::Make(Kind::Pod))),
        "it is tried again: {plan:?}"
    );
    let writes = |step: &Step| matches!(step, Step::Patch { key, .. } if *key == claim());
    assert!(!plan.steps.iter().any(writes), "nothing else is said meanwhile: {plan:?}");
    assert_eq!(count(&sim, "ExportScheduled"), 0);
    sim.world.failures.clear();
    sim.settle();
    assert_eq!(stands(&sim), is("Pending", "Pending"));
    assert_eq!(count(&sim, "ExportScheduled"), 1);
}

#[test]
fn a_pod_that_is_taken_away_again_and_again_is_made_at_a_pace() {
    let mut sim = asked();
    let mut made = 0;
    for _ in 0..20 {
        if sim.objects.contains_key(&pod()) {
            sim.vanish(&pod());
            made += 1;
        }
        sim.settle();
        sim.advance(1);
    }
    assert!((2..=6).contains(&made), "{made} pods in twenty seconds");
    sim.advance(60);
    sim.settle();
    assert!(sim.objects.contains_key(&pod()));
}

#[test]
fn what_was_answered_stays_where_the_installation_goes() {
    let mut sim = asked();
    runs(&mut sim);
    worker_ends(&mut sim, &pod(), Some(Stage::Done));
    sim.settle();
    sim.world.remove(&Key::new(Kind::KubeVirt, "kubevirt", "kubevirt"));
    let plan = crate::decide(&sim.world, &claim(), sim.now);
    assert!(plan.is_empty(), "another one would export it again: {plan:?}");
}

#[test]
fn without_an_installation_nothing_is_made() {
    let mut sim = Sim::empty();
    sim.put(Kind::PersistentVolumeClaim, pvc(&asks(&[("target", TARGET)])));
    let plan = crate::decide(&sim.world, &claim(), sim.now);
    assert!(plan.is_empty(), "{plan:?}");
}

/// Its import was cut off, and nobody is there who would go on with it.
#[test]
fn half_a_disk_is_not_exported() {
    for phase in ["Pending", "Running", "Failed"] {
        let mut sim = Sim::new();
        let mut object = pvc(&asks(&[("target", TARGET)]));
        object["metadata"]["annotations"][cluster_model::uploads::POD_PHASE] = json!(phase);
        sim.put(Kind::PersistentVolumeClaim, object);
        sim.settle();
        assert_eq!(stands(&sim), is("Pending", "NotFilled"), "{phase}");
        assert!(note(&sim, "message").starts_with("PVC disk is not whole"), "{}", note(&sim, "message"));
        assert!(!sim.objects.contains_key(&pod()), "{phase}");
        let whole = json!({"metadata": {"annotations": {(cluster_model::uploads::POD_PHASE): "Succeeded"}}});
        sim.change(&claim(), whole);
        sim.settle();
        assert!(sim.objects.contains_key(&pod()), "{phase}");
    }
}
