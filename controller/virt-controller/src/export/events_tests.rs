//! What an export tells, for whom it is made, and when it is looked at again.

use super::decide;
use super::worker::PAUSE;
use crate::sim::Sim;
use crate::sim::others::{worker_ends, worker_reports};
use api::job::{Export, Report, Stage};
use cluster_model::objects::{Attempt, Failure, Key, Kind};
use cluster_model::plan::{Plan, Step, merge};
use serde_json::{Value, json};

const TARGET: &str = "docker://registry.example/os/golden:1";

fn named(name: &str) -> String {
    format!("cdi.kubevirt.io/storage.export.{name}")
}

fn claim() -> Key {
    Key::new(Kind::PersistentVolumeClaim, "n", "disk")
}

fn pod() -> Key {
    Key::new(Kind::Pod, "n", "exporter-disk")
}

/// A PVC that asks for an export, changed.
fn asked(change: &Value) -> Sim {
    let mut sim = Sim::new();
    let meta = json!({"namespace": "n", "name": "disk", "annotations": {named("target"): TARGET}});
    let mut object = json!({"metadata": meta, "spec": {}, "status": {"phase": "Bound"}});
    merge(&mut object, change);
    sim.put(Kind::PersistentVolumeClaim, object);
    sim
}

fn plan(sim: &Sim) -> Plan {
    decide(&sim.world, "n", "disk", sim.now)
}

fn apply(sim: &mut Sim) {
    let plan = plan(sim);
    sim.apply(plan);
}

fn note(sim: &Sim, name: &str) -> String {
    sim.get(&claim())["metadata"]["annotations"][named(name)].as_str().unwrap_or_default().to_owned()
}

fn creates(plan: &Plan) -> bool {
    plan.steps.iter().any(|step| matches!(step, Step::Create { .. }))
}

fn runs(sim: &mut Sim) {
    let status = json!([{"name": "exporter", "state": {"running": {}}}]);
    sim.change(&pod(), json!({"status": {"phase": "Running", "containerStatuses": status}}));
    apply(sim);
}

fn fails(sim: &mut Sim, about: Attempt, seconds: i64) -> jiff::Timestamp {
    let retry = sim.now + jiff::SignedDuration::from_secs(seconds);
    let failure = Failure { about, message: "exceeded quota".to_owned(), times: 1, retry };
    sim.world.failures.insert(Key::new(Kind::DataVolume, "n", "disk"), failure);
    retry
}

/// Whoever may make a DataVolume of a name would have the bytes of the PVC that has it.
#[test]
fn only_a_pvc_and_its_own_data_volume_ask_for_an_export() {
    let owner = |uid: &str| json!([{"kind": "DataVolume", "apiVersion": "a/v1", "name": "disk", "uid": uid, "controller": true}]);
    for (owners, is_going, expected) in [
        (owner("u"), false, true),
        (owner("u"), true, false),
        (owner("another"), false, false),
        (json!(null), false, false),
    ] {
        let mut sim =
            asked(&json!({"metadata": {"annotations": {named("target"): null}, "ownerReferences": owners}}));
        let going = is_going.then_some("2027-01-01T00:00:00Z");
        let meta = json!({
            "namespace": "n", "name": "disk", "uid": "u", "deletionTimestamp": going, "annotations": {named("target"): TARGET},
        });
        let object = json!({"metadata": meta, "spec": {}, "status": {"phase": "Succeeded"}});
        sim.world.put(Kind::DataVolume, object, sim.now);
        assert_eq!(!plan(&sim).is_empty(), expected, "{owners} {is_going}");
    }
    let going = json!({"metadata": {"deletionTimestamp": "2027-01-01T00:00:00Z", "finalizers": ["a/b"]}});
    assert!(plan(&asked(&going)).is_empty(), "a PVC that goes is not exported");
}

