//! What importer pods are told about registries, and what the node pulls for them.

use super::tests::{bound, class, said};
use crate::sim::others::{worker_runs, worker_says};
use crate::sim::{Sim, data_volume};
use api::cdi::served::PROXY_AUTHORITIES;
use api::job::{Import, Registry, Report, Source, Stage};
use cluster_model::objects::{Key, Kind};
use cluster_model::worker::{REGISTRIES, TOLD};
use serde_json::{Value, json};

const HOST: &str = "registry.local:5000";

fn disk() -> Key {
    Key::new(Kind::DataVolume, "n", "disk")
}

fn pod() -> Key {
    Key::new(Kind::Pod, "n", "importer-disk")
}

/// A cluster, and a DataVolume from a registry whose PVC is bound.
fn with(more: &Value, prepare: impl FnOnce(&mut Sim)) -> Sim {
    let mut sim = Sim::new();
    class(&mut sim, "Immediate");
    prepare(&mut sim);
    let mut registry = json!({"url": format!("DOCKER://{HOST}/os:1")});
    cluster_model::plan::merge(&mut registry, more);
    sim.put(Kind::DataVolume, data_volume("disk", json!({"registry": registry})));
    sim.settle();
    bound(&mut sim);
    sim.settle();
    sim
}

fn insecure(sim: &mut Sim, hosts: &[&str]) {
    sim.put(Kind::CDIConfig, json!({"metadata": {"name": "config"}, "spec": {"insecureRegistries": hosts}}));
}

fn mirrors(sim: &mut Sim, text: &str) {
    let meta = json!({"namespace": "kubevirt", "name": REGISTRIES});
    sim.put(Kind::ConfigMap, json!({"metadata": meta, "data": {"registries.toml": text, "corp.pem": "PEM"}}));
}

fn job(sim: &Sim) -> Import {
    let env = &sim.get(&pod())["spec"]["containers"][0]["env"];
    serde_json::from_str(env[0]["value"].as_str().unwrap()).unwrap()
}

fn registry(sim: &Sim) -> Registry {
    match job(sim).source {
        Source::Registry(registry) => registry,
        other => panic!("{other:?}"),
    }
}

/// The worker runs, and says this.
fn reports(sim: &mut Sim, stage: Stage) {
    worker_runs(sim, &pod(), true);
    let report = Report { stage, message: "no safe connection".into(), ..Report::default() };
    worker_says(sim, &pod(), report);
}

#[test]
fn a_registry_that_is_listed_may_be_asked_without_tls_and_no_other() {
    for (hosts, wanted) in [
        (&["Registry.local:5000"][..], true),
        (&["registry.local", "local:5000", "registry.local:50001"], false),
        (&[], false),
    ] {
        let sim = with(&json!({}), |sim| insecure(sim, hosts));
        let told = registry(&sim);
        assert_eq!(
            (told.insecure, told.url.as_str()),
            (wanted, "docker://registry.local:5000/os:1"),
            "{hosts:?}"
        );
        assert_eq!(sim.get(&pod())["metadata"]["annotations"][TOLD].is_string(), wanted);
    }
}

#[test]
fn the_settings_of_the_installation_reach_the_pod_and_those_of_others_do_not() {
    let sim = with(&json!({}), |sim| {
        mirrors(sim, "[host.a]");
        let meta = json!({"namespace": "n", "name": REGISTRIES});
        sim.put(Kind::ConfigMap, json!({"metadata": meta, "data": {"registries.toml": "[host.evil]"}}));
    });
    let settings = registry(&sim).settings;
    assert_eq!(settings.get("registries.toml").map(String::as_str), Some("[host.a]"));
    assert_eq!(settings.get("corp.pem").map(String::as_str), Some("PEM"));
}

#[test]
fn settings_that_are_too_large_are_told_and_the_pod_is_made_when_they_are_not() {
    let mut sim = with(&json!({}), |sim| mirrors(sim, &"\n".repeat(40 << 10)));
    assert!(!sim.objects.contains_key(&pod()));
    let (is, reason, message) = said(&sim, "Running");
    assert_eq!((is.as_str(), reason.as_str()), ("False", "RegistriesNotValid"));
    assert!(message.contains(REGISTRIES) && message.contains("49152"), "{message}");
    mirrors(&mut sim, "");
    sim.settle();
    assert!(sim.objects.contains_key(&pod()), "{:?}", said(&sim, "Running"));
}

