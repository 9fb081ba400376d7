//! Imports that are kept and that go, and what is said while others are in the way.

use super::*;
use cluster_model::objects::Failure;
use jiff::SignedDuration;

/// Decides on the DataImportCron alone, once.
fn once(sim: &mut Sim) -> Plan {
    let plan = crate::decide(&sim.world, &cron(), sim.now);
    sim.apply(plan.clone());
    plan
}

fn in_seconds(sim: &Sim, seconds: i64) -> Option<Timestamp> {
    sim.now.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// What the DataSource leads to is cloned at any time, and what it leads to next is there already.
#[test]
fn neither_what_the_datasource_leads_to_nor_what_it_leads_to_next_is_too_old() {
    let mut sim = imported(json!({"importsToKeep": 0}), &[1]);
    moves(&mut sim, 2);
    ends(&mut sim, 2, "ImportInProgress");
    assert_eq!((imports(&sim), leads_to(&sim)), (vec![import_of(1), import_of(2)], import_of(1).name));
    let mut sim = imported(json!({}), &[1, 2]);
    let before = sim.get(&import_of(1)).clone();
    sim.change(&cron(), json!({"spec": {"importsToKeep": 0}}));
    moves(&mut sim, 1);
    assert_eq!(leads_to(&sim), import_of(1).name);
    assert_eq!(sim.get(&import_of(1))["metadata"]["uid"], before["metadata"]["uid"], "not imported again");
}

/// The status of a DataImportCron may be lost, and the number is of imports that have ended.
#[test]
fn an_import_that_goes_on_is_not_too_old() {
    let mut sim = Sim::new();
    put(&mut sim, json!({"importsToKeep": 0}));
    moves(&mut sim, 1);
    ends(&mut sim, 1, "ImportInProgress");
    sim.change(&cron(), json!({"status": {"currentImports": null}}));
    moves(&mut sim, 2);
    assert_eq!(imports(&sim), [import_of(1)]);
}

#[test]
fn an_import_that_goes_is_deleted_once() {
    let mut sim = imported(json!({"importsToKeep": 1}), &[1]);
    sim.change(&import_of(1), json!({"metadata": {"finalizers": ["held"]}}));
    moves(&mut sim, 2);
    ends(&mut sim, 2, "Succeeded");
    assert!(crate::sim::is_going(sim.get(&import_of(1))));
    let plan = once(&mut sim);
    assert!(plan.steps.is_empty(), "{plan:?}");
}

#[test]
fn an_import_that_goes_is_waited_for_by_its_own_digest_alone() {
    let mut sim = Sim::new();
    put(&mut sim, json!({}));
    moves(&mut sim, 1);
    ends(&mut sim, 1, "ImportInProgress");
    sim.change(&import_of(1), json!({"metadata": {"finalizers": ["held"]}}));
    sim.delete(&import_of(1));
    sim.settle();
    let (_, reason, message) = sim.condition(&cron(), UP_TO_DATE).unwrap();
    assert!(reason == OUTDATED && message.contains("is being deleted"), "{reason}: {message}");
    assert_eq!(said(&sim, PROGRESSING), is("False", NO_IMPORT));
    moves(&mut sim, 2);
    assert_eq!(imports(&sim), [import_of(1), import_of(2)]);
}

/// The first source pod was evicted, and the next one is not there yet.
#[test]
fn an_import_that_a_clone_has_begun_to_read_is_kept_between_two_source_pods() {
    use cluster_model::clones::{CLONE_REQUEST, CLONE_SOURCE_UID};
    // Of another namespace, without a token of virt-api, a clone keeps nothing; nor does one that has read nothing.
    for (namespace, has_begun, is_kept) in [("n", true, true), ("n", false, false), ("t", true, false)] {
        let mut sim = imported(json!({"importsToKeep": 1}), &[1]);
        let name = import_of(1).name;
        let spec = json!({"source": {"pvc": {"namespace": "n", "name": name}}, "storage": {}});
        let meta = json!({"namespace": namespace, "name": "copy"});
        let status = json!({"phase": "CloneInProgress"});
        let copy = sim.put(Kind::DataVolume, json!({"metadata": meta, "spec": spec, "status": status}));
        let owner = json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": "copy",
            "uid": sim.uid(&copy), "controller": true});
        let mut notes =
            json!({CLONE_REQUEST: format!("n/{name}"), "cdi.kubevirt.io/storage.pod.phase": "Running"});
        if has_begun {
            notes[CLONE_SOURCE_UID] = json!("evicted");
        }
        let meta =
            json!({"namespace": namespace, "name": "copy", "ownerReferences": [owner], "annotations": notes});
        let claim = json!({"metadata": meta, "spec": {}, "status": {"phase": "Bound"}});
        let claim = sim.put(Kind::PersistentVolumeClaim, claim);
        let about = format!("{namespace} {has_begun}");
        moves(&mut sim, 2);
        ends(&mut sim, 2, "Succeeded");
        assert!(!sim.keys(Kind::Pod).iter().any(|key| key.name.starts_with("clone-source")), "{about}");
        assert_eq!(sim.objects.contains_key(&import_of(1)), is_kept, "{about}");
        let filled = json!({"metadata": {"annotations": {"cdi.kubevirt.io/storage.pod.phase": "Succeeded"}}});
        sim.change(&claim, filled);
        sim.advance(120);
        sim.settle();
        assert!(!sim.objects.contains_key(&import_of(1)), "{about}");
    }
}

