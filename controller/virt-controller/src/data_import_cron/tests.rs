//! Stories of a DataImportCron: a tag that moves, and what becomes of its imports.

// A `json!` reads better where it is handed over than behind a `&`.
#![allow(clippy::needless_pass_by_value)]

mod kept;
mod polled;

use super::messages::{
    IN_PROGRESS, NO_DIGEST, NO_IMPORT, NOT_AUTHORIZED, OUTDATED, PROGRESSING, SCHEDULED, UP_TO_DATE,
};
use super::*;
use crate::sim::others::{image_is, worker_ends, worker_reports, worker_runs};
use crate::sim::{Sim, blank, storage};
use api::cdi::annotations::{BIND_AT_ONCE, IMPORT_CRON};
use api::job::{Report, Stage};
use cluster_model::conditions::stamp;
use cluster_model::objects::{Key, Work};
use cluster_model::polls::NoAnswer;
use serde_json::{Value, json};

fn cron() -> Key {
    Key::new(Kind::DataImportCron, "n", "images")
}

fn source() -> Key {
    Key::new(Kind::DataSource, "n", "os")
}

/// Digest number so and so, and its DataVolume.
fn digest(number: u8) -> String {
    format!("sha256:{}", format!("{number:02x}").repeat(32))
}

fn import_of(number: u8) -> Key {
    Key::new(Kind::DataVolume, "n", format!("os-{}", format!("{number:02x}").repeat(6)))
}

/// A DataImportCron with these fields beside.
fn put(sim: &mut Sim, more: Value) {
    let template = json!({
        "metadata": {"labels": {"team": "a"}, "annotations": {"cdi.kubevirt.io/note": "b"}},
        "spec": {"source": {"registry": {"url": "docker://registry.example/os:1"}}, "storage": storage()},
    });
    let mut spec = json!({"template": template, "schedule": "0 0 * * *", "managedDataSource": "os"});
    cluster_model::plan::merge(&mut spec, &more);
    sim.put(Kind::DataImportCron, json!({"metadata": {"namespace": "n", "name": "images"}, "spec": spec}));
    sim.settle();
}

/// The tag leads to digest number so and so from now on, and that is polled.
fn moves(sim: &mut Sim, number: u8) {
    sim.advance(24 * 3600);
    image_is(sim, &cron(), Ok(&digest(number)));
    sim.settle();
}

/// The import of a digest goes on until it is so.
fn ends(sim: &mut Sim, number: u8, phase: &str) {
    let Key { name, .. } = import_of(number);
    let pod = Key::new(Kind::Pod, "n", Work::Import.pod(&name));
    sim.bind(&Key::new(Kind::PersistentVolumeClaim, "n", name));
    sim.settle();
    match phase {
        "ImportScheduled" => {}
        "ImportInProgress" => worker_runs(sim, &pod, true),
        "Succeeded" => worker_ends(sim, &pod, Some(Stage::Done)),
        _ => worker_ends(sim, &pod, Some(Stage::Failed)),
    }
    sim.settle();
    assert_eq!(sim.get(&import_of(number))["status"]["phase"], phase);
}

/// A DataImportCron whose tag was so and so, one after the other, and each was imported.
fn imported(more: Value, numbers: &[u8]) -> Sim {
    let mut sim = Sim::new();
    put(&mut sim, more);
    for number in numbers {
        moves(&mut sim, *number);
        ends(&mut sim, *number, "Succeeded");
    }
    sim
}

fn leads_to(sim: &Sim) -> String {
    let pvc = &sim.get(&source())["spec"]["source"]["pvc"];
    assert_eq!(pvc["namespace"], "n");
    pvc["name"].as_str().unwrap().to_owned()
}

fn imports(sim: &Sim) -> Vec<Key> {
    sim.keys(Kind::DataVolume)
}

