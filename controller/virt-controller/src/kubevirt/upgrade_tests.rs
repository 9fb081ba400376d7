//! An installation that comes, and one that is replaced by a newer one, as stories.

use crate::sim::Sim;
use cluster_model::objects::{Key, Kind};
use serde_json::{Value, json};

const DEPLOYMENTS: [&str; 2] = ["virt-controller", "virt-api"];

/// A Deployment of two pods, or a DaemonSet of two nodes: of a version, with so many pods that are new, and that are ready.
fn put(sim: &mut Sim, name: &str, version: &str, new: u64, ready: u64) {
    let notes = json!({
        "kubevirt.io/install-strategy-version": version,
        "kubevirt.io/install-strategy-registry": format!("registry.example/{version}"),
    });
    let mut object = json!({
        "metadata": {"namespace": "kubevirt", "name": name, "annotations": notes},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": 1},
    });
    let (kind, names) = match name {
        "virt-handler" => {
            let names =
                ["desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberReady"];
            (Kind::DaemonSet, names)
        }
        _ => (Kind::Deployment, ["unavailableReplicas", "replicas", "updatedReplicas", "readyReplicas"]),
    };
    for (name, value) in names.into_iter().zip([2, 2, new, ready]) {
        object["status"][name] = json!(value);
    }
    sim.put(kind, object);
    sim.settle();
}

fn begin() -> (Sim, Key) {
    let mut sim = Sim::empty();
    let key = Key::new(Kind::KubeVirt, "kubevirt", "kubevirt");
    for name in DEPLOYMENTS {
        put(&mut sim, name, "1.0.0", 2, 2);
    }
    let plan = crate::decide(&sim.world, &key, sim.now);
    sim.apply(plan);
    sim.settle();
    (sim, key)
}

fn status<'a>(sim: &'a Sim, key: &Key, field: &str) -> &'a Value {
    &sim.get(key)["status"][field]
}

#[test]
fn nothing_is_observed_before_every_component_is_ready() {
    let (mut sim, key) = begin();
    assert_eq!(status(&sim, &key, "phase"), "Deploying");
    assert_eq!(status(&sim, &key, "targetKubeVirtVersion"), "1.0.0");
    assert_eq!(status(&sim, &key, "operatorVersion"), "1.0.0");
    for field in [
        "observedKubeVirtVersion",
        "observedKubeVirtRegistry",
        "observedGeneration",
        "observedDeploymentID",
        "observedDeploymentConfig",
    ] {
        assert!(status(&sim, &key, field).is_null(), "{field}: virt-handler is not there");
    }
    put(&mut sim, "virt-handler", "1.0.0", 2, 1);
    assert!(status(&sim, &key, "observedKubeVirtVersion").is_null(), "it is not ready on a node");
    put(&mut sim, "virt-handler", "1.0.0", 2, 2);
    assert_eq!(status(&sim, &key, "phase"), "Deployed");
    assert_eq!(status(&sim, &key, "observedKubeVirtVersion"), "1.0.0");
    assert_eq!(status(&sim, &key, "observedKubeVirtRegistry"), "registry.example/1.0.0");
    assert_eq!(status(&sim, &key, "observedGeneration"), 1);
    let generations = status(&sim, &key, "generations").as_array().unwrap();
    let names: Vec<&str> = generations.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["virt-controller", "virt-api", "virt-handler"]);
    let handler = json!({
        "group": "apps", "resource": "daemonsets", "namespace": "kubevirt", "name": "virt-handler", "lastGeneration": 1,
    });
    assert_eq!(generations[2], handler);
}

