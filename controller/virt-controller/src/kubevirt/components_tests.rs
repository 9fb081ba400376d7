//! What the KubeVirt object says of the components, as stories.

use crate::sim::Sim;
use cluster_model::components::{PLACED, PRISTINE, WRITTEN};
use cluster_model::objects::{Attempt, Failure, Key, Kind};
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
    let pristine = Value::Object(cluster_model::components::customizable_fields(&object)).to_string();
    object["metadata"]["annotations"] = json!({PRISTINE: pristine});
    object
}

fn begin() -> (Sim, Key) {
    let mut sim = Sim::empty();
    let key = Key::new(Kind::KubeVirt, "kubevirt", "kubevirt");
    let tolerations = json!([{"key": "CriticalAddonsOnly", "operator": "Exists"}]);
    for name in ["virt-controller", "virt-api", "cdi-uploadproxy"] {
        let anywhere = json!({"containers": [{"name": name, "image": "a:1"}], "tolerations": tolerations});
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
fn what_the_api_server_refuses_of_one_keeps_no_other_from_its_own() {
    let (mut sim, key) = begin();
    let retry = sim.now.checked_add(jiff::SignedDuration::from_secs(30)).unwrap();
    let message =
        "cannot change Deployment kubevirt/virt-controller: spec.template.spec.nodeSelector: Invalid value"
            .to_owned();
    let failure =
        Failure { about: Attempt::Make(Kind::Deployment), message: message.clone(), times: 1, retry };
    let first = Key::new(Kind::Deployment, "kubevirt", "virt-controller");
    sim.world.failures.insert(first, failure);
    sim.change(&key, json!({"spec": {"infra": {"replicas": 3}}}));
    sim.settle();
    assert_eq!(of(&sim, "virt-controller")["spec"]["replicas"], 2);
    assert_eq!(of(&sim, "virt-api")["spec"]["replicas"], 3);
    assert_eq!(sim.condition(&key, "Synchronized").unwrap().2, message);
    sim.advance(30);
    sim.settle();
    assert_eq!(of(&sim, "virt-controller")["spec"]["replicas"], 3);
    sim.world.failures.clear();
    sim.settle();
    assert_eq!(sim.condition(&key, "Synchronized").unwrap().0, "True");
}

/// A patch for an object of the installation.
fn patch(kind: &str, resource: &str, name: &str, patch: &Value) -> Value {
    json!({"resourceType": resource, "resourceName": name, "type": kind, "patch": patch.to_string()})
}

fn customize(sim: &mut Sim, key: &Key, said: &Value) {
    sim.change(key, json!({"spec": {"customizeComponents": said}}));
    sim.settle();
}

#[test]
fn patches_are_applied_to_what_the_manifests_say_and_go_without_a_trace() {
    let (mut sim, key) = begin();
    let names = ["virt-controller", "virt-api", "cdi-uploadproxy", "virt-handler"];
    let before = names.map(|name| of(&sim, name));
    let resources = json!({"requests": {"cpu": "2", "memory": "1Gi"}});
    let pods = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let more = json!([
        {"op": "add", "path": "/spec/template/spec/tolerations/-", "value": {"key": "a", "operator": "Exists"}},
        {"op": "replace", "path": "/spec/replicas", "value": 4},
    ]);
    let patches = json!([
        patch(
            "strategic",
            "daemonset",
            "virt-handler",
            &pods(json!({"containers": [{"name": "virt-handler", "resources": resources}]}))
        ),
        patch("json", "Deployment", "virt-api", &more),
        patch("merge", "*", "*", &json!({"metadata": {"labels": {"team": "x"}}})),
    ]);
    customize(
        &mut sim,
        &key,
        &json!({"patches": patches, "flags": {"controller": {"poll-any-address": ""}}}),
    );
    let handler = of(&sim, "virt-handler")["spec"]["template"]["spec"]["containers"][0].clone();
    assert_eq!(handler["resources"], resources);
    assert_eq!((&handler["image"], &handler["securityContext"]["privileged"]), (&json!("a:1"), &json!(true)));
    let api = of(&sim, "virt-api");
    assert_eq!(api["spec"]["replicas"], 4);
    assert_eq!(api["spec"]["template"]["spec"]["tolerations"].as_array().unwrap().len(), 2, "once");
    assert_eq!(
        of(&sim, "virt-controller")["spec"]["template"]["spec"]["containers"][0]["args"],
        json!(["--poll-any-address"])
    );
    assert!(names.iter().all(|name| of(&sim, name)["metadata"]["labels"]["team"] == "x"));
    assert_eq!(sim.condition(&key, "Synchronized").unwrap().0, "True");
    let writes = sim.writes;
    sim.settle();
    assert_eq!(sim.writes, writes, "it stays as it is");
    // Another patch is applied to the manifests, not to what the first has made.
    customize(&mut sim, &key, &json!({"patches": [patch("json", "Deployment", "virt-api", &more)]}));
    assert_eq!(of(&sim, "virt-api")["spec"]["template"]["spec"]["tolerations"].as_array().unwrap().len(), 2);
    assert_eq!(of(&sim, "virt-api")["metadata"]["labels"]["team"], Value::Null);
    customize(&mut sim, &key, &Value::Null);
    for (name, mut before) in names.iter().zip(before) {
        let mut after = of(&sim, name);
        for object in [&mut before, &mut after] {
            object["metadata"].as_object_mut().unwrap().remove("labels");
        }
        assert_eq!(after, before, "{name}");
    }
}

#[test]
fn a_patch_that_says_what_runs_in_a_component_is_left_out_and_named() {
    let (mut sim, key) = begin();
    let pods = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let before = of(&sim, "virt-handler");
    for (spec, at) in [
        (json!({"containers": [{"name": "virt-handler", "image": "evil:1"}]}), "containers/0/image"),
        (json!({"containers": [{"name": "virt-handler", "command": ["sh"]}]}), "containers/0/command"),
        (json!({"containers": [{"name": "other", "image": "evil:1"}]}), "containers"),
        (
            json!({"containers": [{"name": "virt-handler", "args": ["--node-name=b"]}]}),
            "containers/virt-handler/args",
        ),
        (json!({"hostNetwork": true}), "hostNetwork"),
        (json!({"serviceAccountName": "other"}), "serviceAccountName"),
        (json!({"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}), "volumes"),
    ] {
        let bad = patch("strategic", "DaemonSet", "virt-handler", &pods(spec.clone()));
        let good = patch("merge", "Deployment", "virt-api", &json!({"spec": {"minReadySeconds": 5}}));
        customize(&mut sim, &key, &json!({"patches": [bad, good]}));
        assert_eq!(of(&sim, "virt-handler"), before, "{spec}");
        assert_eq!(of(&sim, "virt-api")["spec"]["minReadySeconds"], 5, "the others are applied");
        let (status, reason, said) = sim.condition(&key, "Synchronized").unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("False", "ComponentsNotCustomized"));
        assert!(
            said.contains("spec.customizeComponents.patches[0]: the patch changes ") && said.contains(at),
            "{said}"
        );
    }
    for replicas in [0, 101] {
        let bad = patch("merge", "Deployment", "virt-api", &json!({"spec": {"replicas": replicas}}));
        customize(&mut sim, &key, &json!({"patches": [bad]}));
        assert!(sim.condition(&key, "Synchronized").unwrap().2.contains("must be from 1 to 100"));
        assert_eq!(of(&sim, "virt-api")["spec"]["replicas"], 2);
    }
    // What was written past virt-api.
    let broken =
        json!({"resourceType": "Deployment", "resourceName": "virt-api", "type": "json", "patch": "{"});
    customize(&mut sim, &key, &json!({"patches": [broken], "flags": {"api": {"nonsense": "1"}}}));
    let said = sim.condition(&key, "Synchronized").unwrap().2;
    assert!(
        said.contains("is not JSON") && said.contains("does not know the argument \"nonsense\""),
        "{said}"
    );
    let good = patch("merge", "Deployment", "virt-api", &json!({"spec": {"minReadySeconds": 5}}));
    customize(&mut sim, &key, &json!({"patches": vec![good; 101]}));
    assert!(
        sim.condition(&key, "Synchronized").unwrap().2.contains("101 entries, of which the first 100 count")
    );
    customize(&mut sim, &key, &Value::Null);
    assert_eq!(sim.condition(&key, "Synchronized").unwrap().0, "True");
}

/// With a node selector that no node has, all pods of virt-controller would be gone, and nobody there to undo it.
#[test]
fn a_patch_that_ends_all_of_virt_controller_at_once_is_left_out_and_named() {
    let (mut sim, key) = begin();
    let before = of(&sim, "virt-controller");
    let nowhere = json!({"nodeSelector": {"nobody": "here"}});
    sim.change(&key, json!({"spec": {"infra": {"nodePlacement": nowhere}}}));
    for strategy in [
        json!({"type": "Recreate", "rollingUpdate": null}),
        json!({"rollingUpdate": {"maxUnavailable": "100%"}}),
    ] {
        let change = json!({"spec": {"strategy": strategy}});
        let of_name = |name: &str| patch("merge", "Deployment", name, &change);
        customize(
            &mut sim,
            &key,
            &json!({"patches": [of_name("virt-controller"), of_name("cdi-uploadproxy")]}),
        );
        let written = of(&sim, "virt-controller");
        assert_eq!(written["spec"]["strategy"], before["spec"]["strategy"], "{change}");
        assert_eq!(written["spec"]["template"]["spec"]["nodeSelector"], nowhere["nodeSelector"]);
        let (status, reason, said) = sim.condition(&key, "Synchronized").unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("False", "ComponentsNotCustomized"));
        let named =
            "virt-controller: spec.customizeComponents.patches[0]: the patch keeps no pod of virt-controller";
        assert!(said.starts_with(named) && !said.contains("patches[1]"), "{said}");
        let proxy = of(&sim, "cdi-uploadproxy");
        assert!(
            !cluster_model::components::keeps_a_pod(&proxy),
            "of another component it is permitted: {proxy}"
        );
    }
    // How many there are is part of it.
    let half = json!({"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": 1}}}});
    customize(&mut sim, &key, &json!({"patches": [patch("merge", "Deployment", "virt-controller", &half)]}));
    assert_eq!(sim.condition(&key, "Synchronized").unwrap().0, "True");
    sim.change(&key, json!({"spec": {"infra": {"replicas": 1}}}));
    sim.settle();
    assert_eq!(of(&sim, "virt-controller")["spec"]["strategy"], before["spec"]["strategy"]);
    assert!(
        sim.condition(&key, "Synchronized").unwrap().2.contains("maxUnavailable less than spec.replicas")
    );
}

