//! The installation from its first object to its end, as stories.

mod unwanted;

use crate::sim::{Sim, door, vm, vmi};
use cluster_client::error::ErrorKind;
use cluster_model::objects::{Attempt, Failure, Key, Kind, REMOVED};
use cluster_model::plan::Step;
use jiff::SignedDuration;
use serde_json::{Value, json};

fn begin() -> (Sim, Key) {
    let mut sim = Sim::empty();
    let key = Key::new(Kind::KubeVirt, "kubevirt", "kubevirt");
    let plan = crate::decide(&sim.world, &key, sim.now);
    sim.apply(plan);
    sim.settle();
    (sim, key)
}

#[test]
fn whoever_has_not_heard_yet_why_it_is_gone_asks() {
    let mut sim = Sim::empty();
    let unaware = super::create_if_missing(&sim.world);
    assert!(!unaware.is_empty());
    sim.put(Kind::ConfigMap, json!({"metadata": {"namespace": "kubevirt", "name": REMOVED}}));
    sim.apply(unaware);
    assert!(sim.keys(Kind::KubeVirt).is_empty(), "it was taken away");
}

fn component(name: &str, kind: Kind, wanted: u32, ready: u32) -> Value {
    let names = match kind {
        Kind::DaemonSet => ["desiredNumberScheduled", "numberReady", "updatedNumberScheduled"],
        _ => ["replicas", "readyReplicas", "updatedReplicas"],
    };
    let mut object = json!({
        "metadata": {"namespace": "kubevirt", "name": name},
        "spec": {"replicas": wanted},
        "status": {"observedGeneration": 1},
    });
    for (name, value) in names.into_iter().zip([wanted, ready, wanted]) {
        object["status"][name] = json!(value);
    }
    object
}

/// The webhooks, and the APIServices, are there or are not.
fn webhooks(sim: &mut Sim, there: bool) {
    for (kind, name) in [
        (Kind::MutatingWebhookConfiguration, "virt-api-mutator"),
        (Kind::ValidatingWebhookConfiguration, "virt-api-validator"),
        (Kind::MutatingWebhookConfiguration, "virt-api-cdi-mutator"),
        (Kind::ValidatingWebhookConfiguration, "virt-api-cdi-validator"),
        (Kind::APIService, "v1.subresources.kubevirt.io"),
        (Kind::APIService, "v1alpha3.subresources.kubevirt.io"),
    ] {
        let (label, value) = cluster_model::issue::LABEL;
        match there {
            true => drop(sim.put(kind, json!({"metadata": {"name": name, "labels": {label: value}}}))),
            false => sim.vanish(&Key::new(kind, "", name)),
        }
    }
}

#[test]
fn an_installation_is_available_when_all_of_it_is_ready() {
    let (mut sim, key) = begin();
    assert_eq!(sim.get(&key)["metadata"]["finalizers"], json!(["foregroundDeleteKubeVirt"]));
    assert_eq!(sim.condition(&key, "Available").unwrap().0, "True", "outside of a cluster nobody else tells");
    let writes = sim.writes;
    sim.settle();
    assert_eq!(sim.writes, writes);

    sim.put(Kind::Deployment, component("virt-controller", Kind::Deployment, 2, 2));
    sim.put(Kind::Deployment, component("virt-api", Kind::Deployment, 2, 1));
    sim.settle();
    let (status, _, said) = sim.condition(&key, "Available").unwrap();
    assert_eq!(
        (status.as_str(), said.as_str()),
        ("False", "virt-api: 1 of 2 are ready; virt-handler does not exist")
    );
    assert_eq!(sim.condition(&key, "Degraded").unwrap().0, "True");
    assert_eq!(sim.get(&key)["status"]["phase"], "Deployed", "it was");
    sim.put(Kind::Deployment, component("virt-api", Kind::Deployment, 2, 2));
    // Placed where no node is, it would look after no guest.
    sim.put(Kind::DaemonSet, component("virt-handler", Kind::DaemonSet, 0, 0));
    sim.settle();
    let (status, _, said) = sim.condition(&key, "Available").unwrap();
    assert_eq!(status, "False");
    assert!(said.starts_with("virt-handler has no pods"), "{said}");
    let mut there = component("virt-handler", Kind::DaemonSet, 1, 1);
    there["status"]["observedGeneration"] = json!(2);
    sim.put(Kind::DaemonSet, there);
    sim.settle();
    assert_eq!(sim.condition(&key, "Available").unwrap().0, "True");
    assert_eq!(sim.condition(&key, "Progressing").unwrap().0, "False");
}