#[test]
fn a_data_volume_without_a_phase_is_said_to_have_none() {
    let owner =
        json!([{"kind": "DataVolume", "apiVersion": "a/v1", "name": "disk", "uid": "u", "controller": true}]);
    let mut sim = asked(&json!({"metadata": {"ownerReferences": owner}}));
    let meta = json!({"namespace": "n", "name": "disk", "uid": "u"});
    sim.world.put(Kind::DataVolume, json!({"metadata": meta, "spec": {}}), sim.now);
    apply(&mut sim);
    assert_eq!(note(&sim, "message"), "DataVolume disk is not filled: no phase yet");
    assert!(!note(&sim, "since").is_empty());
}

/// A pod that another client deletes again and again is made at a pace.
#[test]
fn the_next_pod_is_made_when_the_pause_after_the_last_one_is_over() {
    for has_run in [false, true] {
        let mut sim = asked(&json!({}));
        apply(&mut sim);
        if has_run {
            runs(&mut sim);
            assert_eq!(note(&sim, "phase"), "Running");
        }
        sim.vanish(&pod());
        let until = sim.now + jiff::SignedDuration::from_secs(PAUSE.0);
        sim.advance(PAUSE.0 - 1);
        let soon = plan(&sim);
        assert_eq!((creates(&soon), soon.again), (false, Some(until)), "{has_run}: {soon:?}");
        sim.advance(1);
        assert!(creates(&plan(&sim)), "{has_run}");
        apply(&mut sim);
        let scheduled = sim.reasons().iter().filter(|reason| *reason == "ExportScheduled").count();
        assert_eq!(scheduled, 1 + usize::from(has_run), "{has_run}: {:?}", sim.told);
    }
}

#[test]
fn a_refused_pod_is_tried_again_at_its_time_and_no_other_refusal_is_taken_for_it() {
    let pods = Attempt::Make(Kind::Pod);
    for (about, seconds, reason, is_made) in [
        (pods, 60, "ErrStartingPod", false),
        (pods, 0, "ErrStartingPod", true),
        (Attempt::Make(Kind::PersistentVolumeClaim), 60, "Starting", true),
    ] {
        let mut sim = asked(&json!({}));
        let retry = fails(&mut sim, about, seconds);
        let plan = plan(&sim);
        assert_eq!((creates(&plan), plan.again), (is_made, (!is_made).then_some(retry)), "{about:?}");
        sim.apply(plan);
        assert_eq!(note(&sim, "reason"), reason, "{about:?} {seconds}");
        assert_eq!(sim.reasons().is_empty(), about == pods, "{:?}", sim.told);
    }
}

#[test]
fn a_pod_that_broke_off_goes_when_its_pause_is_over() {
    let mut sim = asked(&json!({}));
    apply(&mut sim);
    runs(&mut sim);
    worker_ends(&mut sim, &pod(), None);
    let until = sim.now + jiff::SignedDuration::from_secs(PAUSE.0);
    let broken = plan(&sim);
    assert_eq!(broken.again, Some(until), "{broken:?}");
    sim.apply(broken);
    assert_eq!(sim.warnings, ["ExportFailed"]);
    sim.now = until;
    apply(&mut sim);
    assert!(!sim.objects.contains_key(&pod()));
}

/// The plan that wrote the end of the export may have ended before it deleted the pod.
#[test]
fn the_pod_of_an_export_that_is_done_goes_with_each_plan() {
    let mut sim = asked(&json!({}));
    apply(&mut sim);
    runs(&mut sim);
    worker_ends(&mut sim, &pod(), Some(Stage::Done));
    let exporter = sim.get(&pod()).clone();
    apply(&mut sim);
    assert_eq!((note(&sim, "phase").as_str(), sim.objects.contains_key(&pod())), ("Succeeded", false));
    sim.put(Kind::Pod, exporter);
    apply(&mut sim);
    assert!(!sim.objects.contains_key(&pod()), "it holds the PVC");
}

