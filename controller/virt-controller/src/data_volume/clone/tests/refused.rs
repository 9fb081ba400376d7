//! Who is not let near a disk of another namespace: without the right, with somebody's token, by a pod or a PVC that looks right.

use super::*;

/// Every other token than the one that virt-api signed for this clone is worth nothing, and nothing of the source is told.
#[test]
fn without_the_right_a_pvc_of_another_namespace_is_not_cloned() {
    let this = Cloned { source: (S, "golden"), target: (T, "disk"), generated: "" };
    let now = cluster();
    let mut tokens = vec![
        ("none", None),
        ("not one", Some("a.b.c".to_owned())),
        ("another key", Some(token(&now, OTHER, this))),
    ];
    for (why, other) in [
        ("another source", Cloned { source: (S, "other"), ..this }),
        ("another namespace", Cloned { source: ("u", "golden"), ..this }),
        ("another target", Cloned { target: (T, "other"), ..this }),
        ("another tenant's", Cloned { target: ("u", "disk"), ..this }),
    ] {
        tokens.push((why, Some(token(&now, PRIVATE, other))));
    }
    let mut early = cluster();
    early.advance(-600);
    tokens.push(("of an earlier DataVolume", Some(token(&early, PRIVATE, this))));
    for (why, token) in tokens {
        let mut sim = cluster();
        let mut object = volume(&sim, pvc(S));
        object["metadata"]["annotations"] = token.map_or(json!({}), |token| json!({CLONE_TOKEN: token}));
        sim.put(Kind::DataVolume, object);
        sim.settle();
        assert_eq!(phase(&sim), "Pending", "{why}");
        let (_, reason, message) = said(&sim, "Running");
        let is_forgotten = why == "another key";
        assert_eq!(reason, if is_forgotten { "CloneTokenExpired" } else { "CloneNotPermitted" }, "{why}");
        assert!(message.contains("create datavolumes/source (cdi.kubevirt.io)"), "{message}");
        assert!(!sim.objects.contains_key(&claim()) && left(&sim).is_empty(), "{why}");
        // Whether the source is there at all is told to nobody.
        sim.vanish(&golden());
        sim.advance(10);
        sim.settle();
        assert_eq!(said(&sim, "Running").2, message, "{why}");
    }
}

/// A clone that waits for two exchanges of the keys: it is told so, and not that its maker lacks a right.
#[test]
fn a_token_whose_key_is_forgotten_is_said_to_be_so() {
    for spec in [pvc(S), referred(S)] {
        let mut sim = cluster();
        sim.vanish(&golden());
        let object = volume(&sim, spec.clone());
        sim.put(Kind::DataVolume, object);
        sim.settle();
        let waits = said(&sim, "Running").1;
        assert!(matches!(waits.as_str(), "CloneSourceNotFound" | "DataSourceNotReady"), "{waits}");
        let keys = Key::new(Kind::Secret, "kubevirt", SIGNING_KEY);
        use base64::Engine as _;
        let text = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
        let public = include_bytes!("../../../../../serve/src/token/other.pub.pem");
        sim.change(&keys, json!({"data": {PRIVATE_KEY: text(OTHER), PUBLIC_KEY: text(public)}}));
        sim.settle();
        // The one before is believed for another hour.
        sim.advance(7200);
        sim.settle();
        let (_, reason, message) = said(&sim, "Running");
        assert_eq!(reason, "CloneTokenExpired", "{spec}");
        assert!(message.contains("keys are rotated") && message.contains("create it again"), "{message}");
        source(&mut sim, S);
        sim.settle();
        assert!(!sim.objects.contains_key(&claim()) && left(&sim).is_empty(), "{spec}");
    }
}

/// A DataVolume whose maker may clone all of S, by a DataSource there.
fn later(sim: &Sim) -> Value {
    let clone = Cloned { source: (S, "os"), target: (T, "disk"), generated: "" };
    let claims = Claims::cloning_of(serve::token::CloneSourceKind::DataSource, clone, sim.now);
    let mut object = volume(sim, referred(S));
    object["metadata"]["annotations"][CLONE_TOKEN] =
        json!(sign(&Pair::read(PRIVATE).unwrap(), &claims).unwrap());
    object
}

#[test]
fn a_data_source_that_led_nowhere_is_followed_when_it_leads_somewhere() {
    let mut sim = cluster();
    let object = later(&sim);
    sim.put(Kind::DataVolume, object);
    sim.settle();
    let (_, reason, message) = said(&sim, "Running");
    assert_eq!(reason, "DataSourceNotReady");
    assert!(message.starts_with("DataSource s/os is not ready (NotFound"), "its maker may know: {message}");
    data_source(&mut sim, S, "os", json!({"pvc": {"namespace": S, "name": "golden"}}));
    sim.settle();
    bound(&mut sim);
    assert!(sim.objects.contains_key(&source_pod(&sim)));
}