#[test]
fn a_setting_without_effect_is_named_until_it_is_gone() {
    let (mut sim, key) = begin();
    assert_eq!(sim.condition(&key, "SettingsServed").unwrap().0, "True");
    sim.change(
        &key,
        json!({"spec": {"imageTag": "a", "configuration": {"evictionStrategy": "Run", "cpuModel": "host-model"}}}),
    );
    sim.settle();
    let (status, reason, said) = sim.condition(&key, "SettingsServed").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "FieldsWithoutEffect"));
    assert_eq!(
        said,
        "spec.imageTag: no effect, the manifests name the images; spec.configuration.evictionStrategy: no effect, \
         \"Run\" is not supported; supported are None, LiveMigrate, LiveMigrateIfPossible, External."
    );
    assert_eq!(sim.condition(&key, "Available").unwrap().0, "True", "it works all the same");
    let writes = sim.writes;
    sim.advance(3600);
    sim.settle();
    assert_eq!(sim.writes, writes, "it is said once");
    sim.change(&key, json!({"spec": {"imageTag": null, "configuration": {"evictionStrategy": "None"}}}));
    sim.settle();
    assert_eq!(sim.condition(&key, "SettingsServed").unwrap().0, "True");
}

/// The ConfigMap of an older guide.
fn older_guide(sim: &mut Sim, data: &Value) -> Key {
    let metadata = json!({"namespace": "kubevirt", "name": "kubevirt-config"});
    sim.put(Kind::ConfigMap, json!({"metadata": metadata, "data": data}))
}