/// The end of a clone does not touch the DataImportCron.
#[test]
fn an_import_that_is_cloned_is_looked_at_again() {
    let mut sim = imported(json!({"importsToKeep": 1}), &[1]);
    let owner = json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": "copy", "uid": "x", "controller": true});
    let meta = json!({"namespace": "n", "name": "copy", "ownerReferences": [owner]});
    let spec = json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": import_of(1).name}});
    let copy = json!({"metadata": meta, "spec": spec, "status": {"phase": "Pending"}});
    sim.put(Kind::PersistentVolumeClaim, copy);
    moves(&mut sim, 2);
    ends(&mut sim, 2, "Succeeded");
    assert_eq!(once(&mut sim).again, in_seconds(&sim, 60));
}

#[test]
fn an_import_of_another_owner_is_in_the_way_and_it_is_told_once() {
    let mut sim = Sim::new();
    let owner =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "another", "controller": true});
    let labels = json!({IMPORT_CRON: "images"});
    let meta =
        json!({"namespace": "n", "name": import_of(1).name, "labels": labels, "ownerReferences": [owner]});
    let spec = blank();
    sim.put(Kind::DataVolume, json!({"metadata": meta, "spec": spec, "status": {"phase": "Succeeded"}}));
    put(&mut sim, json!({}));
    moves(&mut sim, 1);
    for _ in 0..2 {
        assert_eq!(
            (said(&sim, PROGRESSING), said(&sim, UP_TO_DATE)),
            (is("False", NO_IMPORT), is("False", NO_IMPORT))
        );
        let told = sim.reasons().iter().filter(|reason| *reason == "ErrResourceExists").count();
        assert_eq!((told, sim.warnings.len()), (1, 1), "{:?}", sim.told);
        assert_eq!(once(&mut sim).again, in_seconds(&sim, 60));
        sim.advance(60);
        sim.settle();
    }
    assert!(!sim.objects.contains_key(&source()));
}

/// A DataSource that is being deleted leads where it led, and the next one to the newest.
#[test]
fn a_datasource_that_goes_is_not_turned() {
    let mut sim = imported(json!({}), &[1]);
    sim.change(&source(), json!({"metadata": {"finalizers": ["held"]}}));
    sim.delete(&source());
    moves(&mut sim, 2);
    ends(&mut sim, 2, "Succeeded");
    assert_eq!(leads_to(&sim), import_of(1).name);
    sim.vanish(&source());
    sim.settle();
    assert_eq!(leads_to(&sim), import_of(2).name);
}