fn said(sim: &Sim, kind: &str) -> (String, String) {
    let (status, reason, message) = sim.condition(&cron(), kind).expect(kind);
    assert!(!message.is_empty());
    (status, reason)
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn it_is_polled_at_once_and_then_by_its_schedule() {
    let mut sim = Sim::new();
    put(&mut sim, json!({}));
    let asks = |sim: &Sim| question(&sim.world, "n", "images", sim.now).is_some();
    assert!(asks(&sim));
    assert_eq!(said(&sim, UP_TO_DATE), is("False", NO_DIGEST));
    assert_eq!(said(&sim, PROGRESSING), is("False", NO_IMPORT));
    image_is(&mut sim, &cron(), Ok(&digest(1)));
    sim.settle();
    let executed = sim.get(&cron())["status"]["lastExecutionTimestamp"].clone();
    assert_eq!(executed, json!(stamp(sim.now)));
    assert!(!asks(&sim));
    sim.advance(24 * 3600);
    assert!(asks(&sim));
    sim.delete(&cron());
    assert!(!asks(&sim));
}

#[test]
fn a_new_digest_is_imported_and_the_datasource_follows_when_that_is_whole() {
    let mut sim = Sim::new();
    put(&mut sim, json!({}));
    moves(&mut sim, 1);
    let made = sim.get(&import_of(1)).clone();
    let url = format!("docker://registry.example/os@{}", digest(1));
    assert_eq!(made["spec"]["source"]["registry"]["url"], url);
    assert_eq!(made["metadata"]["labels"][IMPORT_CRON], "images");
    assert!(made["metadata"]["annotations"][BIND_AT_ONCE].is_string());
    assert_eq!(made["metadata"]["ownerReferences"], Value::Null, "it is retained");
    assert_eq!(said(&sim, UP_TO_DATE).0, "False");
    let current = json!([{"DataVolumeName": import_of(1).name, "Digest": digest(1)}]);
    assert_eq!(sim.get(&cron())["status"]["currentImports"], current);
    for (phase, progress) in
        [("ImportScheduled", is("False", SCHEDULED)), ("ImportInProgress", is("True", IN_PROGRESS))]
    {
        ends(&mut sim, 1, phase);
        assert_eq!((said(&sim, PROGRESSING), said(&sim, UP_TO_DATE)), (progress, is("False", IN_PROGRESS)));
    }
    assert!(!sim.objects.contains_key(&source()), "there is nothing to lead to yet");
    ends(&mut sim, 1, "Succeeded");
    assert_eq!(
        (said(&sim, PROGRESSING), said(&sim, UP_TO_DATE)),
        (is("False", NO_IMPORT), is("True", UP_TO_DATE))
    );
    assert_eq!(leads_to(&sim), import_of(1).name);
    assert_eq!(sim.get(&source())["metadata"]["labels"][IMPORT_CRON], "images");
    let status = sim.get(&cron())["status"].clone();
    assert_eq!(
        (&status["lastImportedPVC"]["name"], &status["sourceFormat"]),
        (&json!(import_of(1).name), &json!("pvc"))
    );
    assert_eq!(status["lastImportTimestamp"], json!(stamp(sim.now)));

    moves(&mut sim, 2);
    assert_eq!((leads_to(&sim), said(&sim, UP_TO_DATE)), (import_of(1).name, is("False", IN_PROGRESS)));
    ends(&mut sim, 2, "Succeeded");
    assert_eq!((leads_to(&sim), said(&sim, UP_TO_DATE)), (import_of(2).name, is("True", UP_TO_DATE)));
    // The tag goes back: what is there is not imported again.
    moves(&mut sim, 1);
    assert_eq!((leads_to(&sim), imports(&sim).len()), (import_of(1).name, 2));
}

#[test]
fn what_is_polled_again_without_a_change_writes_the_time_alone() {
    let mut sim = imported(json!({}), &[1]);
    let before = sim.writes;
    moves(&mut sim, 1);
    assert_eq!(sim.writes, before + 1);
}

#[test]
fn older_imports_go_and_so_many_are_kept() {
    for (keep, left) in [
        (json!({}), vec![2, 3, 4]),
        (json!({"importsToKeep": 1}), vec![4]),
        (json!({"importsToKeep": 0}), vec![4]),
    ] {
        let sim = imported(keep.clone(), &[1, 2, 3, 4]);
        assert_eq!(imports(&sim), left.into_iter().map(import_of).collect::<Vec<_>>(), "{keep}");
        assert_eq!(leads_to(&sim), import_of(4).name);
    }
    let sim = imported(json!({"garbageCollect": "Never", "importsToKeep": 1}), &[1, 2, 3, 4]);
    assert_eq!(imports(&sim).len(), 4);
}

/// A clone of an older image goes on: it would fail for good, and with it the VM that is made of it.
#[test]
fn an_import_that_is_cloned_is_kept_until_that_has_ended() {
    let by_pod = |claim: &Value| {
        let owner = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": claim["metadata"]["name"],
            "uid": claim["metadata"]["uid"], "controller": true});
        let labels = json!({"kubevirt.io": "cdi-worker", "cdi.kubevirt.io": "cdi-clone-source"});
        let annotations = json!({cluster_model::clones::TARGET: "t/disk"});
        let meta = json!({"namespace": "n", "name": "clone-source-x", "labels": labels, "annotations": annotations,
            "ownerReferences": [owner]});
        (Kind::Pod, json!({"metadata": meta, "status": {"phase": "Running"}}))
    };
    let by_storage = |claim: &Value| {
        let owner = json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": "copy", "uid": "x",
            "controller": true});
        let from = json!({"kind": "PersistentVolumeClaim", "name": claim["metadata"]["name"]});
        let meta = json!({"namespace": "n", "name": "copy", "ownerReferences": [owner]});
        (
            Kind::PersistentVolumeClaim,
            json!({"metadata": meta, "spec": {"dataSource": from}, "status": {"phase": "Pending"}}),
        )
    };
    for is_by_pod in [true, false] {
        let mut sim = imported(json!({"importsToKeep": 1}), &[1]);
        let claim = Key::new(Kind::PersistentVolumeClaim, "n", import_of(1).name);
        let claim = sim.get(&claim);
        let (kind, object) = if is_by_pod { by_pod(claim) } else { by_storage(claim) };
        let clone = sim.put(kind, object);
        moves(&mut sim, 2);
        ends(&mut sim, 2, "Succeeded");
        assert_eq!(
            (imports(&sim), leads_to(&sim)),
            (vec![import_of(1), import_of(2)], import_of(2).name),
            "{clone}"
        );
        sim.vanish(&clone);
        sim.advance(120);
        sim.settle();
        assert_eq!(imports(&sim), [import_of(2)], "{clone}");
    }
}