/// A pod has what it was told when it was made: one that waits goes when it would be told something else.
#[test]
fn a_pod_that_waits_is_replaced_when_the_settings_change_and_one_that_works_is_not() {
    let mut sim = with(&json!({}), |_| {});
    reports(&mut sim, Stage::Waiting);
    let uid = |sim: &Sim| sim.objects.get(&pod()).map(|pod| pod["metadata"]["uid"].clone());
    let first = uid(&sim).expect("a pod that waits stays");
    insecure(&mut sim, &["another:5000"]);
    sim.settle();
    assert_eq!(uid(&sim).as_ref(), Some(&first), "that is said of another registry");
    insecure(&mut sim, &[HOST]);
    for _ in 0..4 {
        sim.settle();
        sim.advance(5);
    }
    sim.settle();
    let second = uid(&sim).expect("the next pod");
    assert!(second != first && registry(&sim).insecure);
    assert!(sim.get(&disk())["status"]["restartCount"].as_i64().unwrap_or(0) == 0, "nothing broke off");
    reports(&mut sim, Stage::Moving);
    mirrors(&mut sim, "[host.a]");
    sim.settle();
    assert_eq!(uid(&sim), Some(second), "it moves bytes");
}

#[test]
fn the_node_pulls_an_image_with_the_secret_and_the_pod_reads_it_in_place() {
    let more = json!({"pullMethod": "node", "secretRef": "login", "certConfigMap": "ca",
        "platform": {"architecture": "arm64"}});
    let sim = with(&more, |sim| {
        insecure(sim, &[HOST]);
        mirrors(sim, "[host.a]");
    });
    let Source::Mounted(image) = job(&sim).source else { panic!("{:?}", job(&sim)) };
    assert_eq!(image.folder.to_str(), Some("/image"));
    let made = sim.get(&pod());
    let volumes = made["spec"]["volumes"].as_array().unwrap();
    let reference = json!({"reference": "registry.local:5000/os:1"});
    assert!(volumes.contains(&json!({"name": "cdi-image-vol", "image": reference})), "{volumes:?}");
    assert!(!volumes.iter().any(|volume| volume["secret"].is_object() || volume["configMap"].is_object()));
    let mounts = made["spec"]["containers"][0]["volumeMounts"].as_array().unwrap();
    let mount = json!({"name": "cdi-image-vol", "mountPath": "/image", "readOnly": true});
    assert!(mounts.contains(&mount), "{mounts:?}");
    assert_eq!(made["spec"]["imagePullSecrets"], json!([{"name": "login"}]));
    assert_eq!(made["spec"]["nodeSelector"]["kubernetes.io/arch"], "arm64");
    assert!(made["metadata"]["annotations"][TOLD].is_null(), "the node has its own settings");
}

#[test]
fn without_image_volumes_it_is_told_why_and_the_pod_is_made_when_there_are() {
    let old = json!({"metadata": {"name": "old", "labels": {"kubevirt.io/schedulable": "true"}},
        "status": {"nodeInfo": {"kubeletVersion": "v1.32.0", "containerRuntimeVersion": "containerd://2.0.0"}}});
    let node = json!({"pullMethod": "node"});
    let mut sim = with(&node, |sim| sim.world.facts.image_volumes = false);
    assert!(!sim.objects.contains_key(&pod()));
    assert!(
        said(&sim, "Running").2.contains("the API server does not know them"),
        "{:?}",
        said(&sim, "Running")
    );
    sim.world.facts.image_volumes = true;
    sim.advance(60);
    sim.settle();
    assert!(sim.objects.contains_key(&pod()), "{:?}", said(&sim, "Running"));
    let sim = with(&node, |sim| drop(sim.put(Kind::Node, old)));
    assert_eq!(said(&sim, "Running").1, "ImageVolumesMissing");
    assert!(said(&sim, "Running").2.contains("containerd 2.1"), "{:?}", said(&sim, "Running"));
}