/// The right that was asked about is one of the namespace of the DataSource.
#[test]
fn a_data_source_that_led_nowhere_opens_no_other_namespace() {
    let mut sim = cluster();
    source(&mut sim, "u");
    data_source(&mut sim, S, "os", json!({"pvc": {"namespace": "u", "name": "golden"}}));
    let object = later(&sim);
    sim.put(Kind::DataVolume, object);
    sim.settle();
    let (_, reason, message) = said(&sim, "Running");
    assert_eq!(reason, "DataSourceNotReady");
    assert!(!message.contains("namespace u"), "where it leads to is not told: {message}");
    assert!(!sim.objects.contains_key(&claim()) && left(&sim).is_empty());
}

/// Who may change the PVC of the clone is not its maker, and may clone nothing there.
#[test]
fn a_pvc_that_says_another_source_than_its_data_source_is_not_served() {
    let mut sim = cluster();
    data_source(&mut sim, S, "os", json!({"pvc": {"namespace": S, "name": "golden"}}));
    let meta = json!({"namespace": S, "name": "secret"});
    let spec = sim.get(&golden())["spec"].clone();
    sim.put(
        Kind::PersistentVolumeClaim,
        json!({"metadata": meta, "spec": spec, "status": {"phase": "Bound"}}),
    );
    let object = later(&sim);
    sim.put(Kind::DataVolume, object);
    sim.settle();
    sim.change(&claim(), json!({"metadata": {"annotations": {CLONE_REQUEST: "s/secret"}}}));
    bound(&mut sim);
    assert_eq!(said(&sim, "Running").1, "CloneNotPermitted");
    assert!(said(&sim, "Running").2.contains("does not point to this PVC"), "{:?}", said(&sim, "Running"));
    assert!(left(&sim).is_empty());
    sim.change(&claim(), json!({"metadata": {"annotations": {CLONE_REQUEST: "s/golden"}}}));
    sim.settle();
    sim.advance(60);
    sim.settle();
    assert!(sim.objects.contains_key(&source_pod(&sim)));
}

/// Whoever makes pods in a namespace of their own wakes nobody else's clone by them.
#[test]
fn forged_source_pods_wake_no_clone_of_others() {
    let mut sim = copying();
    let (pod, of) = (source_pod(&sim), uid(&sim));
    assert!(sim.world.dependents(&pod).contains(&disk()));
    let mut forged = |namespace: &str, name: &str, label: &str, target: &str| {
        let owner = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "a", "uid": "x", "controller": true});
        let object = json!({"metadata": {
            "namespace": namespace, "name": name, "ownerReferences": [owner],
            "labels": {"kubevirt.io": "cdi-worker", "cdi.kubevirt.io": "cdi-clone-source", TARGET_LABEL: label},
            "annotations": {TARGET: target},
        }});
        let key = sim.put(Kind::Pod, object);
        sim.world.dependents(&key)
    };
    assert!(!forged("evil", &pod.name, &of, "t/disk").contains(&disk()), "it is not where the source is");
    assert!(!forged("evil", "clone-source-y", &of, "t/disk").contains(&disk()), "it is not called so");
    // One of a clone that is gone has to go, under the key of the PVC that owns it.
    let woken = forged("evil", "clone-source-z", "z", "t/disk");
    assert!(!woken.contains(&disk()) && woken.contains(&key(Kind::DataVolume, "evil", "a")), "{woken:?}");
}

/// Before the webhook stood, anybody could have written the annotation.
#[test]
fn a_token_counts_only_where_the_webhook_was_asked() {
    for since in [None, Some(-5), Some(60)] {
        let mut sim = cluster();
        let hook = Key::new(Kind::MutatingWebhookConfiguration, "", cluster_model::objects::CDI_MUTATOR);
        let mut object = sim.get(&hook).clone();
        sim.vanish(&hook);
        if let Some(seconds) = since {
            let now = sim.now;
            sim.advance(seconds);
            object["metadata"].as_object_mut().unwrap().remove("creationTimestamp");
            sim.put(hook.kind, object);
            sim.now = now;
        }
        let object = volume(&sim, pvc(S));
        sim.put(Kind::DataVolume, object);
        let plan = crate::decide(&sim.world, &disk(), sim.now);
        sim.apply(plan);
        assert_eq!(said(&sim, "Running").1, "CloneNotPermitted", "{since:?}");
        assert!(said(&sim, "Running").2.contains("webhook of virt-api did not exist"), "{since:?}");
    }
}