/// The newest is not whole yet: what the DataSource leads to is not too old for the number.
#[test]
fn what_the_datasource_leads_to_stays_until_it_leads_elsewhere() {
    let mut sim = imported(json!({"importsToKeep": 1}), &[1]);
    moves(&mut sim, 2);
    ends(&mut sim, 2, "ImportInProgress");
    assert_eq!((imports(&sim), leads_to(&sim)), (vec![import_of(1), import_of(2)], import_of(1).name));
    ends(&mut sim, 2, "Failed");
    assert_eq!((imports(&sim), leads_to(&sim)), (vec![import_of(1), import_of(2)], import_of(1).name));
    assert_eq!(
        (said(&sim, PROGRESSING), said(&sim, UP_TO_DATE)),
        (is("False", "Failed"), is("False", OUTDATED))
    );
    assert!(sim.reasons().contains(&"ImportFailed".to_owned()));
    // Deleted, it is made anew; a failed one that is the newest no longer goes by itself.
    sim.delete(&import_of(2));
    sim.settle();
    assert_eq!(imports(&sim), [import_of(1), import_of(2)]);
    ends(&mut sim, 2, "Failed");
    moves(&mut sim, 3);
    assert_eq!(imports(&sim), [import_of(1), import_of(3)]);
}

#[test]
fn a_tag_that_moves_while_an_import_goes_on_waits_for_its_end() {
    let mut sim = imported(json!({"importsToKeep": 1}), &[9]);
    moves(&mut sim, 1);
    ends(&mut sim, 1, "ImportInProgress");
    moves(&mut sim, 2);
    assert_eq!((imports(&sim), leads_to(&sim)), (vec![import_of(1), import_of(9)], import_of(9).name));
    assert_eq!(
        (said(&sim, PROGRESSING), said(&sim, UP_TO_DATE)),
        (is("True", IN_PROGRESS), is("False", OUTDATED))
    );
    ends(&mut sim, 1, "Succeeded");
    assert_eq!((imports(&sim), leads_to(&sim)), (vec![import_of(1), import_of(2)], import_of(1).name));
}