#[test]
fn products_are_labels_of_the_components_and_of_their_pods() {
    let (mut sim, key) = begin();
    sim.change(
        &key,
        json!({"spec": {"productVersion": "1.2.3", "productName": "shop", "productComponent": "compute"}}),
    );
    sim.settle();
    let labels = json!({
        "app.kubernetes.io/version": "1.2.3", "app.kubernetes.io/part-of": "shop", "app.kubernetes.io/component": "compute",
    });
    for name in ["virt-controller", "virt-api", "cdi-uploadproxy", "virt-handler"] {
        let object = of(&sim, name);
        assert_eq!(object["metadata"]["labels"], labels, "{name}");
        assert_eq!(object["spec"]["template"]["metadata"]["labels"], labels, "{name}");
    }
    sim.change(
        &key,
        json!({"spec": {"productVersion": "not a label", "productName": null, "productComponent": null}}),
    );
    sim.settle();
    assert_eq!(of(&sim, "virt-api")["spec"]["template"]["metadata"]["labels"], json!({}));
    assert!(
        sim.condition(&key, "Synchronized")
            .unwrap()
            .2
            .contains("spec.productVersion is not the value of a label")
    );
}

/// A change of labels counts no generation.
#[test]
fn a_label_that_somebody_takes_away_comes_back_each_time() {
    let (mut sim, key) = begin();
    sim.change(&key, json!({"spec": {"productName": "shop"}}));
    sim.settle();
    let api = Key::new(Kind::Deployment, "kubevirt", "virt-api");
    for round in 0..3 {
        sim.change(&api, json!({"metadata": {"labels": {"app.kubernetes.io/part-of": null}}}));
        assert_eq!(of(&sim, "virt-api")["metadata"]["labels"], json!({}), "{round}");
        sim.settle();
        assert_eq!(
            of(&sim, "virt-api")["metadata"]["labels"]["app.kubernetes.io/part-of"],
            "shop",
            "{round}"
        );
    }
}

