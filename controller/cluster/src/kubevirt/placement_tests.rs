//! Where the components run, as stories.

use crate::sim::Sim;
use kubernetes::objects::{Failure, Key, Kind};
use kubernetes::placement::{PLACED, PRISTINE};
use serde_json::{Value, json};

/// A Deployment or a DaemonSet as it is installed.
fn installed(kind: Kind, name: &str, replicas: Option<u64>, pod: &Value) -> Value {
    let mut object = json!({
        "metadata": {"namespace": "kubevirt", "name": name},
        "spec": {"template": {"spec": pod}},
        "status": {"observedGeneration": 9},
    });
    if let Some(replicas) = replicas {
        object["spec"]["replicas"] = json!(replicas);
    }
    let names = match kind {
        Kind::DaemonSet => ["desiredNumberScheduled", "updatedNumberScheduled", "numberReady"],
        _ => ["replicas", "updatedReplicas", "readyReplicas"],
    };
    for status in names {
        object["status"][status] = json!(9);
    }
    let pristine = Value::Object(kubernetes::placement::of(&object)).to_string();
    object["metadata"]["annotations"] = json!({PRISTINE: pristine});
    object
}

fn begin() -> (Sim, Key) {
    let mut sim = Sim::bare();
    let key = Key::new(Kind::KubeVirt, "kubevirt", "kubevirt");
    let tolerations = json!([{"key": "CriticalAddonsOnly", "operator": "Exists"}]);
    let anywhere = json!({"containers": [{"name": "a", "image": "a:1"}], "tolerations": tolerations});
    for name in ["virt-controller", "virt-api", "cdi-uploadproxy"] {
        sim.put(Kind::Deployment, installed(Kind::Deployment, name, Some(2), &anywhere));
    }
    let node = json!({
        "containers": [{"name": "virt-handler", "image": "a:1", "securityContext": {"privileged": true}}],
        "hostPID": true, "nodeSelector": {"kubernetes.io/arch": "amd64"}, "tolerations": [{"operator": "Exists"}],
    });
    sim.put(Kind::DaemonSet, installed(Kind::DaemonSet, "virt-handler", None, &node));
    let plan = crate::decide(&sim.world, &key, sim.now);
    sim.apply(plan);
    sim.settle();
    (sim, key)
}

fn of(sim: &Sim, name: &str) -> Value {
    let kind = if name == "virt-handler" { Kind::DaemonSet } else { Kind::Deployment };
    let mut object = sim.get(&Key::new(kind, "kubevirt", name)).clone();
    for name in ["uid", "creationTimestamp", "generation", "resourceVersion"] {
        object["metadata"].as_object_mut().unwrap().remove(name);
    }
    object
}

#[test]
fn what_the_object_says_is_added_and_goes_with_it() {
    let (mut sim, key) = begin();
    let names = ["virt-controller", "virt-api", "cdi-uploadproxy", "virt-handler"];
    let before = names.map(|name| of(&sim, name));
    let own = json!([{"key": "dedicated", "operator": "Exists"}]);
    let affinity = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {}}]}});
    sim.change(
        &key,
        json!({"spec": {
            "imagePullSecrets": [{"name": "key"}],
            "infra": {"replicas": 3, "nodePlacement": {
                "nodeSelector": {"role": "infra"}, "tolerations": own, "affinity": affinity,
            }},
            "workloads": {"nodePlacement": {"nodeSelector": {"kvm": "true", "kubernetes.io/arch": "arm64"}}},
        }}),
    );
    sim.settle();
    for name in ["virt-controller", "virt-api"] {
        let object = of(&sim, name);
        let pod = &object["spec"]["template"]["spec"];
        assert_eq!(object["spec"]["replicas"], 3, "{name}");
        assert_eq!(pod["nodeSelector"], json!({"role": "infra"}), "{name}");
        assert_eq!(pod["affinity"], affinity, "{name}");
        let both = json!([{"key": "CriticalAddonsOnly", "operator": "Exists"}, own[0]]);
        assert_eq!(pod["tolerations"], both, "{name}");
        assert_eq!(pod["imagePullSecrets"], json!([{"name": "key"}]), "{name}");
        assert_eq!(
            object["metadata"]["annotations"][PLACED],
            "affinity,imagePullSecrets,nodeSelector,replicas,tolerations"
        );
    }
    let proxy = of(&sim, "cdi-uploadproxy");
    assert_eq!(proxy["spec"]["replicas"], 2, "the CDI object is about it");
    assert_eq!(proxy["spec"]["template"]["spec"]["imagePullSecrets"], json!([{"name": "key"}]));
    let pod = of(&sim, "virt-handler")["spec"]["template"]["spec"].clone();
    assert_eq!(
        pod["nodeSelector"],
        json!({"kvm": "true", "kubernetes.io/arch": "amd64"}),
        "it is a program of amd64"
    );
    assert_eq!((&pod["hostPID"], &pod["containers"][0]["image"]), (&json!(true), &json!("a:1")));
    let writes = sim.writes;
    sim.settle();
    assert_eq!(sim.writes, writes);
    // Whoever applies the manifests again sets their fields back.
    sim.change(&Key::new(Kind::Deployment, "kubevirt", "virt-api"), json!({"spec": {"replicas": 2}}));
    sim.settle();
    assert_eq!(of(&sim, "virt-api")["spec"]["replicas"], 3);

    sim.change(&key, json!({"spec": {"imagePullSecrets": null, "infra": null, "workloads": null}}));
    sim.settle();
    for (name, before) in names.iter().zip(before) {
        let after = of(&sim, name);
        assert_eq!(after, before, "{name}");
    }
}