#[test]
fn what_somebody_else_made_is_neither_taken_over_nor_deleted() {
    // A DataSource of that name, without the label or with that of another.
    for labels in [json!({}), json!({IMPORT_CRON: "other"})] {
        let mut sim = Sim::new();
        let pvc = json!({"pvc": {"namespace": "n", "name": "theirs"}});
        let meta = json!({"namespace": "n", "name": "os", "labels": labels});
        sim.put(Kind::DataSource, json!({"metadata": meta, "spec": {"source": pvc}}));
        put(&mut sim, json!({}));
        moves(&mut sim, 1);
        assert_eq!((leads_to(&sim), imports(&sim)), ("theirs".to_owned(), vec![]));
        let (status, reason, message) = sim.condition(&cron(), UP_TO_DATE).unwrap();
        assert_eq!((status, reason), is("False", NO_IMPORT));
        assert!(message.contains("cdi.kubevirt.io/dataImportCron=images"), "{message}");
        // Whoever gives it the label hands it over.
        sim.change(&source(), json!({"metadata": {"labels": {IMPORT_CRON: "images"}}}));
        sim.settle();
        ends(&mut sim, 1, "Succeeded");
        assert_eq!(leads_to(&sim), import_of(1).name);
    }
    // A DataVolume of that name, and a copy of one with its label.
    let spec = blank();
    let mut sim = Sim::new();
    let meta = json!({"namespace": "n", "name": import_of(1).name});
    sim.put(Kind::DataVolume, json!({"metadata": meta, "spec": spec, "status": {"phase": "Succeeded"}}));
    let meta = json!({"namespace": "n", "name": "os-of-mine-for-years", "labels": {IMPORT_CRON: "images"}});
    let copy =
        sim.put(Kind::DataVolume, json!({"metadata": meta, "spec": spec, "status": {"phase": "Succeeded"}}));
    put(&mut sim, json!({"importsToKeep": 1}));
    moves(&mut sim, 1);
    assert_eq!(said(&sim, UP_TO_DATE), is("False", NO_IMPORT));
    assert!(!sim.objects.contains_key(&source()), "a disk of somebody's is no image");
    moves(&mut sim, 2);
    ends(&mut sim, 2, "Succeeded");
    assert_eq!(imports(&sim), [import_of(1), import_of(2), copy]);
}

#[test]
fn what_is_not_retained_goes_with_it() {
    for (policy, left) in
        [(json!({}), 3), (json!({"retentionPolicy": "All"}), 3), (json!({"retentionPolicy": "None"}), 0)]
    {
        let mut sim = imported(policy.clone(), &[1, 2]);
        sim.delete(&cron());
        sim.settle();
        let count = imports(&sim).len() + sim.keys(Kind::DataSource).len();
        assert_eq!(count, left, "{policy}");
        // What is left, a DataImportCron of that name goes on with.
        put(&mut sim, json!({"importsToKeep": 1}));
        moves(&mut sim, 3);
        ends(&mut sim, 3, "Succeeded");
        assert_eq!((imports(&sim), leads_to(&sim)), (vec![import_of(3)], import_of(3).name));
    }
}