#[test]
fn a_newer_version_is_observed_when_every_component_has_it() {
    let (mut sim, key) = begin();
    put(&mut sim, "virt-handler", "1.0.0", 2, 2);
    put(&mut sim, "virt-controller", "2.0.0", 2, 2);
    let versions = |sim: &Sim| {
        let of = |field| status(sim, &key, field).as_str().unwrap_or_default().to_owned();
        (of("observedKubeVirtVersion"), of("targetKubeVirtVersion"), of("phase"))
    };
    let way = |phase: &str| ("1.0.0".to_owned(), "2.0.0".to_owned(), phase.to_owned());
    assert_eq!(versions(&sim), way("Deploying"));
    let (progressing, reason, said) = sim.condition(&key, "Progressing").unwrap();
    assert_eq!((progressing.as_str(), reason.as_str()), ("True", "UpdateInProgress"));
    assert_eq!(
        said,
        "Transitioning from version 1.0.0 to 2.0.0: virt-api is of version 1.0.0, not 2.0.0; virt-handler is of version \
         1.0.0, not 2.0.0."
    );
    assert_eq!(sim.condition(&key, "Available").unwrap().0, "True", "the pods of before answer");
    put(&mut sim, "virt-api", "2.0.0", 0, 0);
    assert_eq!(sim.condition(&key, "Available").unwrap().0, "False", "none does");
    put(&mut sim, "virt-api", "2.0.0", 2, 2);
    // The manifests are there; on one node the pod is the one of before.
    put(&mut sim, "virt-handler", "2.0.0", 1, 2);
    assert_eq!(versions(&sim), way("Deploying"));
    let said = sim.condition(&key, "Progressing").unwrap().2;
    assert!(said.ends_with("virt-handler: 1 of 2 are ready."), "{said}");
    put(&mut sim, "virt-handler", "2.0.0", 2, 2);
    let new = "2.0.0".to_owned();
    assert_eq!(versions(&sim), (new.clone(), new, "Deployed".to_owned()));
    assert_eq!(sim.condition(&key, "Progressing").unwrap().0, "False");
    // A pod that is missing for a while is no update.
    put(&mut sim, "virt-api", "2.0.0", 2, 1);
    assert_eq!(status(&sim, &key, "phase"), "Deployed");
    assert_eq!(sim.condition(&key, "Available").unwrap().1, "DeploymentInProgress");
}

#[test]
fn a_setting_is_observed_when_every_component_is_ready() {
    let (mut sim, key) = begin();
    put(&mut sim, "virt-handler", "1.0.0", 2, 2);
    put(&mut sim, "virt-api", "1.0.0", 2, 1);
    sim.change(&key, json!({"spec": {"configuration": {"cpuModel": "host-model"}}}));
    sim.settle();
    assert_eq!(status(&sim, &key, "observedGeneration"), 1);
    put(&mut sim, "virt-api", "1.0.0", 2, 2);
    assert_eq!(status(&sim, &key, "observedGeneration"), 2);
}

#[test]
fn a_component_that_says_no_version_is_not_of_the_new_one() {
    let (mut sim, key) = begin();
    put(&mut sim, "virt-handler", "1.0.0", 2, 2);
    let handler = Key::new(Kind::DaemonSet, "kubevirt", "virt-handler");
    sim.change(&handler, json!({"metadata": {"annotations": null}}));
    sim.settle();
    let (status, _, said) = sim.condition(&key, "Available").unwrap();
    assert_eq!((status.as_str(), said.as_str()), ("False", "virt-handler is of version none, not 1.0.0"));
}

/// As Terraform and operators wait for it: the target is another at once, and is observed when all have it.
#[test]
fn an_upgrade_has_another_deployment_id_and_nothing_else_has() {
    let (mut sim, key) = begin();
    put(&mut sim, "virt-handler", "1.0.0", 2, 2);
    let said = |sim: &Sim, field: &str| status(sim, &key, field).as_str().unwrap_or_default().to_owned();
    let first = said(&sim, "targetDeploymentID");
    assert!(!first.is_empty());
    assert_eq!(said(&sim, "observedDeploymentID"), first);
    let config: Value = serde_json::from_str(&said(&sim, "observedDeploymentConfig")).unwrap();
    let expected = json!({
        "id": first, "namespace": "kubevirt", "registry": "registry.example/1.0.0", "kubeVirtVersion": "1.0.0",
    });
    assert_eq!(config, expected);
    sim.change(&key, json!({"spec": {"configuration": {"evictionStrategy": "None"}}}));
    put(&mut sim, "virt-controller", "1.0.0", 2, 1);
    assert_eq!(said(&sim, "targetDeploymentID"), first, "settings and pods are none of it");
    for name in ["virt-handler", "virt-controller"] {
        put(&mut sim, name, "2.0.0", 2, 2);
    }
    let second = said(&sim, "targetDeploymentID");
    assert_ne!(second, first);
    assert_eq!(said(&sim, "observedDeploymentID"), first, "virt-api is not replaced yet");
    put(&mut sim, "virt-api", "2.0.0", 2, 2);
    assert_eq!(said(&sim, "observedDeploymentID"), second);
    assert!(said(&sim, "observedDeploymentConfig").contains("\"kubeVirtVersion\":\"2.0.0\""));
    // Images by their digests: the version alone tells nothing.
    let images = json!({"kubevirt.io/install-strategy-images": "registry.example/virt-controller@sha256:0"});
    let controller = Key::new(Kind::Deployment, "kubevirt", "virt-controller");
    sim.change(&controller, json!({"metadata": {"annotations": images}}));
    sim.settle();
    assert_ne!(said(&sim, "targetDeploymentID"), second);
}
