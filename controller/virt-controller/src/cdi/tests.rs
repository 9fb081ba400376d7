//! The CDI object from its first day to its end, and another CDI operator beside it, as stories.

use super::*;
use crate::sim::{Sim, data_volume};
use cluster_model::objects::UPLOADS;
use serde_json::{Value, json};

fn key() -> Key {
    Key::new(Kind::CDI, "", "cdi")
}

fn kubevirt() -> Key {
    Key::new(Kind::KubeVirt, "kubevirt", "kubevirt")
}

fn note_key() -> Key {
    Key::new(Kind::ConfigMap, "kubevirt", CDI_REMOVED)
}

/// An installation that has just begun.
fn begin() -> Sim {
    let mut sim = Sim::empty();
    sim.put(Kind::KubeVirt, crate::sim::kubevirt(json!({})));
    sim.settle();
    sim
}

fn volume(sim: &mut Sim, name: &str) -> Key {
    let key = sim.put(Kind::DataVolume, data_volume(name, json!({"http": {"url": "https://h/a"}})));
    sim.settle();
    if sim.objects.contains_key(&Key::new(Kind::PersistentVolumeClaim, "n", name)) {
        sim.bind(&Key::new(Kind::PersistentVolumeClaim, "n", name));
        sim.settle();
    }
    key
}

fn importer(name: &str) -> Key {
    Key::new(Kind::Pod, "n", format!("importer-{name}"))
}

fn is(sim: &Sim, key: &Key, kind: &str) -> (String, String) {
    let (status, reason, _) = sim.condition(key, kind).expect(kind);
    (status, reason)
}