#[test]
fn a_poll_without_an_answer_is_said_and_changes_nothing_else() {
    let mut sim = imported(json!({}), &[1]);
    for number in 0..3 {
        sim.advance(24 * 3600);
        image_is(&mut sim, &cron(), Err(NoAnswer::Denied));
        sim.settle();
        let (status, _, message) = sim.condition(&cron(), UP_TO_DATE).unwrap();
        assert_eq!(status, "True");
        let wanted =
            format!("Latest import is up to date; the last poll failed: {}", NoAnswer::Denied.description());
        assert_eq!(message, wanted, "{number}");
    }
    assert_eq!(sim.warnings, ["PollFailed"]);
    // Another program begins, which has not polled yet.
    sim.world.polls.clear();
    sim.settle();
    assert!(sim.condition(&cron(), UP_TO_DATE).unwrap().2.contains("the last poll failed"));
    moves(&mut sim, 1);
    assert_eq!(sim.condition(&cron(), UP_TO_DATE).unwrap().2, "Latest import is up to date");
}

#[test]
fn an_annotation_that_is_no_digest_is_no_digest() {
    let mut sim = Sim::new();
    put(&mut sim, json!({}));
    let long = format!("uid:{}", "a".repeat(65));
    let (letters, upper) = (format!("sha256:{}", "0g".repeat(32)), format!("sha512:{}", "0A".repeat(64)));
    for text in [
        "sha256:../../x",
        "sha256:",
        "uid:a",
        "uid:0123456789-x",
        "sha256:é2345678901",
        &long,
        &letters,
        &upper,
        "latest",
    ] {
        sim.change(&cron(), json!({"metadata": {"annotations": {DESIRED_DIGEST: text}}}));
        sim.settle();
        assert_eq!((imports(&sim), said(&sim, UP_TO_DATE)), (vec![], is("False", NO_DIGEST)), "{text}");
    }
}

#[test]
fn a_pvc_is_imported_anew_when_it_is_another() {
    let registry = json!({"registry": null, "pvc": {"namespace": "n", "name": "gold"}});
    let mut sim = Sim::new();
    put(&mut sim, json!({"template": {"spec": {"source": registry}}}));
    assert_eq!(question(&sim.world, "n", "images", sim.now), None);
    assert!(sim.condition(&cron(), UP_TO_DATE).unwrap().2.ends_with("PVC gold does not exist"));
    let gold = json!({"metadata": {"namespace": "n", "name": "gold"}, "spec": {}});
    let gold = sim.put(Kind::PersistentVolumeClaim, gold);
    sim.world.put(
        Kind::PersistentVolumeClaim,
        json!({"metadata": {"namespace": "n", "name": "gold", "uid": "0a1b2c3d-4e5f-6071", "resourceVersion": "9999"}, "spec": {}}),
        sim.now,
    );
    sim.advance(24 * 3600);
    sim.settle();
    let made: Vec<String> = imports(&sim).into_iter().map(|key| key.name).collect();
    assert_eq!(made, ["os-0a1b2c3d-4e5"], "{gold}");
}

#[test]
fn what_is_refused_is_said_and_nobody_is_asked() {
    for (source, reason) in [
        (json!({"registry": null, "pvc": {"namespace": "m", "name": "gold"}}), NOT_AUTHORIZED),
        (json!({"registry": null, "upload": {}}), NO_DIGEST),
    ] {
        let mut sim = Sim::new();
        put(&mut sim, json!({"template": {"spec": {"source": source}}}));
        assert_eq!((said(&sim, UP_TO_DATE), imports(&sim)), (is("False", reason), vec![]));
        assert_eq!(question(&sim.world, "n", "images", sim.now), None);
    }
}

/// What a poll pod says at its end.
fn poller_ends(sim: &mut Sim, pod: &Key, answer: Result<&str, &str>) {
    let report = match answer {
        Ok(digest) => Report { stage: Stage::Done, digest: digest.to_owned(), ..Report::default() },
        Err(why) => Report { stage: Stage::Failed, message: why.to_owned(), ..Report::default() },
    };
    worker_reports(sim, pod, i32::from(answer.is_err()), &report);
    sim.settle();
}

fn poller(failures: i64) -> Key {
    Key::new(Kind::Pod, "n", cluster_model::objects::names::poller("images", failures))
}