#[test]
fn an_image_that_cannot_be_pulled_is_told_by_its_own_name() {
    let mut sim = with(&json!({"pullMethod": "node"}), |_| {});
    let waits = |message: &str| {
        let waiting = json!({"reason": "ErrImagePull", "message": message});
        json!({"status": {"phase": "Pending", "containerStatuses": [{"name": "importer", "state": {"waiting": waiting}}]}})
    };
    for (message, wanted) in [
        (
            "failed to pull registry.local:5000/os:1: denied",
            "failed to pull registry.local:5000/os:1: denied",
        ),
        ("denied", "denied: registry.local:5000/os:1 or registry.example/cdi-worker:1"),
    ] {
        sim.change(&pod(), waits(message));
        sim.settle();
        assert_eq!(said(&sim, "Running"), ("False".into(), "ImagePullFailed".into(), wanted.into()));
    }
}

/// The scheduler's own troubles with writing are over at its next try.
#[test]
fn an_error_inside_the_scheduler_is_no_reason() {
    let mut sim = with(&json!({}), |_| {});
    let conflict =
        "Operation cannot be fulfilled on persistentvolumeclaims \"disk\": the object has been modified";
    for (reason, is_told) in [("SchedulerError", false), ("Unschedulable", true)] {
        let condition =
            json!({"type": "PodScheduled", "status": "False", "reason": reason, "message": conflict});
        sim.change(&pod(), json!({"status": {"phase": "Pending", "conditions": [condition]}}));
        sim.settle();
        assert_eq!(said(&sim, "Running").2.contains(conflict), is_told, "{:?}", said(&sim, "Running"));
    }
}

/// The ConfigMap of the proxy's certificates, and the setting that names it.
fn proxy(sim: &mut Sim, named: &str, pem: Option<&str>) {
    let spec = json!({"importProxy": {"HTTPSProxy": "http://proxy:3128", "trustedCAProxy": named}});
    sim.put(Kind::CDIConfig, json!({"metadata": {"name": "config"}, "spec": spec}));
    if let Some(pem) = pem {
        let meta = json!({"namespace": "kubevirt", "name": PROXY_AUTHORITIES});
        sim.put(Kind::ConfigMap, json!({"metadata": meta, "data": {"ca.pem": pem}}));
    }
}

#[test]
fn the_certificates_of_the_proxy_come_with_the_pod() {
    const PEM: &str = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n";
    let told = |sim: &Sim, name: &str| {
        let env = sim.get(&pod())["spec"]["containers"][0]["env"].clone();
        let mut all = env.as_array().unwrap().clone().into_iter();
        all.find(|one| one["name"] == name).map(|one| one["value"].clone())
    };
    let mut sim = with(&json!({}), |sim| proxy(sim, PROXY_AUTHORITIES, Some(PEM)));
    assert_eq!(told(&sim, "CDI_PROXY_CA"), Some(json!(PEM)));
    assert_eq!(told(&sim, "SSL_CERT_FILE"), Some(json!("/tmp/authorities.pem")));
    assert!(sim.get(&pod())["metadata"]["annotations"][TOLD].is_string());
    // A pod that waits is replaced when they are others.
    let before = sim.get(&pod())["metadata"]["uid"].clone();
    reports(&mut sim, Stage::Waiting);
    proxy(&mut sim, PROXY_AUTHORITIES, Some(&PEM.replace("QQ", "Qg")));
    sim.settle();
    assert!(sim.objects.get(&pod()).is_none_or(|pod| pod["metadata"]["uid"] != before));
    // A name that is not read, and none at all: the condition of the CDI object tells of the first.
    for named in ["other", ""] {
        let sim = with(&json!({}), |sim| proxy(sim, named, Some(PEM)));
        assert_eq!(told(&sim, "CDI_PROXY_CA"), None, "{named}");
    }
    // What cannot be told makes no pod, and is said.
    let large = PEM.repeat(2000);
    for (pem, why) in
        [(None, "does not exist"), (Some("nothing"), "no certificate"), (Some(&*large), "too large")]
    {
        let sim = with(&json!({}), |sim| proxy(sim, PROXY_AUTHORITIES, pem));
        assert!(!sim.objects.contains_key(&pod()), "{why}");
        let (_, reason, message) = sim.condition(&disk(), "Running").unwrap();
        assert_eq!(reason, "RegistriesNotValid");
        assert!(message.contains(why) && message.contains(PROXY_AUTHORITIES), "{message}");
    }
}