/// In a cluster that changes over from another CDI: virt-api signs what a made-up review asks for, and while the other CDI answers for
/// DataVolumes its webhooks let the token stand.
#[test]
fn a_token_from_the_time_of_another_cdi_counts_for_nothing() {
    let mut sim = cluster();
    let service = |name: &str| json!({"spec": {"service": {"name": name, "namespace": "cdi"}}});
    let uploads = Key::new(Kind::APIService, "", cluster_model::objects::UPLOADS);
    sim.change(&uploads, service("cdi-api"));
    sim.settle();
    let object = volume(&sim, pvc(S));
    sim.put(Kind::DataVolume, object);
    sim.settle();
    // It goes, and all of cdi.kubevirt.io is ours.
    sim.advance(20);
    sim.vanish(&uploads);
    sim.settle();
    sim.advance(20);
    sim.settle();
    assert_eq!(said(&sim, "Running").1, "CloneNotPermitted");
    assert!(
        said(&sim, "Running").2.contains("webhook of virt-api did not exist"),
        "{:?}",
        said(&sim, "Running")
    );
    assert!(!sim.objects.contains_key(&claim()) && left(&sim).is_empty());
    // One that is made now is asked about.
    sim.vanish(&disk());
    let object = volume(&sim, pvc(S));
    sim.put(Kind::DataVolume, object);
    sim.settle();
    assert!(sim.objects.contains_key(&claim()), "{:?}", said(&sim, "Running"));
}

/// The right is looked at again before each pod that reads: what was permitted once may be forged by then.
#[test]
fn each_source_pod_is_permitted_anew() {
    let mut sim = copying();
    let pod = source_pod(&sim);
    sim.change(&disk(), json!({"metadata": {"annotations": {CLONE_TOKEN: null}}}));
    sim.settle();
    assert!(sim.objects.contains_key(&pod), "a copy that is on its way goes on");
    worker_ends(&mut sim, &importer(), None);
    worker_ends(&mut sim, &pod, None);
    sim.vanish(&pod);
    sim.advance(600);
    sim.settle();
    assert!(!sim.objects.contains_key(&source_pod(&sim)));
    assert_eq!((phase(&sim), said(&sim, "Running").1.as_str()), ("Pending", "CloneNotPermitted"));
}

/// Somebody makes pods that look like source pods of somebody else's clone.
#[test]
fn forged_source_pods_are_neither_used_nor_in_the_way() {
    let mut sim = copying();
    let (pod, of) = (source_pod(&sim), uid(&sim));
    let claim = source(&mut sim, "evil");
    let claim = sim.get(&claim)["metadata"].clone();
    let forged = |name: &str, namespace: &str, label: &str| {
        let owner = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": claim["name"],
            "uid": claim["uid"], "controller": true});
        json!({"metadata": {
            "namespace": namespace, "name": name, "ownerReferences": [owner],
            "labels": {"kubevirt.io": "cdi-worker", "cdi.kubevirt.io": "cdi-clone-source", TARGET_LABEL: label},
            "annotations": {TARGET: "t/disk"},
        }})
    };
    let named = sim.put(Kind::Pod, forged(&pod.name, "evil", &of));
    let other = sim.put(Kind::Pod, forged("clone-source-x", "evil", "y"));
    sim.settle();
    assert!(!sim.objects.contains_key(&named), "it is of no clone, and goes");
    assert!(sim.objects.contains_key(&other), "what is not even called so is nobody's");
    let client = key(Kind::Secret, T, &names::clone_client(&of));
    assert!(sim.objects.contains_key(&pod) && sim.objects.contains_key(&client));
    assert_eq!(phase(&sim), "CloneInProgress");
}

/// Each costs several requests, and another one may be made at once.
#[test]
fn forged_source_pods_lengthen_no_plan_of_others_and_go_a_few_at_a_time() {
    let mut sim = copying();
    let evil = source(&mut sim, "evil");
    let owner = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": evil.name, "uid": sim.uid(&evil),
        "controller": true});
    for number in 0..20 {
        let label = if number == 0 { uid(&sim) } else { format!("forged-{number}") };
        let meta = json!({
            "namespace": "evil", "name": names::cloner(&label), "ownerReferences": [owner],
            "labels": {"kubevirt.io": "cdi-worker", "cdi.kubevirt.io": "cdi-clone-source", TARGET_LABEL: label},
            "annotations": {TARGET: "t/disk"},
        });
        sim.put(Kind::Pod, json!({"metadata": meta}));
    }
    let plan = crate::decide(&sim.world, &disk(), sim.now);
    assert!(!format!("{plan:?}").contains("evil"), "{plan:?}");
    let forged = |sim: &Sim| sim.keys(Kind::Pod).iter().filter(|key| key.namespace == "evil").count();
    for left in [12, 4, 0] {
        let plan = crate::decide(&sim.world, &evil, sim.now);
        sim.apply(plan);
        assert_eq!(forged(&sim), left);
    }
    assert!(sim.objects.contains_key(&source_pod(&sim)) && phase(&sim) == "CloneInProgress");
}