/// What it has read is of the time before.
#[test]
fn an_export_that_is_done_is_so_although_a_vmi_begins_meanwhile() {
    for stage in [Stage::Done, Stage::Failed] {
        let mut sim = asked(&json!({}));
        apply(&mut sim);
        runs(&mut sim);
        let digest = format!("sha256:{}", "0a".repeat(32));
        let code = i32::from(stage == Stage::Failed);
        worker_reports(&mut sim, &pod(), code, &Report { stage, digest, ..Report::default() });
        let mut vmi = crate::sim::vmi("web");
        vmi["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
        vmi["status"] = json!({"phase": "Running"});
        sim.world.put(Kind::VirtualMachineInstance, vmi, sim.now);
        apply(&mut sim);
        let ended = if stage == Stage::Done { ("Succeeded", "Completed") } else { ("Failed", "Error") };
        assert_eq!((note(&sim, "phase").as_str(), note(&sim, "reason").as_str()), ended);
        assert_eq!(sim.warnings.contains(&"ExportFailed".to_owned()), stage == Stage::Failed);
    }
}

#[test]
fn what_an_export_waits_for_is_a_warning() {
    let mut sim = asked(&json!({}));
    let mut vmi = crate::sim::vmi("web");
    vmi["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
    vmi["status"] = json!({"phase": "Running"});
    sim.world.put(Kind::VirtualMachineInstance, vmi, sim.now);
    apply(&mut sim);
    assert_eq!(sim.warnings, ["ExportWaits"], "for a VMI");
    let mut sim = asked(&json!({}));
    apply(&mut sim);
    let waiting = json!({"waiting": {"reason": "ErrImagePull", "message": "404"}});
    sim.change(&pod(), json!({"status": {"containerStatuses": [{"name": "exporter", "state": waiting}]}}));
    apply(&mut sim);
    assert_eq!(sim.warnings, ["ExportWaits"], "for an image");
}

/// A registry that the administrator lists has no certificate that the worker would know.
#[test]
fn the_worker_is_told_which_registry_needs_no_tls() {
    for (host, expected) in [("registry.example", true), ("other.example", false)] {
        let mut sim = asked(&json!({}));
        let spec = json!({"insecureRegistries": [host]});
        sim.put(Kind::CDIConfig, json!({"metadata": {"name": "config"}, "spec": spec}));
        apply(&mut sim);
        let env = &sim.get(&pod())["spec"]["containers"][0]["env"];
        let job: Export = serde_json::from_str(env[0]["value"].as_str().unwrap()).unwrap();
        assert_eq!(job.target.insecure, expected, "{host}");
    }
}

/// A pod that fills the PVC writes while it is read.
#[test]
fn a_pvc_is_exported_when_the_pod_that_fills_it_has_ended() {
    let mut sim = asked(&json!({}));
    let owner = cluster_model::objects::owner::reference(
        Kind::PersistentVolumeClaim,
        &sim.world.pvcs.get("n", "disk").unwrap().meta,
    );
    let labels = json!({"kubevirt.io": "cdi-worker", "cdi.kubevirt.io": "importer"});
    let meta =
        json!({"namespace": "n", "name": "importer-disk", "labels": labels, "ownerReferences": [owner]});
    let importer = sim.put(Kind::Pod, json!({"metadata": meta, "status": {"phase": "Running"}}));
    apply(&mut sim);
    assert_eq!((note(&sim, "reason").as_str(), sim.objects.contains_key(&pod())), ("NotFilled", false));
    sim.change(&importer, json!({"status": {"phase": "Succeeded"}}));
    apply(&mut sim);
    assert!(sim.objects.contains_key(&pod()));
}

#[test]
fn settings_of_registries_that_are_not_valid_are_looked_at_again() {
    let mut sim = asked(&json!({}));
    let meta = json!({"namespace": "kubevirt", "name": cluster_model::worker::REGISTRIES});
    sim.put(Kind::ConfigMap, json!({"metadata": meta, "data": {"registries.toml": "x".repeat(1 << 20)}}));
    let waits = plan(&sim);
    assert!(waits.again.is_some_and(|again| again > sim.now) && !creates(&waits), "{waits:?}");
    sim.apply(waits);
    assert_eq!(note(&sim, "reason"), "RegistriesNotValid");
}