fn both(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[test]
fn one_is_made_and_says_how_far_it_is() {
    let mut sim = begin();
    let status = sim.get(&key())["status"].clone();
    assert_eq!(status["phase"], "Deployed");
    for name in ["operatorVersion", "targetVersion", "observedVersion"] {
        assert_eq!(status[name], "1.0.0", "{name}");
    }
    assert_eq!(is(&sim, &key(), "Available"), both("True", "DeployCompleted"));
    assert_eq!(is(&sim, &key(), "Degraded"), both("False", "DeployCompleted"));
    assert_eq!(is(&sim, &kubevirt(), "DataVolumesServed"), both("True", "Served"));
    // A program that is not ready.
    let proxy = json!({
        "metadata": {"namespace": "kubevirt", "name": "cdi-uploadproxy"},
        "spec": {"replicas": 1}, "status": {"observedGeneration": 1, "readyReplicas": 0},
    });
    sim.put(Kind::Deployment, proxy);
    sim.settle();
    let (status, reason, message) = sim.condition(&key(), "Available").unwrap();
    assert_eq!((status, reason), both("False", "ComponentsNotReady"));
    assert!(message.contains("cdi-uploadproxy: 0 of 1 are ready"), "{message}");
}

#[test]
fn a_setting_without_an_effect_is_named() {
    let mut sim = begin();
    sim.change(&key(), json!({"spec": {"priorityClass": "p", "config": {"scratchSpaceStorageClass": "s"}}}));
    sim.settle();
    let (status, reason, message) = sim.condition(&key(), "SettingsServed").unwrap();
    assert_eq!((status, reason), both("False", "FieldsWithoutEffect"));
    for field in ["spec.priorityClass: ", "spec.config.scratchSpaceStorageClass: "] {
        assert!(message.contains(field), "{message}");
    }
    // The CDIConfig's own settings, where it has any.
    let mut sim = begin();
    let settings =
        json!({"metadata": {"name": CONFIG}, "spec": {"logVerbosity": 1, "dataVolumeTTLSeconds": 1}});
    sim.put(Kind::CDIConfig, settings);
    sim.settle();
    let (_, _, message) = sim.condition(&key(), "SettingsServed").unwrap();
    assert!(message.starts_with("CDIConfig config: spec.dataVolumeTTLSeconds: "), "{message}");
}

#[test]
fn its_settings_become_those_of_the_cdiconfig() {
    let settings = Key::new(Kind::CDIConfig, "", CONFIG);
    let decide = |sim: &mut Sim| {
        let mut plan = Plan::default();
        crate::certificates::config_for_tests(&sim.world, &mut plan);
        sim.apply(plan);
    };
    let mut sim = begin();
    sim.put(Kind::CDIConfig, json!({"metadata": {"name": CONFIG}, "spec": {"preallocation": true}}));
    decide(&mut sim);
    assert_eq!(sim.get(&settings)["spec"]["preallocation"], true, "it is the administrator's own");
    sim.change(&key(), json!({"spec": {"config": {"uploadProxyURLOverride": "https://up"}}}));
    decide(&mut sim);
    assert_eq!(sim.get(&settings)["spec"], json!({"uploadProxyURLOverride": "https://up"}));
    assert_eq!(sim.get(&settings)["status"]["uploadProxyURL"], "https://up");
    // With the annotation it says so without any.
    sim.change(
        &key(),
        json!({"metadata": {"annotations": {CONFIG_AUTHORITY: ""}}, "spec": {"config": null}}),
    );
    decide(&mut sim);
    assert_eq!(sim.get(&settings)["spec"], json!({}));
}

#[test]
fn a_second_one_is_in_error_and_the_first_counts() {
    let mut sim = begin();
    sim.advance(60);
    let second =
        sim.put(Kind::CDI, json!({"metadata": {"name": "a"}, "spec": {"cloneStrategyOverride": "copy"}}));
    sim.settle();
    assert_eq!(sim.get(&second)["status"]["phase"], "Error");
    assert_eq!(is(&sim, &second, "Degraded"), both("True", "UnwantedCDI"));
    assert_eq!(sim.get(&key())["status"]["phase"], "Deployed");
    assert_eq!(sim.world.disk_settings().clones, None);
    // It goes without taking anything along.
    sim.delete(&second);
    sim.settle();
    assert!(!sim.objects.contains_key(&second) && !sim.objects.contains_key(&note_key()));
    assert!(fills_disks(&sim.world));
}

#[test]
fn worker_pods_go_with_it_and_nobody_fills_disks_until_one_is_wanted_again() {
    let mut sim = begin();
    let first = volume(&mut sim, "a");
    assert!(sim.objects.contains_key(&importer("a")));
    sim.delete(&key());
    sim.settle();
    assert!(!sim.objects.contains_key(&importer("a")) && !sim.objects.contains_key(&key()));
    assert!(sim.objects.contains_key(&note_key()) && sim.objects.contains_key(&first));
    assert_eq!(is(&sim, &kubevirt(), "DataVolumesServed"), both("False", "CDIRemoved"));
    volume(&mut sim, "b");
    assert!(
        !sim.objects.contains_key(&Key::new(Kind::PersistentVolumeClaim, "n", "b")),
        "it is not made again"
    );
    sim.put(Kind::CDI, json!({"metadata": {"name": "cdi"}, "spec": {}}));
    sim.settle();
    assert!(!sim.objects.contains_key(&note_key()));
    assert_eq!(is(&sim, &kubevirt(), "DataVolumesServed"), both("True", "Served"));
    assert!(sim.objects.contains_key(&Key::new(Kind::PersistentVolumeClaim, "n", "b")));
}

#[test]
fn one_that_blocks_waits_for_datavolumes_which_are_filled_meanwhile() {
    let mut sim = begin();
    sim.change(&key(), json!({"spec": {"uninstallStrategy": "BlockUninstallIfWorkloadsExist"}}));
    let disk = volume(&mut sim, "a");
    sim.delete(&key());
    sim.settle();
    let (status, reason, message) = sim.condition(&key(), "Available").unwrap();
    assert_eq!((status, reason), both("False", "WorkloadsExist"));
    assert!(message.starts_with("DataVolume n/a exist, "), "{message}");
    assert_eq!(sim.get(&key())["status"]["phase"], "Deleting");
    assert!(sim.objects.contains_key(&importer("a")) && fills_disks(&sim.world));
    assert_eq!(sim.reasons().iter().filter(|reason| *reason == "WorkloadsExist").count(), 1);
    sim.vanish(&disk);
    sim.settle();
    assert!(!sim.objects.contains_key(&key()) && sim.objects.contains_key(&note_key()));
}

/// The signs of another operator, and their end.
#[test]
fn all_of_cdi_is_left_to_another_operator() {
    let service =
        |name: &str, namespace: &str| json!({"spec": {"service": {"name": name, "namespace": namespace}}});
    let api = Key::new(Kind::APIService, "", UPLOADS);
    let of_upstream = |sim: &mut Sim| {
        let mut object = service("cdi-api", "cdi");
        object["metadata"] = json!({"name": UPLOADS});
        sim.put(Kind::APIService, object);
    };
    let finalizer = |sim: &mut Sim| {
        let held = json!({"metadata": {"finalizers": [FINALIZER, "operator.cdi.kubevirt.io"]}});
        sim.change(&key(), held);
    };
    for (number, sign) in [&of_upstream as &dyn Fn(&mut Sim), &finalizer].into_iter().enumerate() {
        let mut sim = begin();
        let before = sim.get(&key())["status"].clone();
        sign(&mut sim);
        sim.settle();
        assert_eq!(
            is(&sim, &kubevirt(), "DataVolumesServed"),
            both("False", "CDIOperatorPresent"),
            "{number}"
        );
        assert_eq!(sim.reasons().iter().filter(|reason| *reason == "CDIOperatorPresent").count(), 1);
        let theirs = sim.get(&key()).clone();
        assert_eq!(theirs["status"], before, "{number}");
        assert!(
            !theirs["metadata"]["finalizers"].as_array().unwrap().contains(&json!(FINALIZER)),
            "{number}"
        );
        let disk = volume(&mut sim, "a");
        assert_eq!(sim.get(&disk)["status"], Value::Null, "{number}: it is another's");
        match number {
            0 => sim.change(&api, service("virt-api", "kubevirt")),
            _ => sim.change(&key(), json!({"metadata": {"finalizers": []}})),
        }
        sim.settle();
        assert_eq!(is(&sim, &kubevirt(), "DataVolumesServed"), both("True", "Served"), "{number}");
        assert!(!sim.get(&disk)["status"].is_null(), "{number}");
    }
}

#[test]
fn nobody_holds_it_when_the_installation_goes() {
    let mut sim = begin();
    assert_eq!(sim.get(&key())["metadata"]["finalizers"], json!([FINALIZER]));
    sim.delete(&kubevirt());
    sim.settle();
    assert!(!sim.objects.contains_key(&kubevirt()));
    assert_eq!(sim.get(&key())["metadata"]["finalizers"], json!([]));
    // And it is not made, where there is none.
    sim.delete(&key());
    sim.settle();
    assert_eq!(sim.keys(Kind::CDI), []);
}

#[test]
fn what_it_depends_on_touches_it() {
    let mut sim = begin();
    let disk = volume(&mut sim, "a");
    for other in
        [kubevirt(), key(), Key::new(Kind::CDIConfig, "", CONFIG), Key::new(Kind::APIService, "", UPLOADS)]
    {
        assert!(sim.world.dependents(&other).contains(&key()), "{other}");
    }
    for other in [key(), Key::new(Kind::APIService, "", UPLOADS), note_key()] {
        assert!(sim.world.dependents(&other).contains(&disk), "{other}");
    }
    sim.delete(&key());
    for other in [disk, importer("a")] {
        assert!(sim.world.dependents(&other).contains(&key()), "{other}");
    }
}