/// The API server writes a quantity in its own way, and leaves out what says nothing.
#[test]
fn what_the_api_server_writes_otherwise_is_not_written_for_ever() {
    let (mut sim, key) = begin();
    let affinity = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}});
    sim.change(&key, json!({"spec": {"infra": {"nodePlacement": {"affinity": affinity}}}}));
    let resources = json!({"spec": {"template": {"spec": {"containers": [{"name": "virt-api", "resources": {"limits": {"cpu": "1000m"}}}]}}}});
    let api = Key::new(Kind::Deployment, "kubevirt", "virt-api");
    sim.change(&key, json!({"spec": {"customizeComponents": {"patches": [patch("strategic", "Deployment", "virt-api", &resources)]}}}));
    sim.settle();
    let containers = json!([{"name": "virt-api", "image": "a:1", "resources": {"limits": {"cpu": "1"}}}]);
    let mut writes = Vec::new();
    for _ in 0..3 {
        sim.change(
            &api,
            json!({"spec": {"template": {"spec": {"affinity": null, "containers": containers}}}}),
        );
        let plan = crate::decide(&sim.world, &api, sim.now);
        writes.push(!plan.is_empty());
        // The server makes of it what is there already, and keeps the annotation.
        let noted = plan.steps.iter().find_map(|step| match step {
            cluster_model::plan::Step::Patch { change, .. } => {
                Some(change["metadata"]["annotations"][WRITTEN].clone())
            }
            _ => None,
        });
        if let Some(noted) = noted {
            sim.change(&api, json!({"metadata": {"annotations": {WRITTEN: noted}}}));
        }
    }
    assert_eq!(writes, [true, false, false]);
    // Somebody else's change is set back.
    sim.change(
        &api,
        json!({"spec": {"template": {"spec": {"containers": [{"name": "virt-api", "image": "a:1"}]}}}}),
    );
    assert!(!crate::decide(&sim.world, &api, sim.now).is_empty());
}