#[test]
fn each_step_of_an_import_is_said_and_told_once() {
    let mut sim = Sim::new();
    put(&mut sim, json!({}));
    let told = |sim: &Sim, reason: &str, message: &str| {
        sim.told.iter().filter(|(is, says)| is == reason && says == message).count()
    };
    for number in [1, 2] {
        sim.advance(24 * 3600);
        image_is(&mut sim, &cron(), Ok(&digest(number)));
        once(&mut sim);
        let current = json!([{"DataVolumeName": import_of(number).name, "Digest": digest(number)}]);
        assert_eq!(sim.get(&cron())["status"]["currentImports"], current, "it is noted with its creation");
        assert_eq!(
            (said(&sim, PROGRESSING), said(&sim, UP_TO_DATE)),
            (is("False", NO_IMPORT), is("False", OUTDATED))
        );
        once(&mut sim);
        assert_eq!(said(&sim, PROGRESSING), is("False", "Pending"));
        sim.change(&import_of(number), json!({"status": {"phase": "Paused"}}));
        once(&mut sim);
        assert_eq!(said(&sim, PROGRESSING), is("False", "Paused"));
        sim.settle();
        ends(&mut sim, number, "Succeeded");
        let Key { name, .. } = import_of(number);
        let scheduled = format!("Import of {} into DataVolume {name}", digest(number));
        assert_eq!(told(&sim, SCHEDULED, &scheduled), 1, "{:?}", sim.told);
        let succeeded = format!("DataSource os points to PVC {name}");
        assert_eq!(told(&sim, "ImportSucceeded", &succeeded), 1, "{:?}", sim.told);
    }
    assert_eq!(sim.warnings, [""; 0]);
    moves(&mut sim, 3);
    ends(&mut sim, 3, "Failed");
    sim.advance(3600);
    sim.settle();
    let why =
        format!("DataVolume {} failed: So it ended; delete it to start the import again", import_of(3).name);
    assert_eq!(told(&sim, "ImportFailed", &why), 1, "{:?}", sim.told);
    assert_eq!(
        sim.warnings,
        ["ImportFailed", "ImportFailed"],
        "of the DataVolume, and of the DataImportCron"
    );
    assert_eq!(sim.condition(&cron(), UP_TO_DATE).unwrap().2, why);
}

/// What was said of the last import is not left to stand.
#[test]
fn what_is_said_of_an_import_ends_with_it() {
    let progress = |sim: &Sim| said(sim, PROGRESSING);
    let going_on = || {
        let mut sim = Sim::new();
        put(&mut sim, json!({}));
        moves(&mut sim, 1);
        ends(&mut sim, 1, "ImportInProgress");
        assert_eq!(progress(&sim), is("True", IN_PROGRESS));
        sim
    };
    // It is gone, and made again.
    let mut sim = going_on();
    sim.vanish(&import_of(1));
    once(&mut sim);
    assert_eq!((progress(&sim), said(&sim, UP_TO_DATE)), (is("False", NO_IMPORT), is("False", OUTDATED)));
    // Its source is not permitted any more.
    let mut sim = going_on();
    sim.change(&cron(), json!({"spec": {"serviceAccountName": "poller"}}));
    sim.settle();
    assert_eq!(
        (progress(&sim), said(&sim, UP_TO_DATE)),
        (is("False", NO_IMPORT), is("False", NOT_AUTHORIZED))
    );
    // The DataSource was taken by somebody.
    let mut sim = going_on();
    sim.put(Kind::DataSource, json!({"metadata": {"namespace": "n", "name": "os"}, "spec": {"source": {}}}));
    sim.settle();
    assert_eq!((progress(&sim), said(&sim, UP_TO_DATE)), (is("False", NO_IMPORT), is("False", NO_IMPORT)));
    // The next one waits for it, and says how it goes on.
    let mut sim = Sim::new();
    put(&mut sim, json!({}));
    moves(&mut sim, 1);
    ends(&mut sim, 1, "ImportScheduled");
    moves(&mut sim, 2);
    ends(&mut sim, 1, "ImportInProgress");
    assert_eq!((progress(&sim), said(&sim, UP_TO_DATE)), (is("True", IN_PROGRESS), is("False", OUTDATED)));
}

#[test]
fn an_import_that_cannot_be_made_is_said_and_tried_again_at_its_time() {
    let mut sim = Sim::new();
    put(&mut sim, json!({}));
    let retry = in_seconds(&sim, 30).unwrap();
    let refused =
        |about: Attempt| Failure { about, message: "exceeded quota: small".to_owned(), times: 1, retry };
    sim.world.failures.insert(cron(), refused(Attempt::Make(Kind::DataVolume)));
    image_is(&mut sim, &cron(), Ok(&digest(1)));
    sim.settle();
    assert_eq!(imports(&sim), []);
    let (_, reason, message) = sim.condition(&cron(), UP_TO_DATE).unwrap();
    assert!(reason == OUTDATED && message.ends_with("cannot be created: exceeded quota: small"), "{message}");
    assert_eq!(once(&mut sim).again, Some(retry));
    sim.advance(30);
    sim.settle();
    assert_eq!(imports(&sim), [import_of(1)]);
    // What was refused of something else is no reason.
    let mut sim = Sim::new();
    put(&mut sim, json!({}));
    sim.world.failures.insert(cron(), refused(Attempt::Make(Kind::Pod)));
    image_is(&mut sim, &cron(), Ok(&digest(1)));
    sim.settle();
    assert_eq!(imports(&sim), [import_of(1)]);
}