#[test]
fn a_pod_polls_with_the_secret_of_the_template() {
    let mut sim = Sim::new();
    let registry = json!({"registry": {"secretRef": "login", "certConfigMap": "ca"}});
    put(&mut sim, json!({"template": {"spec": {"source": registry, "priorityClassName": "low"}}}));
    assert_eq!(question(&sim.world, "n", "images", sim.now), None, "virt-controller asks nobody");
    let pod = sim.get(&poller(0)).clone();
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["name"]), (&json!("DataImportCron"), &json!("images")));
    let spec = &pod["spec"];
    assert_eq!((&spec["activeDeadlineSeconds"], &spec["priorityClassName"]), (&json!(300), &json!("low")));
    assert_eq!(spec["automountServiceAccountToken"], false);
    let volumes = spec["volumes"].to_string();
    assert!(volumes.contains(r#""secretName":"login""#) && volumes.contains(r#""name":"ca""#), "{volumes}");
    assert!(!volumes.contains("persistentVolumeClaim"), "{volumes}");
    let container = &spec["containers"][0];
    assert_eq!(container["args"], json!(["poll"]));
    let job = container["env"][0]["value"].as_str().unwrap();
    assert!(
        job.contains("docker://registry.example/os:1") && job.contains("/etc/cdi/secrets/login"),
        "{job}"
    );
    // Its answer is learned, and it goes.
    sim.advance(5);
    poller_ends(&mut sim, &poller(0), Ok(&digest(1)));
    assert_eq!(sim.keys(Kind::Pod), []);
    assert_eq!(sim.get(&cron())["metadata"]["annotations"][DESIRED_DIGEST], json!(digest(1)));
    ends(&mut sim, 1, "Succeeded");
    assert_eq!(leads_to(&sim), import_of(1).name);
    // The next one comes by the schedule.
    sim.advance(3600);
    sim.settle();
    assert!(!sim.objects.contains_key(&poller(0)));
    sim.advance(24 * 3600);
    sim.settle();
    assert!(sim.objects.contains_key(&poller(0)));
}

#[test]
fn a_poll_pod_that_fails_is_followed_by_another_after_a_pause_that_grows() {
    let mut sim = Sim::new();
    let source = json!({"registry": {"secretRef": "login"}});
    put(&mut sim, json!({"template": {"spec": {"source": source}}}));
    for (failures, pause) in [(0, 60), (1, 120), (2, 240)] {
        poller_ends(&mut sim, &poller(failures), Err("the login is\u{7} wrong"));
        let (status, reason, message) = sim.condition(&cron(), UP_TO_DATE).unwrap();
        assert_eq!((status, reason), is("False", NO_DIGEST));
        assert!(message.ends_with("; the last poll failed: the login is wrong"), "{message}");
        sim.advance(pause - 1);
        sim.settle();
        assert_eq!(sim.keys(Kind::Pod), [poller(failures)], "it stays, for its log");
        sim.advance(1);
        sim.settle();
        assert_eq!(sim.keys(Kind::Pod), [poller(failures + 1)]);
    }
    assert_eq!(sim.reasons().iter().filter(|reason| *reason == "PollFailed").count(), 1);
    // One that says no digest has no answer.
    poller_ends(&mut sim, &poller(3), Ok("uid:0a1b2c3d4e5f"));
    assert_eq!(imports(&sim), []);
    sim.advance(24 * 3600);
    sim.settle();
    poller_ends(&mut sim, &poller(4), Ok(&digest(1)));
    assert_eq!((imports(&sim), sim.keys(Kind::Pod)), (vec![import_of(1)], vec![]));
}

#[test]
fn a_poll_pod_that_does_not_run_says_why() {
    let mut sim = Sim::new();
    let source = json!({"registry": {"secretRef": "login"}});
    put(&mut sim, json!({"template": {"spec": {"source": source}}}));
    let waiting = json!({"reason": "CreateContainerConfigError", "message": "secret \"login\" not found"});
    let status = json!([{"name": "poller", "state": {"waiting": waiting}}]);
    sim.change(&poller(0), json!({"status": {"containerStatuses": status}}));
    sim.settle();
    let (_, _, message) = sim.condition(&cron(), UP_TO_DATE).unwrap();
    assert!(message.contains("secret \"login\" not found"), "{message}");
    // Over its time: no container says how it ended.
    let over = json!({"phase": "Failed", "reason": "DeadlineExceeded", "message": "too long", "containerStatuses": []});
    sim.change(&poller(0), json!({"status": over}));
    sim.settle();
    let (_, _, message) = sim.condition(&cron(), UP_TO_DATE).unwrap();
    assert!(
        message.ends_with("the poll pod ended without an answer (DeadlineExceeded: too long)"),
        "{message}"
    );
}

#[test]
fn mirrors_registries_without_tls_and_the_proxy_are_for_pods() {
    let files = json!({"registries.toml": ""});
    let mirrors = json!({"metadata": {"namespace": "kubevirt", "name": "coracle-registries"}, "data": files});
    let config = |spec: Value| json!({"metadata": {"name": "config"}, "spec": spec});
    let insecure = config(json!({"insecureRegistries": ["registry.example"]}));
    let proxy = config(json!({"importProxy": {"HTTPSProxy": "http://proxy:3128"}}));
    let other = config(json!({"insecureRegistries": ["other.example"]}));
    for (kind, object, by_pod) in [
        (Kind::ConfigMap, mirrors, true),
        (Kind::CDIConfig, insecure, true),
        (Kind::CDIConfig, proxy, true),
        (Kind::CDIConfig, other, false),
    ] {
        let mut sim = Sim::new();
        let key = sim.put(kind, object);
        put(&mut sim, json!({}));
        assert_eq!(sim.objects.contains_key(&poller(0)), by_pod, "{key}");
        assert_eq!(question(&sim.world, "n", "images", sim.now).is_none(), by_pod, "{key}");
        // Without it virt-controller asks, and the pod goes.
        sim.vanish(&key);
        sim.settle();
        assert!(question(&sim.world, "n", "images", sim.now).is_some() && sim.keys(Kind::Pod).is_empty());
    }
}

#[test]
fn a_pod_that_another_owns_polls_for_nobody() {
    let mut sim = Sim::new();
    let source = json!({"registry": {"secretRef": "login"}});
    put(&mut sim, json!({"template": {"spec": {"source": source}}}));
    let mut stranger = sim.get(&poller(0)).clone();
    stranger["metadata"]["name"] = json!("poller-images-9");
    stranger["metadata"]["ownerReferences"][0]["uid"] = json!("another");
    let stranger = sim.put(Kind::Pod, stranger);
    poller_ends(&mut sim, &stranger, Ok(&digest(7)));
    assert_eq!(imports(&sim), []);
}

#[test]
fn what_it_depends_on_touches_it() {
    let sim = imported(json!({}), &[1]);
    for key in [cron(), import_of(1), source()] {
        assert!(sim.world.dependents(&key).contains(&cron()), "{key}");
    }
}

#[test]
fn without_a_kubevirt_object_nothing_is_written_and_nobody_is_asked() {
    let mut sim = Sim::empty();
    put(&mut sim, json!({}));
    assert!(decide(&sim.world, "n", "images", sim.now).is_empty());
    assert_eq!(question(&sim.world, "n", "images", sim.now), None);
}

/// The copy has the label of the import, as `kubectl get dv -o yaml` prints it.
#[test]
fn a_users_copy_of_an_import_with_a_short_name_is_kept() {
    let spec = blank();
    let mut sim = imported(json!({"importsToKeep": 1}), &[1]);
    let meta = json!({"namespace": "n", "name": "os-mine", "labels": {IMPORT_CRON: "images"}});
    let copy =
        sim.put(Kind::DataVolume, json!({"metadata": meta, "spec": spec, "status": {"phase": "Succeeded"}}));
    sim.settle();
    moves(&mut sim, 2);
    ends(&mut sim, 2, "Succeeded");
    assert!(imports(&sim).contains(&copy), "{:?}", imports(&sim));
}