#[test]
fn settings_of_an_older_guide_are_taken_and_the_object_wins() {
    let (mut sim, key) = begin();
    sim.change(&key, json!({"spec": {"configuration": {"cpuModel": "host-passthrough"}}}));
    let data = json!({
        "debug.useEmulation": "true", "feature-gates": "DataVolumes,Snapshot,HostDisk",
        "default-cpu-model": "Haswell", "migrations": "parallelMigrationsPerCluster: 5", "memory-overcommit": "much",
    });
    let map = older_guide(&mut sim, &data);
    sim.settle();
    let configuration = sim.get(&key)["spec"]["configuration"].clone();
    let developer = json!({"useEmulation": true, "featureGates": ["DataVolumes", "Snapshot", "HostDisk"]});
    assert_eq!(configuration, json!({"cpuModel": "host-passthrough", "developerConfiguration": developer}));
    assert!(sim.world.config().use_emulation, "it has an effect");
    let (status, _, said) = sim.condition(&key, "SettingsServed").unwrap();
    assert_eq!(status, "False");
    for part in [
        "featureGates: no effect, \"Snapshot\": VMs have no snapshots yet",
        "ConfigMap kubevirt-config, key default-cpu-model: no effect, the KubeVirt object decides, by \
         spec.configuration.cpuModel",
        "key migrations: no effect, it is not read from a ConfigMap; the field of today is spec.configuration.migrations",
        "key memory-overcommit: no effect, \"much\" is not a number",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let events = |sim: &Sim| sim.reasons().iter().filter(|reason| **reason == "SettingsTaken").count();
    assert_eq!(events(&sim), 1);
    let writes = sim.writes;
    sim.advance(3600);
    sim.settle();
    assert_eq!((sim.writes, events(&sim)), (writes, 1), "it is said once");
    // The KubeVirt object says otherwise.
    sim.change(&key, json!({"spec": {"configuration": {"developerConfiguration": {"useEmulation": false}}}}));
    sim.settle();
    assert!(!sim.world.config().use_emulation);
    // The settings stay when the ConfigMap goes, and its keys are not named any more.
    sim.delete(&map);
    sim.settle();
    let developer = &sim.get(&key)["spec"]["configuration"]["developerConfiguration"];
    assert_eq!(developer["featureGates"], json!(["DataVolumes", "Snapshot", "HostDisk"]));
    let (_, _, said) = sim.condition(&key, "SettingsServed").unwrap();
    assert!(!said.contains("kubevirt-config") && events(&sim) == 1, "{said}");
}

/// The object has a value that virt-api permits no more: it is judged with the next change of the spec.
#[test]
fn settings_that_cannot_be_taken_are_named_and_hold_nothing_else_up() {
    let (mut sim, key) = begin();
    older_guide(&mut sim, &json!({"debug.useEmulation": "true"}));
    sim.put(Kind::Deployment, component("virt-api", Kind::Deployment, 2, 1));
    sim.wire.locks = Some(Kind::KubeVirt);
    let plan = crate::decide(&sim.world, &key, sim.now);
    let (about, error) = door::carry_out(&mut sim, plan).failed.expect("the change is refused");
    let about = about.expect("it is told");
    assert_eq!(about, Attempt::Make(Kind::KubeVirt));
    assert_eq!(sim.condition(&key, "Available").unwrap().0, "False", "the status is written before");
    let retry = sim.now + SignedDuration::from_secs(30);
    sim.world.failures.insert(key.clone(), Failure { about, message: error.to_string(), times: 1, retry });
    // A refused plan would end the test: nothing is tried before its time.
    sim.settle();
    let (status, _, said) = sim.condition(&key, "SettingsServed").unwrap();
    let why = "ConfigMap kubevirt-config: no effect, its settings cannot be written into this object: ";
    assert!(status == "False" && said.starts_with(why) && said.contains("it is locked"), "{said}");
    assert_eq!(crate::decide(&sim.world, &key, sim.now).again, Some(retry));
    let events = |sim: &Sim| sim.reasons().iter().filter(|reason| **reason == "SettingsTaken").count();
    assert_eq!(events(&sim), 0);
    sim.wire.locks = None;
    sim.advance(30);
    sim.settle();
    assert!(sim.world.config().use_emulation);
    assert_eq!((sim.condition(&key, "SettingsServed").unwrap().0.as_str(), events(&sim)), ("True", 1));
}

/// Another client is quicker: the event comes with the settings, not before.
#[test]
fn settings_that_are_taken_later_are_told_then() {
    let (mut sim, key) = begin();
    older_guide(&mut sim, &json!({"debug.useEmulation": "true"}));
    sim.put(Kind::Deployment, component("virt-api", Kind::Deployment, 2, 1));
    let plan = crate::decide(&sim.world, &key, sim.now);
    let [
        Step::Patch { part: Some("status"), .. },
        ..,
        Step::Patch { part: None, .. },
        Step::RecordEvent(event),
    ] = plan.steps.as_slice()
    else {
        panic!("{plan:?}")
    };
    assert_eq!(event.reason, "SettingsTaken");
    sim.change(&key, json!({"metadata": {"labels": {"a": "b"}}}));
    let (_, error) = door::carry_out(&mut sim, plan).failed.expect("it has changed");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let is_told = |sim: &Sim| sim.reasons().iter().any(|reason| *reason == "SettingsTaken");
    assert!(!is_told(&sim));
    sim.settle();
    assert!(is_told(&sim) && sim.world.config().use_emulation);
}

#[test]
fn the_config_map_of_another_namespace_is_not_read() {
    let (mut sim, key) = begin();
    let metadata = json!({"namespace": "n", "name": "kubevirt-config"});
    sim.put(Kind::ConfigMap, json!({"metadata": metadata, "data": {"debug.useEmulation": "true"}}));
    sim.settle();
    assert_eq!(sim.get(&key)["spec"], json!({}));
    assert_eq!(sim.condition(&key, "SettingsServed").unwrap().0, "True");
}

#[test]
fn it_takes_vms_and_webhooks_along_and_is_not_made_again() {
    let (mut sim, key) = begin();
    webhooks(&mut sim, true);
    sim.put(Kind::VirtualMachine, vm("web", "Always"));
    let alone = sim.put(Kind::VirtualMachineInstance, vmi("alone"));
    sim.boot(&Key::new(Kind::VirtualMachineInstance, "n", "web"));
    sim.boot(&alone);
    sim.delete(&key);
    sim.settle();
    assert_eq!(sim.get(&key)["status"]["phase"], "Deleting");
    let said = sim.condition(&key, "Progressing").unwrap();
    assert!(said.0 == "True" && said.2.contains("VirtualMachine n/web"), "{said:?}");
    for name in ["web", "alone"] {
        let vmi = Key::new(Kind::VirtualMachineInstance, "n", name);
        assert!(!sim.get(&vmi)["metadata"]["deletionTimestamp"].is_null(), "{name} is asked to end");
        let pod = sim.pod_of(&vmi).unwrap();
        assert!(sim.get(&pod)["metadata"]["deletionTimestamp"].is_null(), "and has its time");
        sim.agent_says(&vmi, "Succeeded");
        sim.settle();
        sim.pod_ends(&pod, "Succeeded", 0);
        sim.settle();
    }
    assert!(
        sim.objects
            .keys()
            .all(|key| !matches!(key.kind, Kind::VirtualMachine | Kind::VirtualMachineInstance))
    );
    webhooks(&mut sim, false);
    sim.settle();
    assert!(!sim.objects.contains_key(&key), "{:?}", sim.objects.get(&key));
    assert!(sim.objects.contains_key(&Key::new(Kind::ConfigMap, "kubevirt", "kubevirt-removed")));
    assert!(crate::decide(&sim.world, &key, sim.now).is_empty(), "nobody wants it any more");
    // Somebody does.
    sim.put(Kind::KubeVirt, crate::sim::kubevirt(json!({})));
    sim.settle();
    assert!(!sim.objects.contains_key(&Key::new(Kind::ConfigMap, "kubevirt", "kubevirt-removed")));
    assert_eq!(sim.get(&key)["status"]["phase"], "Deployed");
}

#[test]
fn it_is_blocked_by_vms_where_its_strategy_says_so() {
    let (mut sim, key) = begin();
    sim.change(&key, json!({"spec": {"uninstallStrategy": "BlockUninstallIfWorkloadsExist"}}));
    let vm = sim.put(Kind::VirtualMachine, vm("web", "Halted"));
    sim.settle();
    sim.delete(&key);
    sim.settle();
    assert!(sim.get(&vm)["metadata"]["deletionTimestamp"].is_null());
    let (status, reason, said) = sim.condition(&key, "Progressing").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "WorkloadsExist"));
    assert!(said.contains("VirtualMachine n/web exist"), "{said}");
    assert_eq!(sim.reasons().iter().filter(|reason| **reason == "WorkloadsExist").count(), 1);
    let writes = sim.writes;
    sim.advance(3600);
    sim.settle();
    assert_eq!(sim.writes, writes);
    sim.delete(&vm);
    sim.settle();
    assert!(!sim.objects.contains_key(&vm));
    sim.settle();
    assert!(!sim.objects.contains_key(&key));
}