#[test]
fn what_nobody_says_is_left_alone() {
    let (mut sim, _) = begin();
    let api = Key::new(Kind::Deployment, "kubevirt", "virt-api");
    sim.change(&api, json!({"spec": {"replicas": 5, "template": {"spec": {"nodeSelector": {"a": "b"}}}}}));
    let writes = sim.writes;
    sim.settle();
    assert_eq!(of(&sim, "virt-api")["spec"]["replicas"], 5);
    assert_eq!(sim.writes, writes + 1, "the generation is noted, and nothing else");
}

#[test]
fn what_cannot_be_placed_is_named_by_a_condition() {
    let (mut sim, key) = begin();
    for replicas in [json!(0), json!(1_000_000)] {
        sim.change(&key, json!({"spec": {"infra": {"replicas": replicas}}}));
        sim.settle();
        assert_eq!(of(&sim, "virt-api")["spec"]["replicas"], 2);
        let (status, reason, said) = sim.condition(&key, "Synchronized").unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("False", "ComponentsNotPlaced"));
        assert!(said.contains("spec.infra.replicas is "), "{said}");
    }
    // Of a component that somebody installed by other manifests nothing is known.
    let api = Key::new(Kind::Deployment, "kubevirt", "virt-api");
    sim.change(&api, json!({"metadata": {"annotations": {PRISTINE: null}}}));
    sim.change(&key, json!({"spec": {"infra": {"replicas": 3}}}));
    sim.settle();
    let said = sim.condition(&key, "Synchronized").unwrap().2;
    assert!(said.starts_with("virt-api: its annotation kubevirt.io/pristine-placement is missing"), "{said}");
    assert_eq!(of(&sim, "virt-controller")["spec"]["replicas"], 3, "the others are placed");
    sim.change(&key, json!({"spec": {"infra": null}}));
    sim.settle();
    assert_eq!(sim.condition(&key, "Synchronized").unwrap().0, "True");
}

#[test]
fn what_the_api_server_refuses_is_said_and_tried_again_in_its_time() {
    let (mut sim, key) = begin();
    let retry = sim.now.checked_add(jiff::SignedDuration::from_secs(30)).unwrap();
    let message =
        "cannot change Deployment kubevirt/virt-api: spec.template.spec.nodeSelector: Invalid value"
            .to_owned();
    let failure = Failure { about: Kind::Deployment, message: message.clone(), times: 1, retry };
    sim.world.failures.insert(key.clone(), failure);
    sim.change(&key, json!({"spec": {"infra": {"replicas": 3}}}));
    sim.settle();
    assert_eq!(of(&sim, "virt-api")["spec"]["replicas"], 2);
    assert_eq!(sim.condition(&key, "Synchronized").unwrap().2, message);
    sim.later(30);
    sim.settle();
    assert_eq!(of(&sim, "virt-api")["spec"]["replicas"], 3);
    sim.world.failures.clear();
    sim.settle();
    assert_eq!(sim.condition(&key, "Synchronized").unwrap().0, "True");
}