/// The record of the source decides which pod is that of the clone: without it pods would be made and deleted for ever.
#[test]
fn a_target_whose_record_names_another_source_has_no_source_pod() {
    let mut sim = copying();
    sim.change(&claim(), json!({"metadata": {"annotations": {CLONE_REQUEST: "t/golden"}}}));
    sim.settle();
    let pod = source_pod(&sim);
    assert!(sim.objects.get(&pod).is_none_or(crate::sim::is_going));
    sim.vanish(&pod);
    sim.settle();
    assert!(!sim.objects.contains_key(&pod), "no other one is made");
    sim.change(&claim(), json!({"metadata": {"annotations": {CLONE_REQUEST: "s/golden"}}}));
    sim.advance(60);
    sim.settle();
    assert!(sim.objects.contains_key(&pod));
}

/// A pod of its name that a stranger made, and a PVC that took the place of the source: neither is served from.
#[test]
fn a_pod_of_another_owner_is_not_the_source_pod() {
    let mut sim = begun();
    let pod = source_pod(&sim);
    // Its source is replaced by another PVC of that name.
    sim.change(&pod, json!({"spec": {"nodeName": "node1"}}));
    sim.vanish(&golden());
    source(&mut sim, S);
    sim.settle();
    assert!(crate::sim::is_going(sim.get(&pod)) && !sim.objects.contains_key(&importer()));
    sim.vanish(&pod);
    sim.settle();
    let owner = &sim.get(&source_pod(&sim))["metadata"]["ownerReferences"][0]["uid"];
    assert_eq!(*owner, sim.get(&golden())["metadata"]["uid"]);
}

/// The maker was asked about where the DataSource led to then. Where it leads to now is another matter.
#[test]
fn a_data_source_that_is_turned_to_another_namespace_leads_nowhere() {
    let mut sim = cluster();
    source(&mut sim, T);
    data_source(&mut sim, T, "os", json!({"pvc": {"namespace": S, "name": "golden"}}));
    let mut object = volume(&sim, referred(T));
    object["metadata"]["annotations"] = json!({});
    sim.put(Kind::DataVolume, object);
    sim.settle();
    assert_eq!(said(&sim, "Running").1, "CloneNotPermitted");
    data_source(&mut sim, T, "os", json!({"pvc": {"namespace": T, "name": "golden"}}));
    sim.settle();
    bound(&mut sim);
    // And neither does an annotation of the PVC.
    sim.change(&claim(), json!({"metadata": {"annotations": {CLONE_REQUEST: "s/golden"}}}));
    let own = key(Kind::Pod, T, &names::cloner(&uid(&sim)));
    sim.vanish(&own);
    sim.settle();
    assert_eq!(said(&sim, "Running").1, "CloneNotPermitted");
    assert!(!sim.objects.contains_key(&source_pod(&sim)) && !sim.objects.contains_key(&own));
}

/// Whether a DataSource of another namespace is there, whether it is ready, and where it leads to.
#[test]
fn a_stranger_learns_one_word_of_a_data_source() {
    let said_of = |source: Option<Value>, is_there: bool| {
        let mut sim = cluster();
        if let Some(source) = source {
            data_source(&mut sim, S, "os", source);
        }
        if !is_there {
            sim.vanish(&golden());
        }
        let mut object = volume(&sim, referred(S));
        object["metadata"]["annotations"] = json!({});
        sim.put(Kind::DataVolume, object);
        sim.settle();
        assert!(!sim.objects.contains_key(&claim()) && left(&sim).is_empty());
        (phase(&sim).to_owned(), said(&sim, "Running"), sim.reasons())
    };
    let leads = json!({"pvc": {"namespace": S, "name": "golden"}});
    let none = said_of(None, true);
    assert_eq!((none.0.as_str(), none.1.1.as_str()), ("Pending", "DataSourceNotReady"));
    for (source, is_there) in [
        (json!({}), true),
        (leads.clone(), true),
        (leads, false),
        (json!({"dataSource": {"name": "os"}}), true),
        (json!({"snapshot": {"namespace": S, "name": "shot"}}), true),
        (json!({"pvc": {"namespace": "u", "name": "golden"}}), true),
    ] {
        assert_eq!(said_of(Some(source.clone()), is_there), none, "{source} {is_there}");
    }
}
